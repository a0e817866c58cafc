"""SMILE: temperatures under mini-batch noise, noise that is completed, and what is asked for."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import smile_gaussian as gaussians
from noisy_gaussian import D, R, dense, modelled, orthonormal, published, together

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.types import Eval
from langevin.dynamics.isokinetic import force_of
from langevin.dynamics.mass import DiagonalMetric, IdentityMetric, LowRankMetric
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.smile import SMILE, cooled
from langevin.targets.zoo import Gaussian
from langevin.tune.whiten import whiten

# --- temperatures of a Gaussian -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cool", [False, True])
def test_kicks_heat_as_predicted_or_not_at_all(cool, key):
    """T(1) = ½ coth ½ = 1.082 within 1 %, and 1 within 1 % when kicks are cooled; that is four standard errors."""
    target, step = gaussians.seen_through(50.0), gaussians.kick_of(1.0, 50.0 * D)
    each = gaussians.plain(key, SMILE(step, length=jnp.inf, cool=cool), target, 64, 3500).mean(1)
    assert each.std() < 0.0025 * np.sqrt(64)
    assert abs(each.mean() / (1.0 if cool else gaussians.heated(1.0)) - 1) < 0.01


def test_cooling_takes_back_what_its_formula_says():
    """f δ = 2 artanh(δ/2), and a series below; a kick too large to be cooled is as one of 1.9."""
    direction = np.zeros(50, np.float32)
    direction[3] = 49.0
    for delta in (1e-4, 5e-3, 0.02, 0.3, 1.0, 1.8):
        expected = 2 * np.arctanh(delta / 2) / delta
        np.testing.assert_allclose(cooled(jnp.float32(delta), jnp.asarray(direction)), expected, rtol=1e-5)
    np.testing.assert_allclose(cooled(jnp.float32(5.0), jnp.asarray(direction)), 2 * np.arctanh(0.95) / 1.9, rtol=1e-4)


def test_noise_that_is_not_isotropic_gives_temperatures(key):
    """Slope 1 ± 0.1 of T_i on V_i/mean V, at any ε."""
    v = gaussians.anisotropic()
    for delta, k in zip((0.25, 0.5), jax.random.split(key), strict=True):
        kernel = SMILE(gaussians.kick_of(delta, v.sum()), length=jnp.inf)
        slope, error = gaussians.sloped(gaussians.plain(k, kernel, gaussians.seen_through(v), 32, 2000), v / v.mean())
        assert error < 0.02
        assert abs(slope - 1) < 0.1


@together
def test_whitened_noise_gives_one_temperature(key):
    """Slope 0 ± 0.1 with V estimated, and the mean is 1."""
    v = gaussians.anisotropic()
    each = gaussians.whitened(key, gaussians.seen_through(v), 8, 32, 1500, 2000)
    slope, error = gaussians.sloped(each, v / v.mean())
    assert error < 0.02
    assert abs(slope) < 0.1
    mean, error = gaussians.averaged(each.mean(1))
    assert error < 0.01
    assert abs(mean - 1) < 0.05


@pytest.mark.parametrize(("r", "delta"), [(100.0, 0.2), (1000.0, 0.3)])
def test_direction_is_forgotten_by_noise(r, delta, key):
    """E[u·u'] = exp(−ε/L_noise): L within 3 %."""
    step = gaussians.kick_of(delta, r * D)
    L, error = gaussians.forgotten(key, gaussians.seen_through(r), step, 32, 300)
    expected = 2 * (D - 1) / (step * r)
    assert error / expected < 0.003
    assert abs(L / expected - 1) < 0.03


def test_direction_is_forgotten_over_the_length_asked_for(key):
    """Without noise in the gradients all of it is c: E[u·u'] = exp(−ε/L) within 3 %."""
    k_begin, k_run = jax.random.split(key)
    kernel, target = SMILE(0.2, length=5.0), Gaussian(np.zeros(D), np.full(D, 1e6))
    states = begin_all(k_begin, kernel, target, jnp.zeros((32, D)))
    u = advance(k_run, kernel, target, states, length=200, collect=gaussians.velocity).kept
    measured = -0.2 / np.log(np.asarray(jnp.sum(u[:, 1:] * u[:, :-1], axis=2), np.float64).mean())
    assert abs(measured / 5.0 - 1) < 0.03


# --- completion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["level", "length"])
@pytest.mark.parametrize("which", ["identity", "diagonal", "spiked"])
def test_noise_is_completed_to_isotropic(which, by, key):
    """Sᵀn/T + c has covariance v I, entry by entry; n the noise of a gradient in θ."""
    d, T, h, n = 6, 0.7, 0.3, 40_000
    g, scale = np.linspace(0.5, 4.0, d), np.linspace(0.5, 2.0, d)
    U = orthonormal(d, 2)
    spikes = np.array([0.3, 3.5]) if which == "spiked" else np.zeros(0)
    metric = {
        "identity": IdentityMetric(),
        "diagonal": DiagonalMetric(jnp.asarray(scale**2, jnp.float32)),
        "spiked": LowRankMetric(jnp.asarray(scale, jnp.float32), jnp.asarray(U, jnp.float32), jnp.array([0.4, 0.8])),
    }[which]
    how = dict(level=6.0, length=jnp.inf) if by == "level" else dict(level=1.0, length=2.0)
    kernel = SMILE(h, metric=metric, gradient_noise=jnp.asarray(g, jnp.float32), **how)
    if which == "spiked":
        kernel = replace(kernel, spikes=jnp.asarray(spikes, jnp.float32))
    v = 6.0 / T**2 if by == "level" else 2 * (d - 1) / (h * 2.0)
    assert v > 4.0 / T**2
    R = modelled(g, spikes, U if which == "spiked" else np.zeros((d, 0)))
    root = np.linalg.cholesky(np.linalg.inv(dense(metric, d)).T @ R @ np.linalg.inv(dense(metric, d)))

    def one(key):
        k_grad, k_fill = jax.random.split(key)
        grad = jnp.asarray(root, jnp.float32) @ jax.random.normal(k_grad, (d,))
        return force_of(metric, Eval(0.0, grad, 1), T) + kernel.completion(k_fill, jnp.zeros(d), h, T)

    force = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(key, n)), np.float64)
    z = (force.T @ force / n - v * np.eye(d)) / (v * np.sqrt((1 + np.eye(d)) / n))
    assert np.abs(z).max() < 5
    assert np.abs(force.mean(0) / np.sqrt(v / n)).max() < 5


