"""What the documents say is run: README's code, its commands, the public names."""

import re
import warnings
from pathlib import Path

import pytest

import langevin

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
WORD = re.compile(r"[-−]?\d+\.\d+|[^\s]+")


def test_readme_shows_what_its_code_prints():
    assert len(BLOCKS) == (ROOT / "README.md").read_text().count("```python") == 3


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_readme_code_runs(block, capsys):
    """What it prints is what is shown; decimal numbers may differ by five of their last digit, between processors."""
    code, shown = BLOCKS[block]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a verdict on chains as short as these
        exec(compile(code, f"README block {block}", "exec"), {"__name__": "readme"})
    printed, shown = WORD.findall(capsys.readouterr().out), WORD.findall(shown)
    assert len(printed) == len(shown)
    for a, b in zip(printed, shown, strict=True):
        if a != b:
            digits = len(b.partition(".")[2])
            assert digits, (a, b)
            assert abs(float(a) - float(b)) < 5.01 * 10.0**-digits, (a, b)


def test_public_names_resolve():
    for name in langevin.__all__:
        assert getattr(langevin, name) is not None
    with pytest.raises(AttributeError, match="attribute nothing"):
        langevin.nothing  # noqa: B018


def test_import_is_light():
    """`import langevin` alone loads neither JAX nor anything else heavy."""
    import subprocess
    import sys

    heavy = ("jax", "sklearn", "matplotlib", "equinox", "pandas")
    code = f"import sys, langevin; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_commands_in_readme_exist():
    from langevin.cli.figures import BENCH

    named = set(re.findall(r"langevin bench (\w+)", (ROOT / "README.md").read_text()))
    assert named <= set(BENCH.modules())


def test_names_in_docstrings_exist():
    """Modules and functions that docstrings point to: `tune.window`, `lv.sample`."""
    folders = "|".join(p.name for p in (ROOT / "langevin").iterdir() if p.is_dir() and not p.name.startswith("_"))
    name = re.compile(rf"`((?:lv|langevin|{folders})(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`")
    lost = []
    for file in sorted([*(ROOT / "langevin").rglob("*.py"), *(ROOT / "lab").rglob("*.py")]):
        lost += [f"{file.name}: {n}" for n in name.findall(file.read_text()) if not _is_found(n)]
    assert not [n for n in lost if not n.endswith((".json", ".md"))]


def _is_found(name):
    from importlib import import_module
    from importlib.util import find_spec

    parts = [part for part in name.split(".") if part not in ("lv", "langevin")]
    found = langevin
    for i, part in enumerate(parts):
        place = ".".join(["langevin", *parts[: i + 1]])
        if hasattr(found, part):
            found = getattr(found, part)
        elif getattr(found, "__path__", None) and find_spec(place):
            found = import_module(place)
        else:
            return False
    return True
