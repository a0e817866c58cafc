"""Records: frozen dataclasses that are pytrees.

A field is a leaf unless it is `static()`. Numbers are cast to one dtype when a record is built (an `int` or an
`np.float64` in place of a `float` would compile anew), so a new value never recompiles; strings, functions, shapes
and loop lengths are static, and a new one does. Unflattening bypasses the constructor: JAX may put anything in a
leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any, TypeVar, cast, dataclass_transform

import jax
import numpy as np

from langevin.core.display import line, record_page, show

T = TypeVar("T")

RECORDS: dict[str, type] = {}  # every record by its import path "module:name": what `core.serialize` may rebuild


def static(*, default: Any = MISSING) -> Any:
    """A field that is part of the program, not of its data."""
    return dataclasses.field(default=default, metadata={"static": True})


def positive(*, default: Any = MISSING) -> Any:
    """A number that must be greater than zero."""
    return dataclasses.field(default=default, metadata={"low": 0.0, "open": True})


def nonnegative(*, default: Any = MISSING) -> Any:
    """A number that must not be negative."""
    return dataclasses.field(default=default, metadata={"low": 0.0, "open": False})


def is_static(field: dataclasses.Field) -> bool:
    return bool(field.metadata.get("static", False))


def is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


@dataclass_transform(frozen_default=True, field_specifiers=(static, positive, nonnegative, dataclasses.field))
def record(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass and a pytree."""
    after = getattr(cls, "__post_init__", None)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if not is_static(field):
                object.__setattr__(self, field.name, _leaf(self, field, getattr(self, field.name)))
        if after is not None:
            after(self)

    cls.__post_init__ = __post_init__  # type: ignore[attr-defined]
    if cls.__repr__ is object.__repr__:
        cls.__repr__ = _repr  # type: ignore[method-assign]
    if not hasattr(cls, "_repr_html_"):
        cls._repr_html_ = record_page  # type: ignore[attr-defined]
    made = dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
    fields = dataclasses.fields(cast(Any, made))
    leaves = tuple(f.name for f in fields if not is_static(f))
    statics = tuple(f.name for f in fields if is_static(f))

    def flatten(self):
        return tuple(getattr(self, n) for n in leaves), tuple(getattr(self, n) for n in statics)

    def flatten_with_keys(self):
        children = tuple((jax.tree_util.GetAttrKey(n), getattr(self, n)) for n in leaves)
        return children, tuple(getattr(self, n) for n in statics)

    def unflatten(aux, children):
        self = object.__new__(made)
        for name, value in zip(leaves, children, strict=True):
            object.__setattr__(self, name, value)
        for name, value in zip(statics, aux, strict=True):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    RECORDS[f"{made.__module__}:{made.__qualname__}"] = made
    return made


def replace(rec: T, **changes: Any) -> T:
    """A copy with some fields changed; unknown names are looked for in the field `kernel` (a kernel in a kernel)."""
    own = {f.name for f in dataclasses.fields(cast(Any, rec))}
    here = {k: v for k, v in changes.items() if k in own}
    deeper = {k: v for k, v in changes.items() if k not in own}
    if deeper:
        inner = rec.kernel if "kernel" in own else None  # type: ignore[attr-defined]
        if not is_record(inner):
            names = ", ".join(sorted(own))
            raise TypeError(f"{type(rec).__name__} has no field {sorted(deeper)[0]!r}; its fields are {names}.")
        here["kernel"] = replace(here.get("kernel", inner), **deeper)
    return dataclasses.replace(rec, **here)  # type: ignore[type-var]


NUMBERS = ("float", "int", "Schedule", float, int)  # annotations of fields that hold one number


def _is_tree(value: Any) -> bool:
    return isinstance(value, (str, bytes, list, tuple, dict))


def _leaf(self, field: dataclasses.Field, value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return value
    if isinstance(value, (int, float, np.integer, np.floating)):
        low = field.metadata.get("low")
        if low is not None and not (value > low if field.metadata["open"] else value >= low):
            need = "positive" if field.metadata["open"] else "zero or more"
            raise ValueError(f"{type(self).__name__}: {field.name} is {value}; it must be {need}.")
        kind = int if field.type in ("int", int) else float
        return np.asarray(value, jax.dtypes.canonicalize_dtype(kind))[()]
    missing = value is None and field.default is not None
    text = isinstance(value, str) and "low" in field.metadata
    if text or ((missing or _is_tree(value)) and field.type in NUMBERS):
        raise TypeError(f"{type(self).__name__}: {field.name} is {value!r}; it must be a number or a schedule.")
    if isinstance(value, jax.Array) and value.ndim == 0 and getattr(value, "weak_type", False):
        return jax.lax.convert_element_type(value, value.dtype)
    # a plain function cannot be a leaf; a callable that is itself a pytree (a network) can stay
    if callable(value) and jax.tree_util.all_leaves([value]):
        return External(value)
    return value


def _repr(self) -> str:
    return line(self, [f.name for f in dataclasses.fields(self)])


def values(record: Any) -> dict[str, Any]:
    """The fields of a record by name."""
    return {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}


@record
class External:
    """A plain function (an Optax schedule, a statistic to keep) held in a record. fn: the function, static."""

    fn: Callable = static()

    def __call__(self, *args):
        return self.fn(*args)

    def __repr__(self) -> str:
        return show(self.fn)


def as_record(fn: Callable) -> Any:
    """A function as a value that `jit` takes: records as they are, plain functions held as `External`."""
    return fn if is_record(fn) else External(fn)
