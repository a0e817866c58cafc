"""Densities in the plane: values and draws of one law; and what compares models and samples there."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import first

from langevin.core import noise
from langevin.diagnostics import features, grid, samples
from langevin.targets.densities_2d import box, centres, densities_2d

SUITE = densities_2d()


@pytest.mark.parametrize("name", SUITE)
def test_a_density_integrates_to_one_and_its_box_holds_it(name):
    density = SUITE[name]
    found = grid.grid(density.log_density, box(density), 401)
    assert abs(found.log_z) < 2e-3
    inside = np.all(np.abs(np.asarray(density.exact(noise.key(1), 20_000))) < box(density), axis=1)
    assert inside.mean() > 0.9995


@pytest.mark.parametrize("name", first(7, SUITE))
def test_draws_have_the_density(name):
    """Counts in coarse cells against the grid's masses: χ² with its own degrees of freedom."""
    density, n, cells = SUITE[name], 40_000, 25
    side = min(box(density), 5.0)
    x = np.asarray(density.exact(noise.key(2), n))
    fine = jax.lax.map(density.log_density, jnp.asarray(centres(side, 12 * cells), jnp.float32), batch_size=4096)
    mass = np.exp(np.asarray(fine, np.float64)).reshape(cells, 12, cells, 12).sum((1, 3)) * (side / 6 / cells) ** 2
    line = np.linspace(-side, side, cells + 1)
    count = np.histogram2d(x[:, 0], x[:, 1], bins=(line, line))[0]
    full = n * mass > 8
    expected = np.append(n * mass[full], n - n * mass[full].sum())
    seen = np.append(count[full], n - count[full].sum())
    keep = expected > 8
    chi, free = np.sum((seen - expected)[keep] ** 2 / expected[keep]), keep.sum() - 1
    assert abs(chi - free) / math.sqrt(2 * free) < 5


def test_entropies_that_are_known():
    assert abs(grid.entropy(SUITE["checkerboard"]) - math.log(8)) < 5e-3
    assert abs(grid.entropy(SUITE["laplace"]) - 2 * (1 + math.log(1.4))) < 1e-3
    covariance = np.array([[1.328, 0.938], [0.938, 1.25]])
    assert (
        abs(grid.entropy(SUITE["gaussian"]) - (1 + math.log(2 * math.pi) + 0.5 * np.log(np.linalg.det(covariance))))
        < 1e-4
    )


def shifted(x):
    """N((1, 0), I), up to a constant."""
    return 7.0 - 0.5 * jnp.sum((x - jnp.array([1.0, 0.0])) ** 2)


def standard(x):
    return -0.5 * jnp.sum(x**2)


class Standard:
    box = 8.0
    log_density = staticmethod(standard)


def test_divergences_between_gaussians_are_what_they_are(key):
    assert abs(grid.data_kl(Standard, shifted) - 0.5) < 1e-3
    assert abs(grid.data_kl(Standard, standard)) < 1e-6
    x = jax.random.normal(key, (200_000, 2))
    assert abs(grid.sample_kl(x, shifted, 8.0) - 0.5) < 0.01
    assert abs(grid.sample_kl(x, standard, 8.0)) < 0.005
    assert grid.outside(standard, 8.0) < 1e-6
    few = [grid.sample_kl(x[2000 * i : 2000 * (i + 1)], standard, 4.0, cells=20) for i in range(20)]
    assert abs(np.mean(few)) < 5 * np.std(few, ddof=1) / math.sqrt(20)  # chance alone adds 0.06


def test_a_model_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="the log density is NaN"):
        grid.grid(lambda x: jnp.sum(x) * jnp.nan)
    with pytest.raises(ValueError, match="none of the points lies in"):
        grid.sample_kl(np.full((10, 2), 99.0), standard, 5.0)


def two(n=400, shift=0.0, d=3):
    draw = np.random.default_rng(7)
    return draw.normal(size=(n, d)), draw.normal(size=(n, d)) + shift


