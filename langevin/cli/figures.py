"""Commands that print figures: bench and reproduce."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langevin.cli import complete
from langevin.cli.shared import Data, Figure, Json, Quiet, Seed, Size, dim, fail, say

SIZES = ("cpu", "gpu", "quick")
BAR_SIZES = ("cpu", "gpu")  # sizes that bars are stated for, unless a module says otherwise by a name of its own


class Kind(NamedTuple):
    """command: its name; thing: what it runs; package: where they are."""

    command: str
    thing: str
    package: str

    def modules(self) -> dict[str, str]:
        """Names as they are written on the command line, and modules."""
        names = (m.name for m in pkgutil.iter_modules(importlib.import_module(self.package).__path__))
        own = sorted(name for name in names if not name.startswith("_") and not name.endswith("_peer"))
        return {name.replace("_", "-"): f"{self.package}.{name}" for name in own}


class How(NamedTuple):
    """The flags of one run."""

    json: Path | None
    seed: int
    size: str
    figure: Path | None
    quiet: bool
    data: str | None
    store: Path | None = None
    seconds: float | None = None


def _command(kind: Kind, about: str) -> Callable[..., None]:
    """The command of a kind; `about` is its help."""

    def command(
        name: Annotated[
            str, typer.Argument(help="Which one; --list shows them.", autocompletion=complete.results)
        ] = "",
        json: Json = None,
        seed: Seed = 0,
        size: Size = "cpu",
        figure: Figure = None,
        quiet: Quiet = False,
        data: Data = None,
        every: Annotated[bool, typer.Option("--all", help="Run all of them.")] = False,
        show: Annotated[bool, typer.Option("--list", help="Say which there are.")] = False,
        out: Annotated[Path | None, typer.Option(help="A folder for the JSON file and the figure of each.")] = None,
        store: Annotated[
            Path | None,
            typer.Option(help="A folder in which long results keep what is done; the same command goes on."),
        ] = None,
        seconds: Annotated[
            float | None, typer.Option(help="With --store: stop after so long, with the figures there are.")
        ] = None,
    ) -> None:
        modules, how = kind.modules(), How(json, seed, size, figure, quiet, data, store, seconds)
        if size not in SIZES:
            fail(f"--size is {size!r}; it must be cpu, gpu or quick.")
        if figure and figure.suffix not in (".png", ".svg"):
            fail(f"--figure is {figure}; its name must end in .png or .svg.")
        if show:
            _list(modules)
        elif every:
            _all(modules, out, how)
        elif name not in modules:
            fail(f"{kind.command}: there is no {kind.thing} named {name!r}; there are {', '.join(modules)}.")
        else:
            _one(kind, name, modules[name], out, how)

    command.__doc__ = about
    return command


BENCH = Kind("bench", "benchmark", "langevin_lab.benchmarks")
REPRODUCE = Kind("reproduce", "result", "langevin_lab.experiments")
bench = _command(BENCH, "Measure speed and memory against the limit and the peers.")
reproduce = _command(REPRODUCE, "Reproduce a result of the papers, its figure included.")


def _one(kind: Kind, name: str, path: str, out: Path | None, how: How) -> None:
    takes = lambda part: part in inspect.signature(importlib.import_module(path).run).parameters
    if how.data and not takes("data"):
        fail(f"{kind.command}: {name} has no table to replace; leave --data out.")
    if (how.store or how.seconds) and not takes("store"):
        fail(f"{kind.command}: {name} is not made in parts; leave --store and --seconds out.")
    if how.seconds and not how.store:
        fail(f"{kind.command}: --seconds needs --store, a folder to go on from.")
    try:
        _kept(name, path, out, how)
    except ImportError as error:
        fail(f"{kind.command}: {error}")


def _kept(name: str, path: str, out: Path | None, how: How) -> None:
    """Run it; with a folder, leave JSON and figure there, named as the result is and by its table."""
    file = out / (f"{name}-{Path(how.data).stem}" if how.data else name) if out else None
    result = _run(name, path, how._replace(json=how.json or (file and file.with_suffix(".json"))))
    if file and result.drawing:
        result.drawing(str(file.with_suffix(".png")))


def _run(name: str, path: str, how: How) -> Any:
    from langevin.core import progress
    from langevin.core.bar import Pulse

    module = _ready(name, path)
    began = time.perf_counter()
    with Pulse(name, quiet=how.quiet) as pulse, progress.listen(pulse):
        progress.tell(0, 1)
        given = {k: v for k in ("data", "store", "seconds") if (v := getattr(how, k)) is not None}
        result = module.run(how.size, how.seed, **given)
    result.seconds, result.seed = time.perf_counter() - began, how.seed
    if how.size not in getattr(module, "BAR_SIZES", BAR_SIZES):  # a bar of another size says nothing of these figures
        result.bars, result.table = {}, [{k: v for k, v in row.items() if k != "bar"} for row in result.table]
    if how.json:
        result.write(how.json)
    if how.figure:
        if result.drawing is None:
            fail(f"{result.name} has no figure to draw.")
        how.figure.parent.mkdir(parents=True, exist_ok=True)
        result.drawing(str(how.figure))
    if not how.quiet:
        _print(result, how.figure)
    return result


def _ready(name: str, path: str) -> ModuleType:
    """The module, whose `NEEDS` are checked before hours of work: names of packages to import."""
    module = importlib.import_module(path)
    missing = [package for package in getattr(module, "NEEDS", ()) if importlib.util.find_spec(package) is None]
    if missing:
        packages = ", ".join(missing)
        raise ModuleNotFoundError(
            f"{name} needs {packages}, not installed here: pip install {' '.join(missing)}, or make setup-bench.",
            name=missing[0],
        )
    return module


def _list(modules: dict[str, str]) -> None:
    for name, module in modules.items():
        print(f"{name:20} {_first_line(module)}")


def _all(modules: dict[str, str], out: Path | None, how: How) -> None:
    """Run every module whose data and packages are there; with a folder, leave JSON and figures there."""
    from langevin.data.files import DataError

    for name, path in modules.items():
        try:
            _kept(name, path, out, how._replace(json=None, figure=None))
        except (DataError, FileNotFoundError, ImportError) as error:
            say(f"langevin: {name} is left out: {error}", error=True)


def _print(result, figure: Path | None) -> None:
    console, body = Console(), result.as_dict()
    if body["table"]:
        columns = list(dict.fromkeys(k for row in body["table"] for k in row))
        table = Table(*map(escape, columns), box=None, pad_edge=False, header_style="bold")
        for row in body["table"]:
            table.add_row(*(_cell(row.get(c, "")) for c in columns))
        console.print(table)
        console.print()
    for key, value in body["figures"].items():
        bar = f"   bar {body['bars'][key]}" if key in body["bars"] else ""
        console.print(f"{escape(key)} = [bold]{value}[/bold]{escape(bar)}", highlight=False)
    for note in result.notes:
        console.print(f"[yellow]![/yellow] {escape(note)}", highlight=False)
    dim(result.name, body["provenance"])
    if figure:
        say(f"figure: {figure}")


def _cell(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def _first_line(module: str) -> str:
    return (importlib.import_module(module).__doc__ or "").strip().split("\n")[0]
