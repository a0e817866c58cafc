"""The command that weighs a model: log Z by several methods.

Of a model that `langevin fit` saved, the result stays in its folder, for its report and for `langevin compare`.
"""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from langevin.cli import complete
from langevin.cli.fit import PARTS
from langevin.cli.shared import Json, Quiet, Seed, fail, say, write_json

USUAL = ("laplace", "ais", "adapted", "dais")
BATCHES = ("midpoint", "stages")
DOUBT = "the error is not to be trusted; take a finer ladder."


def evidence(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            help="A script.py with `target` and `base`; a table; or a folder that `langevin fit` wrote.",
            autocompletion=complete.tables,
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(help="The table that a folder's model is to explain; the rows it was trained on if left out."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict; the last if left out.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method; may be given again.", autocompletion=complete.among(complete.METHODS)),
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

    from langevin.core import noise, progress
    from langevin.core.bar import Bar
    from langevin.evidence import METHODS, entry
    from langevin.report.evidence import DOCUMENT, FEW, write

    density, base, draws, about = _found(source, data, target, hidden)
    chosen = method or (BATCHES if density.stochastic else USUAL)
    unknown = [name for name in chosen if name not in METHODS]
    if unknown:
        fail(f"evidence: there is no method {unknown[0]!r}; there are {', '.join(METHODS)}.")
    rows, bar = [], Bar(dict.fromkeys(chosen, 1.0), quiet=quiet)
    context.call_on_close(bar.close)
    for key, name in zip(jax.random.split(noise.key(seed), len(chosen)), chosen, strict=True):
        began, row = time.perf_counter(), dict[str, Any](method=name)
        with progress.listen(bar), progress.stage(name), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                row |= _told(entry.log_evidence(key, density, base, method=name, draws=draws))
            except (ValueError, ImportError) as error:
                row["words"] = str(error)
            if row.get("ess", FEW) < FEW:
                row["words"] = f"the effective number of weights is {row['ess']:.0f}: " + DOUBT
        row["words"] = " ".join([row.get("words", ""), *(str(w.message) for w in said)]).strip()
        rows.append(row | {"seconds": round(time.perf_counter() - began, 2)})
        if about and "log_z" in row:
            write(Path(source), about, rows[-1] | {"seed": seed})  # now: a later method may take long, or fail
    bar.close()
    if json:
        write_json(json, {"source": source, "seed": seed, "table": rows})
    if not quiet:
        _print(rows)
        if about and any("log_z" in row for row in rows):
            where = Path(source) / f"{DOCUMENT}.json"
            say(f"kept in {where}; `langevin report {source}` shows it.")
    if all("log_z" not in row for row in rows):
        fail(f"evidence: no method gave an answer; {rows[0]['words']}")


def _found(source: str, data: str | None, target: str | None, hidden: str) -> tuple[Any, Any, Any, dict | None]:
    """The target, its base, draws of it where a script has some, and for a saved model what it is weighed on."""
    path = Path(source)
    if path.suffix == ".py":
        if not path.exists():
            fail(f"evidence: there is no file {source}.")
        import runpy

        from langevin.core.target import Target

        names = runpy.run_path(source)
        missing = [name for name in ("target", "base") if name not in names]
        if missing:
            fail(f"evidence: {source} has no {missing[0]!r}; a script sets `target` and `base`, and `draws` if known.")
        if not isinstance(names["target"], Target):
            what = type(names["target"]).__name__
            fail(f"evidence: `target` in {source} is {what}; it must be a target such as Density(fn) or Bayes(…).")
        return names["target"], names["base"], names.get("draws"), None
    from langevin.data import tables
    from langevin.estimators import classifier, files, regressor

    if path.is_dir():
        X, y, weight, about = _rows(path, data, target)
        return *files.load(path).target(X, y, weight), None, about
    table = tables.read(source, target)
    kind = regressor.BayesianRegressor if table.task == "regression" else classifier.BayesianClassifier
    model = kind(hidden=tuple(int(n) for n in hidden.split(",") if n), random_state=0)
    return *model.target(table.X, table.y), None, None


def _rows(folder: Path, data: str | None, target: str | None) -> tuple[Any, np.ndarray, Any, dict]:
    """Features, targets and weights of a table, or of the rows that a model was trained on; and about them."""
    from langevin.data import parts, tables
    from langevin.report import comparison
    from langevin.report.evidence import fingerprint, read

    if not (folder / "fit.json").exists() and data is None:
        fail(f"evidence: {folder} is a model; say what it is to explain by --data table.csv.")
    read(folder)  # what is wrong with it is said before hours of work
    fitted = _fitted(folder)
    source, chosen = data or fitted["data"], fitted.get("columns", {})
    table = tables.read(source, target or fitted.get("target"), task=fitted.get("task"), **chosen)
    X, y, weight = table.X, table.y, table.weights
    if data is None:
        train, _ = parts.split(len(y), fitted["seed"], PARTS)
        X, y, weight = X.iloc[train], y[train], None if weight is None else weight[train]
    rows, trained = fingerprint(y), comparison.trained(folder)
    if data is None and rows != trained:
        fail(f"evidence: {fitted['data']} is no longer the table of {folder}; say what to explain by --data table.csv.")
    about = dict(rows=rows, n=len(y), task=table.task, data=table.name, target=table.target_name)
    return X, y, weight, about | dict(trained=rows == trained)


def _fitted(folder: Path) -> dict[str, Any]:
    """What `langevin fit` wrote of its table, or what is known of an estimator saved without it."""
    from langevin.estimators.files import load
    from langevin.report.folder import read_fit

    return read_fit(folder) or dict(task=load(folder).task)


def _told(found: Any) -> dict[str, Any]:
    """An Evidence as plain numbers."""
    from langevin.core.record import values

    body = values(found)
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
            say(f"! {row['method']}: {row['words']}")
