"""Any record of the library as JSON and arrays, and back. No pickle: a file names classes, and brings none.

    None, bool, int, float, str, list, dict     themselves
    tuple, other dicts, numbers that JSON lacks   {"$": "tuple" | "pairs" | "float", …}
    array, number with a dtype, PRNG key        {"$": "array", "at": i, "dtype", "as"}: the i-th of the arrays beside it
    record, NamedTuple, dataclass, module       {"$": "record", "class": "module:name", "fields": {…}}
    function, partial                           {"$": "function", "name": "module:name"}, {"$": "partial", …}
    anything else                               {"$": "lost", "text": …}, and the field is named to whoever saves it

A class is rebuilt field by field without its constructor, as JAX rebuilds trees. It must be of this library, a record
(`@record` registers its import path), or a tree of a module that is already imported. A function must be module-level
in this library or one of `jax.nn`.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import sys
from collections import OrderedDict
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.arrays import from_plain, is_key, to_plain
from langevin.core.display import show
from langevin.core.files import StoreError
from langevin.core.record import RECORDS, is_static

TAG = "$"
OWN = "langevin"
COMMANDS = "langevin.cli"  # to import or call it may run a command


class Encoded(NamedTuple):
    """A value as JSON, its arrays in order, and the fields that could not be stored: {path: what was there}."""

    body: Any
    arrays: list[np.ndarray]
    lost: dict[str, str]


def encode(value: Any) -> Encoded:
    """A value as JSON and arrays; what cannot be stored is named in `lost`."""
    out = Encoded(None, [], {})
    return out._replace(body=_encode(value, out, ""))


def _encode(x: Any, out: Encoded, path: str) -> Any:
    inner = lambda value, name: _encode(value, out, f"{path}.{name}" if path else str(name))
    if x is None or isinstance(x, (bool, str)) or type(x) is int:
        return x
    if type(x) is float:
        return x if math.isfinite(x) else {TAG: "float", "value": repr(x)}
    if isinstance(x, (np.ndarray, np.generic, jax.Array)):
        return _encode_array(x, out, path)
    if type(x) is list:
        return [inner(v, i) for i, v in enumerate(x)]
    if type(x) is tuple:
        return {TAG: "tuple", "items": [inner(v, i) for i, v in enumerate(x)]}
    if type(x) is dict and all(isinstance(k, str) for k in x) and TAG not in x:
        return {k: inner(v, k) for k, v in x.items()}
    if type(x) is dict:
        return {TAG: "pairs", "items": [[inner(k, "key"), inner(v, k)] for k, v in x.items()]}
    if isinstance(x, partial):
        return {TAG: "partial", "items": [inner(v, n) for n, v in zip(_PARTIAL, _parts(x), strict=True)]}
    fields = _fields(x)
    if fields is not None:
        body = {name: inner(getattr(x, name), name) for name, _ in fields}
        leaves = [name for name, leaf in fields if leaf]
        return {TAG: "record", "class": _path(type(x)), "leaves": leaves, "fields": body}
    if callable(x) and _function(_path(x)) is x:
        return {TAG: "function", "name": _path(x)}
    named = getattr(x, "__name__", "")
    if callable(x) and getattr(jax.nn, named, None) is x:
        return {TAG: "function", "name": f"jax.nn:{named}"}
    return _encode_other(x, out, path)


def _encode_other(x: Any, out: Encoded, path: str) -> Any:
    """A node that only JAX knows keeps its leaves; it is rebuilt by the structure of another tree."""
    if jax.tree_util.all_leaves([x]):
        out.lost[path] = show(x)
        return {TAG: "lost", "text": show(x)}
    children, _ = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda u: u is not x)
    items = [[jax.tree_util.keystr(k, simple=True, separator="."), v] for k, v in children]
    out.lost[path] = type(x).__name__
    return {TAG: "node", "text": show(x), "items": [[k, _encode(v, out, f"{path}.{k}")] for k, v in items]}


_PARTIAL = ("func", "args", "keywords")


def _parts(x: partial) -> tuple:
    return x.func, x.args, x.keywords


def _fields(x: Any) -> list[tuple[str, bool]] | None:
    """(name, whether it is a leaf of the tree) of a dataclass or NamedTuple; None for anything else."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return [(name, True) for name in x._fields]
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [(f.name, not is_static(f)) for f in dataclasses.fields(x)]
    return None


def _path(x: Any) -> str:
    return f"{getattr(x, '__module__', '')}:{getattr(x, '__qualname__', '')}"


# --- back -------------------------------------------------------------------------------------------------------------


def decode(body: Any, arrays: list[np.ndarray], *, lenient: bool = False) -> Any:
    """The value that `encode` was given. Lenient: a class that is not known here becomes a dict of its leaves."""
    try:
        return _decode(body, arrays, lenient)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise StoreError(f"store: a value is not as langevin writes it ({type(error).__name__}: {error}).") from None


def _decode(body: Any, arrays: list[np.ndarray], lenient: bool) -> Any:
    inner = lambda value: _decode(value, arrays, lenient)
    if isinstance(body, list):
        return [inner(v) for v in body]
    if not isinstance(body, dict):
        return body
    kind = body.get(TAG)
    if kind is None:
        return {k: inner(v) for k, v in body.items()}
    if kind in ("array", "float", "function"):
        return _decode_leaf(body, arrays)
    if kind == "record":
        return _decode_record(body, arrays, lenient)
    if kind in ("lost", "node"):
        return _decode_lost(body, arrays, lenient)
    items = [inner(v) for v in body["items"]]
    if kind == "pairs":
        return dict(items)
    if kind == "partial":
        fn, args, keywords = items
        return partial(fn, *args, **keywords)
    return tuple(items) if kind == "tuple" else np.array(items, object if body["dtype"] == "object" else str)


