"""Fits that several files of tests share."""

import numpy as np
import pytest
from fits import Classifier, Regressor, rows


@pytest.fixture(scope="session")
def fitted_regressor():
    X, y = rows()
    return Regressor().fit(X, y), X, y


@pytest.fixture(scope="session")
def fitted_classifier():
    X, y = rows()
    return Classifier().fit(X, np.where(y > 0, "up", "down")), X, np.where(y > 0, "up", "down")
