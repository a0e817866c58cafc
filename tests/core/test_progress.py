"""Where long work stands: what is told, how long it will take, and how it is shown."""

import io
import sys
import types

import pytest
from rich.console import Console
from small_run import go

from langevin.core import progress
from langevin.core.bar import Bar, Clock
from langevin.core.progress import Step, listen, part, stage, tell


def heard(work):
    steps = []
    with listen(steps.append):
        work()
    return steps


def test_shares_of_parts_are_shares_of_the_stage():
    def work():
        with stage("sample"):
            for i in range(2):
                with part(i, 2):
                    tell(1, 2)

    shares = [step.share for step in heard(work)]
    assert shares == [0.0, 0.25, 0.75, 1.0]
    assert not progress.heard()


def test_a_stage_that_fails_is_not_told_to_be_done():
    steps = []
    with pytest.raises(ZeroDivisionError), listen(steps.append), stage("train"):
        raise ZeroDivisionError
    assert steps == [Step("train", 0.0)]


def test_a_run_tells_after_every_chunk():
    steps = heard(lambda: go(draws=40, warmup=20, chunk=20))
    assert [step.share for step in steps] == pytest.approx([0, 1 / 3, 2 / 3, 1])


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def work(clock, time, stage, *, overhead, seconds, pieces):
    """A stage of so many pieces, the first of which compiles; the time left at the middle."""
    clock.add(Step(stage, 0.0))
    time.now += overhead
    for i in range(pieces):
        time.now += seconds / pieces
        clock.add(Step(stage, (i + 1) / pieces))
        if i + 1 == pieces // 2:
            middle = clock.left()
    return middle


def test_the_time_left_knows_compilation_from_work():
    time = Time()
    clock = Clock({"train": 10.0, "sample": 30.0}, time)
    assert clock.left() is None
    middle = work(clock, time, "train", overhead=8.0, seconds=10.0, pieces=20)
    assert middle == pytest.approx({"train": 5.0, "sample": 8.0 + 30.0})
    assert clock.left() == pytest.approx({"train": 0.0, "sample": 38.0})
    middle = work(clock, time, "sample", overhead=2.0, seconds=60.0, pieces=20)
    assert middle == pytest.approx({"sample": 30.0})
    assert clock.left() == {"sample": 0.0}
    assert clock.seconds == pytest.approx({"train": 18.0, "sample": 62.0})


def test_a_bar_never_goes_back_and_says_at_first_how_long_it_will_take():
    console = Console(force_terminal=True, file=io.StringIO(), width=160)
    with Bar({"train": 1.0, "sample": 4.0}, console=console) as bar:
        time = Time()
        bar.clock = Clock({"train": 1.0, "sample": 4.0}, time)
        shares = []
        for name, seconds in (("train", 60.0), ("sample", 600.0)):
            bar(Step(name, 0.0))
            for i in range(10):
                time.now += seconds / 10
                bar(Step(name, (i + 1) / 10, "R̂ 1.01" if name == "sample" else None))
                shares.append(bar.furthest)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    text = console.file.getvalue()
    assert text.count("This will take about 5 min on this machine (train 36 s, sample 4 min still to go)") == 1
    for words in ("train", "→", "sample", "100 %", "R̂ 1.01"):
        assert words in text


def test_a_notebook_shows_a_bar_in_place(monkeypatch):
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    class ZMQInteractiveShell:
        pass

    display = types.ModuleType("IPython.display")
    display.HTML = str
    display.display = lambda html, display_id: shown.append(html) or Handle()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython, ipython.display = ZMQInteractiveShell, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with Bar({"train": 1.0, "<b>": 1.0}) as bar:
        bar(Step("train", 0.0))
        monkeypatch.setattr("langevin.core.bar.OFTEN", 0.0)
        bar(Step("<b>", 1.0, "R̂ < 2"))
    assert "<b>train</b> → &lt;b&gt;" in shown[1]
    assert "<progress" in shown[0]
    assert "R̂ &lt; 2" in shown[-1]


def test_work_of_one_piece_ends_at_the_whole():
    with Bar({"predict": 1.0}, quiet=True) as bar, listen(bar), stage("predict"):
        tell(600, 600)
    assert bar.furthest == 1.0


def test_nothing_is_shown_off_a_terminal_or_when_quiet(capfd):
    for quiet in (True, False):
        with Bar({"train": 1.0}, quiet=quiet) as bar, listen(bar), stage("train"):
            tell(1, 2)
    assert capfd.readouterr() == ("", "")
