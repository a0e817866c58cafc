"""Rounds of tuning and callbacks that decide when to stop: stored with a run, and gone on with."""

import signal

import numpy as np
import pytest
from stored_run import KERNEL, START, TARGET, go

from langevin.core import noise, rounds
from langevin.core.begin import begin_all
from langevin.core.callbacks import EarlyStop
from langevin.core.files import StoreError
from langevin.core.record import replace
from langevin.core.rounds import TUNED, keep, repeat


def halve(done):
    """A round that halves the step size, moves the states by a millionth, and counts."""

    def one(i, kernel, states):
        done.append(i)
        moved = states._replace(position=states.position * np.float32(1 + 1e-6))
        return replace(kernel, step_size=kernel.step_size / 2), moved

    return one


@pytest.fixture
def states():
    return begin_all(noise.key(0, impl="hash"), KERNEL, TARGET, START)


def test_rounds_go_on_after_the_last_that_was_written(tmp_path, states, monkeypatch):
    monkeypatch.setattr(rounds, "SECONDS", 0.0)
    whole, whole_states = repeat(halve([]), KERNEL, states, TARGET, rounds=6)
    with keep(tmp_path, "a"):
        repeat(halve([]), KERNEL, states, TARGET, rounds=4)  # killed after four of six
    assert sorted(f.name for f in tmp_path.iterdir()) == ["round-4.json", "round-4.npz"]
    done = []
    with keep(tmp_path, "a"):
        kernel, found = repeat(halve(done), KERNEL, states, TARGET, rounds=6)
    assert done == [4, 5]
    assert float(kernel.step_size) == float(whole.step_size)
    np.testing.assert_array_equal(found.position, whole_states.position)
    with keep(tmp_path, "b"), pytest.raises(StoreError, match="holds another run"):
        repeat(halve([]), KERNEL, states, TARGET, rounds=6)


def test_an_interrupt_in_a_round_keeps_the_round(tmp_path, states, interruptible):
    done = []

    def interrupted(i, kernel, states):
        if i == 2:
            signal.raise_signal(signal.SIGINT)
        return halve(done)(i, kernel, states)

    with keep(tmp_path, "a"), pytest.raises(KeyboardInterrupt):
        repeat(interrupted, KERNEL, states, TARGET, rounds=6)
    with keep(tmp_path, "a"):
        repeat(halve(done), KERNEL, states, TARGET, rounds=6)
    assert done == [0, 1, 2, 3, 4, 5]


def test_what_a_tuner_found_is_kept(tmp_path, states):
    with keep(tmp_path, "a") as folder:
        assert folder.load(TUNED, TARGET, states) is None
        folder.save(TUNED, replace(KERNEL, step_size=0.5), states)
        kernel, _ = folder.load(TUNED, TARGET, states)
    assert float(kernel.step_size) == 0.5


def test_early_stop_remembers_across_processes(tmp_path):
    """Without its memory it would judge the second half alone, and a run that it has ended would go on."""
    stop = lambda: EarlyStop(rhat=10.0, ess=0.0, least=24)
    whole = go(tmp_path / "whole", callbacks=(stop(),))
    assert len(whole.kept) == 24
    go(tmp_path / "cut", draws=16, callbacks=(stop(),))
    second = stop()
    again = go(tmp_path / "cut", callbacks=(second,))
    np.testing.assert_array_equal(again.kept.load(), whole.kept.load())
    assert second.watch.total.count == 24
    assert len(go(tmp_path / "cut", callbacks=(stop(),)).kept) == 24, "ended by a callback"
    assert len(go(tmp_path / "cut").kept) == 40, "without the callback it goes on"
