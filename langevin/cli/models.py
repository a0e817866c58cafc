"""Commands about models: fit, predict, report and compare.

A model is a folder: what the estimator saves, the facts of its report, and fit.json, which says what it was fitted to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from langevin.cli.shared import Json, Quiet, Seed, fail, kernels, options, write_json

Model = Annotated[Path, typer.Argument(help="A folder that `langevin fit --out` wrote.")]
PARTS = 0.8, 0.2


def fit(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help="A CSV, Parquet or npz file, or diabetes, digits, breast_cancer, wine.")],
    target: Annotated[str | None, typer.Option(help="The column to predict; the last if left out.")] = None,
    task: Annotated[str | None, typer.Option(help="regression or classification; guessed if left out.")] = None,
    plan: Annotated[
        str, typer.Option(help="auto, mile or smile.", autocompletion=lambda: ["auto", "mile", "smile"])
    ] = "auto",
    kernel: Annotated[
        str | None,
        typer.Option(
            help="Sample with this kernel as it is; then its fields: --step-size 1e-5 …", autocompletion=kernels
        ),
    ] = None,
    hidden: Annotated[str, typer.Option(help="Widths of hidden layers.")] = "16,16",
    chains: Annotated[int, typer.Option(help="Networks trained, and chains.")] = 8,
    draws: Annotated[int | None, typer.Option(help="Draws of every chain; those of the plan if left out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the model in this folder.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report to this .html file.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted fit in --out.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Serve the progress on localhost while sampling.")] = False,
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a Bayesian network to a table: four fifths to train, one fifth to judge it by."""
    _devices()
    from langevin.data import parts, tables

    if report and report.suffix not in (".html", ".htm"):
        fail(f"--report is {report}; its name must end in .html.")
    if resume and not out:
        fail("fit: --resume needs --out, the folder of the interrupted fit.")
    if out and not resume and out.exists() and any(out.iterdir()):
        fail(f"fit: the folder {out} is not empty; choose another for --out, or add --resume to go on with it.")
    table = tables.read(data, target, task=task)
    console = Console(quiet=quiet)
    for note in table.notes:
        console.print(note, highlight=False, markup=False)
    train, test = parts.split(len(table.y), seed, PARTS)
    X, y = table.X.iloc[train], table.y[train]
    page = _shown(table.name, console) if live else None
    watch = (lambda model: page.show(_facts(model, table, test))) if page else None
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: Console(stderr=True).print(f"! {message}", markup=False)
        if resume:
            model = _resumed(out, X, y)
        else:
            given = dict(plan=plan, kernel=kernel, hidden=hidden, chains=chains, draws=draws, seed=seed, quiet=quiet)
            model = _estimator(table.task, given, options(context.args))
            model.fit(X, y, watch=watch)
    facts = _facts(model, table, test)
    if page:
        page.show(facts)
        page.end()
    result = _result(facts, data, seed, model.seconds_)
    told = dict(data=str(data), target=table.target_name, task=table.task, seed=seed, figures=result["figures"])
    if out:
        _saved(out, model, facts, told, (X, y), again=resume)
    if report:
        _page(facts, report)
    if json:
        write_json(json, result)
    _tell(console, facts, result)
    _end(console, model, out, report)


