"""Options that say how the columns of a table are read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Drop = Annotated[str | None, typer.Option(help="Columns to leave out: a,b.")]
Keep = Annotated[str | None, typer.Option(help="Columns to use that would be left out, such as identifiers: a,b.")]
Categorical = Annotated[str | None, typer.Option(help="Columns whose numbers are codes of categories: a,b.")]
Weights = Annotated[str | None, typer.Option(help="A column of row weights: 2 counts as two rows.")]


def choices(drop: str | None, keep: str | None, categorical: str | None, weights: str | None) -> dict[str, Any]:
    """The options that were given, as `data.tables.read` takes them."""
    lists = dict(drop=_names(drop), keep=_names(keep), categorical=_names(categorical))
    given: dict[str, Any] = {name: value for name, value in lists.items() if value}
    return given | (dict(weights=weights) if weights else {})


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
