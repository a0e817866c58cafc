"""The command that fits a model, and goes on with a fit that was interrupted."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from langevin.cli.columns import Categorical, Drop, Keep, Likelihood, Weights, choices, likelihood_of
from langevin.cli.models import figures_of, numbers_of, write_report
from langevin.cli.shared import Json, Quiet, Seed, fail, kernels, options, say, write_json

PARTS = 0.8, 0.2


def fit(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help="A CSV, Parquet or npz file, or diabetes, digits, breast_cancer, wine.")],
    target: Annotated[str | None, typer.Option(help="The column to predict; the last if left out.")] = None,
    task: Annotated[str | None, typer.Option(help="regression or classification; guessed if left out.")] = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    weights: Weights = None,
    likelihood: Likelihood = "auto",
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
    told = _opened(context, out, resume) if out else {}
    target, seed = target or told.get("target"), told.get("seed", seed)
    columns = choices(drop, keep, categorical, weights) or told.get("columns", {})
    table = tables.read(data, target, task=task, **columns)
    family, guessed = likelihood_of(likelihood, table.task, table.y)
    table = dataclasses.replace(table, notes=(*table.notes, *guessed))
    console = Console(quiet=quiet)
    for note in table.notes:
        say(note, quiet=quiet)
    train, test = parts.split(len(table.y), seed, PARTS)
    X, y = table.X.iloc[train], table.y[train]
    weight = None if table.weights is None else table.weights[train]
    page = _shown(table.name, console) if live else None
    watch = (lambda model: page.show(_facts(model, table, test))) if page else None
    told = dict(data=str(data), target=table.target_name, task=table.task, seed=seed, columns=columns)
    told |= dict(identifiers=list(table.identifiers))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: say(f"! {message}", error=True)
        if resume:
            model = _resumed(out, X, y, weight, told)
        else:
            given: dict[str, Any] = dict(
                plan=plan, kernel=kernel, hidden=hidden, chains=chains, draws=draws, seed=seed, quiet=quiet
            )
            given |= dict(family=family)
            model = _estimator(table.task, given, options(context.args))
            model.fit(X, y, weight, watch=watch, callbacks=_kept(out, model, told))
    facts = _facts(model, table, test, (X, y))
    if page:
        page.show(facts)
        page.end()
    result = _result(facts, data, seed, model.seconds_)
    if out:
        from langevin.report import folder

        folder.save(out, model, facts, told | dict(figures=result["figures"]), (X, y))
    if report:
        write_report(facts, report)
    if json:
        write_json(json, result)
    _tell(console, result)
    _end(console, model, out, report)


# --- parts ----------------------------------------------------------------------------------------------------------


def _devices() -> None:
    """A CPU's cores as devices, for chains to be spread over; too late once JAX has begun."""
    import jax

    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", min(os.cpu_count() or 1, 8))


def _estimator(task: str, given: dict[str, Any], fields: dict[str, str]) -> Any:
    from langevin.audit.subjects import number
    from langevin.core.kernel import describe, named
    from langevin.estimators.classifier import BayesianClassifier
    from langevin.estimators.regressor import BayesianRegressor

    kind = BayesianRegressor if task == "regression" else BayesianClassifier
    hidden = numbers_of("--hidden", given["hidden"], int)
    made = kind(
        given["plan"],
        **given["family"],
        hidden=hidden,
        chains=given["chains"],
        random_state=given["seed"],
        verbose=not given["quiet"],
    )
    if given["draws"]:
        made.set_params(plan__draws=given["draws"])
    values = {name: number(text) for name, text in fields.items()}
    cls = named(given["kernel"]) if given["kernel"] else type(made._named_plan(1).kernel)
    known = [f.name for f in describe(cls)]
    wrong = next((name for name in values if name not in known), None)
    if wrong:
        fail(f"fit: {cls.__name__} has no option --{wrong.replace('_', '-')}; it has {', '.join(known)}.")
    required = [p.name for p in inspect.signature(cls).parameters.values() if p.default is p.empty]
    needed = [name for name in required if name not in values]
    if given["kernel"] and needed:
        fail(f"fit: {cls.__name__} needs a value for {', '.join(needed)}; such a kernel is made in Python.")
    return made.set_params(kernel=cls(**values) if given["kernel"] else values or None)


