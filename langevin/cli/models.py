"""Commands about models: predict, report and compare. A model is a folder (`report.folder`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langevin.cli.shared import Json, Quiet, Seed, fail, say, write_json

Model = Annotated[Path, typer.Argument(help="A folder that `langevin fit --out` wrote.")]


def predict(
    model: Model,
    data: Annotated[str, typer.Argument(help="A CSV or Parquet file with the columns the model was trained with.")],
    out: Annotated[Path | None, typer.Option(help="Write to this .csv or .parquet file; else to the screen.")] = None,
    quantiles: Annotated[str, typer.Option(help="Quantiles of the prediction, in regression.")] = "0.05,0.95",
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Columns of the input to write first; identifiers found in the fit if left out."),
    ] = None,
    keep_input: Annotated[bool, typer.Option("--keep-input", help="Write all columns of the input first.")] = False,
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Predict new rows: mean, intervals, aleatoric and epistemic uncertainty.

    The file is read, predicted and written in blocks, so that it may be larger than memory.
    """
    from langevin.cli.blocks import Writer, kept_columns, predicted
    from langevin.core import progress
    from langevin.core.bar import Bar
    from langevin.data import tables
    from langevin.estimators.files import load
    from langevin.report.folder import read_fit

    if out and out.suffix not in (".csv", ".parquet"):
        fail(f"--out is {out}; its name must end in .csv or .parquet.")
    at = numbers_of("--quantiles", quantiles, float)
    if any(not 0 < q < 1 for q in at):
        fail(f"--quantiles is {quantiles!r}; each must lie strictly between 0 and 1.")
    estimator = load(model)
    kinds, known = estimator.columns_.kinds, read_fit(model).get("identifiers", ())
    as_written = keep_input or any(name.strip() in kinds for name in (identifier or "").split(","))
    rows = tables.rows(data, kinds, as_written=as_written)
    kept = kept_columns(rows.names, known, identifier, everything=keep_input)
    records: list[dict[str, Any]] = []
    bar = Bar({"predict": 1.0}, quiet=quiet or out is None)
    with bar, progress.listen(bar), progress.stage("predict"), Writer(out, quiet=quiet) as writer:
        for frame in predicted(estimator, rows, at, kept):
            writer.add(frame)
            progress.tell(writer.rows, rows.total)
            records += frame.to_dict("records") if json else []
    if json:
        write_json(json, records)
    say(f"{writer.rows} rows, {writer.odd} of them unlike the training data.", error=True, quiet=quiet)


def report(
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="The .html file; report.html in the model's folder if left out.")
    ] = None,
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write the report of a model again; of several targets one each."""
    from langevin.report.folder import read_data
    from langevin.report.verdict import judge

    every = read_data(model)
    paths = write_reports(every, out or model / "report.html")
    if json:
        told = [dict(figures=figures_of(facts), table=[], verdict=judge(facts).as_dict()) for facts in every]
        write_json(json, dict(name="report") | join_targets(every, told) | dict(provenance=every[0].provenance))
    for path in paths:
        say(f"report: {path}", quiet=quiet)


def compare(
    first: Model,
    second: Model,
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Which of two models predicts better, on rows held out (if they are the same) and by PSIS-LOO and WAIC.

    With `langevin evidence` of both on the same rows it tells the Bayes factor too.
    """
    from langevin.report.comparison import compared, left_out

    rows, missing = compared(first, second), left_out(first, second)
    if json:
        figures = {f"{r['score']}_difference": r["difference"] for r in rows}
        write_json(json, dict(name="compare", figures=figures, table=rows, notes=missing, provenance={}))
    models = escape(str(first)), escape(str(second))
    table = Table("score", *models, "difference", "± error", "better", box=None, header_style="bold")
    for r in rows:
        form = ".2f" if "words" in r else ".4g"  # log evidence has many digits before those that count
        numbers = [format(r[k], form) for k in ("first", "second", "difference", "stderr")]
        table.add_row(r["score"], *numbers, escape(r["better"]))
    Console(quiet=quiet).print(table)
    for told in [r["words"] for r in rows if "words" in r] + missing:
        say(told, quiet=quiet)
    for note in dict.fromkeys(n for r in rows for n in r["notes"]):
        say(f"! {note}", quiet=quiet)


# --- parts ----------------------------------------------------------------------------------------------------------


def write_reports(every: Sequence[Any], path: Path) -> list[Path]:
    """A page for every target; where they are."""
    from langevin.report.folder import page_paths, write_page
    from langevin.report.page import page

    paths = page_paths(path, every)
    for facts, place in zip(every, paths, strict=True):
        write_page(place, page(facts))
    return paths


def join_targets(every: Sequence[Any], told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is told of one target as it is; of several, figures by target and name, and the rest under `targets`."""
    if len(told) == 1:
        return told[0]
    names = [facts.target for facts in every]
    figures = {f"{name}_{k}": v for name, one in zip(names, told, strict=True) for k, v in one["figures"].items()}
    return dict(figures=figures, table=[], targets=dict(zip(names, told, strict=True)))


def figures_of(facts: Any) -> dict[str, float]:
    from langevin.report.scores import compare_baselines, mixing, scores

    names = {"90 % coverage": "coverage90", "50 % coverage": "coverage50", "R²": "r2"}
    plain = lambda name: names.get(name, name.lower().replace(" ", "_"))
    found = {plain(name): float(value) for name, value in scores(facts, facts.predictions).items()}
    over = {f"skill_{c.name}": c.skill for c in compare_baselines(facts)}
    if facts.approximate:
        return found | over | ({} if facts.pareto_k != facts.pareto_k else dict(pareto_k=facts.pareto_k))
    mixed = mixing(facts.diagnosis)
    return found | over | dict(rhat=mixed.rhat, ess=mixed.bulk)


def numbers_of(flag: str, text: str, kind: Any) -> tuple:
    try:
        return tuple(kind(word) for word in text.replace(" ", "").split(",") if word)
    except ValueError:
        fail(f"{flag} is {text!r}; it must be numbers with commas between.")
