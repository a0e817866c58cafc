"""What the experiments on variational inference hold fits to: optima, exact answers, and who is compared with whom."""

import numpy as np
import pytest
from langevin_lab.experiments import alpha_figure3, vi_exact, vi_uci
from langevin_lab.experiments._vi_methods import methods


def divergence(alpha, sd):
    """Rényi's D_α[q ‖ p] of two normals around 0, in closed form."""
    precision, inner = alpha_figure3.PRECISION, np.diag(sd**-2.0)
    log_det = lambda u: np.linalg.slogdet(u)[1]
    total = alpha * log_det(inner) + (1 - alpha) * log_det(precision) - log_det(alpha * inner + (1 - alpha) * precision)
    return 0.5 * total / (alpha - 1)


@pytest.mark.parametrize("alpha", [-1.0, 0.25, 0.5, 2.0, 10.0])
def test_optima_are_stationary(alpha):
    sd, h = alpha_figure3.optimum(alpha), 1e-4
    slope = lambda sd: np.array([divergence(alpha, sd + h * e) - divergence(alpha, sd - h * e) for e in np.eye(2)])
    assert np.abs(slope(sd)).max() < 1e-3 * np.abs(slope(1.05 * sd)).max()


def test_optima_at_the_limits():
    """Conditional standard deviations at α = 1, marginal ones at α = 0."""
    np.testing.assert_allclose(alpha_figure3.optimum(1.0), np.diag(alpha_figure3.PRECISION) ** -0.5)
    np.testing.assert_allclose(alpha_figure3.optimum(0), np.diag(alpha_figure3.COVARIANCE) ** 0.5)
    np.testing.assert_allclose(alpha_figure3.optimum(1e-9), alpha_figure3.optimum(0), rtol=1e-6)


def test_exact_answers_of_the_regression():
    assert vi_exact.laplace_error(0) < 1e-4
    assert vi_exact.matrix_normal_error(0) < 1e-5


def test_closeness_and_published_rows_are_counted():
    """A family counts only within twice the ensemble's time, and a published row within two standard errors."""
    row = lambda method, value, ratio, **more: dict(
        data="boston", method=method, log_likelihood=value, log_likelihood_error=0.1, over_ensemble=ratio, **more
    )
    table = [
        row("mfvi", -2.40, 2.5, published=-3.12),
        row("laplace", -2.54, 1.2),
        row("ensemble", -2.65, 1.0, published=-2.41),
        row("mile", -2.50, 3.0),
    ]
    found = vi_uci.figures(table, ("boston",))
    assert found["best_less_mile_boston"] == pytest.approx(-0.04)
    assert found["tables_close_to_mile"] == 1
    assert (found["published_rows_met"], found["published_rows"]) == (1, 2)
    assert set(vi_uci.VARIATIONAL) < set(methods("boston"))
