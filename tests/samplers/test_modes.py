"""Kernels that cross barriers: replica exchange, and contour dynamics with its weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from noisy import Noisy

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.posterior import sample
from langevin.core.target import Density
from langevin.samplers.csgld import CSGLD
from langevin.samplers.ensemble_sgld import EnsembleSGLD
from langevin.samplers.mala import MALA
from langevin.samplers.sgld import SGLD
from langevin.samplers.underdamped import Underdamped
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.samplers.wrappers.guard import Guard
from langevin.samplers.wrappers.replica_exchange import ReplicaExchange
from langevin.targets.zoo import Mixture

APART = Mixture(np.array([0.3, 0.7]), np.array([[-4.0], [4.0]]), np.ones((2, 1)))  # a barrier of 8


def standard(x):
    return -0.5 * jnp.sum(x**2)


def kept(key, kernel, target, start, *, draws, thin):
    """Draws of every chain (chain, draw) and their log weights, from one start."""
    k_init, k_run = jax.random.split(key)
    states = begin_all(k_init, kernel, target, start)
    run = advance(k_run, kernel, target, states, length=draws, thin=thin, layout="vmap")
    assert np.all(run.info.ok)
    return np.asarray(run.kept, np.float64)[..., 0], np.asarray(run.info.log_weight, np.float64), run.states


def weighted(values, log_weight, group=1):
    """The weighted mean with its standard error over chains (groups)."""
    w = np.exp(log_weight - log_weight.max())
    top, bottom = ((w * v).reshape(len(v) // group, -1).sum(1) for v in (values, np.ones_like(values)))
    mean = top.sum() / bottom.sum()
    return mean, (top - mean * bottom).std() / bottom.mean() / np.sqrt(len(top))


@pytest.mark.slow
def test_replicas_mix_where_sgld_does_not(key):
    """All chains start in the lighter mode. SGLD stays; the cold replica finds the weights of both by z-score."""
    k_plain, k_replica = jax.random.split(key)
    x, *_ = kept(k_plain, SGLD(0.05), APART, jnp.full((1024, 1), -4.0), draws=20, thin=100)
    assert (x[:, -1] > 0).mean() < 0.05
    kernel = ReplicaExchange(SGLD(0.05), temperatures=(1.0, 2.0, 4.0, 8.0), every=2)
    x, log_weight, states = kept(k_replica, kernel, APART, jnp.full((4096, 1), -4.0), draws=40, thin=100)
    mean, se = weighted((x[:, 20:] > 0).astype(float), log_weight[:, 20:], 4)
    assert se < 0.01
    assert abs(mean - 0.7) / se < 5
    rate = np.asarray(states.memory[1].rate).reshape(-1, 4)
    assert np.all(rate[:, :3].mean(0) > 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1e9])
def test_noisy_swaps_need_their_correction(factor, key):
    """Energies known to ±2: corrected, the cold replica has variance 1 (BAOAB is exact on it); else it is hot."""
    target = Noisy(Density(standard), jnp.zeros(1), rough=2.0)
    kernel = ReplicaExchange(Underdamped(0.3, friction=2.0), temperatures=(1.0, 3.0), every=1, factor=factor)
    k_start, k_run = jax.random.split(key)
    start = jax.random.normal(k_start, (4096, 2, 1)) * np.sqrt([1.0, 3.0])[None, :, None]
    x, log_weight, states = kept(k_run, kernel, target, start.reshape(-1, 1), draws=40, thin=10)
    mean, se = weighted(x[:, 20:] ** 2, log_weight[:, 20:], 2)
    z = (mean - 1) / se
    assert abs(z) < 5 if factor == 1 else z > 10, f"variance {mean:.3f} ± {se:.3f}"
    # σ² is found: 2² a replica, known to an average of some 100 samples a group
    variance = np.asarray(states.memory[1].variance).reshape(-1, 2)[:, 0]
    assert abs(variance.mean() / 4 - 1) < 5 * variance.std() / 4 / np.sqrt(len(variance)) + 0.02


def test_hot_replicas_are_not_collected(key):
    kernel = ReplicaExchange(SGLD(0.05), temperatures=(1.0, 2.0, 4.0))
    posterior = sample(key, kernel, Density(standard), jnp.zeros((6, 1)), draws=50, chunk=50)
    collected = np.isfinite(posterior.info.log_weight)
    assert np.array_equal(collected.all(1), np.arange(6) % 3 == 0)
    assert np.array_equal(collected.any(1), collected.all(1))


def test_replicas_compose(key):
    """`replace` reaches the kernel inside, whose temperature is the cold one; cycles go around replicas."""
    kernel = replace(ReplicaExchange(SGLD(0.1), temperatures=(1.0, 2.0)), temperature=0.5, step_size=0.2, every=7)
    assert float(kernel.kernel.temperature) == 0.5
    assert float(kernel.step_size) == np.float32(0.2)
    posterior = sample(key, Cyclical(kernel, period=20), Density(standard), jnp.zeros((4, 1)), draws=40, chunk=40)
    assert posterior.info.ok.all()
    with pytest.raises(ValueError, match="two or more"):
        ReplicaExchange(SGLD(), temperatures=(1.0,))
    with pytest.raises(TypeError, match="Guard has no field 'temperature'"):
        ReplicaExchange(Guard(SGLD()))
    with pytest.raises(ValueError, match="groups"):
        ReplicaExchange(EnsembleSGLD())
    assert ReplicaExchange(MALA()).law().kind == "exact"


@pytest.mark.slow
def test_contours_cross_a_barrier_and_weights_undo_it(key):
    """SGLD stays in the lighter mode. With φ learnt and then left alone, weighted draws have the weights of both."""
    k_plain, k_learn, *k_runs = jax.random.split(key, 4)
    x, *_ = kept(k_plain, SGLD(0.05), APART, jnp.full((512, 1), -4.0), draws=20, thin=100)
    assert (x[:, -1] > 0).mean() < 0.05
    kernel = CSGLD(0.05, low=1.0, width=0.5, bins=18)
    *_, states = kept(k_learn, kernel, APART, jnp.full((512, 1), -4.0), draws=20, thin=300)
    found = []
    for k, h, thin in zip(k_runs, (0.05, 0.025), (100, 200), strict=True):
        still = replace(kernel, gain=0.0, step_size=h)
        run = advance(k, still, APART, states, length=40, thin=thin, layout="vmap")
        x, log_weight = np.asarray(run.kept, np.float64)[:, 10:, 0], np.asarray(run.info.log_weight)[:, 10:]
        found.append(weighted((x > 0).astype(float), log_weight))
    (whole, whole_se), (half, half_se) = found
    se = np.hypot(2 * half_se, whole_se)
    assert se < 0.05
    assert abs(2 * half - whole - 0.7) / se < 5
    flat, flat_se = weighted((x > 0).astype(float), np.zeros_like(log_weight))
    assert abs(flat - 0.7) / flat_se > 5, "the weights have work to do"
    high = (np.abs(x) < 1).astype(float)  # on the barrier
    assert high.mean() > 20 * weighted(high, log_weight)[0]


def test_phi_stays_a_distribution(key):
    """After thousands of updates Σφ = 1, bins never met have little of it, and nothing is −inf."""
    kernel = CSGLD(0.05, low=0.9, width=0.25, bins=40)
    *_, states = kept(key, kernel, Density(standard), jnp.zeros((8, 1)), draws=10, thin=500)
    log_phi = np.asarray(states.memory)
    assert np.all(np.isfinite(log_phi))
    np.testing.assert_allclose(np.exp(log_phi).sum(1), 1.0, atol=1e-3)


def test_phi_finds_the_masses_of_the_bins(key):
    """On N(0, I) in three dimensions log φ is log mass, bin by bin; without its exponent ζ it is steeper by 1/ζ."""
    k_run, k_exact = jax.random.split(key)
    kernel = CSGLD(0.1, low=0.0, width=1.0, bins=7, flattening=0.6)
    *_, states = kept(k_run, kernel, Density(standard), jnp.zeros((256, 3)), draws=10, thin=600)
    exact = np.asarray(0.5 * jnp.sum(jax.random.normal(k_exact, (200_000, 3)) ** 2, axis=1))
    mass = np.bincount(np.minimum(exact, 6.5).astype(int), minlength=7) / len(exact)
    log_phi = np.log(np.exp(np.asarray(states.memory, np.float64)).mean(0))
    slope = np.polyfit(np.log(mass), log_phi, 1)[0]
    assert abs(slope - 1) < 0.1, slope
