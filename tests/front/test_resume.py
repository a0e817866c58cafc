"""A fit that is interrupted, terminated or killed in any stage goes on, and gives the draws of one that was not."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import commands
import jax
import numpy as np
import pandas as pd
import pytest

import langevin as lv
from langevin.core.bar import Bar
from langevin.core.files import StoreError
from langevin.estimators.files import load

pytestmark = pytest.mark.xdist_group("test_fit")  # whose programs it shares
COMMON = ["--chains", "2", "--hidden", "4", "--draws", "4"]
WAYS = {
    "mile": [],  # the default
    "smile": ["--plan", "smile"],
    "sgld": ["--kernel", "sgld", "--step-size", "1e-6"],
}
KILLED = 137


@pytest.fixture(scope="module")
def table(short_plans, tmp_path_factory):
    return commands.table(tmp_path_factory.mktemp("table") / "t.csv")


def call(*words, code=0):
    out = commands.call(*words, code=code)
    return " ".join((out.output + str(out.exception or "")).split())


def kill():
    raise SystemExit(KILLED)


def interrupt():
    signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def stopped(how, stage, share):
    """`how` is called when this share of a stage is done."""
    real, done = Bar.__call__, []

    def then_stop(self, step):
        real(self, step)
        if step.stage == stage and step.share >= share and not done:
            done.append(1)
            how()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bar, "__call__", then_stop)
        yield
    assert done, f"no {stage} of {share} was told"


def bits(model):
    tree = model.posterior_.draws, model.posterior_.info, model.start_
    return [np.asarray(u).tobytes() for u in jax.tree.leaves(tree)]


@pytest.fixture(scope="module")
def whole(table, tmp_path_factory):
    """Draws of a fit that was not disturbed, by its way."""
    found = {}

    def fit(way):
        if way not in found:
            folder = tmp_path_factory.mktemp("whole") / way
            call("fit", table, *COMMON, *WAYS[way], "--seed", "3", "--out", folder, "--quiet")
            found[way] = bits(load(folder))
        return found[way]

    return fit


STOPS = [("sgld", "train", 0.3), ("sgld", "sample", 0.5), ("sgld", "score", 0.0)]
SLOW = [(way, *stop) for way in ("mile", "smile") for stop in [("train", 0.5), ("tune", 0.3), ("sample", 0.5)]]


@pytest.mark.parametrize(("way", "stage", "share"), [*STOPS, *(pytest.param(*s, marks=pytest.mark.slow) for s in SLOW)])
def test_a_fit_killed_in_any_stage_goes_on_as_if_it_had_not_been(way, stage, share, table, whole, tmp_path):
    fit = ["fit", table, *COMMON, *WAYS[way], "--seed", "3", "--out", tmp_path / "m"]
    with stopped(kill, stage, share):
        call(*fit, code=KILLED)
    assert "is not finished; go on with it" in call("predict", tmp_path / "m", table, code=1)
    (tmp_path / "m.new").mkdir()  # as it looks when a kill hits the writing of the model
    (tmp_path / "m.new" / "manifest.json").write_text("{")
    said = call(*fit)
    assert "Going on with the unfinished fit" in said
    assert bits(load(tmp_path / "m")) == whole(way)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["m"]
    assert not (tmp_path / "m" / "unfinished").exists()
    assert "is finished; there is nothing to resume" in call("fit", table, "--resume", "--out", tmp_path / "m", code=2)


def test_resume_knows_what_was_asked_for(table, whole, tmp_path):
    fit = ["fit", table, *COMMON, *WAYS["sgld"], "--seed", "3", "--out", tmp_path / "m"]
    with stopped(kill, "sample", 0.5):
        call(*fit, code=KILLED)
    again = ["fit", table, "--out", tmp_path / "m"]
    assert "begun with another value of --plan" in call(*again, "--resume", "--plan", "smile", code=2)
    refused = call(*again, *COMMON, *WAYS["sgld"], "--seed", "4", code=2)
    assert "begun with another value of --seed; use the same, or another folder" in refused
    call(*again, "--resume", "--quiet")
    assert bits(load(tmp_path / "m")) == whole("sgld")


def test_another_table_of_the_same_shape_is_refused(table, tmp_path):
    fit = [*COMMON, *WAYS["sgld"], "--out", tmp_path / "m"]
    with stopped(kill, "train", 0.3):
        call("fit", table, *fit, code=KILLED)
    frame = pd.read_csv(table)
    frame.loc[frame.index[5], "x"] += 1
    frame.to_csv(tmp_path / "t.csv", index=False)
    for words in ([], ["--resume"]):
        said = call("fit", tmp_path / "t.csv", *fit, *words, code=1)
        assert "is of another table (values, rows or columns differ)" in said
    call("fit", table, *fit, "--quiet")


def test_there_is_nothing_to_resume_without_a_fit(table, tmp_path):
    said = call("fit", table, "--resume", "--out", tmp_path / "m", code=2)
    assert "there is no unfinished fit in" in said
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("stage", ["train", "sample", "score"])
def test_ctrl_c_says_what_is_kept(stage, table, whole, tmp_path, interruptible):
    doing = dict(train="training", sample="sampling", score="scoring")[stage]
    fit = ["fit", table, *COMMON, *WAYS["sgld"], "--seed", "3"]
    share = dict(train=0.3, sample=0.0, score=0.0)[stage]  # no draw is there at the beginning of sampling
    for out, kept in (
        ([], "nothing is kept. With --out FOLDER a fit can be gone on with"),
        (["--out", tmp_path / "m"], "what is done is kept in"),
    ):
        with stopped(interrupt if stage == "train" else press, stage, share):
            said = call(*fit, *out, code=130)
        assert f"interrupted while {doing}; {kept}" in said
        assert "draws a chain are kept" not in said
    call(*fit, "--out", tmp_path / "m", "--quiet")
    assert bits(load(tmp_path / "m")) == whole("sgld")


def press():
    raise KeyboardInterrupt


def test_ctrl_c_while_sampling_leaves_a_model_that_can_be_used_and_gone_on_with(table, whole, tmp_path, interruptible):
    fit = ["fit", table, *COMMON, *WAYS["sgld"], "--seed", "3", "--out", tmp_path / "m"]
    with stopped(interrupt, "sample", 0.5):
        said = call(*fit)
    assert "1 draws a chain are kept" in said
    assert "interrupted after 1 of 4 draws; the same command goes on with it" in said
    assert load(tmp_path / "m").posterior_.info.ok.shape == (2, 1)
    call("predict", tmp_path / "m", table, "--quiet")
    assert "interrupted" not in call(*fit)
    assert bits(load(tmp_path / "m")) == whole("sgld")


def test_a_refused_fit_leaves_no_folder(table, tmp_path):
    assert "hidden" in call("fit", table, "--hidden", "x", "--out", tmp_path / "m", code=2)
    assert "there is no plan" in call("fit", table, "--plan", "mild", "--out", tmp_path / "m", code=1)
    assert not (tmp_path / "m").exists()


def test_an_estimator_goes_on_from_python(tmp_path):
    frame, y = pd.DataFrame(dict(a=np.linspace(0, 1, 60))), np.linspace(0, 1, 60) ** 2
    plan = lv.Plan(lv.SGLD(1e-6), ascent=80, draws=4, thin=2)
    model = lambda **given: lv.BayesianRegressor(plan, chains=2, hidden=(4,), **given)
    one = model().fit(frame, y, store=tmp_path / "s")  # a seed that nobody has chosen is kept too
    assert bits(model().fit(frame, y, store=tmp_path / "s")) == bits(one)
    with pytest.raises(StoreError, match="begun with another activation; use the same"):
        model(activation="tanh").fit(frame, y, store=tmp_path / "s")
    with pytest.raises(StoreError, match="is of another table"):
        model().fit(frame, y + 1, store=tmp_path / "s")


# --- processes ------------------------------------------------------------------------------------------------------


class Process:
    """`langevin fit` in a process of its own, to be stopped at random moments."""

    def __init__(self, tmp_path, table, words):
        self.words = [sys.executable, "-m", "langevin.cli", "fit", str(table), *words, "--quiet", "--out"]
        cache = dict(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
        cache |= dict(JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1", JAX_PLATFORMS="cpu", XLA_FLAGS="")
        self.env = dict(os.environ, **cache)

    def start(self, folder):
        return subprocess.Popen([*self.words, str(folder)], env=self.env, stderr=subprocess.PIPE, text=True)

    def run(self, folder):
        """Run it to its end; how many seconds it took."""
        began = time.monotonic()
        with self.start(folder) as process:
            said = process.communicate(timeout=600)[1]
        assert process.returncode == 0, said
        return time.monotonic() - began

    def stop(self, folder, seconds, how):
        """Stop it after so many seconds; whether it was still running, and what it said."""
        with self.start(folder) as process:
            try:
                said = process.communicate(timeout=seconds)[1]
            except subprocess.TimeoutExpired:
                process.send_signal(how)
                said = process.communicate(timeout=120)[1]
                return True, process.returncode, said
        assert process.returncode == 0, said
        return False, 0, said


def is_finished(folder):
    return (folder / "estimator.json").exists() and not (folder / "unfinished").exists()


def check_stops(tmp_path, table, words, stops, seed=0):
    """Stop a fit at random moments by signals of all kinds, and compare its draws with those of one left alone."""
    victim, rng = Process(tmp_path, table, words), random.Random(seed)
    victim.run(tmp_path / "first")  # compiles
    seconds = victim.run(tmp_path / "whole")
    hits, places = 0, []
    while hits < stops:
        folder = tmp_path / f"m{len(places)}"
        for _ in range(8):
            how = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            running, code, said = victim.stop(folder, rng.uniform(0.3, 1.0) * seconds, how)
            if not running:
                break
            assert code in (-signal.SIGKILL, 143, 130, 0, -signal.SIGTERM, -signal.SIGINT), said
            # an interrupt that falls into JAX's garbage collection is printed by Python and ignored
            assert "Traceback" not in said or "Exception ignored" in said, said
            if is_finished(folder):  # the signal came after the model was saved
                break
            hits += 1
        if not is_finished(folder):
            victim.run(folder)
        places.append(folder)
    truth = bits(load(tmp_path / "whole"))
    for folder in places:
        assert bits(load(folder)) == truth, folder
    return hits


def test_sigterm_says_what_is_kept(table, tmp_path):
    victim = Process(tmp_path, table, [*COMMON, *WAYS["sgld"]])
    with victim.start(tmp_path / "m") as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "m" / "unfinished" / "stages" / "train").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        said = " ".join(process.communicate(timeout=120)[1].split())
    assert process.returncode == 143
    assert "terminated while training; what is done is kept in" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_fit_stopped_by_signals_is_the_fit_never_stopped(table, tmp_path):
    check_stops(tmp_path, table, [*COMMON, *WAYS["sgld"], "--seed", "3"], 3)


@pytest.mark.slow
def test_twenty_stops_of_the_default_fit(table, tmp_path):
    assert check_stops(tmp_path, table, ["--chains", "2", "--hidden", "4"], 20) >= 20
