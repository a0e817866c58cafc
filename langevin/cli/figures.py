"""Commands that print figures: bench and reproduce."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langevin.cli.shared import Data, Figure, Json, Quiet, Seed, Size, fail


def bench(
    name: Annotated[str, typer.Argument(help="Which comparison; --list shows them.")] = "",
    json: Json = None,
    seed: Seed = 0,
    size: Size = "cpu",
    figure: Figure = None,
    quiet: Quiet = False,
    data: Data = None,
    every: Annotated[bool, typer.Option("--all", help="Run all of them.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Say which there are.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="With --all: a folder for the JSON files and one Markdown table.")
    ] = None,
) -> None:
    """Measure speed and memory against the limit and the peers."""
    names = [n for n in _modules("langevin_lab.benchmarks") if not n.endswith("_peer")]
    modules = {n: f"langevin_lab.benchmarks.{n}" for n in names}
    words = ("bench", "benchmark", "Benchmarks", "make bench")
    _dispatched(
        words, modules, name, data, show, every, out, dict(json=json, seed=seed, size=size, figure=figure, quiet=quiet)
    )


def reproduce(
    name: Annotated[str, typer.Argument(help="Which result; --list shows them.")] = "",
    json: Json = None,
    seed: Seed = 0,
    size: Size = "cpu",
    figure: Figure = None,
    quiet: Quiet = False,
    data: Data = None,
    every: Annotated[bool, typer.Option("--all", help="Reproduce all of them.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Say which there are.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="With --all: a folder for JSON files, figures and one Markdown table.")
    ] = None,
) -> None:
    """Reproduce a result of the papers, its figure included."""
    modules = {n.replace("_", "-"): f"langevin_lab.experiments.{n}" for n in _modules("langevin_lab.experiments")}
    words = ("reproduce", "result", "Results", "make results")
    _dispatched(
        words, modules, name, data, show, every, out, dict(json=json, seed=seed, size=size, figure=figure, quiet=quiet)
    )


def _dispatched(words, modules: dict[str, str], name, data, show: bool, every: bool, out, how: dict) -> None:
    """List, run all, or run one of these modules."""
    command, thing, title, target = words
    if show:
        _list(modules)
    elif every:
        _all(title, target, modules, out, how["seed"], how["size"], how["quiet"])
    elif name not in modules:
        fail(f"{command}: there is no {thing} named {name!r}; there are {', '.join(modules)}.")
    elif data and not _takes_data(modules[name]):
        fail(f"{command}: {name} has no table to replace; leave --data out.")
    else:
        _run(modules[name], *how.values(), extra={"data": data} if data else None)


def _run(module: str, json: Path | None, seed: int, size: str, figure: Path | None, quiet: bool, extra=None):
    if size not in ("cpu", "gpu", "quick"):
        fail(f"--size is {size!r}; it must be cpu, gpu or quick.")
    if figure and figure.suffix not in (".png", ".svg"):
        fail(f"--figure is {figure}; its name must end in .png or .svg.")
    began = time.perf_counter()
    try:
        result = importlib.import_module(module).run(size, seed, **(extra or {}))
    except ImportError as error:
        fail(f"{module.split('.')[-1]} needs a package that is not installed ({error.name}): make setup-bench.")
    result.seconds, result.seed = time.perf_counter() - began, seed
    if json:
        result.write(json)
    if figure:
        if result.drawing is None:
            fail(f"{result.name} has no figure to draw.")
        figure.parent.mkdir(parents=True, exist_ok=True)
        result.drawing(str(figure))
    if not quiet:
        _print(result, figure)
    return result


def _list(modules: dict[str, str]) -> None:
    for name, module in modules.items():
        print(f"{name:20} {_first_line(module)}")


def _all(title: str, command: str, modules: dict[str, str], out: Path | None, seed: int, size: str, quiet: bool):
    """Run every module whose data are there; with a folder, leave JSON, figures and a table there."""
    from langevin.data.files import DataError

    for name, module in modules.items():
        path = out / f"{name}.json" if out else None
        try:
            result = _run(module, path, seed, size, None, quiet)
        except (DataError, FileNotFoundError) as error:
            Console(stderr=True).print(f"langevin: {name} is left out: {error}", highlight=False, markup=False)
            continue
        if out and result.drawing:
            result.drawing(str(out / f"{name}.png"))
    if out:
        from langevin.core.result import markdown

        (out / "README.md").write_text(markdown(out, title, command))


def _print(result, figure: Path | None) -> None:
    console, body = Console(), result.as_dict()
    if body["table"]:
        columns = list(dict.fromkeys(k for row in body["table"] for k in row))
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in body["table"]:
            table.add_row(*(_cell(row.get(c, "")) for c in columns))
        console.print(table)
        console.print()
    for key, value in body["figures"].items():
        bar = f"   bar {body['bars'][key]}" if key in body["bars"] else ""
        console.print(f"{key} = [bold]{value}[/bold]{bar}", highlight=False)
    for note in result.notes:
        console.print(f"[yellow]![/yellow] {escape(note)}", highlight=False)
    where = body["provenance"]
    console.print(f"\n[dim]{result.name}, seed {where['seed']}, {where['device']}, {where['seconds']} s[/dim]")
    if figure:
        console.print(f"figure: {figure}", highlight=False)


def _cell(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _modules(package: str) -> list[str]:
    names = (m.name for m in pkgutil.iter_modules(importlib.import_module(package).__path__))
    return sorted(name for name in names if not name.startswith("_"))


def _takes_data(module: str) -> bool:
    return "data" in inspect.signature(importlib.import_module(module).run).parameters


def _first_line(module: str) -> str:
    return (importlib.import_module(module).__doc__ or "").strip().split("\n")[0]
