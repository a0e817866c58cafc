"""Pieces of HTML from the templates beside this file. Jinja escapes all text; what it made is `Markup` and is not.

`lead`, cells, captions and items are text, or `Markup` that this package wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

SHORT = 12  # letters of a cell that is not broken


@cache
def _environment() -> Environment:
    loader = PackageLoader("langevin.report", "templates")
    return Environment(autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def render(template: str, **values: Any) -> Markup:
    """A template filled in."""
    return Markup(_environment().get_template(template).render(**values))


def _part(name: str, *values: Any) -> Markup:
    """A macro of parts.html."""
    return getattr(_environment().get_template("parts.html").module, name)(*values)


def section(name: str, title: str, lead: str, *parts: Markup) -> Markup:
    """A section of the page; `lead` says how to read it."""
    return _part("section", name, title, lead, parts)


def part(name: str, title: str, lead: str, *parts: Markup) -> Markup:
    """A part of a section, with a heading of its own."""
    return _part("part", name, title, lead, parts)


def pair(*parts: Markup) -> Markup:
    """Side by side where there is room, one below the other on a phone."""
    return _part("pair", parts)


def paragraph(text: str) -> Markup:
    return _part("paragraph", text)


def titled(title: str, inside: Markup) -> Markup:
    """A heading inside a section, and what stands below it."""
    return _part("titled", title, inside)


def listed(items: Iterable[str], kind: str = "") -> Markup:
    return _part("listed", items, kind)


def table(
    head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", *, text: Sequence[int] = (0,)
) -> Markup:
    """A table that scrolls inside its own box; columns not in `text` are figures, set to the right."""
    return _part("table", head, rows, caption, text, SHORT)


def definitions(entries: Mapping[str, Any], caption: str = "") -> Markup:
    """Names and what they are, as a table of two columns."""
    return _part("definitions", entries, caption)


def confusion(caption: str, names: Sequence[tuple[str, str]], rows: Sequence[Sequence[tuple[str, str]]]) -> Markup:
    """How often each class (row) was taken for each (column): (name, name cut) of each, (count, share) of each cell."""
    return _part("confusion", caption, names, rows)


def figure(
    title: str, about: str, legend: Sequence[tuple[Markup, str]], size: tuple[int, int], drawn: Markup
) -> Markup:
    """A chart with its title and legend; `about` says it to those who do not see it."""
    return _part("figure", title, about, legend, *size, drawn)
