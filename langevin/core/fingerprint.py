"""A digest of a value's content that is the same in every process: what tells one run from another.

Arrays count by their bytes. A user's function counts by its code, constants and names, by what it closes over and by
the functions and numbers of its module that it calls; a user's class by its methods. Functions of installed packages
count by name and by what they close over.
"""

from __future__ import annotations

import hashlib
import re
import sys
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import jax
import numpy as np

from langevin.core.arrays import to_plain
from langevin.core.record import is_record

OWN = "langevin"
PLAIN = (bool, int, float, complex, str, bytes, np.generic, np.ndarray, jax.Array)


def fingerprint(x: Any) -> str:
    """The digest of any value."""
    mark = hashlib.sha256()
    _add(mark, x, ())
    return mark.hexdigest()


def _add(mark, x: Any, within: tuple) -> None:
    if is_record(x):
        mark.update(type(x).__name__.encode())
        _add_methods(mark, type(x), within)
        for name in x.__dataclass_fields__:
            mark.update(name.encode())
            _add(mark, getattr(x, name), within)
    elif isinstance(x, (jax.Array, np.ndarray, np.generic)):
        _add_array(mark, to_plain(x), within)
    elif isinstance(x, (dict, list, tuple)):
        mark.update(f"{type(x).__name__}{len(x)}".encode())
        for item in x.items() if isinstance(x, dict) else x:
            _add(mark, item, within)
    elif isinstance(x, frozenset):
        mark.update("".join(sorted(map(fingerprint, x))).encode())
    elif isinstance(x, CodeType):
        _add_code(mark, x, within)
    elif callable(x) and jax.tree_util.all_leaves([x]):
        mark.update(f"{getattr(x, '__module__', '')}.{getattr(x, '__qualname__', type(x).__name__)}".encode())
        if not any(x is seen for seen in within):  # a function may close over itself
            _add(mark, _contents(x), (*within, x))
    elif jax.tree_util.all_leaves([x]):
        mark.update(_words(x).encode())
    else:
        mark.update(type(x).__name__.encode())
        for leaf in jax.tree.leaves(x):
            _add(mark, leaf, within)


def _words(x: Any) -> str:
    """A value that is no tree, as text that is the same in every process."""
    if type(x) is int and abs(x) < 2**53:
        return repr(float(x))  # Optax's schedules make floats of the whole numbers they close over
    return re.sub(r" at 0x[0-9a-f]+", "", repr(x))  # an address is another in every process


def _add_array(mark, u: np.ndarray, within: tuple) -> None:
    mark.update(f"{u.dtype}{u.shape}".encode())
    if u.dtype.kind == "O":
        _add(mark, u.tolist(), within)
    else:
        mark.update(np.ascontiguousarray(u).reshape(-1).view(np.uint8).data)


def _add_methods(mark, cls: type, within: tuple) -> None:
    """The code of a user's class, its bases included."""
    if any(cls is seen for seen in within):
        return
    for base in cls.__mro__:
        if not _is_users(base):
            continue
        for name, value in sorted(vars(base).items()):
            found = getattr(value, "fget", None) or getattr(value, "__func__", value)
            generated = getattr(found, "__module__", None) != base.__module__ or _is_generated(found)
            if isinstance(found, FunctionType) and not generated:
                mark.update(name.encode())
                _add(mark, found, (*within, cls))


def _is_generated(fn: Any) -> bool:
    """Whether a decorator wrote it (`dataclass` compiles from a string)."""
    code = getattr(fn, "__code__", None)
    return code is not None and code.co_filename.startswith("<string")


def _contents(fn: Any) -> list:
    """What a function carries: code if it is a user's, closure, defaults, bound arguments."""
    if isinstance(fn, partial):
        return [fn.func, fn.args, fn.keywords]
    cells = [c.cell_contents for c in getattr(fn, "__closure__", None) or () if _is_filled(c)]
    wrapped = getattr(fn, "__wrapped__", None)
    holds = [getattr(fn, "__self__", None), getattr(fn, "__defaults__", None), wrapped, cells]
    code = getattr(fn, "__code__", None)
    if code is not None and _is_users(fn):
        holds += [code, getattr(fn, "__kwdefaults__", None), _globals(fn, code)]
    return holds


def _add_code(mark, code: CodeType, within: tuple) -> None:
    """Instructions, names and constants; not where the text stands, nor the docstring."""
    mark.update(code.co_code)
    mark.update(f"{code.co_names}{code.co_varnames}{code.co_freevars}{code.co_argcount}".encode())
    for constant in code.co_consts[1 if _has_docstring(code) else 0 :]:
        _add(mark, constant, within)


def _has_docstring(code: CodeType) -> bool:
    """Whether the first constant is one, or its place: before Python 3.14 every function with a name keeps it."""
    if sys.version_info >= (3, 14):
        return bool(code.co_flags & 0x4000000)  # CO_HAS_DOCSTRING
    return bool(code.co_consts) and isinstance(code.co_consts[0], str | None) and not code.co_name.startswith("<")


def _globals(fn: Any, code: CodeType) -> list:
    """Functions and numbers of its module that a function names, those of functions inside it included."""
    names = set(code.co_names)
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    while inside:
        one = inside.pop()
        names |= set(one.co_names)
        inside += [c for c in one.co_consts if isinstance(c, CodeType)]
    known = {name: fn.__globals__[name] for name in sorted(names) if name in fn.__globals__}
    return [(n, v) for n, v in known.items() if isinstance(v, PLAIN) or (isinstance(v, FunctionType) and _is_users(v))]


def _is_users(x: Any) -> bool:
    """Whether a function or class is of no installed package and not of this library."""
    module = getattr(x, "__module__", None) or ""
    root = module.partition(".")[0]
    if root == "__main__":
        return True
    if not root or root == OWN or root in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file


def _is_filled(cell) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
