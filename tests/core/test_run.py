"""The loop: results do not depend on how it is cut, nothing compiles twice, and what goes wrong is said in words."""

import io
import signal
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core import noise
from langevin.core import run as loop
from langevin.core.advance import _first, advance
from langevin.core.callbacks import EarlyStop, ProgressBar, Watch
from langevin.core.kernel import Kernel, PerChain, named, refresh, replace
from langevin.core.posterior import sample
from langevin.core.record import record
from langevin.core.run import begin_all, run
from langevin.core.target import Density
from langevin.core.types import Info, Law, Progress, State
from langevin.samplers.hmc import HMC
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.samplers.wrappers.guard import Guard
from langevin.samplers.wrappers.thin import Thin
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Scales, logistic

TARGET = logistic(noise.key(0, impl="hash"), 50, 3, batch=8, order="epoch")
START = np.linspace(-0.5, 0.5, 12, dtype=np.float32).reshape(4, 3)
SGHMC_ = SGHMC(step_size=0.02, friction=2.0)

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


def go(seed=1, *, kernel=SGHMC_, target=TARGET, start=START, draws=100, chunk=50, **options):
    return run(noise.key(seed, impl="hash"), kernel, target, start, draws=draws, chunk=chunk, **options)


def flat(x):
    """All leaves, each as (chain, draw, …), to compare bits."""
    return [np.asarray(u) for u in jax.tree.leaves(x)]


def same(a, b):
    for u, v in zip(flat(a), flat(b), strict=True):
        np.testing.assert_array_equal(u, v)


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


# --- kernels of several chains ----------------------------------------------------------------------------------


def parabola(x):
    return -0.5 * jnp.sum(x**2)


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


def identity(x):
    return x


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


# --- words ----------------------------------------------------------------------------------------------------------


def log_prior(x):
    return -0.5 * jnp.sum(x**2)


def summed(x, data):
    return jnp.sum(data @ x)


def column(x, data):
    return data @ x[:, None]


def test_a_start_that_is_not_finite_names_the_chain():
    start = START.copy()
    start[[1, 3]] = np.nan
    with pytest.raises(ValueError, match=r"the target's log density is not finite at the start of chain 1, 3 "):
        go(start=start)


def sharp(x):
    return -jnp.sum(jnp.sqrt(jnp.abs(x)))


def test_a_gradient_that_is_not_finite_is_told_apart():
    with pytest.raises(ValueError, match=r"the target's gradient is not finite at the start of chain 0 "):
        go(target=Density(sharp), start=np.array([[0.0], [1.0]]))


@pytest.mark.parametrize(("likelihood", "shape"), [(summed, r"\(\)"), (column, r"\(8, 1\)")])
def test_a_likelihood_of_the_wrong_shape(likelihood, shape):
    target = Bayes(log_prior, likelihood, np.ones((50, 3), np.float32), batch=8)
    with pytest.raises(ValueError, match=rf"log_likelihood returned shape {shape} for 8 examples; it must return one"):
        go(target=target)


def test_a_batch_larger_than_the_data():
    with pytest.raises(ValueError, match="Bayes: batch is 51, but there are 50 examples; take 1 to 50"):
        replace(TARGET, batch=51)


def test_a_negative_step_size():
    with pytest.raises(ValueError, match=r"SGLD: step_size is -0\.1; it must be positive"):
        SGLD(-0.1)


def test_an_unknown_kernel():
    with pytest.raises(ValueError, match=r"there is no kernel named 'sgdl'; there are .*sgld"):
        named("sgdl")


def test_leaves_with_unequal_chain_axes():
    with pytest.raises(ValueError, match=r"the same leading chain axis; got a: \(4, 1\), b: \(3,\)"):
        go(start={"a": np.zeros((4, 1)), "b": np.zeros(3)})
    with pytest.raises(ValueError, match=r"the same leading chain axis; got a: \(\)"):
        go(start={"a": np.zeros(())})
    with pytest.raises(ValueError, match="the same leading chain axis; got no leaves"):
        go(start={})


@pytest.mark.parametrize("name", ["draws", "thin", "chunk"])
def test_counts_below_one(name):
    with pytest.raises(ValueError, match=f"run: {name} is 0; it must be 1 or more"):
        go(**{name: 0})


def test_counts_that_are_no_counts():
    with pytest.raises(TypeError, match=r"run: draws is 1000\.0; it must be a whole number"):
        go(draws=1e3)
    with pytest.raises(ValueError, match="run: warmup is -1; it must be 0 or more"):
        go(warmup=-1)


# --- chains that diverge, and interruption --------------------------------------------------------------------------


def quartic(x):
    return -jnp.sum(x**4)


def test_a_chain_that_diverges_is_named_and_left_out(key):
    """Chain 1 starts where h x³ overshoots; the others go on, to the end, as if it were not there."""
    start = np.array([[0.1], [9.0], [-0.2]], np.float32)
    with pytest.warns(UserWarning, match="run: chain 1 has diverged .* the others go on. A smaller step size") as told:
        post = sample(key, SGLD(0.05), Density(quartic), start, draws=60, chunk=20)
    assert len(told) == 1, "told once"
    assert post.diverged == (1,)
    assert post.draws.shape == (3, 60, 1)
    np.testing.assert_allclose(post.expect(identity), post.draws[[0, 2]].mean((0, 1)), rtol=1e-5)
    assert np.isfinite(post.expect(jnp.square)).all()


def test_when_all_chains_have_diverged_the_run_stops(key):
    """Also when they do so in different chunks."""
    seen = []
    count = lambda progress: seen.append(progress.done) or progress
    with pytest.warns(UserWarning, match="chain 0, 1 has diverged"):
        out = run(key, SGLD(0.05), Density(quartic), np.full((2, 1), 9.0), draws=1000, chunk=20, callbacks=(count,))
    assert seen == [20]
    assert out.kept.shape == (2, 20, 1)


