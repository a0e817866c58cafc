"""Rotated and stretched targets, and latents that are exactly N(0, 1)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.audit.trials import standard, weighted
from langevin.core import noise
from langevin.targets.rotated import Rescaled, Rotated, banana50, gaussian50
from langevin.targets.zoo import Banana, Funnel, Gaussian, Scales, logistic

TARGETS = {
    "gaussian": Gaussian(np.array([1.0, -1.0]), np.array([[2.0, 0.7], [0.7, 1.0]])),
    "gaussian-diagonal": Gaussian(np.zeros(3), np.array([0.1, 1.0, 4.0])),
    "banana": Banana(0.5, 1.5, 4),
    "funnel": Funnel(5, 1.0),
    "scales": Scales(),
    "turned": Rotated(Banana(0.7, 1.0, 6)),
    "stretched": Rescaled(Rotated(Funnel(4, 1.0)), 0.3),
    "gaussian50": gaussian50(),
    "banana50": banana50(),
}


@pytest.mark.parametrize("name", TARGETS)
def test_latents_are_standard_normal(name, key):
    target, n = TARGETS[name], 20_000
    u = np.asarray(jax.jit(jax.vmap(target.latent))(target.exact(key, n)))
    found, truth = weighted(u, np.zeros(n)), standard(u.shape[1])
    z = (found.mean - truth.mean) / np.maximum(found.stderr, 1e-9)
    assert np.abs(z).max() < 5


@pytest.mark.parametrize("name", ["turned", "stretched", "banana50"])
def test_the_density_is_that_of_the_draws(name, key):
    """log p(x) = Σ log N(latent) + log |∂latent/∂x|."""
    target = TARGETS[name]
    for x in target.exact(key, 3):
        u = target.latent(x)
        log_det = np.linalg.slogdet(np.asarray(jax.jacfwd(target.latent)(x), np.float64))[1]
        expected = -0.5 * float(u @ u) - 0.5 * u.size * np.log(2 * np.pi) + log_det
        np.testing.assert_allclose(target.log_density(x), expected, rtol=1e-4, atol=1e-3)


def test_turning_is_a_rotation_with_moments():
    target = Rotated(Gaussian(np.array([1.0, 0.0, 2.0]), np.array([1.0, 4.0, 9.0])), 20.0)
    R = np.asarray(target.rotation, np.float64)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(target.cov, R @ np.diag([1.0, 4.0, 9.0]) @ R.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(target.mean, R @ [1.0, 0.0, 2.0], rtol=1e-5)
    # x₀ of e₀ turned once
    np.testing.assert_allclose(
        R[:2, 0], [np.cos(np.deg2rad(20)), np.sin(np.deg2rad(20)) * np.cos(np.deg2rad(20))], atol=1e-6
    )


def test_a_stretched_target_has_its_mini_batches(key):
    k_data, k_draw = jax.random.split(key)
    target = Rescaled(logistic(k_data, 40, 3, batch=10), 0.2)
    x = jnp.array([0.3, -0.2, 1.0])
    batch, _ = target.draw(k_draw, ())
    here = target.evaluate(batch, x)
    np.testing.assert_allclose(here.grad, jax.grad(lambda x: target.evaluate(batch, x).log_density)(x), rtol=1e-4)
    whole = target.evaluate(target.target.data, x)
    np.testing.assert_allclose(whole.log_density, target.log_density(x), rtol=1e-5)


def stepped(target, kind, *, h=0.005, share=0.3, steps=20_000, chains=96, thin=20):
    """D = (g² + λ_i²)^−½ by hand: without Γ, or with the noise at the predicted end of the step."""
    grad = jax.grad(target.log_density)
    start = target.exact(noise.key(1, impl="hash"), 4096)
    floor = share * jnp.sqrt(jnp.mean(jax.vmap(grad)(start) ** 2, axis=0))
    metric = lambda g: (g**2 + floor**2) ** -0.5

    def step(state, key):
        z, d, g = state
        xi = noise.normal(key, z.shape)
        if kind == "none":
            g = grad(z)
            d = metric(g)
            return (z + h * d * g + jnp.sqrt(2 * h * d) * xi, d, g), None
        there = grad(z + h * d * g + jnp.sqrt(2 * h * d) * xi)
        new = metric(there)
        return (z + 0.5 * h * (d * g + new * there) + jnp.sqrt(2 * h * new) * xi, new, there), None

    def chain(key, z):
        draw = lambda s, k: (s := jax.lax.scan(step, s, jax.random.split(k, thin))[0], target.latent(s[0]))
        g = grad(z)
        return jax.lax.scan(draw, (z, metric(g), g), jax.random.split(key, steps // thin))[1]

    with jax.debug_key_reuse(False):
        u = jax.jit(jax.vmap(chain))(jax.random.split(noise.key(2, impl="hash"), chains), start[:chains])
    u = np.asarray(u)[:, steps // thin // 2 :]
    assert np.isfinite(u).all()
    bins = weighted(u.reshape(-1, u.shape[-1]), np.zeros(u.shape[0] * u.shape[1])).bins
    return 0.5 * np.abs(bins - standard(1).bins).sum()


@pytest.mark.slow
def test_without_the_divergence_a_metric_of_gradients_errs_on_both():
    """What these targets are for: total variation without Γ, and with it at no cost."""
    assert stepped(banana50(), "none") > 0.25
    assert stepped(banana50(), "pec") < 0.02
    assert stepped(gaussian50(), "none", steps=6000) > 0.18
    assert stepped(gaussian50(), "pec", steps=6000) < 0.02
