"""The loop: results do not depend on how it is cut, nothing compiles twice, and what is kept is what was asked for."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_run import SGHMC_, START, TARGET, flat, go, parabola, same

from langevin.core.advance import _first, advance
from langevin.core.begin import begin_all
from langevin.core.kernel import Kernel, replace
from langevin.core.record import record
from langevin.core.target import Density
from langevin.core.types import Info, Law, State
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.samplers.wrappers.guard import Guard
from langevin.samplers.wrappers.thin import Thin

COMPILED: list[str] = []


jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


# --- results do not depend on how the loop is cut ---------------------------------------------------------------


@pytest.mark.parametrize("thin", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_draws_do_not_depend_on_chunks(thin):
    one, *others = (go(thin=thin, chunk=chunk) for chunk in (50, 7, 100))
    for other in others:
        same(one, other)


@pytest.mark.parametrize(
    ("kernel", "thin"),
    [(Thin(SGLD(0.01), n=4), 3), (Guard(Thin(SGLD(0.01), n=2)), 1), (Cyclical(SGLD(0.01), 20), 1)],
    ids=["thin", "guard-thin", "cyclical"],
)
def test_nor_do_those_of_kernels_made_of_kernels(kernel, thin):
    """`count` may advance by more than one a step."""
    same(*(go(kernel=kernel, target=Density(parabola), thin=thin, draws=40, chunk=chunk) for chunk in (40, 7)))


def test_a_run_goes_on_from_its_states_and_its_key():
    """Two runs in a row with the same key are one: the key of a draw depends on the steps before it."""
    whole = go()
    first = go(draws=30)
    second = go(start=first.states, draws=70)
    same(second.states, whole.states)
    np.testing.assert_array_equal(np.concatenate([first.kept, second.kept], axis=1), whole.kept)
    # another key gives another continuation
    assert not np.array_equal(go(2, start=first.states, draws=70).kept, second.kept)


def test_no_two_draws_share_their_noise():
    """On a flat target with h = ½ the steps of SGLD are its noise."""
    x = go(kernel=SGLD(0.5), target=Density(flat_density), draws=200, chunk=64).kept
    steps = np.diff(x, axis=1).reshape(-1, 3)
    assert len(np.unique(np.round(steps, 5), axis=0)) == len(steps)


def flat_density(x):
    return jnp.zeros(())


def test_warm_up_is_run_and_not_kept():
    whole = go()
    late = go(draws=60, warmup=40, chunk=25)
    np.testing.assert_array_equal(late.kept, whole.kept[:, 40:])
    same(late.states, whole.states)
    assert int(late.states.count) == 100


@pytest.mark.parametrize("kernel", [SGHMC_, Thin(SGLD(0.01), n=4)], ids=["sghmc", "thin"])
def test_the_layout_of_chains_does_not_matter(kernel, key):
    k_init, k_run = jax.random.split(key)
    states = begin_all(k_init, kernel, TARGET, START)
    go_on = partial(advance, kernel=kernel, target=TARGET, states=states, length=20, thin=2)
    one, two = (go_on(jax.random.clone(k_run), layout=layout) for layout in ("vmap", "map"))
    assert one.states.count.shape == two.states.count.shape == ()
    for u, v in zip(flat(one), flat(two), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-5)


def test_large_positions_are_laid_out_one_after_the_other():
    from langevin.core.sharding import LARGE, layout

    assert layout(np.zeros((4, 10)), 4) == "vmap"
    assert layout(np.zeros((4, LARGE + 1)), 4) == "map"
    assert layout(np.zeros((1, LARGE + 1)), 1) == "vmap"
    assert layout(np.zeros((4, LARGE + 1)), 4, "gpu") == "vmap"


def test_the_first_n_iterations_of_a_scan():
    """Blocks, as on an accelerator, or one by one: the same, and zeros beyond."""
    body = lambda c, x: (c + x, c * x)
    xs = jnp.arange(1.0, 11.0)
    for block in (1, 3, 64):
        first = jax.jit(lambda n: _first(n, body, 0.0, xs, 10, block))
        for n in (0, 1, 3, 7, 10):
            carry, out = first(n)
            expected, ys = jax.lax.scan(body, 0.0, xs[:n])
            assert carry == expected
            np.testing.assert_array_equal(out, np.concatenate([ys, np.zeros(10 - n)]))


# --- nothing compiles twice ---------------------------------------------------------------------------------------


def test_the_last_chunk_does_not_compile():
    go(draws=50)
    before = len(COMPILED)
    assert before > 0
    go(draws=73)
    go(draws=120)
    assert len(COMPILED) == before


def test_new_numbers_do_not_compile():
    go()
    data = {"x": np.asarray(TARGET.data["x"]) + np.float32(1), "y": 1 - np.asarray(TARGET.data["y"])}
    kernel = replace(SGHMC_, friction=jnp.asarray(3.0))
    before = len(COMPILED)
    go(seed=2)
    go(kernel=SGHMC(step_size=np.float64(0.01), temperature=1, friction=np.int32(2)), start=START + 1)
    go(kernel=kernel, draws=7, warmup=3)
    go(target=replace(TARGET, data=data))
    assert len(COMPILED) == before


def test_a_visit_may_change_the_kernel_without_compiling():
    seen = []

    def slower(progress):
        seen.append(float(progress.kernel.step_size))
        return progress._replace(kernel=replace(progress.kernel, step_size=seen[-1] / 2))

    go(draws=150)
    before = len(COMPILED)
    out = go(draws=150, callbacks=(slower,))
    assert len(COMPILED) == before
    np.testing.assert_allclose(seen, [0.02, 0.01, 0.005], rtol=1e-6)
    steps = np.abs(np.diff(out.kept, axis=1)).mean((0, 2))
    assert steps[:49].mean() > 1.3 * steps[50:99].mean() > 1.3**2 * steps[100:].mean()


# --- what is kept -------------------------------------------------------------------------------------------------


@record
class Counting(Kernel):
    """Adds 1 to the position a step; its Info tells the step, so that every reduction can be checked."""

    def init(self, key, position, target):
        evaluation = target.evaluate((), position)
        return State(position, (), (), evaluation, (), jnp.zeros((), jnp.int32))

    def step(self, key, state, target):
        t = state.count + 1
        f = t.astype(jnp.float32)
        info = Info(f, -f, 1 / f, 10 * f, t, 2 * t, t != 5)
        return state._replace(position=state.position + 1.0, count=t), info

    def law(self):
        return Law("wrong", 0.0, None, "none")


def test_thin_and_its_reductions():
    with pytest.warns(UserWarning, match="diverged"):
        out = go(kernel=Counting(), target=Density(flat_density), start=np.zeros((2, 1)), draws=4, thin=3, chunk=4)
    np.testing.assert_array_equal(out.kept[..., 0], [[3, 6, 9, 12]] * 2)
    info = out.info
    np.testing.assert_array_equal(info.log_density[0], [3, 6, 9, 12])
    np.testing.assert_array_equal(info.log_weight[0], [-3, -6, -9, -12])
    np.testing.assert_allclose(info.acceptance[0, 0], (1 + 1 / 2 + 1 / 3) / 3, rtol=1e-6)
    np.testing.assert_array_equal(info.energy_error[1], [30, 60, 90, 120])
    np.testing.assert_array_equal(info.n_grad[1], [6, 15, 24, 33])
    np.testing.assert_array_equal(info.n_data[1], [12, 30, 48, 66])
    np.testing.assert_array_equal(info.ok[1], [True, False, True, True])


def norm(state):
    return {"norm": jnp.sum(state.position**2), "count": state.count}


@record
class Predictions:
    """Keep predictions only. x: inputs, (n, d)."""

    x: jax.Array

    def __call__(self, state):
        return jax.nn.sigmoid(self.x @ state.position)


def test_keep_is_a_function_or_a_record():
    whole = go(draws=60)
    some = go(draws=60, collect=norm)
    np.testing.assert_allclose(some.kept["norm"], (whole.kept**2).sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(some.kept["count"], np.tile(np.arange(1, 61), (4, 1)))
    x = np.asarray(TARGET.data["x"][:5])
    predictions = go(draws=60, collect=Predictions(x)).kept
    assert predictions.shape == (4, 60, 5)
    np.testing.assert_allclose(predictions, 1 / (1 + np.exp(-whole.kept @ x.T)), rtol=1e-4)
    before = len(COMPILED)
    go(draws=60, collect=Predictions(x + np.float32(1)))
    assert len(COMPILED) == before, "new inputs are data"