def test_what_is_stronger_than_the_level_is_left_as_it_is(key):
    """Nothing is added where noise is above v, and nothing is NaN."""
    kernel = SMILE(1.0, length=jnp.inf, gradient_noise=jnp.array([1.0, 9.0, 4.0]), level=4.0)
    c = np.asarray(jax.vmap(lambda k: kernel.completion(k, jnp.zeros(3), 1.0, 1.0))(jax.random.split(key, 4000)))
    assert np.all(c[:, 1:] == 0)
    assert abs(np.mean(c[:, 0] ** 2) - 3.0) < 5 * 3.0 * np.sqrt(2 / 4000)


# --- what is asked for ----------------------------------------------------------------------------------------------


def one_sentence(told):
    text = str(told.value)
    return "\n" not in text and text.endswith(".") and text.startswith("whiten: ")


def test_what_whiten_needs_to_know_is_asked_for(key):
    target = gaussians.seen_through(R)
    states = begin_all(key, SMILE(), target, jnp.zeros((2, D)))
    ask = partial(whiten, jax.random.key(0), SMILE(), target, states)
    with pytest.raises(ValueError, match=r"does not say what share of the data a batch is; give share=\.$") as told:
        ask()
    assert one_sentence(told)
    with pytest.raises(ValueError, match=r"does not tell its prior apart; give prior= its precision\.") as told:
        ask(share=0.1)
    assert one_sentence(told)
    with pytest.raises(ValueError, match=r"share is 1\.5; a batch is more than none") as told:
        ask(share=1.5)
    assert one_sentence(told)
    with pytest.raises(ValueError, match=r"10 steps in 8 rounds; take at least two steps a round\.$") as told:
        ask(share=0.1, prior=1.0, steps=10)
    assert one_sentence(told)
    for kernel in (MCLMC(0.1, 1.0), published()):
        with pytest.raises(TypeError, match=r"it tunes SMILE, not \w+; pass SMILE\(step_size\)\.") as told:
            whiten(jax.random.key(0), kernel, target, states, share=0.1, prior=1.0)
        assert one_sentence(told)
