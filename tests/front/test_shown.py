"""A fitted estimator says in a notebook to what it was fitted, by what kernel and at what cost."""

from fits import Regressor
from sklearn.base import clone

import langevin as lv


def test_a_fitted_estimator_shows_its_fit(fitted_regressor):
    model = fitted_regressor[0]
    html = model._repr_html_()
    for words in ("fitted", "114 rows", "2 × 4", "SGLD(step_size=1e-06", "seconds", "hidden", "(8,)"):
        assert words in html
    assert len(repr(model)) < 500
    assert "not fitted" in clone(model)._repr_html_()


def test_a_conformal_estimator_shows_what_it_wraps():
    html = lv.Conformal(Regressor(), coverage=0.8)._repr_html_()
    assert "not fitted" in html
    assert "BayesianRegressor(" in html
    assert "0.8" in html
