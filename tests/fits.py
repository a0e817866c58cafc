"""Tables of all kinds, and estimators whose fits are short."""

from functools import partial

import numpy as np
import pandas as pd

import langevin as lv
from langevin.tune.plan import Plan

QUICK = Plan(lv.SGLD(1e-6), rate=3e-2, ascent=1000, draws=4, thin=2)
Regressor = partial(lv.BayesianRegressor, QUICK, chains=2, hidden=(8,), holdout=0.05, random_state=0)
Classifier = partial(lv.BayesianClassifier, QUICK, chains=2, hidden=(8,), holdout=0.05, random_state=0)


def rows(n=120, seed=0):
    """A table of all kinds: numbers with gaps, text with gaps, true/false, a constant, huge and tiny scales."""
    random = np.random.default_rng(seed)
    x, kind = random.normal(size=n), random.choice(["a", "b", "c"], size=n)
    y = 1e9 * (x + (kind == "a") + 0.1 * random.normal(size=n))
    frame = pd.DataFrame(dict(x=1e-7 * x, kind=kind, yes=random.random(n) > 0.5, same=3.0, gaps=random.normal(size=n)))
    frame.loc[::7, "gaps"] = np.nan
    frame.loc[::11, "kind"] = None
    frame["text"] = pd.Categorical(np.where(y > 0, "up", "down"))
    return frame.drop(columns="text"), y
