"""One page for each method: its module docstring, what it converges to, its audit, its fields, its references."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import warnings
from functools import cache

from prose import escape, split_references, to_myst
from public import Name, names

GROUPS = {
    "samplers": "Samplers",
    "baselines": "Baselines",
    "tune": "Tuning",
    "vi": "Variational inference",
    "evidence": "Evidence",
    "targets": "Targets",
    "nets.priors": "Priors",
    "dynamics": "Dynamics",
    "energy": "Energies",
    "diffusion": "Diffusion",
    "vae": "Latent variable models",
    "diagnostics": "Diagnostics",
}
ABOUT = """# Methods

One page for each method, with its mathematics, what it converges to, its settings and its references. The pages are
generated from the source: a method is one file, and its docstring is its page.
"""


@cache
def modules() -> dict[str, list[Name]]:
    """The modules that have a page, with the public names each defines."""
    defined: dict[str, list[Name]] = {}
    for n in names():
        defined.setdefault(getattr(n.thing, "__module__", "") or "", []).append(n)
    found = {}
    for group in GROUPS:
        package = importlib.import_module(f"langevin.{group}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.ispkg:
                module = importlib.import_module(info.name)
                if info.name in defined or "References\n----------" in (module.__doc__ or ""):
                    found[info.name] = defined.get(info.name, [])
    return found


def page_of(module: str) -> str:
    return "methods/" + module.removeprefix("langevin.").replace(".", "/")


def pages() -> dict[str, str]:
    return {page_of(m): _page(m, found) for m, found in modules().items()} | {"methods/index": _index()}


def _title(module: str, found: list[Name]) -> str:
    defined = [n.short for n in found]
    return ", ".join(defined) if defined else module.removeprefix("langevin.")


def _summary(module: str) -> str:
    text, _ = split_references(importlib.import_module(module).__doc__ or "")
    return escape(" ".join(text.split("\n\n")[0].split()))


def _index() -> str:
    out = [ABOUT]
    for group, title in GROUPS.items():
        mine = {m: found for m, found in modules().items() if m.startswith(f"langevin.{group}.")}
        out += [f"## {title}\n", "| method | what it is |", "|---|---|"]
        out += [f"| [{_title(m, found)}](/{page_of(m)}.md) | {_summary(m)} |" for m, found in mine.items()]
        entries = [f"{_title(m, found)} </{page_of(m)}>" for m, found in mine.items()]
        out += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```", ""]
    return "\n".join(out)


def _page(module: str, found: list[Name]) -> str:
    from api import entry_link, fields_table, gallery

    text, refs = split_references(importlib.import_module(module).__doc__ or "")
    out = [f"# {_title(module, found)}\n", to_myst(text), ""]
    kernels = [n for n in found if _is_kernel(n.thing)]
    for n in kernels:
        out += _claims(n, alone=len(kernels) == 1)
    for n in found:
        out += [f"## {n.short}\n", f"{entry_link(n)}: signature, documentation and example.\n"]
        if inspect.isclass(n.thing):
            table = fields_table(n.thing)
            out += [_first(n.thing), "", *([table, ""] if table else [])]
    if refs:
        out += ["## References\n", *(f"- {escape(e)}" for e in refs), ""]
    out += ["## Source\n", _source(module), ""]
    out += gallery(found)
    return "\n".join(out)


def _first(cls: type) -> str:
    return escape((cls.__doc__ or "").strip().split("\n\n")[0].replace("\n", " "))


def _is_kernel(thing) -> bool:
    from langevin.core.kernel import Kernel

    return inspect.isclass(thing) and issubclass(thing, Kernel) and not inspect.isabstract(thing)


def law_words(cls: type) -> str:
    """What a kernel states with its default settings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a kernel with another stationary distribution says so
            return cls().law().words
    except TypeError:
        return "that of the kernel inside it"
    except NotImplementedError:
        return "not stated: a subclass does"


def required(cls: type) -> str:
    from langevin.core.target import HasDensity

    needed = cls.requires
    if not isinstance(needed, type):  # a property: the settings or the inner kernel decide
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                needed = cls().requires
        except TypeError:
            return "what the kernel inside it needs"
    if needed is HasDensity:
        return "the exact density; a mini-batched target is refused"
    return "any target" if needed.__name__ == "Target" else f"a target with {needed.__name__}"


def audits(cls: type) -> dict[str, dict]:
    """The audits of a kernel and its variants, from the table the library carries."""
    from audited import table

    own = cls.__name__.lower()
    return {k: v for k, v in table().items() if k == own or k.startswith(f"{own}-")}


def _claims(n: Name, *, alone: bool) -> list[str]:
    head = "## Stationary distribution\n" if alone else f"## Stationary distribution of {n.short}\n"
    out = [head, f"- **States**, with its default settings: {escape(law_words(n.thing))}."]
    out[-1] = out[-1].replace("..", ".")
    out.append(f"- **Needs** {required(n.thing)}.")
    for name, body in audits(n.thing).items():
        out.append(f"- **Audit** of `{name}` ([table](/audit.md)): {body['outcome']}; {escape(body['verdict'])}")
    if n.thing.audit.excluded:
        out.append(f"- **Not audited**: {escape(n.thing.audit.excluded)}.")
    return [*out, ""]


def _source(module: str) -> str:
    file = importlib.import_module(module).__file__ or ""
    path = "langevin/" + file.rpartition("/langevin/")[2]
    deep = page_of(module).count("/")
    target = f"{'../' * deep}_modules/{module.replace('.', '/')}.html"
    if not modules()[module] or not _viewable(module):
        return f"`{path}`"
    return f'```{{raw}} html\n<p><a href="{target}"><code>{path}</code></a></p>\n```'


def _viewable(module: str) -> bool:
    """Whether the source is among the pages that `viewcode` makes: a documented class or function is defined there."""
    tree = ast.parse(open(importlib.import_module(module).__file__).read())  # noqa: SIM115
    defined = {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    return any(n.short in defined for n in modules()[module])
