"""The command that weighs a model: log Z by several methods."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from langevin.cli.shared import Json, Quiet, Seed, fail, write_json

USUAL = ("laplace", "ais", "smc", "dais")
BATCHES = ("midpoint", "stages")
FEW = 10  # effective weights below which an error from their spread says little


def methods() -> list[str]:
    from langevin.evidence.entry import METHODS

    return list(METHODS)


def evidence(
    source: Annotated[
        str,
        typer.Argument(help="A script.py with `target` and `base`; a table; or a folder that `langevin fit` wrote."),
    ],
    data: Annotated[str | None, typer.Option(help="The table that a folder's model is to explain.")] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict; the last if left out.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be given again.", autocompletion=methods)
    ] = None,
    hidden: Annotated[str, typer.Option(help="Widths of hidden layers, for a table.")] = "16,16",
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Weigh a model: log Z, its error and bounds by several methods, and what each is worth.

    A table's numbers to predict are taken in units of their standard deviation.
    """
    import jax

    from langevin.core import noise
    from langevin.core.target import minibatched
    from langevin.evidence.entry import METHODS
    from langevin.evidence.entry import evidence as weighed

    density, base, draws = _found(source, data, target, hidden)
    chosen = method or (BATCHES if minibatched(density) else USUAL)
    unknown = [name for name in chosen if name not in METHODS]
    if unknown:
        fail(f"evidence: there is no method {unknown[0]!r}; there are {', '.join(METHODS)}.")
    rows = []
    for key, name in zip(jax.random.split(noise.key(seed), len(chosen)), chosen, strict=True):
        began, row = time.perf_counter(), dict[str, Any](method=name)
        with (
            Console(stderr=True, quiet=quiet).status(f"evidence by {name}"),
            warnings.catch_warnings(record=True) as said,
        ):
            warnings.simplefilter("always")
            try:
                row |= _told(weighed(key, density, base, method=name, draws=draws))
            except (ValueError, ImportError) as error:
                row["words"] = str(error)
            if row.get("ess", FEW) < FEW:
                row["words"] = (
                    f"only {row['ess']:.0f} weights count: the error is not to be trusted; take a finer ladder."
                )
        row["words"] = " ".join([row.get("words", ""), *(str(w.message) for w in said)]).strip()
        rows.append(row | {"seconds": round(time.perf_counter() - began, 2)})
    if json:
        write_json(json, {"source": source, "seed": seed, "table": rows})
    if not quiet:
        _print(rows)
    if all("log_z" not in row for row in rows):
        fail(f"evidence: no method gave an answer; {rows[0]['words']}")


def _found(source: str, data: str | None, target: str | None, hidden: str) -> tuple[Any, Any, Any]:
    """The target, its base, and draws of it where a script has some."""
    path = Path(source)
    if path.suffix == ".py":
        if not path.exists():
            fail(f"evidence: there is no file {source}.")
        import runpy

        names = runpy.run_path(source)
        missing = [name for name in ("target", "base") if name not in names]
        if missing:
            fail(f"evidence: {source} has no {missing[0]!r}; a script sets `target` and `base`, and `draws` if known.")
        return names["target"], names["base"], names.get("draws")
    from langevin.data import tables
    from langevin.estimators import classifier, files, regressor

    if path.is_dir():
        if data is None:
            fail(f"evidence: {source} is a model; say what it is to explain by --data table.csv.")
        model = files.load(path)
        table = tables.read(data, target, task=model.task)
    else:
        table = tables.read(source, target)
        kind = regressor.BayesianRegressor if table.task == "regression" else classifier.BayesianClassifier
        model = kind(hidden=tuple(int(n) for n in hidden.split(",") if n), random_state=0)
    return *model.target(table.X, table.y), None


def _told(found: Any) -> dict[str, Any]:
    """An Evidence as plain numbers."""
    body = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    return {k: v if isinstance(v, str) else float(v) for k, v in body.items()}


def _print(rows: list[dict[str, Any]]) -> None:
    console = Console()
    table = Table("method", "log Z", "± s.e.", "lower", "upper", "ESS", "gradients", "s", "guarantee", box=None)
    number = lambda v, form: "–" if not math.isfinite(v) else format(v, form)
    for row in rows:
        if "log_z" not in row:
            table.add_row(row["method"], *[""] * 6, f"{row['seconds']:.1f}", "no answer")
            continue
        bounds = [number(row[k], ".2f") for k in ("log_z", "stderr", "lower", "upper")]
        costs = [number(row["ess"], ".0f"), number(row["n_grad"], ".3g"), f"{row['seconds']:.1f}"]
        table.add_row(row["method"], *bounds, *costs, row["guarantee"])
    console.print(table)
    for row in rows:
        if row["words"]:
            console.print(f"[yellow]![/yellow] {row['method']}: {row['words']}", highlight=False)
