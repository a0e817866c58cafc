"""Who is audited: our kernels by name, a user's `module:Kernel` or `file.py:Kernel`, and BlackJAX's by `blackjax:name`.

AUDITED has the setting of every registered kernel that suits the trials (their steepest direction has scale 1),
EXCLUDED the reason why a kernel is not there. A new kernel needs one line in one of them.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from langevin.core.kernel import describe, named, replace
from langevin.core.record import is_record, record, static


def _ours(name: str, **settings) -> Callable[[], Any]:
    return lambda: named(name)(**settings)


def _blackjax(name: str, **settings) -> Callable[[], Any]:
    def build():
        from langevin.samplers.blackjax import adapted

        return adapted(name, **settings)

    return build


AUDITED: dict[str, Callable[[], Any]] = {
    "sgld": _ours("sgld", step_size=0.05),
    "sgld-rademacher": _ours("sgld", step_size=0.05, noise="rademacher"),
    "sghmc": _ours("sghmc", step_size=0.1, friction=2.0),
    "sgnht": _ours("sgnht", step_size=0.1, diffusion=2.0),
    "underdamped": _ours("underdamped", step_size=0.3, friction=2.0),
    "friction": _ours("friction", step_size=0.3),
    "sgrhmc": _ours("sgrhmc", step_size=0.15),
    "psgld": _ours("psgld", step_size=0.05),
    "psgld-none": _ours("psgld", step_size=0.02, floor=0.3, correction="none"),
    "monge": _ours("monge", step_size=0.05, alpha=0.3),
    "monge-none": _ours("monge", step_size=0.05, alpha=1.0, correction="none"),
    "shampoo": _ours("shampoo", step_size=0.05, epsilon=1.0, largest=4),  # a root of a 50 × 50 matrix a step is slow
    "riemannian": _ours("riemannian", step_size=0.05),
    "adamsgld": _ours("adamsgld", step_size=0.05, momentum=0.0, decay=0.0, floor=1.0),
    "msgld": _ours("msgld", step_size=0.025, momentum=0.0),
    "stanley": _ours("stanley", step_size=0.2, threshold=2.0),
    "stanley-none": _ours("stanley", step_size=0.05, threshold=0.5, correction="none"),
    "noisescaled": _ours("noisescaled", step_size=0.02, threshold=0.7, per="coordinate"),
    "jackknife": _ours("jackknife", step_size=0.05),
    "samadams": _ours("samadams", step_size=0.2, friction=2.0),
    "replica": lambda: named("replica")(named("sgld")(step_size=0.05), temperatures=(1.0, 2.0), every=2),
    "mala": _ours("mala", step_size=0.1),
    "tmala": _ours("tmala", step_size=0.1, bound=2.0),
    "amala": _ours("amala", step_size=0.05, bound=1.0, floor=0.5),
    "ghmc": _ours("ghmc", step_size=0.5, gamma=0.8),
    "hmc": _ours("hmc", step_size=0.3, n_leapfrog=4),
    "mclmc": _ours("mclmc", step_size=0.3, length=2.0),
    "smile": _ours("smile", step_size=0.3, length=2.0),
    "mams": _ours("mams", step_size=1.0, length=4.0),
    "nuts": _ours("nuts", step_size=0.4, max_doublings=4),
    "blackjax-mala": _blackjax("mala", step_size=0.1),
    "blackjax-sgld": _blackjax("sgld", step_size=0.05),
    "blackjax-sghmc": _blackjax("sghmc", step_size=0.1),
    "blackjax-sgnht": _blackjax("sgnht", step_size=0.1, alpha=2.0),
}

EXCLUDED: dict[str, str] = {
    "csgld": "its energy bins are chosen for one target; tests/test_modes.py holds it to its law with bins to suit",
    "ascend": "it samples no law: the chain goes to a mode",
    "cyclical": "its law is that of its inner kernel within one cycle; across cycles it is heuristic",
    "thin": "several steps as one, with the law of its inner kernel",
    "averaged": "the law of its inner kernel, beside which it keeps a mean",
    "guard": "the law of its inner kernel wherever it never acts",
    "blackjax": "an adapter; its algorithms have rows of their own",
}


def subject(text: str, options: dict[str, str] | None = None) -> tuple[str, Any]:
    """The name and the kernel a user means; mistakes are ValueErrors of one sentence."""
    options = options or {}
    if text.startswith("blackjax:"):
        from langevin.samplers.blackjax import adapted

        given = {k.replace("-", "_"): number(v) for k, v in options.items()}
        return text, adapted(text.split(":", 1)[1], **given)
    if ":" in text:
        return text.rpartition(":")[2], _checked(text, _imported(text), options)
    if text in AUDITED:
        built = AUDITED[text]()
    else:
        cls = named(text)
        if not options and text.lower() in EXCLUDED:
            raise ValueError(f"audit: {text} is not audited: {EXCLUDED[text.lower()]}.")
        built = cls()
    return text, _changed(built, options)


def _imported(text: str) -> Any:
    place, _, attribute = text.rpartition(":")
    try:
        if place.endswith(".py"):
            if not Path(place).exists():
                raise ValueError(f"audit: there is no file {place}.")
            name = f"_audited_{Path(place).stem}"
            spec = importlib.util.spec_from_file_location(name, place)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module  # dataclasses look their module up
            spec.loader.exec_module(module)
        else:
            if "" not in sys.path and str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(place)
    except (ImportError, SyntaxError) as error:
        raise ValueError(f"audit: {place} cannot be imported: {error}.") from None
    if not hasattr(module, attribute):
        raise ValueError(f"audit: {place} has no {attribute!r}.")
    return getattr(module, attribute)


def _checked(text: str, thing: Any, options: dict[str, str]) -> Any:
    missing = [m for m in ("init", "step") if not callable(getattr(thing, m, None))]
    if missing:
        raise ValueError(f"audit: {text} has no {' and no '.join(missing)}; a kernel has init and step.")
    if isinstance(thing, type):
        try:
            thing = thing()
        except TypeError as error:
            raise ValueError(f"audit: {text} cannot be built without arguments ({error}); give an instance.") from None
    return _changed(thing, options)


def _changed(kernel: Any, options: dict[str, str]) -> Any:
    """The kernel with options from the command line, each a field of it or of the kernel inside it."""
    if not options:
        return kernel
    if not is_record(kernel):
        raise ValueError(f"audit: {type(kernel).__name__} is no dataclass, so it takes no options.")
    fields: set[str] = set()
    inner = kernel
    while inner is not None and is_record(inner):
        fields |= {f.name for f in describe(type(inner))}
        inner = getattr(inner, "kernel", None)
    given = {k.replace("-", "_"): number(v) for k, v in options.items()}
    for name in given:
        if name not in fields:
            raise ValueError(
                f"audit: {type(kernel).__name__} has no option --{name}; it has {', '.join(sorted(fields))}."
            )
    try:
        return replace(kernel, **given)
    except TypeError as error:
        raise ValueError(f"audit: {error}") from None


def number(text: str) -> Any:
    """A value from the command line."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False, "none": "none"}.get(text.lower(), text)


