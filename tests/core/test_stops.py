"""What goes wrong in a run is said in words: bad input, chains that diverge, interrupts, callbacks."""

import io
import signal
import time

import jax.numpy as jnp
import numpy as np
import pytest
from small_run import START, TARGET, go, identity, late

from langevin.core import noise
from langevin.core import run as loop
from langevin.core.callbacks import EarlyStop, ProgressBar, Watch
from langevin.core.kernel import named, replace
from langevin.core.posterior import sample
from langevin.core.run import run
from langevin.core.target import Density
from langevin.core.types import Progress
from langevin.samplers.hmc import HMC
from langevin.samplers.sgld import SGLD
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Scales

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


def test_chains_that_diverge_one_after_the_other_stop_the_run():
    start = np.array([[0.0], [9.0]], np.float32)
    with pytest.warns(UserWarning, match="chain . has diverged"):
        out = go(kernel=SGLD(1.0, temperature=0.0), target=Density(late), start=start, draws=1000, chunk=20)
    # 0.1 a step: chain 1 falls in the first chunk, chain 0 at step 100
    assert out.kept.shape[1] in (100, 120)


def interrupt_in_chunk(monkeypatch, chunk, times):
    """Ctrl-C while this chunk is computed, so many times."""
    calls, real = [0], loop.advance

    def interrupted(*args, **options):
        calls[0] += 1
        for _ in range(times if calls[0] == chunk else 0):
            signal.raise_signal(signal.SIGINT)
        return real(*args, **options)

    monkeypatch.setattr(loop, "advance", interrupted)


@pytest.mark.parametrize(("times", "kept"), [(1, 60), (2, 40)])
def test_an_interrupt_keeps_the_chunk_it_falls_into_and_a_second_one_does_not(interruptible, monkeypatch, times, kept):
    whole = go()
    interrupt_in_chunk(monkeypatch, 3, times)
    with pytest.warns(UserWarning, match=f"run: interrupted; {kept} draws a chain are kept"):
        out = go(chunk=20)
    assert out.interrupted
    np.testing.assert_array_equal(out.kept, whole.kept[:, :kept])
    # the states are those of the last draw kept: the run can go on
    monkeypatch.undo()
    go_on = go(start=out.states, draws=100 - kept)
    assert not go_on.interrupted
    np.testing.assert_array_equal(go_on.kept, whole.kept[:, kept:])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_before_the_first_draws_says_what_is_kept(interruptible, monkeypatch):
    interrupt_in_chunk(monkeypatch, 1, 1)
    with pytest.raises(KeyboardInterrupt, match="interrupted before the first draw was kept"):
        go(chunk=20, warmup=20)
    interrupt_in_chunk(monkeypatch, 1, 2)
    with pytest.raises(KeyboardInterrupt):
        go(chunk=20)


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
    bar = ProgressBar(100, warmup=50, console=console)
    kernel = HMC(0.3, n_leapfrog=2)
    go(callbacks=(bar,), warmup=50, kernel=kernel, target=replace(TARGET, batch=None), chunk=20)
    text = console.file.getvalue()
    for word in ("warm-up", "sample", "100 %", "draws/s", "acceptance 0.", "R̂ "):
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
