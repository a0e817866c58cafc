"""The API pages: every public name with its signature, its documentation and an example that is run."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from pathlib import Path
from types import FunctionType
from typing import Any

from prose import escape, to_myst
from public import Name, names, packages, snippets

ORDER = (
    "langevin",
    "langevin.samplers",
    "langevin.baselines",
    "langevin.targets",
    "langevin.targets.zoo",
    "langevin.tune",
    "langevin.schedules",
    "langevin.dynamics",
    "langevin.dynamics.corrections",
    "langevin.vi",
    "langevin.evidence",
    "langevin.diagnostics",
    "langevin.audit",
    "langevin.nets",
    "langevin.nets.priors",
    "langevin.convert",
    "langevin.energy",
    "langevin.diffusion",
    "langevin.vae",
    "langevin.estimators",
    "langevin.plot",
    "langevin.core",
)
HEAD = """# API

Every public name, with its signature, its documentation and an example. The examples are run when the book is built,
and their output is compared with what is shown. In them `lv` is `langevin`; most pages start with a few lines that the
examples on that page share.

| page | contents |
|---|---|
"""


def pages() -> dict[str, str]:
    by_page: dict[str, list[Name]] = {}
    for n in names():
        by_page.setdefault(n.page, []).append(n)
    order = [*ORDER, *(p for p in packages() if p not in ORDER and p in by_page)]
    made = {f"api/{page}": _page(page, by_page.get(page, [])) for page in order}
    rows = "".join(f"| [{p}](/api/{p}.md) | {_about(p)} |\n" for p in order)
    toc = "\n".join(["", "```{toctree}", ":hidden:", "", *order, "```", ""])
    return made | {"api/index": HEAD + rows + toc}


def entry_link(n: Name) -> str:
    return f"{{py:obj}}`{n.path}`"


def _about(page: str) -> str:
    return escape(" ".join((importlib.import_module(page).__doc__ or "").split("\n\n")[0].split()))


def _page(page: str, own: list[Name]) -> str:
    out = [f"# {page}\n", to_myst(importlib.import_module(page).__doc__ or ""), ""]
    parts = snippets(page)
    for s in parts:
        if s.setup:
            out += ["The examples on this page share these lines:\n", "```pycon", s.text, "```", ""]
    out += [_overview(own), ""]
    if page == "langevin":
        out += [_elsewhere(), ""]
    for n in own:
        shown = [s.text for s in parts if n.short in s.names]
        out += [_entry(n, shown), ""]
    return "\n".join(out)


def _overview(own: list[Name]) -> str:
    rows = [f"| {entry_link(n)} | {_summary(n.thing)} |" for n in own]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def _elsewhere() -> str:
    """The top-level names that are documented with their sub-packages."""
    rows = [f"| {entry_link(n)} | {_summary(n.thing)} |" for n in _top()]
    return "\n".join(["Documented with their sub-packages:\n", "| name | what it is |", "|---|---|", *rows])


def _top() -> list[Name]:
    return [n for n in names() if n.path == f"langevin.{n.short}" and n.page != "langevin"]


def _summary(thing: Any) -> str:
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return "A table: " + ", ".join(f"`{k}`" for k in thing)
    return escape(" ".join((thing.__doc__ or "").strip().split("\n\n")[0].split()))


def signature(thing: Any) -> str:
    """The parameters and their defaults; types are left to editors."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "()"
    shown = []
    for p in found.parameters.values():
        default = p.default if p.default is inspect.Parameter.empty else _Shown(_default(p.default))
        shown.append(p.replace(annotation=inspect.Parameter.empty, default=default))
    if shown and shown[0].name == "self":
        shown = shown[1:]
    return str(found.replace(parameters=shown, return_annotation=inspect.Signature.empty))


class _Shown(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _default(value: Any) -> str:
    from langevin.core.display import show

    text = show(value)
    if dataclasses.is_dataclass(value):
        text = repr(value)
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return "..."
    return repr(value) if isinstance(value, str) else text


def _entry(n: Name, shown: list[str]) -> str:
    from methods import modules, page_of

    thing = n.thing
    kind = "class" if inspect.isclass(thing) else "function" if inspect.isfunction(thing) else "data"
    package, _, short = n.path.rpartition(".")
    options = [f":module: {package}"]
    if n.page != package:
        options.append(f":canonical: {n.page}.{short}")
    body = [_documentation(thing) if kind != "data" else f"{_summary(thing)}.", ""]
    module = getattr(thing, "__module__", "") or ""
    if module in modules():
        body += [f"Mathematics and references: [{short}](/{page_of(module)}.md).\n"]
    if shown:
        body += ["**Example**\n", "```pycon", "\n\n".join(shown), "```", ""]
    if kind == "class":
        body += _methods(thing)
    body += gallery([n])
    sign = "" if kind == "data" else signature(thing)
    return "\n".join([f"``````{{py:{kind}}} {short}{sign}", *options, "", *body, "``````"])


BACK = Path(__file__).parents[1] / "_generated" / "backreferences"


def gallery(found: list[Name]) -> list[str]:
    """The gallery examples that use these names; the gallery is read before these pages are made."""
    paths = sorted({p for n in found for p in (n.path, f"{n.page}.{n.short}")})
    used = [p for p in paths if (f := BACK / f"{p}.examples").exists() and f.read_text().strip()]
    if not used:
        return []
    return ["**Gallery**\n", "```{eval-rst}", f".. minigallery:: {' '.join(used)}", "```", ""]


def _documentation(thing: Any) -> str:
    if not inspect.isclass(thing):
        return to_myst(thing.__doc__ or "")
    table = fields_table(thing)
    return to_myst(thing.__doc__ or "", fields=not table) + (f"\n\n{table}" if table else "")


def fields_table(cls: type) -> str:
    """The fields of a record, their defaults and what they mean; empty for what is no record."""
    from langevin.core.display import describe
    from langevin.core.record import RECORDS

    if f"{cls.__module__}:{cls.__qualname__}" not in RECORDS:
        return ""
    fields = describe(cls)
    if not fields or not any(f.words for f in fields):
        return ""
    missing = dataclasses.MISSING
    shown = lambda f: "required" if f.default is missing else f"`{_cell(_default(f.default))}`"
    rows = [f"| `{f.name}` | {shown(f)} | {escape(f.words)} |" for f in fields]
    return "\n".join(["| field | default | meaning |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PROTOCOL = ("init", "step", "law", "estimate", "start")


def _methods(cls: type) -> list[str]:
    """The public methods and properties of a class that say what they do."""
    out: list[str] = []
    for name, member in _members(cls).items():
        fn = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not isinstance(fn, FunctionType) or not fn.__doc__:
            continue
        kind = "property" if isinstance(member, property) else "method"
        sign = "" if kind == "property" else signature(fn).replace("(cls, ", "(").replace("(cls)", "()")
        out += [f"`````{{py:{kind}}} {name}{sign}", ":no-index-entry:", "", to_myst(fn.__doc__), "`````", ""]
    return out


def _members(cls: type) -> dict[str, Any]:
    from langevin.core.kernel import Kernel

    own = [c for c in reversed(cls.__mro__) if c.__module__.startswith("langevin.") and c is not Kernel]
    found = {k: v for c in own for k, v in vars(c).items() if not k.startswith("_")}
    return {k: v for k, v in found.items() if not (issubclass(cls, Kernel) and k in PROTOCOL)}
