"""Tables of all kinds, and estimators whose fits are short."""

from functools import partial

import jax
import numpy as np
import pandas as pd

import langevin as lv
from langevin.core.posterior import Posterior
from langevin.core.provenance import Provenance
from langevin.core.record import record
from langevin.core.types import Info
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


@record
class Closed(Plan):
    """A plan that solves a network without hidden layers in NumPy and samples nothing: no program is compiled.

    For checks of an estimator's contract, which fit tables of fifty shapes; how it samples is tested elsewhere.
    """

    def trained(self, key, target, starts, *, score=None, callbacks=(), store=None):
        x, y, *weight = (np.asarray(u, np.float64) for u in target.data)
        root = np.sqrt(weight[0] if weight else np.ones(len(x)))[:, None]
        design = np.c_[x, np.ones(len(x))]
        if target.data[1].dtype == np.int32:  # logits: classes regressed on the columns, sharpened
            outputs = 8 * (np.eye(_width(starts))[y.astype(int)] - 0.5)
        else:  # a mean, and the σ of which softplus is the residual's
            outputs = np.c_[y, np.full(y.shape, -1.0)]
        found = np.linalg.lstsq(design * root, outputs * root, rcond=None)[0]
        layers = {2: found[:-1], 1: found[-1]}
        return jax.tree.map(lambda u: np.broadcast_to(layers[u.ndim - 1].astype(np.float32), u.shape).copy(), starts)

    def sampled(self, key, target, trained, *, callbacks=(), store=None):
        chains = len(jax.tree.leaves(trained)[0])
        draws = jax.tree.map(lambda u: np.repeat(np.asarray(u)[:, None], self.draws, axis=1), trained)
        zeros, shape = np.zeros((chains, self.draws), np.float32), (chains, self.draws)
        info = Info(zeros, zeros, zeros + 1, zeros, zeros, zeros, np.ones(shape, bool))
        return Posterior(draws, info, None, self.kernel, Provenance.now(seconds=0.0))


def _width(starts) -> int:
    """How many outputs there are: of the bias, (chain, output)."""
    return next(u.shape[1] for u in jax.tree.leaves(starts) if u.ndim == 2)


CLOSED = Closed(lv.SGLD(1e-6), draws=4)
