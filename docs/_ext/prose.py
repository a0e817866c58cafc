"""Docstrings as MyST Markdown.

The docstrings of the library are plain text: paragraphs, `field: meaning` lines and indented blocks of mathematics.
A block becomes a block of code, in which Greek letters and alignment stay as they are; field lines become a list.
"""

from __future__ import annotations

import inspect
import re

FIELD = re.compile(r"^(\w+(?:, \w+)*): (.+)", flags=re.S)
SPECIAL = re.compile(r"([\\*_<>\[\]|~${}#^])")


def escape(text: str) -> str:
    """Markdown's special characters in plain text, outside `code`, taken literally."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if i % 2 else SPECIAL.sub(r"\\\1", p) for i, p in enumerate(parts))


def split_references(text: str) -> tuple[str, list[str]]:
    """A module docstring without its references, and the references."""
    body, _, tail = inspect.cleandoc(text or "").partition("References\n----------\n")
    return body.rstrip(), [" ".join(e.split()) for e in re.split(r"\n(?=\S)", tail.strip()) if e]


def fields_of(block: list[str]) -> list[tuple[str, str]] | None:
    """The (name, meaning) pairs of a block of `field: meaning` lines, or None where it is no such block."""
    entries: list[str] = []
    for line in block:
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line)
    found = [FIELD.match(e) for e in entries]
    return [(m[1], m[2]) for m in found if m] if all(found) else None


def _blocks(text: str) -> list[list[str]]:
    """Runs of lines between blank lines; a run of indented ones is kept together across blank lines."""
    blocks: list[list[str]] = []
    for chunk in re.split(r"\n\s*\n", text.strip("\n")):
        lines = chunk.split("\n")
        if blocks and all(line.startswith("  ") for line in [*lines, *blocks[-1]]):
            blocks[-1] += ["", *lines]
        else:
            blocks.append(lines)
    return blocks


def to_myst(text: str, *, fields: bool = True) -> str:
    """A docstring as Markdown; without `fields` the blocks of field lines are left out."""
    out: list[str] = []
    for block in _blocks(inspect.cleandoc(text or "")):
        if not any(block):
            continue
        if (pairs := fields_of(block)) and (len(pairs) > 1 or not pairs[0][0][0].isupper()):
            if fields:
                out.append("\n".join(f"- `{name}`: {escape(words)}" for name, words in pairs))
            continue
        out += _paragraphs(block)
    return "\n\n".join(out)


def _paragraphs(block: list[str]) -> list[str]:
    out: list[str] = []
    for line in block:
        kind = "code" if line.startswith("    ") or (not line and out and out[-1].startswith("```")) else "text"
        if kind == "code" and out and out[-1].startswith("```"):
            out[-1] = out[-1][: -len("\n```")] + "\n" + line + "\n```"
        elif kind == "code":
            out.append("```text\n" + line + "\n```")
        elif out and not out[-1].startswith("```"):
            out[-1] += "\n" + escape(line.strip())
        else:
            out.append(re.sub(r"^([-+]|\d+[.)]) ", r"\\\1 ", escape(line.strip())))
    return [_dedent(o) for o in out]


def _dedent(text: str) -> str:
    if not text.startswith("```text\n"):
        return text
    lines = text.split("\n")[1:-1]
    margin = min(len(u) - len(u.lstrip()) for u in lines if u.strip())
    return "\n".join(["```text", *(u[margin:] for u in lines), "```"])
