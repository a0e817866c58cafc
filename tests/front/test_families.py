"""Predictive families: single draws against SciPy, mixtures against Monte Carlo."""

import numpy as np
import pytest
from scipy import stats

from langevin.diagnostics import calibration
from langevin.diagnostics.families import FAMILIES, mixture

DRAWS, ROWS, SAMPLES = 7, 5, 40_000


def parameters(family, draws=DRAWS, rows=ROWS, seed=0):
    random = np.random.default_rng(seed)
    mean = np.exp(random.normal(1.5, 0.6, (draws, rows)))
    given = dict(
        gaussian=dict(mean=random.normal(3, 2, (draws, rows)), std=np.exp(random.normal(0, 0.4, (draws, rows)))),
        lognormal=dict(log_mean=random.normal(1, 0.5, (draws, rows)), log_std=0.3 + 0.5 * random.random((draws, rows))),
        poisson=dict(mean=mean),
        negative_binomial=dict(mean=mean, dispersion=0.1 + random.random((draws, rows))),
    )
    return given[family]


def scipys(family, u):
    """The frozen distribution of SciPy with these parameters."""
    if family == "gaussian":
        return stats.norm(u["mean"], u["std"])
    if family == "lognormal":
        return stats.lognorm(u["log_std"], scale=np.exp(u["log_mean"]))
    if family == "poisson":
        return stats.poisson(u["mean"])
    return stats.nbinom(1 / u["dispersion"], 1 / (1 + u["mean"] * u["dispersion"]))


@pytest.fixture(params=sorted(FAMILIES))
def case(request):
    given = parameters(request.param)
    return mixture(request.param, given), scipys(request.param, given), request.param


def test_a_draw_is_scipys(case):
    found, known, family = case
    y = np.array([0.0, 1.0, 3.0, 7.0, 40.0])
    expected = known.logpmf(y) if found.discrete else known.logpdf(y)
    np.testing.assert_allclose(found.log_prob(y), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.cdf(y), known.cdf(y), rtol=1e-9, atol=1e-12)
    mean, std = found.moments()
    np.testing.assert_allclose(mean, known.mean())
    np.testing.assert_allclose(std, known.std())
    one = mixture(family, {k: v[:1] for k, v in parameters(family).items()})
    alone = scipys(family, {k: v[0] for k, v in parameters(family).items()})
    at = [0.01, 0.05, 0.5, 0.95, 0.999]
    np.testing.assert_allclose(one.quantiles(at), alone.ppf(np.array(at)[:, None]), rtol=1e-8)


def test_quantiles_invert_the_mixture(case):
    found, _, _ = case
    for p in (0.001, 0.05, 0.5, 0.95):
        at = found.quantiles([p])[0]
        if found.discrete:
            assert (at == np.round(at)).all()
            assert (found.cdf(at).mean(0) >= p).all()
            assert (found.cdf(at - 1).mean(0) < p).all()
        else:
            np.testing.assert_allclose(found.cdf(at).mean(0), p, rtol=1e-7)
        assert not found.positive or (at >= 0).all()
        alone = np.array([found.take(rows=[i]).quantiles([p])[0, 0] for i in range(ROWS)])
        np.testing.assert_array_equal(at, alone)  # whatever the rows beside it


def test_mixtures_agree_with_monte_carlo(case):
    """Mean, standard deviation, share below a quantile and CRPS, in z-scores."""
    found, _, _ = case
    drawn = found.sample(SAMPLES, np.random.RandomState(1))
    assert drawn.shape == (ROWS, SAMPLES)
    assert not found.discrete or (drawn == np.round(drawn)).all()
    mean, total = found.moments()[0].mean(0), found.split().total
    np.testing.assert_allclose(found.split().total ** 2, found.split().aleatoric ** 2 + found.split().epistemic ** 2)
    assert np.abs((drawn.mean(1) - mean) / (total / np.sqrt(SAMPLES))).max() < 5
    fourth = ((drawn - mean[:, None]) ** 2).std(1) / np.sqrt(SAMPLES)
    assert np.abs((((drawn - mean[:, None]) ** 2).mean(1) - total**2) / fourth).max() < 5
    at = found.quantiles([0.9])[0]
    share = found.cdf(at).mean(0)
    z = ((drawn <= at[:, None]).mean(1) - share) / np.sqrt(share * (1 - share) / SAMPLES)
    assert np.abs(z).max() < 5
    y = np.round(mean + total * np.array([-1.0, -0.5, 0.0, 0.7, 2.5])).clip(min=1)
    half = SAMPLES // 2
    each = np.abs(drawn - y[:, None])[:, :half] - np.abs(drawn[:, :half] - drawn[:, half:]) / 2
    z = (found.crps(y, each=True) - each.mean(1)) / (each.std(1) / np.sqrt(half))
    assert np.abs(z).max() < 5


def test_scores_are_those_of_the_mixture(case):
    found, known, _ = case
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    density = (known.pmf(y) if found.discrete else known.pdf(y)).mean(0)
    np.testing.assert_allclose(found.nll(y, each=True), -np.log(density))
    low, high = known.cdf(y - 1).mean(0), known.cdf(y).mean(0)
    pit = found.pit(y)
    assert ((low <= pit) & (pit <= high)).all() if found.discrete else np.allclose(pit, high)


def test_pit_of_right_predictions_is_uniform(case):
    _, _, family = case
    found = mixture(family, parameters(family, draws=3, rows=2000, seed=3))
    y = found.sample(1, np.random.RandomState(2))[:, 0]
    assert stats.kstest(found.pit(y), "uniform").pvalue > 1e-4


def test_gaussian_quantiles_are_those_of_calibration():
    given = parameters("gaussian", 50, 30)
    at = [0.05, 0.5, 0.95]
    expected = calibration.quantiles(given["mean"], given["std"], at)
    np.testing.assert_allclose(mixture("gaussian", given).quantiles(at), expected, rtol=1e-8, atol=1e-8)


def test_values_outside_the_support_have_no_density():
    assert (mixture("lognormal", parameters("lognormal")).log_prob(np.full(ROWS, -1.0)) == -np.inf).all()
    for family in ("poisson", "negative_binomial"):
        found = mixture(family, parameters(family))
        assert (found.log_prob(np.full(ROWS, 1.5)) == -np.inf).all()
        assert (found.cdf(np.full(ROWS, -1.0)) == 0).all()


def test_large_counts_are_scored():
    """More counts than are summed one by one; against the closed form for nearly Gaussian counts."""
    found = mixture("poisson", dict(mean=np.full((1, 2), 90_000.0)))
    crps = found.crps(np.array([90_000.0, 90_300.0]), each=True)
    normal = mixture("gaussian", dict(mean=np.full((1, 2), 90_000.0), std=np.full((1, 2), 300.0)))
    np.testing.assert_allclose(crps, normal.crps(np.array([90_000.0, 90_300.0]), each=True), rtol=2e-2)