# --- kernels that are not records -------------------------------------------------------------------------------------


class Held:
    """An object that compares by identity, as a static field must."""

    def __init__(self, value: Any):
        self.value = value


@record
class Foreign:
    """A kernel of someone else's making that is no pytree, held as it is; `law`, `step_size` and so on show through.

    thing: the object with init and step.
    """

    thing: Held = static()

    def __getattr__(self, name):
        if name == "thing":  # not there yet while being built
            raise AttributeError(name)
        return getattr(self.thing.value, name)

    def init(self, key, position, target):
        return self.thing.value.init(key, position, target)

    def step(self, key, state, target):
        return self.thing.value.step(key, state, target)

    def changed(self, field: str, value: Any) -> Foreign:
        """A copy of the object with one attribute set."""
        thing = self.thing.value
        if is_record(thing):
            return Foreign(Held(dataclasses.replace(thing, **{field: value})))
        thing = copy.copy(thing)
        setattr(thing, field, value)
        return Foreign(Held(thing))


def foreign(kernel: Any) -> Any:
    """The kernel itself if JAX can carry it as data, else held as `Foreign`."""
    for method in ("init", "step"):
        if not callable(getattr(kernel, method, None)):
            raise ValueError(f"audit: {type(kernel).__name__} has no {method}; a kernel has init and step.")
    return Foreign(Held(kernel)) if jax.tree_util.all_leaves([kernel]) else kernel
