"""The command line: `langevin demo | bench | audit | kernels`. Every command takes --json, --seed, --quiet."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
import time
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    help="Bayesian computation for deep learning: samplers that say what they converge to.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the result to this file.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Size = Annotated[str, typer.Option(help="cpu, gpu or quick.")]
Figure = Annotated[Path | None, typer.Option(help="Draw the figure to this .png or .svg file.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Data = Annotated[str | None, typer.Option(help="A table in place of the usual one, by name or path.")]


@app.command()
def demo(json: Json = None, seed: Seed = 0, size: Size = "cpu", figure: Figure = None, quiet: Quiet = False) -> None:
    """Sample a Bayesian neural network on an embedded data set and say how good it is."""
    _run("langevin.experiments.demo", json, seed, size, figure, quiet, extra={"quiet": quiet})


@app.command()
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
    names = [n for n in _modules("langevin.benchmarks") if not n.endswith("_peer")]
    modules = {n: f"langevin.benchmarks.{n}" for n in names}
    if show:
        _list(modules)
    elif every:
        _all("Benchmarks", "make bench", modules, out, seed, size, quiet)
    elif name not in modules:
        _fail(f"bench: there is no benchmark named {name!r}; there are {', '.join(modules)}.")
    elif data and not _takes_data(modules[name]):
        _fail(f"bench: {name} has no table to replace; leave --data out.")
    else:
        _run(modules[name], json, seed, size, figure, quiet, extra={"data": data} if data else None)


@app.command()
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
    names = [n for n in _modules("langevin.experiments") if n != "demo"]
    modules = {n.replace("_", "-"): f"langevin.experiments.{n}" for n in names}
    if show:
        _list(modules)
    elif every:
        _all("Results", "make results", modules, out, seed, size, quiet)
    elif name not in modules:
        _fail(f"reproduce: there is no result named {name!r}; there are {', '.join(modules)}.")
    elif data and not _takes_data(modules[name]):
        _fail(f"reproduce: {name} has no table to replace; leave --data out.")
    else:
        _run(modules[name], json, seed, size, figure, quiet, extra={"data": data} if data else None)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def audit(
    context: typer.Context,
    kernel: Annotated[
        str,
        typer.Argument(help="A kernel of ours, module:Kernel, file.py:Kernel or blackjax:NAME; then its options."),
    ] = "",
    target: Annotated[list[str] | None, typer.Option(help="Only this target; may be given again.")] = None,
    json: Json = None,
    seed: Seed = 0,
    size: Size = "cpu",
    quiet: Quiet = False,
    every: Annotated[bool, typer.Option("--all", help="All registered samplers.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Say which samplers and targets there are.")] = False,
    out: Annotated[Path | None, typer.Option(help="With --all: a folder for audit.md and audit.json.")] = None,
) -> None:
    """Does a sampler converge to what it says, and at what price? Tried on targets whose truth is known."""
    from langevin.diagnostics import audit_table, subjects, trials
    from langevin.diagnostics.audit import audit as audited

    if show:
        print("samplers:", ", ".join(subjects.AUDITED), "\ntargets: ", ", ".join(trials.BUILT))
        return
    if every:
        say = (lambda line: None) if quiet else Console().print
        audit_table.write(out or Path("docs"), size=size, seed=seed, targets=target or (), say=say)
        return
    if not kernel:
        _fail("audit: name a kernel, module:Kernel or blackjax:NAME; --list shows ours.")
    try:
        name, made = subjects.subject(kernel, _options(context.args))
        began = time.perf_counter()
        with Console(stderr=True, quiet=quiet).status("audit") as status:
            told = lambda where: status.update(f"audit of {name}: {where}")
            result = audited(made, target or (), size, seed, name=name, told=told)
    except (ValueError, ImportError) as error:
        _fail(str(error))
    result.seconds = time.perf_counter() - began
    if json:
        result.write(json)
    if not quiet:
        _print_audit(result)


@app.command()
def kernels(
    name: Annotated[str, typer.Argument(help="One kernel, in full.")] = "",
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """What each kernel is, its invariant law, its fields and its references."""
    from langevin.core import kernel as core

    try:
        core.named(name or "sgld")
    except ValueError as error:
        _fail(str(error))
    chosen = {name.lower(): core.KERNELS[name.lower()]} if name else dict(sorted(core.KERNELS.items()))
    rows = {n: _kernel_row(n, cls) for n, cls in chosen.items()}
    if json:
        _write_json(json, rows)
    if quiet:
        return
    console = Console()
    if not name:
        table = Table("kernel", "what it is", "what it converges to", box=None, pad_edge=False, header_style="bold")
        for n, row in rows.items():
            table.add_row(n, row["summary"], row["law"])
        console.print(table)
        return
    row = rows[name.lower()]
    console.print(f"[bold]{name.lower()}[/bold]: {row['summary']}\nconverges to: {row['law']}\n")
    table = Table("field", "default", "meaning", box=None, pad_edge=False, header_style="bold")
    for field in core.describe(chosen[name.lower()]):
        table.add_row(field.name, row["fields"][field.name]["default"], field.words)
    console.print(table)
    console.print("\n" + "\n".join(row["references"]))


def main() -> None:
    """The entry point: a mistake of the user's gets one sentence and exit code 2."""
    try:
        app(standalone_mode=True)
    except (ValueError, FileNotFoundError) as error:
        _fail(str(error))


