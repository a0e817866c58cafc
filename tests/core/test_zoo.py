"""The zoo: densities that integrate, gradients against autodiff, draws that match their moments."""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from posteriors import ZOO

from langevin.targets import zoo


@cache
def drawn(name, n=1 << 16, h=3e-3):
    """All that is asked of a zoo target in one program: n exact draws as a matrix, the log density at each, the
    stated moments, and at the first draw the gradient, central differences, and evaluate − log_density."""
    target = ZOO[name]

    @jax.jit
    def everything(key):
        x = target.exact(key, n)
        position = jax.tree.map(lambda u: u[0], x)
        assert jax.tree.map(jnp.shape, position) == jax.tree.map(jnp.shape, target.mean)
        density = jax.vmap(target.log_density)(x)
        flat, unravel = ravel_pytree(position)
        at = jax.vmap(lambda step: target.log_density(unravel(flat + h * step)))
        there, basis = target.evaluate((), position), jnp.eye(flat.size)
        grads = ravel_pytree(there.grad)[0], (at(basis) - at(-basis)) / (2 * h), there.log_density - density[0]
        known = [what for what in ("mean", "variance", "fourth", "cov") if hasattr(target, what)]
        moments = {what: ravel_pytree(getattr(target, what))[0] for what in known}
        return jax.vmap(lambda p: ravel_pytree(p)[0])(x), density, moments, grads

    out = everything(jax.random.key(list(ZOO).index(name)))
    return jax.tree.map(lambda u: np.asarray(u, np.float64), out)


@pytest.mark.parametrize("name", ZOO)
def test_zoo_gradient(name):
    grad, differences, gap = drawn(name)[3]
    np.testing.assert_allclose(differences, grad, atol=0.01 * (1 + np.max(np.abs(grad))))
    np.testing.assert_allclose(gap, 0.0, atol=1e-4)


@pytest.mark.parametrize("name", ZOO)
def test_zoo_moments(name):
    """Exact draws have the mean, variance, covariance and fourth moment the target states."""
    x, _, stated, _ = drawn(name)
    centred = x - stated["mean"]
    products = centred[:, :, None] * centred[:, None, :]
    values = {"variance": centred**2, "fourth": centred**4, "cov": products.reshape(len(x), -1)}
    for what, truth in {**stated, "mean": 0.0}.items():
        value = values.get(what, centred)
        z = (value.mean(0) - truth) / (value.std(0) / math.sqrt(len(x)))
        assert np.all(np.abs(z) < 5), f"{what} of {name}: z = {np.round(z, 1)}"


@pytest.mark.parametrize("name", [n for n in ZOO if n not in ("rings", "disc", "grid")])
def test_zoo_draws_follow_the_density(name):
    """E q/p = 1 under exact draws x of p, with q a product of narrow uniforms inside the bulk: p is normalised, and
    normalised where the draws are."""
    flat, density, _, _ = drawn(name)
    low, high = np.quantile(flat, [0.25, 0.75], axis=0)
    inside = np.all((flat > low) & (flat < high), axis=1)
    values = np.where(inside, np.exp(-density - np.sum(np.log(high - low))), 0.0)
    z = (values.mean() - 1.0) / (values.std() / math.sqrt(len(flat)))
    assert inside.sum() > 100
    assert abs(z) < 5, f"{name}: ∫ is off by z = {z:.1f}"


PLANES = {"gaussian": 12.0, "banana": 40.0, "mixture": 10.0, "grid": 8.0, "rings": 8.0, "disc": 6.0}


@pytest.mark.parametrize("name", PLANES)
def test_plane_integrates_to_one(name):
    target, half, m = ZOO[name], PLANES[name], 1200
    line = jnp.linspace(-half, half, m)
    rows = jax.jit(lambda a: jnp.sum(jnp.exp(jax.vmap(lambda b: target.log_density(jnp.stack([a, b])))(line))))
    total = float(jnp.sum(jax.lax.map(rows, line, batch_size=100))) * (2 * half / (m - 1)) ** 2
    assert abs(math.log(total) - target.log_z) < 1e-3


@pytest.mark.parametrize("name", ["rings", "disc"])
def test_rings_variance_by_quadrature(name):
    """½ E r² of the radial law r Σ exp(−(r − r_k)²/2w²), where the draws alone would not tell."""
    target, r = ZOO[name], np.linspace(0, 12, 20_001)
    law = r * sum(np.exp(-0.5 * ((r - float(m)) / float(target.width)) ** 2) for m in target.radii)
    np.testing.assert_allclose(target.variance, 0.5 * (law @ r**2) / law.sum(), rtol=1e-4)


