"""Kernels of several chains, annealing, and gradients through the loop."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_run import SGHMC_, START, go, identity, parabola, same

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import Kernel, PerChain, refresh
from langevin.core.posterior import sample
from langevin.core.record import record
from langevin.core.target import Density
from langevin.core.types import Info, Law, State
from langevin.samplers.sgld import SGLD

# --- kernels of several chains ----------------------------------------------------------------------------------


def test_every_chain_may_have_its_own_numbers():
    """Without noise x ← (1 − h) x: each chain shrinks by its own step size."""
    steps = np.array([0.1, 0.2, 0.3, 0.5], np.float32)
    kernel = PerChain(SGLD(step_size=jnp.asarray(steps), temperature=jnp.zeros(4)))
    start = np.ones((4, 2), np.float32)
    out = go(kernel=kernel, target=Density(parabola), start=start, draws=5, chunk=3)
    expected = (1 - steps[:, None]) ** np.arange(1, 6)
    np.testing.assert_allclose(out.kept[..., 0], expected, rtol=1e-5)
    mapped = advance(
        noise.key(0, impl="hash"), kernel, Density(parabola), begin_all(noise.key(1), kernel, Density(parabola), start),
        length=5, layout="map",
    )  # fmt: skip
    np.testing.assert_allclose(mapped.kept[..., 0], expected, rtol=1e-5)


def test_equal_numbers_per_chain_are_one_kernel():
    kernel = PerChain(jax.tree.map(lambda u: jnp.full(4, u), SGHMC_))
    same(go(kernel=kernel, draws=20), go(draws=20))


@record
class Exchange(Kernel):
    """Two replicas: the first adds 1, the second 10; they swap whenever `count` is odd. The second is not collected."""

    group = 2

    def init(self, key, position, target):
        assert key.shape == ()
        evaluation = jax.vmap(partial(target.evaluate, ()))(position)
        return State(position, (), (), evaluation, (), jnp.zeros((), jnp.int32))

    def step(self, key, state, target):
        moved = state.position + jnp.array([[1.0], [10.0]])
        position = jax.lax.cond(state.count % 2 == 1, lambda x: x[::-1], lambda x: x, moved)
        evaluation = jax.vmap(partial(target.evaluate, ()))(position)
        zeros, ones = jnp.zeros(2), jnp.ones(2, jnp.int32)
        weight = jnp.array([0.0, -jnp.inf])
        info = Info(evaluation.log_density, weight, zeros, zeros, ones, ones, jnp.ones(2, bool))
        return state._replace(position=position, eval=evaluation, count=state.count + 1), info

    def law(self):
        return Law("exact", 0.0, None, "none")


@pytest.mark.parametrize("layout", ["vmap", "map"])
def test_groups_of_chains(layout):
    start = np.array([[0.0], [100.0], [0.5], [100.5]], np.float32)
    kernel, target = Exchange(), Density(parabola)
    states = begin_all(noise.key(0), kernel, target, start)
    out = advance(noise.key(1), kernel, target, states, length=4, layout=layout)
    pair = np.array([[1, 120, 121, 132], [110, 11, 21, 131]], np.float32)
    # after an even step replicas move; after an odd one they have swapped
    x = np.array([0.0, 100.0])
    for t in range(4):
        x = x + [1, 10]
        x = x[::-1] if t % 2 else x
        pair[:, t] = x
    np.testing.assert_array_equal(out.kept[:, :, 0], np.concatenate([pair, pair + 0.5]))
    np.testing.assert_array_equal(out.info.log_weight[:, 0], [0, -np.inf, 0, -np.inf])
    np.testing.assert_array_equal(out.states.position[:, 0], out.kept[:, -1, 0])
    np.testing.assert_allclose(out.info.log_density, -0.5 * np.asarray(out.kept[:, :, 0]) ** 2, rtol=1e-6)


def test_a_hot_replica_is_left_out_of_averages():
    post = sample(noise.key(1), Exchange(), Density(parabola), np.zeros((4, 1), np.float32), draws=4, chunk=4)
    np.testing.assert_allclose(post.expect(identity), post.draws[::2].mean((0, 1)), rtol=1e-6)


def test_chains_that_do_not_fill_a_group_are_refused():
    with pytest.raises(ValueError, match="run: 3 chains cannot be viewed in groups of 2; start a multiple of it"):
        go(kernel=Exchange(), target=Density(parabola), start=np.zeros((3, 1)))


# --- annealing and gradients --------------------------------------------------------------------------------------


def narrow(x):
    """Unnormalised N(1, ¼) in two dimensions: log Z = log(2π/4)."""
    return -2.0 * jnp.sum((x - 1.0) ** 2)


def test_refresh_keeps_momentum_and_evaluates_anew(key):
    k_init, k_refresh = jax.random.split(key)
    states = begin_all(k_init, SGHMC_, Density(parabola), START)
    one = jax.tree.map(lambda u: u[0], states._replace(count=states.count[None]))
    there = refresh(k_refresh, one, Density(narrow))
    same((there.position, there.aux), (one.position, one.aux))
    np.testing.assert_allclose(there.eval.log_density, narrow(one.position), rtol=1e-6)


def test_gradients_flow_through_advance(key):
    """d/dh of x₀ (1 − h)^T, exactly; through noise too, against a finite difference."""
    k_init, k_run = jax.random.split(key)
    target, start = Density(parabola), np.ones((2, 1), np.float32)
    states = begin_all(k_init, SGLD(0.1, temperature=0.0), target, start)

    def end(h, temperature):
        kernel = SGLD(step_size=h, temperature=temperature)
        out = advance(jax.random.clone(k_run), kernel, target, states, length=10, layout="vmap")
        return jnp.mean(out.kept[:, -1])

    # not at T = 0, where √T has no derivative
    np.testing.assert_allclose(jax.grad(end)(jnp.float32(0.1), 1e-14), -10 * 0.9**9, rtol=1e-5)
    noisy, d = jax.grad(end)(jnp.float32(0.1), 1.0), 1e-3
    finite = (end(jnp.float32(0.1 + d), 1.0) - end(jnp.float32(0.1 - d), 1.0)) / (2 * d)
    np.testing.assert_allclose(noisy, finite, rtol=1e-2)
