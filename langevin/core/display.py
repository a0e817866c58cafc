"""How objects show themselves: one short line of text, and a small table in a notebook.

Arrays are shown by dtype and shape, functions by name, trees by what they hold. The HTML has no colours of its own, so
that it follows the light or dark theme of the notebook, and all text in it is escaped.
"""

from __future__ import annotations

import dataclasses
import html
import inspect
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

LINE = 400  # characters of an object
PART = 160  # characters of a part of it
FEW = 4  # numbers of a vector that are shown themselves


def show(value: Any, most: int = PART) -> str:
    """A text of about `most` characters at most: numbers plainly, arrays by shape, functions by name."""
    if isinstance(value, (np.floating, float)):
        return f"{float(value):.6g}"
    if isinstance(value, (np.integer, np.bool_)):
        return str(value.item())
    if isinstance(value, (np.ndarray, jax.Array, jax.ShapeDtypeStruct)):
        return _array(value)
    if isinstance(value, partial):
        given = [show(v, most) for v in value.args] + [f"{k}={show(v, most)}" for k, v in value.keywords.items()]
        return _cut(f"{_name(value.func)}({', '.join(given)})", most)
    if isinstance(value, (dict, list, tuple)):
        return _container(value, most)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        text = repr(value)
        return text if len(text) <= most and "\n" not in text else _summary(value)
    if callable(value):
        return _name(value) if jax.tree_util.all_leaves([value]) else _summary(value)
    if not jax.tree_util.all_leaves([value]) and jax.tree.leaves(value):
        return _summary(value)
    return _cut(" ".join(repr(value).split()), most)


def line(value: Any, fields: Iterable[str]) -> str:
    """`Name(field=value, …)` of an object, in at most about LINE characters."""
    known = {name: getattr(value, name) for name in fields}
    for most in (LINE, PART, PART // 4):
        shown = ", ".join(f"{name}={show(u, most)}" for name, u in known.items())
        text = f"{type(value).__name__}({shown})"
        if len(text) <= LINE:
            return text
    return _cut(text, LINE)


def _array(value: Any) -> str:
    if _is_known(value) and value.ndim == 0:
        return str(bool(value)) if value.dtype == bool else f"{float(value):.6g}"
    if _is_known(value) and value.ndim == 1 and 0 < value.size <= FEW:
        return f"[{', '.join(f'{float(u):.6g}' for u in np.asarray(value))}]"
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def _is_known(value: Any) -> bool:
    """Whether it holds real numbers that can be read here: no tracer, no random key."""
    if isinstance(value, (jax.core.Tracer, jax.ShapeDtypeStruct)) or not getattr(value, "is_fully_addressable", True):
        return False
    return getattr(value.dtype, "kind", "key") in "biuf" or value.dtype == jax.numpy.bfloat16


def _container(value: Any, most: int) -> str:
    if isinstance(value, dict):
        text = "{" + ", ".join(f"{k!r}: {show(v, most)}" for k, v in value.items()) + "}"
    else:
        shown = [show(v, most) for v in value]
        ends = "[]" if isinstance(value, list) else "()"
        comma = "," if isinstance(value, tuple) and len(shown) == 1 else ""
        name = "" if type(value) in (list, tuple) else type(value).__name__
        text = f"{name}{ends[0]}{', '.join(shown)}{comma}{ends[1]}"
    return text if len(text) <= most else _summary(value)


def _summary(value: Any) -> str:
    """The name of a type, and of a tree how much it holds."""
    leaves = [u for u in jax.tree.leaves(value) if isinstance(u, (np.ndarray, jax.Array, jax.ShapeDtypeStruct))]
    name = type(value).__name__
    if not leaves:
        return f"{name}(…)"
    n, arrays = sum(int(np.prod(u.shape)) for u in leaves), "1 array" if len(leaves) == 1 else f"{len(leaves)} arrays"
    return f"{name}({arrays}, {n:,} {'number' if n == 1 else 'numbers'})"


def _name(fn: Any) -> str:
    return getattr(fn, "__qualname__", type(fn).__name__).replace("<locals>.", "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# --- what a class says of itself ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Described:
    """One field of a record."""

    name: str
    default: Any
    static: bool
    words: str


def describe(cls: type) -> list[Described]:
    """The fields of a record with their meaning, from the `field: meaning` lines of its docstring and its bases'."""
    pattern = re.compile(r"^(\w+): (.+(?:\n {2,}.+)*)", flags=re.M)
    words = dict(f for c in reversed(cls.__mro__) for f in pattern.findall(inspect.cleandoc(c.__doc__ or "")))
    return [
        Described(f.name, f.default, bool(f.metadata.get("static")), re.sub(r"\s+", " ", words.get(f.name, "")))
        for f in dataclasses.fields(cls)
    ]


def summary(cls: type) -> str:
    """The first sentence of a class docstring."""
    return (cls.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")


# --- HTML -----------------------------------------------------------------------------------------------------------

LEFT = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"


def page(title: str, words: str, rows: Iterable[Sequence[str]], header: Sequence[str] = (), notes: Sequence[str] = ()):
    """A title, a sentence, a table and notes under it, as HTML; every text is escaped."""
    cell = lambda tag, text: f'<{tag} style="{LEFT}">{html.escape(str(text))}</{tag}>'
    one = lambda tag, row: f"<tr>{''.join(cell(tag, text) for text in row)}</tr>"
    head = f"<thead>{one('th', header)}</thead>" if header else ""
    body = "".join(one("td", row) for row in rows)
    table = f'<table style="margin:4px 0">{head}<tbody>{body}</tbody></table>' if body else ""
    said = f": {html.escape(words)}" if words else ""
    under = "".join(f'<div style="opacity:.75">{html.escape(note)}</div>' for note in notes)
    return f"<div><div><b>{html.escape(title)}</b>{said}</div>{table}{under}</div>"


def record_page(value: Any, notes: Sequence[str] = ()) -> str:
    """The HTML of a record: its fields, their values and what they mean."""
    rows = [(f.name, show(getattr(value, f.name)), f.words) for f in describe(type(value))]
    return page(type(value).__name__, summary(type(value)), rows, notes=notes)
