"""Metrics: roots, products and divergences against autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geometries import coupled, place
from jax.flatten_util import ravel_pytree
from quick import first

from langevin.core import noise, tree
from langevin.dynamics import divergence
from langevin.dynamics.metrics.block import Block
from langevin.dynamics.metrics.diagonal import RMS, Fixed
from langevin.dynamics.metrics.kronecker import Kronecker
from langevin.dynamics.metrics.monge import MongeMetric
from langevin.dynamics.metrics.position import Norms, Position, Squares

METRICS = {
    "smooth": RMS(0.7),
    "li": RMS(0.7, "li"),
    "block": Block(0.7, 0.5),
    "steep block": Block(0.7, 1.0),
    "low rank": MongeMetric(0.8),
    "low rank per leaf": MongeMetric(0.8, per="leaf"),
    "kronecker": Kronecker(0.3),
    "norms": Position(Norms(0.5)),
    "squares": Position(Squares(0.5)),
    "fixed": Fixed({"w": jnp.full((2, 3), 2.0), "b": jnp.full(2, 0.5)}),
}


def geometry_at(metric, position):
    grad = jax.grad(coupled)(position)
    memory = metric.update(metric.start(position), grad, jnp.zeros((), jnp.int32))
    return metric.geometry(memory, grad, position)


def matrix(metric, position, which="apply"):
    z, unravel = ravel_pytree(position)
    product = lambda v: ravel_pytree(getattr(metric, which)(geometry_at(metric, position), unravel(v)))[0]
    return jax.vmap(product)(jnp.eye(z.size, dtype=z.dtype)).T


@pytest.mark.parametrize("name", METRICS)
def test_roots_and_inverse_roots(name):
    D, R, S = (matrix(METRICS[name], place(), w) for w in ("apply", "root", "unroot"))
    np.testing.assert_allclose(R @ R.T, D, atol=2e-6)
    np.testing.assert_allclose(S @ R, np.eye(8), atol=1e-5)
    assert np.linalg.eigvalsh(np.asarray(D)).min() > 0


def gamma_by_autodiff(metric, position):
    z, unravel = ravel_pytree(position)
    jacobian = jax.jacfwd(lambda z: matrix(metric, unravel(z)))(z)
    return np.asarray(jnp.trace(jacobian, axis1=1, axis2=2))


def closed_form(name, position):
    """Γ of the notes' §3, with g and H by autodiff."""
    z, unravel = ravel_pytree(position)
    g, H = (f(lambda z: coupled(unravel(z)))(z) for f in (jax.grad, jax.hessian))
    if name == "smooth":
        return -g * jnp.diagonal(H) * (g**2 + 0.49) ** -1.5
    if name == "li":
        return -jnp.sign(g) * jnp.diagonal(H) / (0.7 + jnp.abs(g)) ** 2
    if name == "low rank":
        c = 0.8 / (1 + 0.8 * g @ g)
        return -c * H @ g - c * jnp.trace(H) * g + 2 * c**2 * (g @ H @ g) * g
    s, out = (0.5 if name == "block" else 1.0), []
    for part in (slice(0, 2), slice(2, 8)):  # "b" comes before "w"
        n, gb = part.stop - part.start, g[part]
        out.append(-2 * s / n * (jnp.mean(gb**2) + 0.49) ** (-s - 1) * (H[part, part] @ gb))
    return jnp.concatenate(out)


@pytest.mark.parametrize("name", first(2, ["low rank", "block", "li", "steep block", "smooth"]))
def test_gamma_by_autodiff_is_the_closed_form(name):
    """Both in float64: equal to 1e-6 relative, and our own `exact` with them."""
    with jax.enable_x64(True):
        position = jax.tree.map(lambda u: jnp.asarray(u, jnp.float64), place())
        metric = jax.tree.map(lambda u: jnp.asarray(u, jnp.float64), METRICS[name])
        want = np.asarray(closed_form(name, position))
        apply = lambda p, v: metric.apply(geometry_at(metric, p), v)
        ours = np.asarray(ravel_pytree(divergence.exact(apply, position))[0])
        np.testing.assert_allclose(gamma_by_autodiff(metric, position), want, rtol=1e-6)
        np.testing.assert_allclose(ours, want, rtol=1e-6)


@pytest.mark.parametrize("name", ["norms", "squares"])
def test_gamma_of_a_metric_of_position_alone_is_closed(name):
    metric = METRICS[name]
    ours = ravel_pytree(metric.divergence(place()))[0]
    np.testing.assert_allclose(gamma_by_autodiff(metric, place()), ours, rtol=1e-5)


@pytest.mark.parametrize("name", [pytest.param("kronecker", marks=pytest.mark.slow), "low rank per leaf", "smooth"])
def test_probes_are_unbiased_and_end_point_noise_is_not_for_dense_metrics(name, key):
    """Shampoo's Γ by probes: Hutchinson, finite differences and Fixman's noise within 4 standard errors of autodiff."""
    metric, position, n = METRICS[name], place(), 20_000
    want = gamma_by_autodiff(metric, position)
    here = geometry_at(metric, position)
    apply = lambda p, v: metric.apply(geometry_at(metric, p), v)
    s = 0.02

    def probes(k):
        k_sign, k_noise = jax.random.split(k)
        v, xi = noise.like(k_sign, position, "rademacher"), noise.like(k_noise, position)
        hutchinson = divergence.along(apply, position, metric.root(here, v), metric.unroot(here, v))
        rfd = divergence.rfd(apply, position, v, metric.apply(here, v), 3e-3)
        # noise at both signs of ξ: the odd part, which is pure noise, cancels
        kick = metric.root(here, xi)
        there, back = (geometry_at(metric, tree.axpy(a, kick, position)) for a in (s, -s))
        u = metric.unroot(here, xi)
        fixman = tree.scale(0.5 / s, tree.sub(metric.apply(there, u), metric.apply(back, u)))
        endpoint = tree.scale(1 / s, tree.sub(metric.root(there, xi), metric.root(back, xi)))
        return [ravel_pytree(p)[0] for p in (hutchinson, rfd, fixman, endpoint)]

    values = jax.jit(jax.vmap(probes))(jax.random.split(key, n))
    z = [np.abs((np.asarray(v).mean(0) - want) / (np.asarray(v).std(0) / np.sqrt(n))).max() for v in values]
    assert max(z[:3]) < 4, z
    if metric.diagonal:
        assert z[3] < 4, "the end-point rule is right for a diagonal metric"
    else:
        assert z[3] > 20, "the end-point rule must fail for a dense metric, or this test sees nothing"
