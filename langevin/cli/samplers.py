"""Commands about samplers: audit, kernels and cite."""

from __future__ import annotations

import dataclasses
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langevin.cli import complete
from langevin.cli.shared import Json, Quiet, Seed, Size, dim, fail, options, say, write_json


def audit(
    context: typer.Context,
    kernel: Annotated[
        str,
        typer.Argument(
            help="A kernel of ours, module:Kernel, file.py:Kernel or blackjax:NAME; then its options.",
            autocompletion=complete.kernels,
        ),
    ] = "",
    target: Annotated[
        list[str] | None,
        typer.Option(help="Only this target; may be given again.", autocompletion=complete.among(complete.TRIALS)),
    ] = None,
    json: Json = None,
    seed: Seed = 0,
    size: Size = "cpu",
    quiet: Quiet = False,
    every: Annotated[bool, typer.Option("--all", help="All registered samplers.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Say which samplers and targets there are.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder for audit.md and audit.json; one sampler replaces its row there.")
    ] = None,
) -> None:
    """Does a sampler converge to what it says, and at what price? Tried on targets whose truth is known."""
    from langevin.audit import subjects, trials
    from langevin.audit import table as audit_table
    from langevin.audit.entry import audit_kernel
    from langevin.core import progress
    from langevin.core.bar import Bar

    if show:
        print("samplers:", ", ".join(subjects.audited()), "\ntargets: ", ", ".join(trials.BUILT))
        return
    if every:
        line = partial(say, quiet=quiet)
        audit_table.write(out or Path("docs"), size=size, seed=seed, targets=target or (), say=line)
        return
    if not kernel:
        fail("audit: name a kernel, module:Kernel or blackjax:NAME; --list shows ours.")
    try:
        name, made = subjects.subject(kernel, options(context.args))
        began = time.perf_counter()
        with Bar({"audit": 1.0}, quiet=quiet) as bar, progress.listen(bar), progress.stage("audit"):
            result = audit_kernel(made, target or (), size, seed, name=name, told=progress.note)
    except (ValueError, ImportError) as error:
        fail(str(error))
    result.seconds = time.perf_counter() - began
    if json:
        result.write(json)
    if out:
        audit_table.add(out, kernel, result, size)
    if not quiet:
        _print_audit(result)


def kernels(
    name: Annotated[str, typer.Argument(help="One kernel, in full.", autocompletion=complete.kernels)] = "",
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """What each kernel is, its invariant law, its fields and its references."""
    from langevin.core import kernel as core
    from langevin.core.display import describe

    try:
        core.named(name or "sgld")
    except ValueError as error:
        fail(str(error))
    chosen = {name.lower(): core.KERNELS[name.lower()]} if name else dict(sorted(core.KERNELS.items()))
    rows = {n: _kernel_row(n, cls) for n, cls in chosen.items()}
    if json:
        write_json(json, rows)
    if quiet:
        return
    console = Console()
    if not name:
        table = Table("kernel", "what it is", "what it converges to", box=None, pad_edge=False, header_style="bold")
        for n, row in rows.items():
            table.add_row(n, escape(row["summary"]), escape(row["law"]))
        console.print(table)
        return
    row = rows[name.lower()]
    console.print(f"[bold]{name.lower()}[/bold]: {escape(row['summary'])}\nconverges to: {escape(row['law'])}\n")
    table = Table("field", "default", "meaning", box=None, pad_edge=False, header_style="bold")
    for field in describe(chosen[name.lower()]):
        table.add_row(field.name, escape(row["fields"][field.name]["default"]), escape(field.words))
    console.print(table)
    say("\n" + "\n".join(row["references"]))


def _print_audit(result) -> None:
    console, body = Console(), result.as_dict()
    console.print(f"[bold]{escape(result.kernel)}[/bold] claims: {escape(result.law)}\n", highlight=False)
    table = Table(*body["table"][0], box=None, pad_edge=False, header_style="bold")
    for row in body["table"]:
        table.add_row(*(escape(str(value)) for value in row.values()))
    console.print(table, highlight=False)
    figures = body["figures"]
    if "cost_time" in figures:
        console.print(
            f"\ncost of a step: {figures['cost_grad']:g} gradients, {figures['cost_time']:.2f}× the time of SGLD's"
        )
    colour = {"passed": "green", "as claimed": "yellow"}.get(result.outcome, "red")
    console.print(f"\n[{colour}]{result.outcome}[/{colour}] {escape(result.verdict)}", highlight=False)
    dim(result.name, body["provenance"])


def _kernel_row(name: str, cls: type) -> dict:
    from langevin.core import kernel as core
    from langevin.core.display import describe, show, summary

    fields = {
        f.name: {"default": "required" if f.default is dataclasses.MISSING else show(f.default), "meaning": f.words}
        for f in describe(cls)
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a wrong law is said in the table
            law = cls().law().words
    except TypeError:  # a kernel made of a kernel has no law of its own
        law = "that of its inner kernel"
    return dict(summary=summary(cls), law=law, fields=fields, references=core.references(cls))


def cite(
    name: Annotated[
        str, typer.Argument(help="A kernel; langevin itself if left out.", autocompletion=complete.kernels)
    ] = "",
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """What to cite: the papers a kernel comes from, and this library."""
    from langevin import __version__
    from langevin.core import kernel as core

    try:
        papers = core.references(core.named(name)) if name else []
    except ValueError as error:
        fail(str(error))
    entries = [*papers, f"langevin {__version__}: Bayesian computation for deep learning in JAX (software)."]
    if json:
        write_json(json, entries)
    if not quiet:
        print("\n".join(entries))
