"""The command that fits a model, and goes on with a fit that was interrupted."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langevin.cli import complete
from langevin.cli.columns import Categorical, Drop, Keep, Likelihood, Weights, choices, likelihood_of
from langevin.cli.models import figures_of, join_targets, numbers_of, write_reports
from langevin.cli.place import Place
from langevin.cli.shared import LAST_WORDS, Json, Quiet, Seed, fail, options, say, write_json

PARTS = 0.8, 0.2
SCORING = 0.15  # time for scores and report, relative to that of all stages before
SAVING = 0.25  # time for saving, relative to that of scoring a target
CLASSES = 12  # shown in the terminal, at most


def fit(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            help="A CSV, Parquet or npz file, or airfoil, breast_cancer, diabetes, digits, wine.",
            autocompletion=complete.tables,
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="The column to predict, the last if left out; several numbers: a,b.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="regression or classification; guessed if left out.", autocompletion=complete.among(complete.TASKS)
        ),
    ] = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    weights: Weights = None,
    likelihood: Likelihood = "auto",
    plan: Annotated[
        str,
        typer.Option(
            help="auto, mile, smile; vi, laplace, swag, ivon or ensemble.",
            autocompletion=complete.among(complete.PLANS),
        ),
    ] = "auto",
    kernel: Annotated[
        str | None,
        typer.Option(
            help="Sample with this kernel as it is; then its fields: --step-size 1e-5 …",
            autocompletion=complete.kernels,
        ),
    ] = None,
    hidden: Annotated[str, typer.Option(help="Widths of hidden layers.")] = "16,16",
    activation: Annotated[
        str,
        typer.Option(help="relu, tanh, silu or gelu.", autocompletion=complete.among(complete.ACTIVATIONS)),
    ] = "relu",
    prior: Annotated[
        str,
        typer.Option(
            help="Standard deviation of weights, or a prior by name: fan_in, hierarchical, horseshoe …",
            autocompletion=complete.among(complete.PRIORS),
        ),
    ] = "0.5",
    chains: Annotated[int, typer.Option(help="Networks trained, and chains.")] = 8,
    draws: Annotated[int | None, typer.Option(help="Draws of every chain; those of the plan if left out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the model in this folder.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report to this .html file; of several targets one each.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted fit in --out.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Serve the progress on localhost while sampling.")] = False,
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a Bayesian network to a table: four fifths to train, one fifth to judge it by.

    With --out the fit is kept while it runs: interrupted or killed in any stage, the same command goes on with it.
    """
    _devices()
    from langevin.core import progress
    from langevin.core.bar import Bar
    from langevin.data import parts, tables
    from langevin.report import folder

    if report and report.suffix not in (".html", ".htm"):
        fail(f"--report is {report}; its name must end in .html.")
    for name, count in (("chains", chains), ("draws", draws)):
        if count is not None and count < 1:
            fail(f"--{name} is {count}; it must be 1 or more.")
    asked: dict[str, Any] = dict(target=target, task=task, drop=drop, keep=keep, categorical=categorical)
    asked |= dict(weights=weights, likelihood=likelihood, plan=plan, kernel=kernel, hidden=hidden)
    asked |= dict(
        activation=activation, prior=prior, fields=options(context.args), chains=chains, draws=draws, seed=seed
    )
    place = Place(context, out, asked, resume=resume)
    asked, seed = place.asked, place.asked["seed"]
    columns = choices(*(asked[name] for name in ("drop", "keep", "categorical", "weights")))
    table = tables.read(data, asked["target"], task=asked["task"], **columns)
    family, guessed = likelihood_of(asked["likelihood"], table.task, table.y)
    table = dataclasses.replace(table, notes=(*table.notes, *guessed))
    console = Console(quiet=quiet)
    for note in table.notes:
        say(note, quiet=quiet)
    train, test = parts.split(len(table.y), seed, PARTS)
    X, y = table.X.iloc[train], table.y[train]
    weight = None if table.weights is None else table.weights[train]
    model = _estimator(table.task, asked, family)
    page = _shown(table.name, console) if live else None
    watch = (lambda model: page.show(_facts(model, table, test)[0])) if page else None
    expected = model.expected(len(y))
    bar = Bar(expected | dict(score=SCORING * sum(expected.values())), quiet=quiet)
    LAST_WORDS.append(lambda: place.tell_stopped(bar.clock.stage, "terminated"))
    try:
        with bar, progress.listen(bar, *([_follow(page, bar)] if page else [])), _warnings_said():
            model.fit(X, table.named(train), weight, watch=watch, store=place.begin())
            with progress.stage("score"):
                facts = _facts(model, table, test, (X, y))
                result = _result(facts, data, seed, bar.clock.seconds, model.seconds_)
                if out:
                    told = dict(data=str(data), target=list(table.targets), task=table.task, seed=seed, columns=columns)
                    told |= dict(identifiers=list(table.identifiers), figures=result["figures"])
                    folder.save(out, model, facts, told, (X, y), finished=_is_finished(model))
    except KeyboardInterrupt:
        place.tell_stopped(bar.clock.stage, "interrupted")
        raise typer.Exit(130) from None
    except (ValueError, TypeError, RuntimeError):
        place.abandon()
        raise
    finally:
        LAST_WORDS.clear()
    if page:
        page.show(facts[0])
        page.end()
    pages = write_reports(facts, report) if report else []
    if json:
        write_json(json, result)
    for name, one in result.get("targets", {"": result}).items():
        _tell(console, one, name)
    _end(console, model, out, pages)


