"""Scores and calibration against closed forms, numerical integration and the model that is true."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, norm

from langevin.diagnostics import calibration as cal

EXACT = {"rtol": 1e-12, "atol": 1e-14}
rng = np.random.default_rng(0)  # for these three only: tests draw from their own
Y = rng.normal(size=7)
MEAN = rng.normal(size=(5, 7))
STD = rng.uniform(0.3, 2.0, size=(5, 7))


def crps_normal(y):
    return y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)


def crps_integral(y, cdf):
    left = quad(lambda t: cdf(t) ** 2, -30, y, epsabs=1e-12, limit=200)[0]
    return left + quad(lambda t: (1 - cdf(t)) ** 2, y, 30, epsabs=1e-12, limit=200)[0]


def test_nll_of_a_mixture():
    density = norm.pdf(Y, MEAN, STD).mean(axis=0)
    np.testing.assert_allclose(cal.nll_gaussian(Y, MEAN, STD, each=True), -np.log(density), **EXACT)
    np.testing.assert_allclose(cal.nll_gaussian(Y, MEAN, STD), -np.log(density).mean(), **EXACT)
    # far out in the tail, where the density itself is 0
    np.testing.assert_allclose(cal.nll_gaussian([100.0], [[0.0], [0.0]], 1.0), 5000 + 0.5 * np.log(2 * np.pi), **EXACT)


def test_rmse():
    assert cal.rmse([0.0, 0.0], [[1.0, 6.0], [5.0, 2.0]]) == np.sqrt((9 + 16) / 2)
    assert cal.rmse([0.0, 0.0], [3.0, 4.0]) == np.sqrt(12.5)


def test_crps_of_one_gaussian():
    y = np.array([-3.0, 0.0, 0.5, 4.0])
    np.testing.assert_allclose(cal.crps_mixture(y, np.zeros((1, 4)), 1.0, each=True), crps_normal(y), **EXACT)
    # equal components are one, and the CRPS has the units of y
    np.testing.assert_allclose(
        cal.crps_mixture(3 * y + 1, np.ones((9, 4)), 3.0, each=True), 3 * crps_normal(y), **EXACT
    )


def test_crps_of_a_mixture_is_its_integral():
    for i in range(3):
        cdf = lambda t: norm.cdf(t, MEAN[:, i], STD[:, i]).mean()
        found = cal.crps_mixture(Y[i : i + 1], MEAN[:, i : i + 1], STD[:, i : i + 1])
        np.testing.assert_allclose(found, crps_integral(Y[i], cdf), rtol=1e-8)


def test_crps_thins_many_draws():
    mean = np.random.default_rng(1).normal(size=(1000, 2))
    thin = np.linspace(0, 999, 10).round().astype(int)
    assert cal.crps_mixture(Y[:2], mean, 1.0, max_draws=10) == cal.crps_mixture(Y[:2], mean[thin], 1.0)


def test_crps_of_samples():
    samples = np.random.default_rng(2).normal(size=(11, 7))
    pairs = np.abs(samples[:, None] - samples[None]).sum(axis=(0, 1))
    near = np.abs(samples - Y).mean(axis=0)
    plain, fair = (cal.crps_samples(Y, samples, fair=fair, each=True) for fair in (False, True))
    np.testing.assert_allclose(plain, near - pairs / (2 * 11**2), **EXACT)
    np.testing.assert_allclose(fair, near - pairs / (2 * 11 * 10), **EXACT)
    # one sample: the absolute error
    np.testing.assert_allclose(cal.crps_samples(Y, samples[:1], each=True), np.abs(samples[0] - Y), **EXACT)


def test_fair_crps_is_unbiased():
    samples = np.random.default_rng(3).normal(size=(3, 4000))
    fair = cal.crps_samples(np.full(4000, 0.7), samples, fair=True, each=True)
    z = (fair.mean() - crps_normal(0.7)) / (fair.std(ddof=1) / np.sqrt(4000))
    assert abs(z) < 5


def test_intervals_are_quantiles():
    levels = np.array([0.5, 0.95])
    lower, upper = cal.intervals(np.zeros((3, 4)), 2.0, levels)
    np.testing.assert_allclose(upper, 2 * norm.ppf((1 + levels) / 2)[:, None] * np.ones(4), **EXACT)
    np.testing.assert_allclose(lower, -upper, **EXACT)
    lower, upper = cal.intervals(MEAN, STD, levels)
    for bound, p in ((lower, (1 - levels) / 2), (upper, (1 + levels) / 2)):
        for k in range(2):
            np.testing.assert_allclose(cal.pit(bound[k], MEAN, STD), p[k], rtol=1e-12)
    lower, upper = cal.intervals(np.arange(101.0)[:, None], None, 0.9)  # of samples
    np.testing.assert_allclose([lower, upper], [[[5.0]], [[95.0]]], **EXACT)


def test_coverage_and_curve():
    assert cal.coverage([1.0, 2.0, 3.0, 4.0], [0.0, 3.0, 3.0, 0.0], [1.0, 4.0, 3.0, 1.0]) == 0.5
    both = cal.coverage([1.0, 2.0], [[0.0, 0.0], [0.0, 3.0]], [[9.0, 9.0], [9.0, 9.0]])
    np.testing.assert_array_equal(both, [1.0, 0.5])
    np.testing.assert_array_equal(cal.calibration_curve([0.1, 0.2, 0.6, 0.9], [0.1, 0.5, 1.0]), [0.25, 0.5, 1.0])


def test_pit_is_uniform_under_the_true_model():
    n, rng = 5000, np.random.default_rng(4)
    mean, std = rng.normal(size=(4, n)), rng.uniform(0.5, 2.0, size=(4, n))
    which = rng.integers(4, size=n)
    y = rng.normal(mean[which, np.arange(n)], std[which, np.arange(n)])
    assert kstest(cal.pit(y, mean, std), "uniform").pvalue > 1e-6
    assert kstest(cal.pit(y, mean, 1.5 * std), "uniform").pvalue < 1e-6  # too wide: seen
    assert kstest(cal.pit(y + 0.2, mean, std), "uniform").pvalue < 1e-6  # shifted: seen
    covered = cal.coverage(y, *cal.intervals(mean, std, [0.5, 0.9]))
    z = (covered - [0.5, 0.9]) / np.sqrt(np.array([0.25, 0.09]) / n)
    assert (np.abs(z) < 5).all()
    np.testing.assert_array_equal(cal.pit([2.0], [[1.0], [2.0], [3.0], [4.0]], None), [0.375])


PROBA = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5], [0.6, 0.3, 0.1]])
LABELS = np.array([0, 1, 0, 2])


def test_classification_scores():
    np.testing.assert_allclose(cal.nll_categorical(LABELS, PROBA), -np.log(0.7 * 0.8 * 0.25 * 0.1) / 4, **EXACT)
    assert cal.accuracy(LABELS, PROBA) == 0.5
    # (.09+.04+.01) + (.01+.04+.01) + (.5625+.0625+.25) + (.36+.09+.81)
    np.testing.assert_allclose(cal.brier(LABELS, PROBA), (0.14 + 0.06 + 0.875 + 1.26) / 4, **EXACT)
    draws = np.stack([PROBA, PROBA[:, ::-1]])
    assert cal.nll_categorical(LABELS, draws) == cal.nll_categorical(LABELS, draws.mean(axis=0))
    assert cal.nll_categorical([1], [[1.0, 0.0]]) == np.inf


def test_ece_by_hand():
    # (0, .5] holds the third row (confidence .5, wrong), (.5, 1] the others (mean .7, two of three right)
    diagram = cal.reliability(LABELS, PROBA, bins=2)
    np.testing.assert_array_equal(diagram.size, [1, 3])
    np.testing.assert_allclose(diagram.confidence, [0.5, 0.7], **EXACT)
    np.testing.assert_allclose(diagram.accuracy, [0.0, 2 / 3], **EXACT)
    np.testing.assert_allclose(cal.ece(LABELS, PROBA, bins=2), (0.5 + 3 * (0.7 - 2 / 3)) / 4, **EXACT)
    assert cal.ece([0, 1], [[1.0, 0.0], [0.0, 1.0]]) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cal.nll_gaussian(Y, MEAN[0], STD[0]), r"shape \(7,\).*mean\[None\]"),
        (lambda: cal.nll_gaussian(Y[:6], MEAN, STD), r"y has shape \(6,\)"),
        (lambda: cal.nll_gaussian(Y, MEAN, STD[:, :2]), r"std has shape \(5, 2\)"),
        (lambda: cal.crps_mixture(Y, MEAN, -STD), "must be positive"),
        (lambda: cal.crps_samples(Y, MEAN[:1], fair=True), "needs at least 2"),
        (lambda: cal.rmse(Y, MEAN[:, :3]), "rmse was given y"),
        (lambda: cal.coverage(Y, MEAN[0], MEAN[0, :2]), "coverage was given"),
        (lambda: cal.intervals(MEAN, STD, 95), "strictly between 0 and 1"),
        (lambda: cal.accuracy(LABELS[:2], PROBA), r"y has shape \(2,\)"),
        (lambda: cal.accuracy(LABELS + 1, PROBA), "from 0 to 2"),
        (lambda: cal.accuracy(LABELS.astype(float), PROBA), "whole numbers"),
        (lambda: cal.brier(LABELS, np.log(PROBA)), "apply softmax"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()