def test_when_all_chains_diverge_in_warm_up_that_is_said(key):
    with (
        pytest.warns(UserWarning, match="chain 0, 1 has diverged"),
        pytest.raises(RuntimeError, match="run: all 2 chains diverged in warm-up; take a smaller step size"),
    ):
        run(key, SGLD(0.05), Density(quartic), np.full((2, 1), 9.0), draws=20, warmup=20, chunk=20)


def late(x):
    """Flat, with a cliff into NaN beyond 10."""
    return jnp.where(jnp.sum(x) < 10.0, 0.1 * jnp.sum(x), jnp.nan)


def test_chains_that_diverge_one_after_the_other_stop_the_run():
    start = np.array([[0.0], [9.0]], np.float32)
    with pytest.warns(UserWarning, match="chain . has diverged"):
        out = go(kernel=SGLD(1.0, temperature=0.0), target=Density(late), start=start, draws=1000, chunk=20)
    # 0.1 a step: chain 1 falls in the first chunk, chain 0 at step 100
    assert out.kept.shape[1] in (100, 120)


def test_an_interrupt_in_a_chunk_keeps_the_chunks_before(interruptible, monkeypatch):
    whole, calls, real = go(), [0], loop.advance

    def interrupted(*args, **options):
        calls[0] += 1
        if calls[0] == 3:
            signal.raise_signal(signal.SIGINT)
        return real(*args, **options)

    monkeypatch.setattr(loop, "advance", interrupted)
    with pytest.warns(UserWarning, match="run: interrupted; 40 draws a chain are kept"):
        out = go(chunk=20)
    np.testing.assert_array_equal(out.kept, whole.kept[:, :40])
    # the states are those of the last draw kept: the run can go on
    monkeypatch.undo()
    np.testing.assert_array_equal(go(start=out.states, draws=60).kept, whole.kept[:, 40:])


def test_an_interrupt_in_a_visit_keeps_its_chunk(interruptible):
    closed = []

    class Impatient:
        def __call__(self, progress):
            if progress.done == 40:
                signal.raise_signal(signal.SIGINT)
            return progress

        def close(self):
            closed.append(1)

    with pytest.warns(UserWarning, match="run: interrupted; 40 draws a chain are kept"):
        out = go(chunk=20, callbacks=(Impatient(),))
    np.testing.assert_array_equal(out.kept, go().kept[:, :40])
    assert closed == [1]


def test_visits_are_closed_when_one_fails():
    closed = []

    class Bar:
        def __call__(self, progress):
            return progress

        def close(self):
            closed.append(1)

    def failing(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(callbacks=(Bar(), failing))
    assert closed == [1]


def test_a_run_stopped_in_warm_up_says_so():
    with pytest.raises(RuntimeError, match="run: stopped before the first draw was kept"):
        go(warmup=60, callbacks=(lambda *_: None,))


# --- callbacks ----------------------------------------------------------------------------------------------------


def terminal(force):
    from rich.console import Console

    return Console(force_terminal=force, file=io.StringIO(), width=160)


def test_progress_is_silent_off_a_terminal(capfd):
    console = terminal(False)
    go(callbacks=(ProgressBar(100, console=console),))
    go(callbacks=(ProgressBar(100, quiet=True, console=terminal(True)),))
    go(callbacks=(ProgressBar(100),))
    assert console.file.getvalue() == ""
    assert capfd.readouterr() == ("", "")


def test_progress_on_a_terminal():
    console = terminal(True)
    bar = ProgressBar(100, console=console)
    go(callbacks=(bar,), warmup=50, kernel=HMC(0.3, n_leapfrog=2), target=replace(TARGET, batch=None))
    text = console.file.getvalue()
    for word in ("sampling", "100/100", "draws/s", "acceptance 0.", "R̂ "):
        assert word in text, text
    console = terminal(True)
    go(callbacks=(ProgressBar(100, console=console),))
    assert "acceptance" not in console.file.getvalue()


def test_progress_counts_only_its_own_draws(tmp_path):
    """50 draws of 4 chains in 10 seconds, though 50 more were on disk."""
    go(draws=50, store=tmp_path / "run")
    bar = ProgressBar(100)
    out = go(draws=100, store=tmp_path / "run", callbacks=(bar,))
    bar.began = time.perf_counter() - 10
    assert bar.describe(Progress(100, out.kernel, out.target, out.states, out.kept, out.info)).startswith("20 draws/s")


def test_a_watch_leaves_out_chains_that_have_diverged():
    start = np.array([[0.1], [9.0], [-0.2]], np.float32)
    watch = EarlyStop()
    with pytest.warns(UserWarning, match="chain 1 has diverged"):
        go(kernel=SGLD(0.05), target=Density(quartic), start=start, draws=400, callbacks=(watch,))
    assert 0.9 < watch.watch.rhat < 1.2
    assert np.isfinite(watch.watch.ess)


def test_early_stop():
    target = Scales()
    start = target.exact(noise.key(3, impl="hash"), 8)
    stop = EarlyStop(rhat=1.02, ess=1000, least=300)
    out = go(kernel=HMC(0.5, n_leapfrog=3), target=target, start=start, draws=10_000, chunk=100, callbacks=(stop,))
    n = out.info.ok.shape[1]
    assert 300 <= n < 2000
    assert stop.watch.rhat < 1.02
    assert stop.watch.ess > 1000
    never = EarlyStop(rhat=1.0)
    assert go(callbacks=(never,)).info.ok.shape[1] == 100


def test_a_watch_before_its_first_draw():
    watch = Watch()
    assert np.isnan(watch.rhat)
    assert np.isnan(watch.ess)