def test_two_samples_of_one_law_are_not_told_apart():
    x, y = two()
    assert samples.mmd(x, y).p > 0.01
    for judge in ("neighbours", "net"):
        assert abs(samples.c2st(x, y, judge=judge).value - 0.5) < 5 * math.sqrt(0.25 / 800)
    found = samples.prdc(x, y)
    assert min(found) > 0.7
    assert max(found) < 1.2


def test_two_samples_of_two_laws_are():
    x, y = two(shift=2.0)
    assert samples.mmd(x, y).p < 0.01
    for judge in ("neighbours", "net"):
        assert abs(samples.c2st(x, y, judge=judge).value - 0.9584) < 0.04  # Φ(√3) of the best rule
    # a net sees a ring around a spot, which no plane parts
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, 400)
    around = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert samples.c2st(x[:, :2], around, judge="net").value > 0.9
    with pytest.raises(ValueError, match="c2st: judge is 'eye'; it must be neighbours or net"):
        samples.c2st(x, y, judge="eye")
    assert samples.prdc(x, y + 8).precision < 0.01


def test_distances_of_a_shift_are_the_shift():
    x, _ = two()
    away = np.array([3.0, 0.0, 4.0])
    assert abs(samples.wasserstein(x, x + away) - 5) < 1e-9
    mean, most = samples.sliced(x, x + away, directions=20_000)
    assert abs(mean - 5 / math.sqrt(3)) < 0.05
    assert 4.99 < most <= 5 + 1e-9


def test_the_unbiased_discrepancy_is_that_of_its_definition():
    x, y = two(12, 0.7)
    both = np.concatenate([x, y])
    square = np.sum((both[:, None] - both[None]) ** 2, axis=-1)
    median = np.median(square[np.triu_indices(24, 1)])
    k = sum(np.exp(-square / (2 * s**2 * median)) for s in (0.5, 1.0, 2.0))
    inside = lambda a: (k[a, a].sum() - np.trace(k[a, a])) / 132
    first, last = slice(0, 12), slice(12, 24)
    expected = inside(first) + inside(last) - 2 * k[first, last].mean()
    assert abs(samples.mmd(x, y, permutations=1).value - expected) < 1e-12


def test_copies_are_told_from_new_points():
    train, held = two(500)
    assert samples.memorisation(train[:100] + 1e-6, train, held) < 1e-3
    fresh = np.random.default_rng(3).normal(size=(2000, 3))
    assert abs(np.log(samples.memorisation(fresh, train, held))) < 0.1


def test_bad_samples_are_refused_in_words():
    with pytest.raises(ValueError, match=r"mmd was given points of \(10, 2\) and \(10, 3\)"):
        samples.mmd(np.zeros((10, 2)), np.zeros((10, 3)))
    with pytest.raises(ValueError, match="some points are not finite"):
        samples.sliced(np.full((10, 2), np.nan), np.zeros((10, 2)))


def test_feature_distances_are_those_of_gaussians():
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(60_000, 3)), 2 * draw.normal(size=(60_000, 3)) + 1
    assert abs(features.ffd(a, b) - (3 + 3)) < 0.1  # |1|² · 3 and Σ (2 − 1)²
    assert features.ffd(a[:30_000], a[30_000:]) < 1e-3
    same = features.kfd(a[:5000], a[5000:10_000], size=500, subsets=20)
    assert abs(same.value) < 5 * same.stderr
    other = features.kfd(a[:5000], b[:5000], size=500, subsets=20)
    assert other.value > 20 * other.stderr


def test_the_extrapolated_distance_has_less_bias():
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=(40_000, 20)), draw.normal(size=(800, 20))
    assert abs(features.ffd_limit(a, b)) < 0.5 * features.ffd(a, b)


def test_features_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="take more points"):
        features.ffd(np.zeros((5, 8)), np.zeros((5, 8)))
