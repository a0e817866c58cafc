"""Who is audited: our kernels by name, a user's `module:Kernel` or `file.py:Kernel`, and BlackJAX's by `blackjax:name`.

What a kernel is run with, or why it is not audited, its class says (`Kernel.audit`): settings that suit the trials,
whose steepest direction has scale 1.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from langevin.core.display import describe
from langevin.core.kernel import Kernel, Wrapper, named, registered, replace
from langevin.core.record import is_record, record, static
from langevin.core.types import Law


def audited() -> dict[str, Callable[[], Any]]:
    """Every kernel that is audited, as its class says: name, or name-variant → how to build it."""
    return {
        f"{name}-{variant}" if variant else name: how if callable(how) else partial(cls, **how)
        for name, cls in sorted(registered().items())
        for variant, how in cls.audit.variants.items()
    }


def excluded() -> dict[str, str]:
    """Kernels that are not audited, and why."""
    return {name: cls.audit.excluded for name, cls in sorted(registered().items()) if cls.audit.excluded}


def subject(text: str, options: dict[str, str] | None = None) -> tuple[str, Any]:
    """The name and the kernel a user means; mistakes are ValueErrors of one sentence."""
    options = options or {}
    if text.startswith("blackjax:"):
        from langevin.samplers.blackjax import adapted

        given = {k.replace("-", "_"): number(v) for k, v in options.items()}
        return text, adapted(text.split(":", 1)[1], **given)
    if ":" in text:
        return text.rpartition(":")[2], _checked(text, _imported(text), options)
    if text in (known := audited()):
        built = known[text]()
    else:
        cls = named(text)
        if not options and cls.audit.excluded:
            raise ValueError(f"audit: {text} is not audited: {cls.audit.excluded}.")
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
        inner = inner.kernel if isinstance(inner, Wrapper) else None
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
class Foreign(Kernel):
    """A kernel of someone else's making, held as it is; `law`, `step_size` and so on show through.

    thing: the object with init and step.
    """

    thing: Held = static()

    def __getattr__(self, name):
        if name == "thing":  # not there yet while being built
            raise AttributeError(name)
        return getattr(self.thing.value, name)

    def has(self, field: str) -> bool:
        """Whether the object has such an attribute."""
        return hasattr(self.thing.value, field)

    @property
    def group(self) -> int:
        return getattr(self.thing.value, "group", 1)

    def init(self, key, position, target):
        return self.thing.value.init(key, position, target)

    def step(self, key, state, target):
        return self.thing.value.step(key, state, target)

    def law(self) -> Law | None:  # type: ignore[override]
        return self.thing.value.law() if self.has("law") else None

    def changed(self, field: str, value: Any) -> Foreign:
        """A copy of the object with one attribute set."""
        thing = self.thing.value
        if is_record(thing):
            return Foreign(Held(dataclasses.replace(thing, **{field: value})))
        thing = copy.copy(thing)
        setattr(thing, field, value)
        return Foreign(Held(thing))


def foreign(kernel: Any) -> Any:
    """The kernel itself if it is one of the library's base class, else held as `Foreign`."""
    for method in ("init", "step"):
        if not callable(getattr(kernel, method, None)):
            raise ValueError(f"audit: {type(kernel).__name__} has no {method}; a kernel has init and step.")
    return kernel if isinstance(kernel, Kernel) else Foreign(Held(kernel))
