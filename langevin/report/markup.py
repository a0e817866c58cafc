"""Pieces of HTML; all text that comes from outside is escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SHORT = 12


def esc(text: Any) -> str:
    """Text that is safe inside an element and inside a quoted attribute."""
    return html.escape(str(text))


def section(name: str, title: str, lead: str, *parts: str) -> str:
    """A section of the page; `lead` says how to read it."""
    return (
        f'<section id="{name}">\n<h2>{esc(title)}</h2>\n<p class="lead">{lead}</p>\n'
        + "\n".join(parts)
        + "\n</section>"
    )


def pair(*parts: str) -> str:
    """Side by side where there is room, one below the other on a phone."""
    return '<div class="pair">' + "".join(f"<div>{part}</div>" for part in parts) + "</div>"


def words(text: str) -> str:
    return f"<p>{esc(text)}</p>"


def listed(items: Iterable[str], kind: str = "") -> str:
    return f'<ul class="{kind}">' + "".join(f"<li>{esc(item)}</li>" for item in items) + "</ul>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", *, text: Sequence[int] = (0,)) -> str:
    """A table that scrolls inside its own box; columns not in `text` are figures, set to the right."""
    # short words are kept on one line, and long ones may be broken anywhere
    kind = lambda i, cell: "figure" if i not in text else "short" if len(str(cell)) <= SHORT else "long"
    line = lambda row: "".join(f'<td class="{kind(i, cell)}">{esc(cell)}</td>' for i, cell in enumerate(row))
    top = "".join(f'<th scope="col" class="{kind(i, cell)}">{esc(cell)}</th>' for i, cell in enumerate(head))
    body = "".join(f"<tr>{line(row)}</tr>" for row in rows)
    return scroll(f"{named(caption)}<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", caption)


def definitions(entries: Mapping[str, Any], caption: str = "") -> str:
    """Names and what they are, as a table of two columns."""
    body = "".join(f'<tr><th scope="row">{esc(name)}</th><td>{esc(value)}</td></tr>' for name, value in entries.items())
    return scroll(f"{named(caption)}<tbody>{body}</tbody>", caption, "definitions")


def named(caption: str) -> str:
    return f"<caption>{esc(caption)}</caption>" if caption else ""


def scroll(inside: str, caption: str, kind: str = "") -> str:
    # tabindex: a box that scrolls must be reachable by keyboard
    about = f' role="region" aria-label="{esc(caption)}"' if caption else ""
    return f'<div class="scroll" tabindex="0"{about}><table class="{kind}">{inside}</table></div>'