def test_rings_at_the_centre():
    there = jax.jit(ZOO["rings"].evaluate)((), jnp.zeros(2))
    assert np.all(np.isfinite(there.grad))
    assert np.isfinite(there.log_density)


def test_conditioned():
    np.testing.assert_allclose(np.linalg.cond(ZOO["rotated"].cov), 100.0, rtol=1e-3)
    np.testing.assert_allclose(np.max(ZOO["diagonal"].variance) / np.min(ZOO["diagonal"].variance), 100.0, rtol=1e-5)
    assert abs(ZOO["rotated"].cov[0, 1]) > 1e-3
    with pytest.raises(ValueError, match="it must be even"):
        zoo.Banana(d=3)
    with pytest.raises(ValueError, match="do not fit"):
        zoo.Mixture([1.0], np.zeros((2, 2)), np.ones((2, 2)))


def test_eight_schools_reference_by_quadrature():
    """τ on a grid, μ and t integrated out as Gaussians: the stated moments and log_z, and the density."""
    target = zoo.EightSchools()
    y, s = (np.asarray(u, np.float64)[:, None] for u in (target.y, target.sigma))
    log_tau = np.linspace(-20, 12, 40_001)
    tau, v = np.exp(log_tau), s**2 + np.exp(2 * log_tau)
    precision = 1 / 25 + np.sum(1 / v, 0)
    m = np.sum(y / v, 0) / precision
    log_w = -0.5 * np.sum(np.log(2 * np.pi * v) + y**2 / v, 0) - 0.5 * np.log(25 * precision) + 0.5 * m**2 * precision
    w = np.exp(log_w + log_tau) * 2 / (5 * np.pi * (1 + (tau / 5) ** 2)) * (log_tau[1] - log_tau[0])
    np.testing.assert_allclose(np.log(w.sum()), target.log_z, atol=1e-5)
    p = w / w.sum()
    second = {"mu": p @ (m**2 + 1 / precision), "tau": p @ tau**2, "log_tau": p @ log_tau**2}
    for name, first in {"mu": p @ m, "tau": p @ tau, "log_tau": p @ log_tau}.items():
        np.testing.assert_allclose((first, math.sqrt(second[name] - first**2)), target.reference[name], atol=1e-5)
    # the joint density at t, μ of one τ: p(τ, y) = p(τ, μ, t, y) / p(μ, t | τ, y), checked at the conditional mode
    place = 25_000
    position = {"mu": jnp.asarray(m[place]), "log_tau": jnp.asarray(log_tau[place])}
    position["t"] = jnp.asarray(tau[place] * (y - m[place])[:, 0] / v[:, place])
    flat, unravel = ravel_pytree((position["mu"], position["t"]))
    joint = lambda u: target.log_density({**position, "mu": unravel(u)[0], "t": unravel(u)[1]})
    hessian = np.asarray(jax.jit(jax.hessian(joint))(flat), np.float64)
    laplace = jax.jit(joint)(flat) + 4.5 * math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(-hessian)[1]
    np.testing.assert_allclose(laplace, np.log(w[place] / (log_tau[1] - log_tau[0])), atol=1e-3)


def test_logistic_truth(key):
    """The importance sampler's moments against a grid, in two dimensions."""
    k_data, k_truth = jax.random.split(key)
    target = zoo.logistic(k_data, 60, 2, batch=6)
    assert jax.eval_shape(target.draw, k_truth, ())[0]["x"].shape == (6, 2)
    truth = jax.jit(zoo.laplace_truth, static_argnums=2)(jax.random.key(5), target, 2)
    line = jnp.linspace(-6.0, 6.0, 301)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = np.asarray(jax.lax.map(target.log_density, jnp.asarray(grid), batch_size=4096), np.float64)
    p = np.exp(log_p - log_p.max())
    mean = p @ grid / p.sum()
    variance = p @ (grid - mean) ** 2 / p.sum()
    error = np.sqrt(variance / float(truth.ess))
    assert truth.ess > 10_000
    assert np.all(np.abs(truth.mean - mean) < 5 * error)
    assert np.all(np.abs(truth.variance - variance) < 5 * variance * math.sqrt(3.0 / float(truth.ess)))
    log_z = np.log(p.sum() * 0.04**2) + log_p.max()
    assert abs(float(truth.log_z) - log_z) < 5 * math.sqrt(1 / float(truth.ess))
