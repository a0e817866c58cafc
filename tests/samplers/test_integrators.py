"""Palindromic integrators: their order by the slope of the error, their reversibility, their cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from langevin.core.target import Density
from langevin.dynamics.integrators import INTEGRATORS, Phase, integrate
from langevin.dynamics.mass import DenseMetric, DiagonalMetric, IdentityMetric, kinetic

ORDER = {"verlet": 2, "mclachlan": 2, "omelyan": 4, "yoshida": 4}
START = np.array([1.2, -0.7]), np.array([0.3, 0.9])
TIME = 4.0


def pendula(x):
    """Two pendula: log p = Σ cos x, anharmonic and smooth."""
    return jnp.sum(jnp.cos(x))


EXACT = solve_ivp(
    lambda t, z: np.concatenate([z[2:], -np.sin(z[:2])]), (0, TIME), np.concatenate(START), rtol=1e-12, atol=1e-12
).y[:2, -1]


def end(name, h, time=TIME, phase=None):
    target = Density(pendula)
    evaluate = lambda x: target.evaluate((), x)
    q, p = (jnp.asarray(u, jnp.float32) for u in START)
    phase = phase or Phase(q, p, evaluate(q))
    return integrate(INTEGRATORS[name], evaluate, IdentityMetric().velocity, phase, h, round(time / abs(h)))


@pytest.mark.parametrize("name", INTEGRATORS)
def test_order(name):
    """Halving h divides the error by 2^p; steps are chosen so that both errors stand well above float32 rounding."""
    coarse = {"verlet": 0.2, "mclachlan": 0.4, "omelyan": 1.0, "yoshida": 0.25}[name]
    errors = [np.linalg.norm(np.asarray(end(name, h).position) - EXACT) for h in (coarse, coarse / 2)]
    assert errors[1] > 3e-6
    assert abs(np.log2(errors[0] / errors[1]) - ORDER[name]) < 0.35


@pytest.mark.parametrize("name", INTEGRATORS)
def test_reversible(name):
    """Forward, momentum flipped, forward again: back at the start."""
    there = end(name, 0.25)
    back = end(name, 0.25, phase=there._replace(momentum=-there.momentum))
    np.testing.assert_allclose(back.position, START[0], atol=2e-5)
    np.testing.assert_allclose(-back.momentum, START[1], atol=2e-5)


@pytest.mark.parametrize("name", INTEGRATORS)
def test_coefficients_are_consistent_palindromes(name):
    c = INTEGRATORS[name]
    assert c.kicks == c.kicks[::-1]
    assert c.drifts == c.drifts[::-1]
    assert sum(c.kicks) == pytest.approx(1.0)
    assert sum(c.drifts) == pytest.approx(1.0)
    assert c.n_grad == len(c.drifts) == len(c.kicks) - 1


@pytest.mark.parametrize("kind", ["identity", "diagonal", "dense"])
def test_metrics_agree_with_their_matrix(kind, key):
    """Momentum has covariance M, velocity is M⁻¹p, the root is M^−½ up to a rotation."""
    inverse = {
        "identity": np.eye(2),
        "diagonal": np.diag([0.25, 4.0]),
        "dense": np.array([[1.0, 0.6], [0.6, 2.0]]),
    }[kind]
    metric = {
        "identity": IdentityMetric(),
        "diagonal": DiagonalMetric(jnp.array([0.25, 4.0])),
        "dense": DenseMetric(jnp.asarray(inverse, jnp.float32)),
    }[kind]
    n = 1 << 16
    p = jax.vmap(lambda k: metric.momentum(k, jnp.zeros(2)))(jax.random.split(key, n))
    mass = np.linalg.inv(inverse)
    se = np.sqrt((mass**2 + np.outer(np.diag(mass), np.diag(mass))) / n)
    assert np.all(np.abs(np.cov(np.asarray(p), rowvar=False) - mass) / se < 5)
    np.testing.assert_allclose(metric.velocity(p[0]), inverse @ np.asarray(p[0]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kinetic(metric, p[0]), 0.5 * p[0] @ inverse @ p[0], rtol=1e-4)
    root = jax.vmap(metric.root)(jnp.eye(2)).T
    np.testing.assert_allclose(root @ root.T, inverse, rtol=1e-4, atol=1e-5)