# --- parts ----------------------------------------------------------------------------------------------------------


def _devices() -> None:
    """A CPU's cores as devices, for chains to be spread over; too late once JAX has begun."""
    import jax

    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", min(os.cpu_count() or 1, 8))


def _follow(page: Any, bar: Any) -> Any:
    """What shows on the live page how far a stage is, and how long it all will take."""

    def show(step: Any) -> None:
        left = bar.clock.left()
        rest = [f"about {clock_words(sum(left.values()))} left"] if left else []
        if step.share == step.share:
            page.progress(step.stage, step.share, ", ".join([*rest, *([bar.text] if bar.text else [])]))

    from langevin.core.bar import clock_words

    return show


@contextlib.contextmanager
def _warnings_said() -> Iterator[None]:
    """Every warning as a line on the terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: say(f"! {message}", error=True)
        yield


def _estimator(task: str, given: dict[str, Any], family: dict[str, str]) -> Any:
    from langevin.audit.subjects import number
    from langevin.core.display import describe
    from langevin.core.kernel import named
    from langevin.estimators.classifier import BayesianClassifier
    from langevin.estimators.regressor import BayesianRegressor

    kind = BayesianRegressor if task == "regression" else BayesianClassifier
    hidden = numbers_of("--hidden", given["hidden"], int)
    try:
        prior = given["prior"] if given["prior"] in complete.PRIORS else float(given["prior"])
    except ValueError:
        fail(f"--prior is {given['prior']!r}; it must be a positive number or one of {', '.join(complete.PRIORS)}.")
    how = dict(hidden=hidden, activation=given["activation"], prior=prior, chains=given["chains"])
    made = kind(given["plan"], **family, **how, random_state=given["seed"])
    if given["draws"] is not None:
        made.set_params(plan__draws=given["draws"])
    values = {name: number(text) for name, text in given["fields"].items()}
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


def _is_finished(model: Any) -> bool:
    return model.posterior_.info.ok.shape[1] >= model.plan_.draws


def _facts(model: Any, table: Any, test: np.ndarray, train: tuple[Any, np.ndarray] | None = None) -> list[Any]:
    """What the report of every target is made of."""
    from langevin.core import progress
    from langevin.report.gather import gather

    found, several = [], len(table.targets) > 1
    for i, name in enumerate(table.targets):
        one, said = table.only(name), model.only(name) if several else model
        rows = one.X.iloc[test], one.y[test]
        if table.task == "classification":
            known = np.isin(rows[1], model.classes_)
            rows = rows[0][known], rows[1][known]
        about = dict(name=table.name, target=one.target_name, notes=table.notes)
        fitted = (train[0], train[1][:, i]) if train and several else train
        with progress.part(i, len(table.targets) + SAVING):
            found.append(gather(said, *rows, **about, train=fitted, running=train is None))
    return found


def _result(every: list[Any], data: str, seed: int, stages: dict[str, float], seconds: float) -> dict[str, Any]:
    provenance = dict(every[0].provenance) | dict(seed=seed, seconds=round(seconds, 1), data=str(data))
    provenance |= dict(stages={k: round(v, 1) for k, v in stages.items()})
    return dict(name="fit") | join_targets(every, [_told(facts) for facts in every]) | dict(provenance=provenance)


def _told(facts: Any) -> dict[str, Any]:
    """Figures, baselines, verdict and what drives predictions, of one target."""
    from langevin.report import classes
    from langevin.report.scores import compare_baselines
    from langevin.report.verdict import judge

    baselines = [
        dict(model=c.name, nll_difference=c.gap.mean, stderr=c.gap.stderr, skill=c.skill, **c.scores)
        for c in compare_baselines(facts)
    ]
    body = dict(figures=figures_of(facts), table=baselines, verdict=judge(facts).as_dict())
    return body | classes.as_json(facts) | dict(drivers=[dict(d) for d in facts.drivers])


def _tell(console: Console, result: dict[str, Any], target: str = "") -> None:
    verdict = result["verdict"]
    colour = {"good": "green", "care": "yellow"}.get(verdict["level"], "red")
    if target:
        console.print(f"\n[bold]{escape(target)}[/bold]", highlight=False)
    console.print(f"\n[{colour}]{escape(verdict['headline'])}[/{colour}]", highlight=False)
    for finding in verdict["findings"]:
        say(f"- {finding['sentence']}", quiet=console.quiet)
    table = Table("on rows not seen", "", box=None, pad_edge=False, header_style="bold")
    for name, value in result["figures"].items():
        table.add_row(name, f"{value:.4g}")
    console.print()
    console.print(table)
    if few := result.get("classes", ())[:CLASSES]:
        each = Table("class", "rows", "recall", "precision", box=None, pad_edge=False, header_style="bold")
        shares = lambda row: ("–" if row[k] is None else f"{100 * row[k]:.1f} %" for k in ("recall", "precision"))
        for row in few:
            each.add_row(escape(row["name"]), str(row["rows"]), *shares(row))
        console.print()
        console.print(each)
    if result["table"]:
        others = Table("simpler models", "NLL", "posterior less this", "± error", "skill over it", box=None)
        for row in result["table"]:
            numbers = (f"{row[k]:.4g}" for k in ("NLL", "nll_difference", "stderr"))
            others.add_row(row["model"], *numbers, f"{100 * row['skill']:.0f} %")
        console.print()
        console.print(others)


def _end(console: Console, model: Any, out: Path | None, pages: list[Path]) -> None:
    have = model.posterior_.info.ok.shape[1]
    console.print(f"\n[dim]{model.seconds_:.0f} s[/dim]")
    for path in pages:
        say(f"report: {path}", quiet=console.quiet)
    if out:
        say(f"model: {out}", quiet=console.quiet)
    if not _is_finished(model):
        how = "the same command goes on with it" if out else "with --out FOLDER a fit can be gone on with"
        say(f"interrupted after {have} of {model.plan_.draws} draws; {how}.", quiet=console.quiet)


def _shown(name: str, console: Console) -> Any:
    from langevin.report.live import Live

    live = Live(name)
    say(f"live: {live.address}", quiet=console.quiet)
    return live
