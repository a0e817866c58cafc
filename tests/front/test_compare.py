"""Comparing models: WAIC and PSIS-LOO against exact leave-one-out, differences with their errors."""

import numpy as np
import pytest
from scipy import stats

from langevin.diagnostics.compare import difference, loo, lppd, waic

SIGMA = 1.0  # of a row; the mean has a flat prior


@pytest.fixture(scope="module")
def conjugate():
    """Exact draws of the mean of 40 normals, and the exact density of each row given the others."""
    random = np.random.default_rng(0)
    y = random.normal(size=40)
    mean = y.mean() + random.normal(size=20_000) / np.sqrt(40)
    each = stats.norm.logpdf(y[None], mean[:, None], SIGMA)
    others = (y.sum() - y) / 39
    return each, stats.norm.logpdf(y, others, np.sqrt(1 + 1 / 39)), stats.norm.logpdf(y, y.mean(), np.sqrt(1 + 1 / 40))


def test_left_out_densities_are_met(conjugate):
    each, exact, inside = conjugate
    np.testing.assert_allclose(lppd(each), inside, atol=0.01)
    found, k = loo(each)
    np.testing.assert_allclose(found, exact, atol=0.02)
    assert k.max() < 0.7
    # WAIC is right to O(1/n²); a factor of two in its penalty would not be
    assert abs((waic(each) - exact).mean()) < 0.1 * (inside - exact).mean()


def test_a_difference_has_its_error():
    random = np.random.default_rng(1)
    z = []
    for _ in range(400):
        shared = random.normal(size=50)
        gap = difference(shared + random.normal(size=50) + 0.3, shared + random.normal(size=50))
        z.append((gap.mean - 0.3) / gap.stderr)
    assert abs(np.std(z) - 1) < 0.15
    assert difference([1.0, 1.1], [0.0, 0.2]).better == "first"
    assert difference([0.0, 0.1], [1.0, 1.2]).better == "second"
    assert difference([0.0, 1.0], [1.0, 0.1]).better == "neither"
    with pytest.raises(ValueError, match="pass both as"):
        difference([1.0], [1.0, 2.0])
