"""The public names of the library, the page each is documented on, and the snippets that show them."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any, NamedTuple

SNIPPETS = Path(__file__).parents[1] / "snippets"
PARTS = ("langevin.evidence.annealing", "langevin.evidence.minibatch", "langevin.evidence.sampling")


class Name(NamedTuple):
    """path: as users write it; page: the (sub-)package it is documented with; thing: what it is."""

    path: str
    page: str
    thing: Any

    @property
    def short(self) -> str:
        return self.path.rpartition(".")[2]


def packages() -> list[str]:
    """`langevin` and the sub-packages with public names of their own."""
    import langevin

    found = ["langevin"]
    for module in pkgutil.walk_packages(langevin.__path__, "langevin."):
        public = module.ispkg or module.name == "langevin.schedules"
        if public and module.name not in PARTS and hasattr(importlib.import_module(module.name), "__all__"):
            found.append(module.name)
    return found


def names() -> list[Name]:
    """Every public name once: under its shortest path, on the page of its sub-package."""
    where: dict[int, tuple[Any, list[str]]] = {}
    for package in packages():
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.ismodule(thing):
                where.setdefault(id(thing), (thing, []))[1].append(f"{package}.{name}")
    found = []
    for thing, paths in where.values():
        own = [p.rpartition(".")[0] for p in paths if p.count(".") > 1]
        found.append(Name(min(paths, key=lambda p: p.count(".")), own[0] if own else "langevin", thing))
    return sorted(found, key=lambda n: (n.page, n.short.lower()))


class Snippet(NamedTuple):
    """names: what it shows; text: a doctest; setup: whether it is what the others on its page start from."""

    names: tuple[str, ...]
    text: str
    line: int

    @property
    def setup(self) -> bool:
        return self.names == ("setup",)


def snippets(page: str) -> list[Snippet]:
    """The snippets of a page: sections of its file, each under a line `== Name, Name`."""
    file = SNIPPETS / f"{page}.txt"
    if not file.exists():
        return []
    found, line = [], 1
    parts = re.split(r"^== (.+)\n", file.read_text(), flags=re.M)
    line += parts[0].count("\n")
    for heads, text in zip(parts[1::2], parts[2::2], strict=True):
        found.append(Snippet(tuple(re.split(r",\s*", heads.strip())), text.strip("\n"), line + 1))
        line += 1 + text.count("\n")
    return found


def missing() -> list[str]:
    """Public names that no snippet shows."""
    shown = {page: {n for s in snippets(page) for n in s.names} for page in packages()}
    return [n.path for n in names() if n.short not in shown[n.page]]


def unknown() -> list[str]:
    """Names of snippets that are not public."""
    known = {(n.page, n.short) for n in names()} | {(page, "setup") for page in packages()}
    return [f"{p}: {n}" for p in packages() for s in snippets(p) for n in s.names if (p, n) not in known]


FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def run(page: str, told=print) -> int:
    """Run the snippets of a page in one namespace; the number of examples that failed."""
    globs: dict[str, Any] = {"__name__": "snippets"}
    runner, parser = doctest.DocTestRunner(optionflags=FLAGS, verbose=False), doctest.DocTestParser()
    for s in snippets(page):
        test = parser.get_doctest(s.text + "\n", globs, ", ".join(s.names), f"docs/snippets/{page}.txt", s.line)
        test.globs = globs
        runner.run(test, out=told, clear_globs=False)
    return runner.summarize(verbose=False).failed
