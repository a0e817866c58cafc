"""Streaming moments: blocks merged are the whole; R̂ and ESS meet their values on AR(1) chains."""

import numpy as np
import pytest

from langevin.core import moments

RNG = np.random.default_rng


def merged(x, sizes):
    """Moments of x (chain, draw, …) cut into blocks of these sizes."""
    total = None
    for part in np.split(x, np.cumsum(sizes)[:-1], axis=1):
        total = moments.merge(total, moments.first(part))
    return total


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("sizes", [(100,), (50, 50), (1, 98, 1), (7,) * 14 + (2,)])
def test_merged_is_whole(shape, sizes):
    x = RNG(0).normal(1e3, 2.0, size=(4, 100, *shape))
    m = merged(x, sizes)
    assert (m.count, m.blocks) == (100, len(sizes))
    np.testing.assert_allclose(m.mean, x.mean(1), rtol=1e-12)
    np.testing.assert_allclose(m.square, 100 * x.var(1), rtol=1e-9)
    np.testing.assert_allclose(moments.variance(m), x.var(1, ddof=1).mean(0), rtol=1e-9)
    parts = np.split(x, np.cumsum(sizes)[:-1], axis=1)
    between = sum(p.shape[1] * (p.mean(1) - x.mean(1)) ** 2 for p in parts)
    np.testing.assert_allclose(m.between, between, rtol=1e-7, atol=1e-9)
    assert moments.rhat(m).shape == moments.ess(m).shape == shape


def test_merging_does_not_care_how():
    x = RNG(1).normal(size=(2, 60, 3))
    a, b, c = (moments.first(x[:, i : i + 20]) for i in (0, 20, 40))
    left, right = moments.merge(moments.merge(a, b), c), moments.merge(a, moments.merge(b, c))
    for u, v in zip(left, right, strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-10, atol=1e-12)


def ar1(phi, chains, draws, columns, seed=0):
    """Stationary chains x' = φ x + √(1 − φ²) ξ of unit variance: (chain, draw, column)."""
    rng = RNG(seed)
    x = np.empty((chains, draws, columns))
    x[:, 0] = rng.normal(size=(chains, columns))
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * rng.normal(size=(chains, columns))
    return x


def long_run(phi, n):
    """n · var of the mean of n draws: (1 + φ)/(1 − φ) − 2φ(1 − φⁿ)/(n (1 − φ)²)."""
    return (1 + phi) / (1 - phi) - 2 * phi * (1 - phi**n) / (n * (1 - phi) ** 2)


def zscore(values, truth):
    return (values.mean() - truth) / (values.std(ddof=1) / np.sqrt(values.size))


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_ess_of_ar1(phi):
    """Over many independent columns the long-run variance has its expected value, bias of finite blocks included."""
    chains, block, blocks, columns = 4, 100, 20, 400
    m = merged(ar1(phi, chains, block * blocks, columns), (block,) * blocks)
    inverse = chains * m.count * moments.variance(m) / moments.ess(m)
    # Σ b (block mean − mean)² / (blocks − 1) has expectation (blocks L_b − L_n) / (blocks − 1)
    expected = (blocks * long_run(phi, block) - long_run(phi, block * blocks)) / (blocks - 1)
    if phi > 0:
        assert abs(zscore(inverse, expected)) < 5
    # and the number itself is what it should be within the error of 20 blocks of 4 chains, 16 %, and the clip at m n
    ratio = np.median(moments.ess(m)) / (chains * m.count)
    assert abs(ratio / ((1 - phi) / (1 + phi)) - 1) < 0.12


@pytest.mark.parametrize("phi", [0.0, 0.8])
def test_rhat_of_stationary_ar1(phi):
    """R̂² − 1 is the variance of chain means over the variance within, less 1/n."""
    chains, draws, columns = 8, 200, 2000
    m = merged(ar1(phi, chains, draws, columns, seed=1), (50,) * 4)
    b = long_run(phi, draws) / draws
    within = (m.square / (draws - 1)).mean(0)
    # (R̂² − (n − 1)/n) · W is the variance of chain means, unbiased
    excess = (moments.rhat(m) ** 2 - (draws - 1) / draws) * within
    assert abs(zscore(excess, b)) < 5
    assert np.median(moments.rhat(m)) < 1.05


def test_rhat_sees_chains_apart():
    x = RNG(2).normal(size=(4, 500, 2))
    x[0, :, 1] += 3.0
    rhat = moments.rhat(moments.first(x))
    assert rhat[0] < 1.01
    # between-chain variance 9/4 on top of 1
    assert abs(rhat[1] - np.sqrt(1 + 9 / 4)) < 0.1


def test_what_cannot_be_known_is_nan_without_a_warning():
    one = moments.first(RNG(3).normal(size=(1, 50, 2)))
    assert np.isnan(moments.rhat(one)).all()
    assert np.isnan(moments.ess(one)).all()
    assert np.isnan(moments.rhat(moments.first(np.ones((4, 1))))).all()
    constant = merged(np.ones((4, 20)), (10, 10))
    assert np.isnan(moments.rhat(constant)) or np.isinf(moments.rhat(constant))
    assert np.isnan(moments.ess(constant))
