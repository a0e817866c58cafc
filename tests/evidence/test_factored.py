"""Factored targets: factors, bounds, anchors and tickets; and what is said of bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factored_regression import RUNGS, SIGMA, SIZE, D, N, bernoulli, gaussian, made, truth

from langevin.core.target import Target
from langevin.evidence import ZigZag
from langevin.evidence.minibatch import factored, zigzag_process
from langevin.evidence.minibatch.factored import Factored, linear, logistic
from langevin.targets.path import Annealed

# --- the targets -------------------------------------------------------------------------------------------------


@jax.jit
def compared(target, anchor, index, step):
    """Pairs that must agree, the change of the factors' gradients, and its bound."""
    position = anchor.position + step
    found = target.factors(index, position)
    few = jax.tree.map(lambda u: u[index], target.data)
    each = lambda u: target.likelihood(u, few)
    whole = lambda u: target.log_density(u) - target.prior(u)
    a = anchor.position
    pairs = [
        (found.values, each(position)),
        (found.grads, jax.jacobian(each)(position)),
        (target.bend(index, position, anchor), jnp.einsum("ijk,j,k->i", jax.hessian(each)(a), step, step)),
        (anchor.log_likelihood, whole(a)),
        (anchor.grad, jax.grad(whole)(a)),
        (anchor.hessian, jax.hessian(whole)(a)),
    ]
    bound = target.bound(anchor)[index] * jnp.linalg.norm(step / anchor.scale)
    slope = jnp.linalg.norm(anchor.scale * jax.grad(target.log_density)(a))
    return pairs, jnp.abs(found.grads - anchor.factors.grads[index]), bound, slope


@pytest.mark.parametrize("target", [gaussian, bernoulli])
def test_factors_bounds_and_anchor(key, target):
    k_index, k_step = jax.random.split(key)
    anchor, index = made(target).anchor, jax.random.randint(k_index, (40,), 0, N)
    for step in 3 * jax.random.normal(k_step, (5, D)):
        pairs, change, bound, slope = compared(target(), anchor, index, step)
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-3)
        assert bool((change <= bound * (1 + 1e-4) + 1e-6).all())
        assert float(slope) < 0.05  # the mode
    # along x_i, in the anchor's metric, the Gaussian bound is an equality: no smaller one would do
    step = anchor.scale**2 * target().data["x"][index[0]]
    _, change, bound, _ = compared(target(), anchor, index, step)
    if target is gaussian:
        np.testing.assert_allclose(change[0], bound[0], rtol=1e-3, atol=1e-5)


def test_tickets():
    held = made().tickets
    for j in range(D):
        drawn = np.bincount(np.asarray(held.tickets[j, : int(held.held[j])]), minlength=N)
        np.testing.assert_allclose(drawn / drawn.sum(), held.chance[:, j], rtol=1e-5)
    c = gaussian().bound(made().anchor)
    ratio = np.asarray(held.limit / jnp.sum(c, axis=0))
    assert ((ratio > 1) & (ratio < 1.51)).all()
    uniform = made(choice="uniform").tickets
    np.testing.assert_allclose(uniform.limit, N * jnp.max(c, axis=0), rtol=1e-5)
    assert (np.asarray(uniform.limit) > 2 * np.asarray(held.limit)).all()


def test_speeds_are_standard_deviations():
    beta = np.array([0.01, 0.5, 1.0])
    exact = np.stack([np.sqrt(np.diag(truth(gaussian(), b)[1])) for b in beta])
    np.testing.assert_allclose(made().speeds(jnp.asarray(beta)), exact, rtol=1e-4)
    np.testing.assert_allclose(made().anchor.scale, exact[-1], rtol=1e-4)


def test_a_regression_is_a_target_like_others(key):
    target = gaussian()
    assert isinstance(target, Target)
    assert isinstance(target, Factored)
    assert not target.stochastic
    small = linear(target.data["x"], target.data["y"], sigma=SIGMA, batch=10)
    assert small.stochastic
    batch, _ = small.draw(key, small.start(key))
    assert int(small.evaluate(batch, jnp.zeros(D)).n_data) == 10
    half = Annealed(target).at(0.5).log_density(jnp.ones(D))
    both = 0.5 * (target.log_density(jnp.ones(D)) + target.prior(jnp.ones(D)))
    np.testing.assert_allclose(half, both, rtol=1e-5)


# --- bad input ---------------------------------------------------------------------------------------------------


def test_a_broken_bound_is_told(key, monkeypatch):
    halved = lambda bound, choice: factored.assign_tickets(0.5 * bound, choice)
    monkeypatch.setattr(zigzag_process, "assign_tickets", halved)
    with pytest.raises(ValueError, match="times beyond the bound"):
        ZigZag(anchor=made().anchor, ladder=RUNGS, **SIZE)(key, gaussian())


def test_bad_input(key):
    target = gaussian()
    x, y = target.data["x"], target.data["y"]
    wrong = [
        (dict(particles=1), "particles is 1"),
        (dict(duration=0.0), "duration is 0.0"),
        (dict(batch=0), "batch is 0"),
        (dict(order=3), "order is 3"),
        (dict(weight="harmonic"), "weight is 'harmonic'"),
        (dict(choice="all"), "choice is 'all'"),
        (dict(ladder=[0.0, 0.5]), "begins with 0 and ends with 1"),
    ]
    for given, words in wrong:
        with pytest.raises(ValueError, match=words):
            ZigZag(anchor=made().anchor, **given)(key, target)
    with pytest.raises(TypeError, match="is no factored target"):
        ZigZag()(key, Annealed(target).at(1.0))
    for bad, words in (
        (lambda: linear(x, y[:5]), r"y \(5,\)"),
        (lambda: linear(x.at[0, 0].set(jnp.nan), y), "not finite"),
        (lambda: linear(x, y, scale=0.0), "scale of the prior must be positive"),
        (lambda: linear(x, y, sigma=-1.0), "sigma is -1.0"),
        (lambda: logistic(x, y), "other than 0 and 1"),
    ):
        with pytest.raises(ValueError, match=words):
            bad()
