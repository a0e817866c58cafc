"""Commands that print figures: bars of their own size, and packages that are named before the work begins."""

import ast
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import langevin_lab
import pytest
from typer.testing import CliRunner

from langevin.cli import app, figures
from langevin.core.result import Result

LAB = Path(langevin_lab.__file__).parent
OPTIONAL = {"arviz", "blackjax", "diffrax", "dynesty", "flax", "numpyro", "posteriors", "torch", "torchebm"}
OPTIONAL |= {"tensorstore", "zarr"}
MODULES = sorted(p for kind in ("benchmarks", "experiments") for p in (LAB / kind).glob("[!_]*.py"))
WITHOUT = {name: "it runs without, and says so" for name in ("known", "laws", "nuts", "steps", "tables", "vi")}
WITHOUT["bde_peer"] = "it has an environment of its own"


@pytest.fixture
def lab(monkeypatch):
    """A module of the lab, made up: `langevin bench made` runs it."""
    made = ModuleType("made")
    row = dict(method="m[/red]", value=1.0, bar="< 2")
    made.run = lambda size, seed: Result("made", dict(value=1.0), [dict(row)], {"value": "< 2"})
    monkeypatch.setitem(sys.modules, "made", made)
    monkeypatch.setattr(figures.Kind, "modules", lambda self: {"made": "made"})
    return made


@pytest.mark.parametrize(("size", "told"), [("quick", False), ("cpu", True), ("gpu", True)])
def test_bars_are_those_of_the_size(lab, size, told, tmp_path):
    out = CliRunner().invoke(app, ["bench", "made", "--size", size, "--json", str(tmp_path / "f.json")])
    assert out.exit_code == 0, out.output
    assert ("< 2" in out.output) == told
    body = json.loads((tmp_path / "f.json").read_text())
    assert bool(body["bars"]) == ("bar" in body["table"][0]) == told
    assert "m[/red]" in out.output


def test_a_module_may_state_bars_of_one_size(lab):
    lab.BAR_SIZES = ("gpu",)
    assert "< 2" not in CliRunner().invoke(app, ["bench", "made"]).output
    assert "< 2" in CliRunner().invoke(app, ["bench", "made", "--size", "gpu"]).output


def test_a_missing_package_is_named_before_the_work_begins(lab, tmp_path):
    lab.NEEDS, lab.run = ("json", "no_such_package"), None
    out = CliRunner().invoke(app, ["reproduce", "made"])
    assert out.exit_code == 2
    assert "reproduce: made needs no_such_package, not installed here: pip install no_such_package" in out.output
    out = CliRunner().invoke(app, ["reproduce", "--all", "--out", str(tmp_path)])
    assert out.exit_code == 0
    assert "made is left out: made needs no_such_package" in out.output


@pytest.mark.parametrize("path", [p for p in MODULES if p.stem not in WITHOUT], ids=lambda path: path.stem)
def test_modules_name_the_packages_they_need(path):
    """Optional packages that a module imports, or reaches through the flows of `langevin.diffusion`."""
    text = path.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    needed = {name.split(".")[0] for name in names} & OPTIONAL
    needed |= {"diffrax"} if "ProbabilityFlow" in text or "diffusion.likelihood" in text else set()
    module = importlib.import_module(".".join(("langevin_lab", *path.relative_to(LAB).with_suffix("").parts)))
    assert set(getattr(module, "NEEDS", ())) == needed


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["ppca", "--store", "there"], "ppca is not made in parts; leave --store and --seconds out"),
        (["dais-table2", "--seconds", "5"], "--seconds needs --store, a folder to go on from"),
    ],
)
def test_what_is_not_made_in_parts_says_so(flags, words):
    out = CliRunner().invoke(app, ["reproduce", *flags])
    assert out.exit_code == 2
    assert words in " ".join(out.output.split())