# --- what the commands share ---------------------------------------------------------------------------------------


def _run(module: str, json: Path | None, seed: int, size: str, figure: Path | None, quiet: bool, extra=None):
    if size not in ("cpu", "gpu", "quick"):
        _fail(f"--size is {size!r}; it must be cpu, gpu or quick.")
    if figure and figure.suffix not in (".png", ".svg"):
        _fail(f"--figure is {figure}; its name must end in .png or .svg.")
    began = time.perf_counter()
    try:
        result = importlib.import_module(module).run(size, seed, **(extra or {}))
    except ImportError as error:
        _fail(f"{module.split('.')[-1]} needs a package that is not installed ({error.name}): make setup-bench.")
    result.seconds, result.seed = time.perf_counter() - began, seed
    if json:
        result.write(json)
    if figure:
        if result.drawing is None:
            _fail(f"{result.name} has no figure to draw.")
        figure.parent.mkdir(parents=True, exist_ok=True)
        result.drawing(str(figure))
    if not quiet:
        _print(result, figure)
    return result


def _options(words: list[str]) -> dict[str, str]:
    """--name value and --name=value, as left over by the parser."""
    options, rest = {}, list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or ("=" not in word and not rest):
            _fail(f"audit: {word!r} is no option with a value; kernel options are --name value.")
        name, _, value = word[2:].partition("=")
        options[name.replace("-", "_")] = value if "=" in word else rest.pop(0)
    return options


def _print_audit(result) -> None:
    console, body = Console(), result.as_dict()
    console.print(f"[bold]{result.kernel}[/bold] claims: {result.law}\n", highlight=False)
    table = Table(*body["table"][0], box=None, pad_edge=False, header_style="bold")
    for row in body["table"]:
        table.add_row(*map(str, row.values()))
    console.print(table, highlight=False)
    figures, where = body["figures"], body["provenance"]
    if "cost_time" in figures:
        console.print(
            f"\ncost of a step: {figures['cost_grad']:g} gradients, {figures['cost_time']:.2f}× the time of SGLD's"
        )
    colour = {"passed": "green", "as claimed": "yellow"}.get(result.outcome, "red")
    console.print(f"\n[{colour}]{result.outcome}[/{colour}] {result.verdict}", highlight=False)
    console.print(f"\n[dim]{result.name}, seed {where['seed']}, {where['device']}, {where['seconds']} s[/dim]")


def _list(modules: dict[str, str]) -> None:
    for name, module in modules.items():
        print(f"{name:20} {_first_line(module)}")


def _all(title: str, command: str, modules: dict[str, str], out: Path | None, seed: int, size: str, quiet: bool):
    """Run every module whose data are there; with a folder, leave JSON, figures and a table there."""
    from langevin.data.tables import DataError

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
        from langevin.diagnostics.result import markdown

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
        console.print(f"[yellow]![/yellow] {note}", highlight=False)
    where = body["provenance"]
    console.print(f"\n[dim]{result.name}, seed {where['seed']}, {where['device']}, {where['seconds']} s[/dim]")
    if figure:
        console.print(f"figure: {figure}", highlight=False)


def _cell(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _kernel_row(name: str, cls: type) -> dict:
    from langevin.core import kernel as core
    from langevin.core.record import show

    fields = {
        f.name: {"default": "required" if f.default is dataclasses.MISSING else show(f.default), "meaning": f.words}
        for f in core.describe(cls)
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a wrong law is said in the table
            law = cls().law().words
    except TypeError:  # a kernel made of a kernel has no law of its own
        law = "that of its inner kernel"
    return dict(summary=core.summary(cls), law=law, fields=fields, references=core.references(cls))


def _modules(package: str) -> list[str]:
    names = (m.name for m in pkgutil.iter_modules(importlib.import_module(package).__path__))
    return sorted(name for name in names if not name.startswith("_"))


def _takes_data(module: str) -> bool:
    return "data" in inspect.signature(importlib.import_module(module).run).parameters


def _first_line(module: str) -> str:
    return (importlib.import_module(module).__doc__ or "").strip().split("\n")[0]


def _write_json(path: Path, body) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")


def _fail(sentence: str) -> None:
    Console(stderr=True).print(f"langevin: {sentence}", highlight=False, markup=False)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
