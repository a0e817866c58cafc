"""Options that say how the columns of a table are read, and what likelihood its target has."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from langevin.cli.shared import fail

Drop = Annotated[str | None, typer.Option(help="Columns to leave out: a,b.")]
Keep = Annotated[str | None, typer.Option(help="Columns to use that would be left out, such as identifiers: a,b.")]
Categorical = Annotated[str | None, typer.Option(help="Columns whose numbers are codes of categories: a,b.")]
Weights = Annotated[str | None, typer.Option(help="A column of row weights: 2 counts as two rows.")]

Likelihood = Annotated[
    str,
    typer.Option(
        help="Of a regression: auto, gaussian, lognormal, poisson or negative_binomial.",
        autocompletion=lambda: ["auto", "gaussian", "lognormal", "poisson", "negative_binomial"],
    ),
]


def choices(drop: str | None, keep: str | None, categorical: str | None, weights: str | None) -> dict[str, Any]:
    """The options that were given, as `data.tables.read` takes them."""
    lists = dict(drop=_names(drop), keep=_names(keep), categorical=_names(categorical))
    given: dict[str, Any] = {name: value for name, value in lists.items() if value}
    return given | (dict(weights=weights) if weights else {})


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def likelihood_of(asked: str, task: str, y: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """The estimator's parameter, and a note where it was chosen by the target's numbers."""
    if task == "classification":
        if asked != "auto":
            fail(f"--likelihood is {asked}, and the task is classification; it is for regression only.")
        return {}, ()
    from langevin.diagnostics.families import FAMILIES
    from langevin.estimators.likelihoods import choose_likelihood

    if asked not in ("auto", *FAMILIES):
        fail(f"--likelihood is {asked!r}; it must be auto, {', '.join(FAMILIES)}.")
    name, note = choose_likelihood(y) if asked == "auto" else (asked, "")
    return dict(likelihood=name), (note,) if note else ()
