"""Cyclical SG-MCMC: exploration is an optimizer without draws, the sampling stage has the inner kernel's law."""

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.posterior import sample
from langevin.core.target import Density
from langevin.samplers.hmc import HMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.underdamped import Underdamped
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.targets.zoo import Mixture


def normal(x):
    return -0.5 * jnp.sum(x**2)


def test_stages(key):
    """Draws of the exploration stage carry no weight, the others weight 1; the cycle has the stated shares."""
    kernel = Cyclical(SGLD(0.1), period=20, exploration=0.6)
    posterior = sample(key, kernel, Density(normal), jnp.ones((2, 1)), draws=60, chunk=60)
    collected = np.isfinite(posterior.info.log_weight[0])
    assert np.array_equal(collected, np.tile(np.arange(20) >= 12, 3))
    # no noise while exploring: both chains, from the same start, stay together until the first draw
    np.testing.assert_array_equal(posterior.draws[0, :12], posterior.draws[1, :12])
    assert not np.array_equal(posterior.draws[0, 12:20], posterior.draws[1, 12:20])


def test_the_step_size_follows_the_cosine(key):
    """Without noise a step on N(0, 1) is x ← (1 − h) x, so h can be read off."""
    kernel = Cyclical(SGLD(0.1), period=10, exploration=1.0)
    states = begin_all(key, kernel, Density(normal), jnp.ones((1, 1)))
    x = np.asarray(advance(jax.random.clone(key), kernel, Density(normal), states, length=20).kept)[0, :, 0]
    h = 1 - x / np.concatenate([[1.0], x[:-1]])
    expected = 0.05 * (1 + np.cos(np.pi * (np.arange(20) % 10) / 10))
    np.testing.assert_allclose(h, expected, atol=2e-5)


def test_sampling_stage_has_the_law_of_the_inner_kernel(key):
    """Late in long cycles, where the step is small, x and x² of N(0, 1) are met by z-score."""
    kernel = Cyclical(Underdamped(0.3, friction=2.0), period=200, exploration=0.2)
    k_start, k_run = jax.random.split(key)
    start = jax.random.normal(k_start, (4096, 1))
    posterior = sample(k_run, kernel, Density(normal), start, draws=10, thin=20, chunk=10)
    x = posterior.draws[:, 5:8, 0].mean(1), (posterior.draws[:, 5:8, 0] ** 2).mean(1)
    assert abs(x[0].mean() / (x[0].std() / 64)) < 5
    # after an exploration at T = 0 the momentum and position are cold; by the second half they must be warm again
    assert abs((x[1].mean() - 1) / (x[1].std() / 64)) < 5


def test_it_finds_more_modes(key):
    """Four modes 12 standard deviations apart: plain SGLD stays, cycles with a large peak move."""
    target = Mixture.grid(2, spacing=6.0, scale=0.5)
    modes = lambda p: len(np.unique(np.sign(p.draws[0, np.isfinite(p.info.log_weight[0])].reshape(-1, 2)), axis=0))
    k_plain, k_cycle = jax.random.split(key)
    start = jnp.full((1, 2), 3.0)
    plain = sample(k_plain, SGLD(0.02), target, start, draws=6000, chunk=6000)
    cycle = sample(k_cycle, Cyclical(SGLD(0.45), period=200, exploration=0.0), target, start, draws=6000, chunk=6000)
    assert modes(plain) == 1
    assert modes(cycle) == 4


def test_replace_reaches_through(key):
    kernel = replace(Cyclical(SGLD(0.1)), step_size=0.2, period=7)
    assert float(kernel.kernel.step_size) == np.float32(0.2)
    assert int(kernel.period) == 7
    # any kernel with a step size and a temperature can be made cyclical
    posterior = sample(
        key, Cyclical(HMC(0.3), period=10, exploration=0.0), Density(normal), jnp.zeros((2, 1)), draws=10, chunk=10
    )
    assert posterior.info.ok.all()