def _opened(context: typer.Context, out: Path, resume: bool) -> dict[str, Any]:
    """The folder made ready and held until the command ends; what the fit that is to go on was fitted to."""
    from langevin.report import folder

    context.call_on_close(folder.lock(out).acquire().release)
    folder.recover(out)
    if not resume and out.exists() and (not out.is_dir() or any(out.iterdir())):
        fail(f"fit: the folder {out} is not empty; choose another for --out, or add --resume to go on with it.")
    if resume and not out.exists():
        fail(f"fit: there is no folder {out}: that fit ended before its first draws; start it again without --resume.")
    return folder.read_fit(out) if resume else {}


def _kept(out: Path | None, model: Any, told: dict[str, Any]) -> tuple:
    """A callback that saves the model after every chunk of draws, for --resume."""
    from langevin.estimators.snapshot import Snapshot
    from langevin.report import folder

    if out is None:
        return ()
    fitted = hasattr(model, "posterior_")
    before = [(model.posterior_.draws, model.posterior_.info)] if fitted else []
    return (Snapshot(model, lambda now: folder.save_part(out, now, told), before, model.seconds_ if fitted else 0.0),)


def _resumed(out: Path, X, y, weight, told: dict[str, Any]) -> Any:
    from langevin.estimators.files import load

    model = load(out)
    have = model.posterior_.info.ok.shape[1]
    if have >= model.plan_.draws:
        fail(f"fit: the model in {out} has all of its {have} draws; there is nothing to resume.")
    return model.more(X, y, model.plan_.draws - have, weight, callbacks=_kept(out, model, told))


def _facts(model: Any, table: Any, test: np.ndarray, train: tuple[Any, np.ndarray] | None = None) -> Any:
    from langevin.report.gather import gather

    rows = table.X.iloc[test], table.y[test]
    if table.task == "classification":
        known = np.isin(rows[1], model.classes_)
        rows = rows[0][known], rows[1][known]
    return gather(model, *rows, name=table.name, target=table.target_name, notes=table.notes, train=train)


def _result(facts: Any, data: str, seed: int, seconds: float) -> dict[str, Any]:
    from langevin.report.scores import compare_baselines
    from langevin.report.verdict import judge

    baselines = [
        dict(model=c.name, nll_difference=c.gap.mean, stderr=c.gap.stderr, skill=c.skill, **c.scores)
        for c in compare_baselines(facts)
    ]
    provenance = dict(facts.provenance) | dict(seed=seed, seconds=round(seconds, 1), data=str(data))
    verdict = judge(facts).as_dict()
    return dict(name="fit", figures=figures_of(facts), table=baselines, verdict=verdict, provenance=provenance)


def _tell(console: Console, result: dict[str, Any]) -> None:
    verdict = result["verdict"]
    colour = {"good": "green", "care": "yellow"}.get(verdict["level"], "red")
    console.print(f"\n[{colour}]{verdict['headline']}[/{colour}]", highlight=False)
    for finding in verdict["findings"]:
        say(f"- {finding['sentence']}", quiet=console.quiet)
    table = Table("on rows not seen", "", box=None, pad_edge=False, header_style="bold")
    for name, value in result["figures"].items():
        table.add_row(name, f"{value:.4g}")
    console.print()
    console.print(table)
    if result["table"]:
        others = Table("simpler models", "NLL", "posterior less this", "± error", "skill over it", box=None)
        for row in result["table"]:
            numbers = (f"{row[k]:.4g}" for k in ("NLL", "nll_difference", "stderr"))
            others.add_row(row["model"], *numbers, f"{100 * row['skill']:.0f} %")
        console.print()
        console.print(others)


def _end(console: Console, model: Any, out: Path | None, report: Path | None) -> None:
    have = model.posterior_.info.ok.shape[1]
    console.print(f"\n[dim]{model.seconds_:.0f} s[/dim]")
    if report:
        say(f"report: {report}", quiet=console.quiet)
    if out:
        say(f"model: {out}", quiet=console.quiet)
    if have < model.plan_.draws:
        how = f"add --resume --out {out}" if out else "give --out next time to be able to go on"
        say(f"interrupted after {have} of {model.plan_.draws} draws: {how}.", quiet=console.quiet)


def _shown(name: str, console: Console) -> Any:
    from langevin.report.live import Live

    live = Live(name)
    say(f"live: {live.address}", quiet=console.quiet)
    return live