def predict(
    model: Model,
    data: Annotated[str, typer.Argument(help="A CSV or Parquet file with the columns the model was trained with.")],
    out: Annotated[Path | None, typer.Option(help="Write to this .csv or .parquet file; else to the screen.")] = None,
    quantiles: Annotated[str, typer.Option(help="Quantiles of the prediction, in regression.")] = "0.05,0.95",
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Predict new rows: mean, intervals, aleatoric and epistemic uncertainty."""
    from langevin.data import tables
    from langevin.estimators.files import load

    if out and out.suffix not in (".csv", ".parquet"):
        fail(f"--out is {out}; its name must end in .csv or .parquet.")
    estimator = load(model)
    rows = tables.rows(data, list(estimator.feature_names_in_))
    frame = estimator.predict_frame(rows, quantiles=_numbers("--quantiles", quantiles, float))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(out, index=False) if out.suffix == ".parquet" else frame.to_csv(out, index=False)
    if json:
        write_json(json, frame.to_dict("records"))
    if not quiet:
        odd = int(frame["outlier"].sum())
        Console(stderr=True).print(f"{len(frame)} rows, {odd} of them unlike the training data.", highlight=False)
        if not out:
            print(frame.to_csv(index=False), end="")


def report(
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="The .html file; report.html in the model's folder if left out.")
    ] = None,
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write the report of a model again."""
    from langevin.report import evidence
    from langevin.report.files import load

    facts, path = dataclasses.replace(load(model), evidence=evidence.read(model)), out or model / "report.html"
    _page(facts, path)
    if json:
        write_json(json, dict(name="report", figures=_figures(facts), table=[], provenance=facts.provenance))
    Console(quiet=quiet).print(f"report: {path}", highlight=False)


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
    from langevin.report.comparison import compared

    rows = compared(first, second)
    if json:
        figures = {f"{r['score']}_difference": r["difference"] for r in rows}
        write_json(json, dict(name="compare", figures=figures, table=rows, provenance={}))
    table = Table("score", str(first), str(second), "difference", "± error", "better", box=None, header_style="bold")
    for r in rows:
        form = ".2f" if "words" in r else ".4g"  # log evidence has many digits before those that count
        numbers = [format(r[k], form) for k in ("first", "second", "difference", "stderr")]
        table.add_row(r["score"], *numbers, r["better"])
    Console(quiet=quiet).print(table)
    for r in rows:
        if "words" in r:
            Console(quiet=quiet).print(r["words"], highlight=False, markup=False)
    for note in dict.fromkeys(n for r in rows for n in r["notes"]):
        Console(quiet=quiet).print(f"! {note}", highlight=False, markup=False)


# --- parts ----------------------------------------------------------------------------------------------------------


def _devices() -> None:
    """A CPU's cores as devices, for chains to be spread over; too late once JAX has begun."""
    import jax

    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", min(os.cpu_count() or 1, 8))


def _estimator(task: str, given: dict[str, Any], fields: dict[str, str]) -> Any:
    from langevin.audit.subjects import number
    from langevin.core.kernel import describe, named
    from langevin.core.record import replace
    from langevin.estimators.classifier import BayesianClassifier
    from langevin.estimators.regressor import BayesianRegressor

    kind = BayesianRegressor if task == "regression" else BayesianClassifier
    hidden = _numbers("--hidden", given["hidden"], int)
    made = kind(
        given["plan"], hidden=hidden, chains=given["chains"], random_state=given["seed"], verbose=not given["quiet"]
    )
    if given["draws"]:
        made.set_params(plan__draws=given["draws"])
    values = {name: number(text) for name, text in fields.items()}
    cls = named(given["kernel"]) if given["kernel"] else type(made._named_plan(1).kernel)
    known = [f.name for f in describe(cls)]
    wrong = next((name for name in values if name not in known), None)
    if wrong:
        fail(f"fit: {cls.__name__} has no option --{wrong.replace('_', '-')}; it has {', '.join(known)}.")
    return made.set_params(kernel=replace(cls(), **values) if given["kernel"] else values or None)


def _resumed(out: Path, X, y) -> Any:
    from langevin.estimators.files import load

    model = load(out)
    have = model.posterior_.info.ok.shape[1]
    if have >= model.plan_.draws:
        fail(f"fit: the model in {out} has all of its {have} draws; there is nothing to resume.")
    return model.more(X, y, model.plan_.draws - have)


def _facts(model: Any, table: Any, test: np.ndarray) -> Any:
    from langevin.report.gather import gather

    rows = table.X.iloc[test], table.y[test]
    if table.task == "classification":
        known = np.isin(rows[1], model.classes_)
        rows = rows[0][known], rows[1][known]
    return gather(model, *rows, name=table.name, target=table.target_name, notes=table.notes)


def _saved(out: Path, model: Any, facts: Any, told: dict[str, Any], train: tuple, *, again: bool) -> None:
    """The model in its folder; one that goes on replaces itself when all is written."""
    from langevin.report import comparison, evidence, files

    folder = out.with_name(out.name + ".new") if again else out
    model.save(folder)
    files.save(facts, folder)
    comparison.write(folder, facts, model, *train)
    if again and (out / evidence.FILE).exists():
        shutil.copy2(out / evidence.FILE, folder)  # it is of the model and its data, not of its draws
    write_json(folder / "fit.json", told)
    if again:
        old = out.with_name(out.name + ".old")
        out.rename(old)
        folder.rename(out)
        shutil.rmtree(old)


def _page(facts: Any, path: Path) -> None:
    from langevin.report.page import page

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(facts), encoding="utf-8")


def _figures(facts: Any) -> dict[str, float]:
    from langevin.report.scores import mixing, scores

    plain = lambda name: name.lower().replace(" ", "_").replace("_%", "").replace("90_coverage", "coverage90")
    found = {plain(name): float(value) for name, value in scores(facts, facts.said).items()}
    mixed = mixing(facts.diagnosis)
    return found | dict(rhat=mixed.rhat, ess=mixed.bulk)


def _result(facts: Any, data: str, seed: int, seconds: float) -> dict[str, Any]:
    provenance = dict(facts.provenance) | dict(seed=seed, seconds=round(seconds, 1), data=str(data))
    return dict(name="fit", figures=_figures(facts), table=[], provenance=provenance)


def _tell(console: Console, facts: Any, result: dict[str, Any]) -> None:
    from langevin.report.verdict import judge

    said = judge(facts)
    colour = {"good": "green", "care": "yellow"}.get(said.level, "red")
    console.print(f"\n[{colour}]{said.headline}[/{colour}]", highlight=False)
    for sentence in said.sentences:
        console.print(f"- {sentence}", highlight=False, markup=False)
    table = Table("on rows not seen", "", box=None, pad_edge=False, header_style="bold")
    for name, value in result["figures"].items():
        table.add_row(name, f"{value:.4g}")
    console.print()
    console.print(table)


def _end(console: Console, model: Any, out: Path | None, report: Path | None) -> None:
    have = model.posterior_.info.ok.shape[1]
    console.print(f"\n[dim]{model.seconds_:.0f} s[/dim]")
    if report:
        console.print(f"report: {report}", highlight=False)
    if out:
        console.print(f"model: {out}", highlight=False)
    if have < model.plan_.draws:
        how = f"add --resume --out {out}" if out else "give --out next time to be able to go on"
        console.print(f"interrupted after {have} of {model.plan_.draws} draws: {how}.", highlight=False)


def _numbers(flag: str, text: str, kind: Any) -> tuple:
    try:
        return tuple(kind(word) for word in text.replace(" ", "").split(",") if word)
    except ValueError:
        fail(f"{flag} is {text!r}; it must be numbers with commas between.")


def _shown(name: str, console: Console) -> Any:
    from langevin.report.live import Live

    live = Live(name)
    console.print(f"live: {live.address}", highlight=False)
    return live
