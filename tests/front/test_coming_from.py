"""The pages of docs/coming_from: both sides of every comparison run as printed, agree, and name what exists.

A page is a list of tab sets, the peer's code first. What stands outside tabs is run before each block. Blocks leave
`mean` (and mostly `sd`), which are compared: the two sides have other random numbers, so to a part of sd.
"""

import importlib
import importlib.util
import re
import subprocess
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "coming_from"
BDE = ROOT / ".venv-bde" / "bin" / "python"
NEEDS = {
    "blackjax": "blackjax",
    "numpyro": "numpyro",
    "pyro": "pyro",
    "posteriors": "posteriors",
    "laplace_torch": "laplace",
    "torchebm": "torchebm",
    "bde": None,  # in an environment of its own
}
FAST = ("blackjax", "numpyro")  # their peers are among the extras of developers
LOOSE = {"laplace_torch": 1.0, "bde": 3.0, "torchebm": 0.5}  # of sd; other posteriors by intent, or trained anew
FENCE = re.compile(r"```python\n(.*?)```", re.S)


@cache
def read(page: str) -> tuple[str, list[tuple[str, str]]]:
    """What all blocks share, and (theirs, ours) of every tab set."""
    text = (PAGES / f"{page}.md").read_text()
    sets = re.findall(r"::::\{tab-set\}\n(.*?)\n::::\n", text, re.S)
    shared = "\n".join(FENCE.findall(re.sub(r"::::\{tab-set\}\n.*?\n::::\n", "", text, flags=re.S)))
    pairs = [tuple(FENCE.findall(one)) for one in sets]
    assert pairs
    assert all(len(pair) == 2 for pair in pairs)
    return shared, pairs


def execute(code: str, name: str) -> dict:
    space: dict = {"__name__": name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other libraries warn of their own
        exec(compile(code, name, "exec"), space)
    return space


def in_environment(python: Path, code: str) -> np.ndarray:
    """`mean` of a block that runs in another environment."""
    done = subprocess.run([str(python), "-c", code + "\nprint('mean', *mean)"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return np.array(done.stdout.splitlines()[-1].split()[1:], float)


CASES = [
    pytest.param(page, i, id=f"{page}-{i}", marks=[] if page in FAST else [pytest.mark.slow])
    for page in NEEDS
    for i in range(len(read(page)[1]))
]


@pytest.fixture
def own_rules():
    """JAX as a user has it: the suite's rules on key reuse and rank promotion are not those of other libraries."""
    import jax

    names = dict(jax_debug_key_reuse=False, jax_numpy_rank_promotion="allow")
    before = {name: getattr(jax.config, name) for name in names}
    for name, value in names.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize(("page", "i"), CASES)
def test_both_sides_run_and_agree(page, i, own_rules, capsys):
    shared, pairs = read(page)
    theirs, ours = (f"{shared}\n{block}" for block in pairs[i])
    mine = execute(ours, f"{page}-{i}-langevin")
    needed = NEEDS[page]
    if needed is None:
        if not BDE.is_file():
            pytest.skip("bde is not installed: make setup-bench")
        mean = in_environment(BDE, theirs)
    else:
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: make setup-bench")
        mean = np.asarray(execute(theirs, f"{page}-{i}-peer")["mean"])
    sd = np.asarray(mine.get("sd", mine.get("std")))
    away = np.abs(mean - np.asarray(mine["mean"])) / sd
    assert np.mean(away) < LOOSE.get(page, 0.3)


@pytest.mark.parametrize("page", list(NEEDS))
def test_names_of_this_library_exist(page):
    import langevin

    text = FENCE.sub("", (PAGES / f"{page}.md").read_text())
    for name in set(re.findall(r"`(?:lv|langevin)\.([A-Za-z_][\w.]*)", text)):
        found, path = langevin, "langevin"
        for part in name.rstrip(".").split("."):
            path += f".{part}"
            try:
                found = getattr(found, part)
            except AttributeError:
                found = importlib.import_module(path)


def test_every_page_is_listed_and_has_a_case():
    listed = (PAGES / "index.md").read_text()
    pages = {file.stem for file in PAGES.glob("*.md")} - {"index"}
    assert pages == set(NEEDS)
    assert all(f"\n{page}\n" in listed for page in pages)
