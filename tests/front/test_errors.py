"""No command ends in a traceback: a mistake is one sentence and exit code 2, a defect of ours is one with code 70."""

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from commands import SHORT, call, table

from langevin.cli import app, errors, main, models
from langevin.core.files import StoreError

ODD = "[/red] [bold]x"  # a folder whose name looks like markup


def run(*words):
    """The exit code, what was printed and what was told, by the entry point in this process."""
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        try:
            main([str(word) for word in words])
            code = 0
        except SystemExit as end:
            code = end.code or 0
    assert "Traceback" not in told.getvalue()
    return code, out.getvalue(), told.getvalue()


def refused(*words, code=2):
    """The one line that was told."""
    ended, _, told = run(*words)
    assert ended == code, told
    assert len(told.strip().splitlines()) == 1, told
    assert told.startswith("langevin: ")
    return told


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A folder of an odd name with a table and two models fitted to it."""
    folder = tmp_path_factory.mktemp("errors") / ODD
    (folder / "t[").mkdir(parents=True)  # the slash of the tag makes folders
    (folder / "s[").mkdir()
    data = table(folder / "t[/red].csv")
    for name in ("m[/red]", "n[/red]"):
        report, result = folder / f"{name}.html", folder / "f.json"
        out = run("fit", data, *SHORT, "--out", folder / name, "--report", report, "--json", result)
        assert out[0] == 0, out
        assert f"model: {folder / name}" in out[1]
    return folder


# --- odd paths ------------------------------------------------------------------------------------------------------

SCRIPT = """
import jax.numpy as jnp
import langevin as lv
from langevin.targets.zoo import Gaussian
target, base = Gaussian(jnp.ones(2), jnp.full(2, 0.5)), lv.evidence.Normal(jnp.zeros(2), 2.0)
"""


def test_paths_that_look_like_markup_work_in_every_command(odd):
    model, data = odd / "m[/red]", odd / "t[/red].csv"
    code, out, _ = run("predict", model, data)
    assert (code, len(out.splitlines())) == (0, 81)
    assert run("predict", model, data, "--out", odd / "p[/red].csv", "--json", odd / "p.json")[0] == 0
    code, out, _ = run("report", model, "--out", odd / "r[/red].html")
    assert f"report: {odd / 'r[/red].html'}" in out
    code, out, _ = run("compare", model, odd / "n[/red]", "--json", odd / "c[/red].json")
    assert code == 0
    assert "[/red]" in out
    (odd / "s[/red].py").write_text(SCRIPT)
    assert run("evidence", odd / "s[/red].py", "--method", "importance", "--json", odd / "e[/red].json")[0] == 0
    assert run("bench", "chain1d", "--size", "quick", "--json", odd / "b[/red].json")[0] == 0
    assert run("kernels", "sgld", "--json", odd / "k[/red].json")[0] == 0
    assert all((odd / name).exists() for name in ("p[/red].csv", "c[/red].json", "e[/red].json", "b[/red].json"))
    for words in (
        ("predict", odd / "none[/red]", data),
        ("predict", model, odd / "none[/red].csv"),
        ("report", odd / "none[/red]"),
        ("compare", model, odd / "none[/red]"),
        ("evidence", odd / "none[/red].py"),
        ("audit", f"{odd / 'none[/red].py'}:K"),
        ("fit", odd / "none[/red].csv"),
        ("fit", data, "--out", model),
    ):
        said = refused(*words)
        assert "none[/red]" in said or "is not empty" in said


# --- what the system raises -----------------------------------------------------------------------------------------


def test_places_that_cannot_be_written(odd, tmp_path):
    model, data = odd / "m[/red]", odd / "t[/red].csv"
    assert "it is a folder; name a file" in refused("report", model, "--out", tmp_path)
    assert "it is a folder; name a file" in refused("predict", model, data, "--json", tmp_path, "--quiet")
    (tmp_path / "file").write_text("")
    assert "it is there already" in refused("predict", model, data, "--out", tmp_path / "file" / "p.csv", "--quiet")
    if os.path.exists("/dev/full"):
        assert "the disk is full" in refused("predict", model, data, "--json", "/dev/full", "--quiet")


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (PermissionError(13, "Permission denied", "/x"), "/x: permission denied; choose a place", 2),
        (OSError(28, "No space left on device"), "the disk is full", 2),
        (OSError(5, "Input/output error", "/x"), "/x: Input/output error.", 2),
        (StoreError("store: /x is damaged."), "store: /x is damaged.", 2),
        (TypeError("posterior: loaded as text only."), "posterior: loaded as text only.", 70),
        (MemoryError(), "there is not enough memory; take fewer rows", 2),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 3 bytes."), "there is not enough memory", 2),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "no text in UTF-8 (invalid start byte", 2),
        (ModuleNotFoundError("No module named 'x'", name="x"), "a package cannot be imported (No module named 'x')", 2),
        (zipfile.BadZipFile("File is not a zip file"), "a file is damaged or no archive at all (File is not", 2),
        (ValueError("two\nlines."), "two lines.", 2),
        (KeyError("x"), "a defect of langevin, and no mistake of yours: KeyError", 70),
    ],
)
def test_an_error_of_any_kind_is_one_sentence(error, sentence, code, monkeypatch, odd):
    """Raised by a library below a command: a StoreError stands for one that the library words itself."""

    below = {"error": error}
    exec(compile("def fails(_): raise error", "/usr/lib/python3/site-packages/other.py", "exec"), below)
    monkeypatch.setattr("langevin.report.folder.read_data", below["fails"])
    if isinstance(error, StoreError):
        monkeypatch.setattr(errors, "_is_raised", lambda _: True)
    assert sentence in refused("report", odd / "m[/red]", code=code)


def test_what_the_library_raises_deliberately_is_a_mistake_whatever_its_type(odd):
    """TypeError of the loop, from a fit of a kernel that cannot be made."""
    assert "needs a value for" in refused("fit", odd / "t[/red].csv", "--kernel", "guard")


def test_a_traceback_is_shown_on_request(monkeypatch, odd):
    monkeypatch.setenv("LANGEVIN_DEBUG", "1")
    monkeypatch.setattr("langevin.report.folder.read_data", lambda _: {}["x"])
    with pytest.raises(KeyError):
        main(["report", str(odd / "m[/red]")])


def test_an_error_in_a_script_names_its_line(tmp_path):
    (tmp_path / "s.py").write_text("x = 1\ntarget = base = x / 0\n")
    assert f"{tmp_path / 's.py'}, line 2: ZeroDivisionError: division by zero" in refused("evidence", tmp_path / "s.py")
    (tmp_path / "s.py").write_text("target = base = 1\n")
    assert "is int; it must be a target such as Density(fn)" in refused("evidence", tmp_path / "s.py")
    (tmp_path / "k.py").write_text("import nothing_of_that_name\n")
    assert "nothing_of_that_name" in refused("audit", f"{tmp_path / 'k.py'}:K")


def test_a_warning_is_a_line_without_its_place_in_the_code(monkeypatch, odd):
    import warnings

    def warns(folder):
        warnings.simplefilter("always")
        warnings.warn("the draws are few.", stacklevel=1)
        raise StoreError("store: it is damaged.")

    monkeypatch.setattr("langevin.report.folder.read_data", warns)
    assert run("report", odd / "m[/red]")[2].splitlines()[0] == "! the draws are few."


def test_a_closed_pipe_is_quiet(odd):
    """As `langevin … | head -1`: the reader goes away after one line."""
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from langevin.cli import main; main()"
    words = [sys.executable, "-c", code, "kernels"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        told = child.stderr.read().decode()
    assert told == ""


# --- damaged models -------------------------------------------------------------------------------------------------


def damage(random_, body):
    """The bytes of a file, flipped, cut, inserted into, zeroed or emptied; None: without it."""
    way = random_.choice(["flip", "flip", "cut", "insert", "zero", "empty", "delete"])
    at = random_.randrange(len(body) + 1)
    if way == "flip":
        at = min(at, len(body) - 1)
        return body[:at] + bytes([body[at] ^ (1 << random_.randrange(8))]) + body[at + 1 :]
    rest = {"insert": random_.randbytes(4) + body[at:], "zero": bytes(16) + body[at + 16 :], "cut": b""}
    return None if way == "delete" else b"" if way == "empty" else body[:at] + rest[way]


@pytest.mark.parametrize("cases", [56, pytest.param(336, marks=pytest.mark.slow)])
def test_a_damaged_model_is_refused_or_answers_as_before(odd, tmp_path, cases):
    """Every file of a model in turn, in seeded ways, through predict, report and compare."""
    whole, data, other = odd / "m[/red]", odd / "t[/red].csv", odd / "n[/red]"
    broken = tmp_path / "m[/red]"
    commands = {
        "predict": lambda m: ("predict", m, data),
        "report": lambda m: ("report", m, "--out", tmp_path / "r.html", "--json", tmp_path / "r.json", "--quiet"),
        "compare": lambda m: ("compare", m, other, "--json", tmp_path / "r.json", "--quiet"),
    }
    answers = {}
    for name, words in commands.items():
        code, out, told = run(*words(whole))
        assert code == 0, told
        answers[name] = out, (tmp_path / "r.json").read_text() if name != "predict" else ""
    files = sorted(f.relative_to(whole) for f in whole.rglob("*") if f.is_file())
    random_, refusals = random.Random(0), 0
    for case in range(cases):
        file = files[case % len(files)]
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(whole, broken)
        body = damage(random_, (whole / file).read_bytes())
        (broken / file).unlink() if body is None else (broken / file).write_bytes(body)
        for name, words in commands.items():
            if name != "predict" and cases < 100 and case % 4:
                continue
            code, out, told = run(*words(broken))
            if code == 0:
                found = out, (tmp_path / "r.json").read_text() if name != "predict" else ""
                assert found == answers[name], (name, file, case)
            else:
                assert (code, len(told.strip().splitlines())) == (2, 1), (name, file, case, told)
                refusals += 1
    assert refusals > cases // 4


def test_a_frame_of_predictions_is_written_as_it_was(odd):
    """The commands above compare what they print; the frame itself is read back here."""
    assert (
        run("predict", odd / "m[/red]", odd / "t[/red].csv", "--out", odd / "q.csv", "--json", odd / "q.json")[0] == 0
    )
    body = json.loads((odd / "q.json").read_text())
    assert np.allclose(pd.read_csv(odd / "q.csv")["mean"], [row["mean"] for row in body])
    assert models.predict.__name__ in {command.callback.__name__ for command in app.registered_commands}
    assert call("kernels", "sgld").exit_code == 0
