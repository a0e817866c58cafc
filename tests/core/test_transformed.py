"""Constrained parameters: bijections, their Jacobians, and densities that integrate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from posteriors import FREE, POINT, close, posterior

from langevin.core.target import Density
from langevin.targets import transformed as bijected
from langevin.targets.transformed import Interval, Ordered, Positive, Real, Simplex, Transformed

MAPS = {
    "real": (Real(), (3,)),
    "positive": (Positive(), (3,)),
    "interval": (Interval(-1.0, 2.5), (3,)),
    "simplex": (Simplex(), (3,)),
    "ordered": (Ordered(), (4,)),
}


@pytest.mark.parametrize("name", MAPS)
def test_bijection(name, key):
    """log_det is that of the Jacobian, forward undoes inverse, and batches of vectors are summed."""
    bijection, shape = MAPS[name]
    u = jax.random.normal(key, (2, *shape))
    free = (lambda v: bijection.forward(v)[:-1]) if name == "simplex" else bijection.forward
    dense = jax.jit(jax.vmap(lambda row: jnp.linalg.slogdet(jax.jacfwd(free)(row))[1]))(u)
    np.testing.assert_allclose(jax.jit(bijection.log_det)(u), dense.sum(), atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda u: bijection.inverse(bijection.forward(u)))(u), u, atol=1e-5)


def test_bijections_land_where_they_should(key):
    u = np.asarray(2.0 * jax.random.normal(key, (50, 4)))
    positive, interval, simplex, ordered = (
        jax.jit(b.forward) for b in (Positive(), Interval(2, 3), Simplex(), Ordered())
    )
    assert np.all(np.asarray(positive(u)) > 0)
    assert np.all(np.abs(np.asarray(interval(u)) - 2.5) < 0.5)
    x = np.asarray(simplex(u))
    assert x.shape == (50, 5)
    assert np.all(x > 0)
    np.testing.assert_allclose(x.sum(-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(simplex(np.zeros(4)), 0.2, atol=1e-6)
    np.testing.assert_allclose(simplex(np.zeros(0)), 1.0)
    assert np.all(np.diff(np.asarray(ordered(u)), axis=-1) > 0)


@pytest.mark.parametrize("name", MAPS)
def test_bijections_far_in_the_tails(name):
    """Values stay inside the domain, and values and derivatives stay finite, for any finite u in float32."""
    bijection, shape = MAPS[name]

    @jax.jit
    @jax.vmap
    def all_of(far):
        u = jnp.full(shape, far)
        forward, log_det = bijection.forward, bijection.log_det
        return forward(u), jax.jacrev(forward)(u), log_det(u), jax.grad(log_det)(u)

    values = all_of(jnp.array([-1e9, -300.0, -30.0, 30.0, 300.0, 1e9]))
    assert all(np.all(np.isfinite(value)) for value in values)
    x = values[0]
    if name in ("positive", "simplex"):
        assert np.all(x > 0)
    if name == "interval":
        assert np.all((x > -1.0) & (x < 2.5))


def gammas(p):
    return 3.0 * jnp.sum(jnp.log(p["r"])) - jnp.sum(p["r"]) + 2.0 * jnp.sum(jnp.log1p(-p["q"])) + jnp.sum(p["f"] ** 2)


@pytest.mark.parametrize("u", [-500.0, 100.0])
def test_gradient_goes_on_past_the_border(u):
    """3 log x + u has gradient 4 as u → −∞, although x no longer moves in float32."""
    target = Transformed(Density(gammas), {"r": Positive(), "q": Interval()})
    position = {"r": jnp.asarray(u), "q": jnp.asarray(u), "f": jnp.asarray(0.0)}
    there = jax.jit(target.evaluate)((), position)
    assert np.isfinite(there.log_density)
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(there.grad))
    if u < 0:
        np.testing.assert_allclose(there.grad["r"], 4.0, atol=1e-4)


def test_bijected_density_is_the_change_of_variables():
    """Against log p(f(u)) + log |det J| with a dense Jacobian of the whole tree."""
    target = Transformed(posterior(), FREE)
    flat, unravel = ravel_pytree(POINT)

    @jax.jit
    def both(u):
        dense = jax.jacfwd(lambda u: ravel_pytree(target.constrain(unravel(u)))[0])(u)
        x = target.constrain(unravel(u))
        expected = posterior().log_density(x) + jnp.linalg.slogdet(dense)[1]
        return expected, target.log_density(unravel(u)), target.unconstrain(x)

    expected, value, back = both(flat)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    close(back, POINT, 1e-5)


def test_bijections_as_a_prefix():
    position = {"net": {"w": jnp.ones(2), "b": jnp.zeros(())}, "pair": (jnp.ones(2), jnp.zeros(2)), "s": jnp.ones(())}
    target = Transformed(Density(gammas), {"net": Positive(), "pair": (Real(), Ordered())})
    x = target.constrain(position)
    np.testing.assert_allclose(x["net"]["b"], 1.0)
    np.testing.assert_allclose(x["pair"][1], [0.0, 1.0])
    np.testing.assert_allclose(x["s"], 1.0)
    with pytest.raises(ValueError, match="no 'sigma' in the position"):
        Transformed(Density(gammas), {"sigma": Positive()}).constrain(position)
    with pytest.raises(TypeError, match="not a bijection"):
        Transformed(Density(gammas), {"s": Positive}).constrain(position)
    np.testing.assert_allclose(bijected.each(lambda b, u: u, Real(), jnp.ones(2)), 1.0)