def _decode_leaf(body: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    if body[TAG] == "float":
        return float(body["value"])
    return _decode_array(body, arrays) if body[TAG] == "array" else _known(_function(body["name"]), body["name"])


def _decode_lost(body: dict[str, Any], arrays: list[np.ndarray], lenient: bool) -> Any:
    if not lenient:
        raise StoreError(f"store: {body['text']} is code or a structure that a file cannot hold.")
    return OrderedDict((k, _decode(v, arrays, True)) for k, v in body["items"]) if "items" in body else None


def _decode_record(body: dict[str, Any], arrays: list[np.ndarray], lenient: bool) -> Any:
    try:
        for name, value in body["fields"].items() if lenient else ():
            _check_whole(value, own=name in body["leaves"])
        cls = _known(_class(body["class"]), body["class"])
        return _build(cls, {name: _decode(value, arrays, lenient) for name, value in body["fields"].items()})
    except StoreError:
        if not lenient:
            raise
        # in the order of the leaves, which a plain dict would sort
        return OrderedDict((name, _decode(body["fields"][name], arrays, True)) for name in body["leaves"])


def _check_whole(body: Any, own: bool) -> None:
    """Refuse a field in which something could not be stored: a class with a hole in it must not be built.

    own: records in it see to themselves, for they may be dicts of leaves; in what is static nothing may be missing.
    """
    kind = body.get(TAG) if isinstance(body, dict) else None
    if kind in ("lost", "node"):
        raise StoreError(f"store: {body['text']} was not stored.")
    if kind == "record" and own:
        return
    for part in body.values() if isinstance(body, dict) else body if isinstance(body, list) else ():
        _check_whole(part, own)


def _build(cls: Any, fields: dict[str, Any]) -> Any:
    names = list(cls._fields) if issubclass(cls, tuple) else [f.name for f in dataclasses.fields(cls)]
    if sorted(names) != sorted(fields):
        raise StoreError(f"store: {_path(cls)} has other fields here than in the file; it is of another version.")
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [fields[name] for name in names])
    made = object.__new__(cls)
    for name in names:
        object.__setattr__(made, name, fields[name])
    if not _path(cls).startswith(f"{OWN}.") and jax.tree_util.all_leaves([made]):
        raise StoreError(f"store: {_path(cls)} is no record and no tree.")
    return made


def _known(found: Any, path: str) -> Any:
    if found is None:
        raise StoreError(
            f"store: {path} is not known here; import the module that defines it, install what it needs, or update "
            "langevin."
        )
    return found


def _class(path: str) -> Any:
    """A record, NamedTuple or dataclass by its import path; None where there is none."""
    found = RECORDS.get(path)
    if found is None:
        found = _find(path)
        found = RECORDS.get(path, found)
    if not isinstance(found, type):
        return None
    named = issubclass(found, tuple) and hasattr(found, "_fields")
    return found if named or dataclasses.is_dataclass(found) else None


def _function(path: str) -> Any:
    """A module-level function of this library or of jax.nn by its import path; None where there is none."""
    module, _, name = path.partition(":")
    if module == "jax.nn":
        return getattr(jax.nn, name, None) if name.isidentifier() else None
    found = _find(path) if module.split(".")[0] == OWN else None
    same = callable(found) and not isinstance(found, type) and _path(found) == path
    return found if same else None


def _find(path: str) -> Any:
    """What a path names. Only modules of this library are imported; others must have been."""
    module, _, name = path.partition(":")
    parts = module.split(".")
    if module.startswith(COMMANDS):
        return None
    if parts[0] == OWN and all(p.isidentifier() and p[0] != "_" for p in parts):
        try:
            importlib.import_module(module)
        except ImportError:
            return None
    try:
        return reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None


# --- arrays -----------------------------------------------------------------------------------------------------------


def _encode_array(x: Any, out: Encoded, path: str) -> Any:
    if isinstance(x, np.ndarray) and x.dtype.kind in "UO":
        values = [_encode(v, out, path) for v in x.tolist()]
        return {TAG: "strings", "dtype": "object" if x.dtype.kind == "O" else "str", "items": values}
    made = "jax" if isinstance(x, jax.Array) else "numpy" if isinstance(x, np.ndarray) else "scalar"
    body = {TAG: "array", "at": len(out.arrays), "dtype": str(x.dtype), "as": made}
    if is_key(x):
        body |= {"as": "key", "dtype": str(jax.random.key_impl(x))}
    out.arrays.append(to_plain(x))
    return body


def _decode_array(body: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    u, dtype = arrays[int(body["at"])], str(body["dtype"])
    if body["as"] == "key":
        return jax.random.wrap_key_data(jnp.asarray(u), impl=noise.HASH if dtype == str(noise.HASH) else dtype)
    u = from_plain(u, dtype)
    if body["as"] == "jax":
        made = jnp.asarray(u)
        if made.dtype != u.dtype:
            raise StoreError(f"store: it was saved with numbers of type {dtype}; start JAX with JAX_ENABLE_X64=1.")
        return made
    return u[()] if body["as"] == "scalar" else u


# --- what could not be stored -----------------------------------------------------------------------------------------


class Unstored:
    """Stands for a value that a file could not hold; asked for anything, it says why."""

    def __init__(self, sentence: str, text: str = ""):
        self.sentence, self.text = sentence, text

    def __repr__(self) -> str:
        return self.text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TypeError(self.sentence)
