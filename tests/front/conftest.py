"""Fits that several files of tests share."""

import numpy as np
import pytest
from fits import Classifier, Regressor, rows

from langevin.core.record import replace
from langevin.tune.plan import PLANS


@pytest.fixture(scope="module")
def short_plans():
    """Plans whose training is short, the same for every file that asks."""
    with pytest.MonkeyPatch.context() as patch:
        for name, plan in PLANS.items():
            patch.setitem(PLANS, name, replace(plan, ascent=400, rate=3e-2, thin=2))
        yield


@pytest.fixture(scope="session")
def fitted_regressor():
    X, y = rows()
    return Regressor().fit(X, y), X, y


@pytest.fixture(scope="session")
def fitted_classifier():
    X, y = rows()
    return Classifier().fit(X, np.where(y > 0, "up", "down")), X, np.where(y > 0, "up", "down")
