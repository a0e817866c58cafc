"""What the commands share: their common flags, one sentence for a mistake, files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from langevin.cli import complete

TERMINATED = 143  # the exit code of a process that was asked to end by SIGTERM
LAST_WORDS: list[Callable[[], None]] = []  # what a command says when it is terminated, the latest

Json = Annotated[Path | None, typer.Option("--json", help="Write the result to this file.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random, where something is.")]
Size = Annotated[str, typer.Option(help="cpu, gpu or quick.", autocompletion=complete.among(complete.SIZES))]
Figure = Annotated[Path | None, typer.Option(help="Draw the figure to this .png or .svg file.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Data = Annotated[str | None, typer.Option(help="A table in place of the usual one, by name or path.")]


def options(words: list[str]) -> dict[str, str]:
    """--name value and --name=value, as left over by the parser."""
    options, rest = {}, list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or ("=" not in word and not rest):
            fail(f"{word!r} is no option with a value; kernel options are --name value.")
        name, _, value = word[2:].partition("=")
        options[name.replace("-", "_")] = value if "=" in word else rest.pop(0)
    return options


def write_json(path: Path, body) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")


def say(text: str, *, quiet: bool = False, error: bool = False) -> None:
    """A line as it is: no brackets are taken for colours, and no path is broken at the edge of the terminal."""
    Console(stderr=error, quiet=quiet).print(text, highlight=False, markup=False, soft_wrap=True)


def terminate(*_: Any) -> None:
    """SIGTERM: say what is kept and end at once. What is on disk is whole at any moment.

    An exception would not do: raised while JAX collects garbage, it is ignored.
    """
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a progress bar has hidden the cursor
    for words in LAST_WORDS[-1:]:
        words()
    sys.stderr.flush()
    os._exit(TERMINATED)


def dim(name: str, provenance: dict) -> None:
    """The last line of a result: what ran, with which seed, where and for how long."""
    told = f"{name}, seed {provenance['seed']}, {provenance['device']}, {provenance['seconds']} s"
    Console().print(f"\n[dim]{escape(told)}[/dim]")


def fail(sentence: str, *, code: int = 2) -> NoReturn:
    say(f"langevin: {sentence}", error=True)
    raise SystemExit(code)
