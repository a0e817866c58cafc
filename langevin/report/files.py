"""Facts in a model's folder: numbers as arrays, words as JSON; no pickle."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from langevin.core.store import StoreError, write_file
from langevin.diagnostics.convergence import Diagnosis
from langevin.report.facts import Facts, Said

NAME = "facts"


def save(facts: Facts, folder: Path) -> None:
    """facts.json and facts.npz."""
    arrays: dict[str, np.ndarray] = {}
    body = json.dumps(_words(facts, arrays), indent=1, ensure_ascii=False)
    np.savez_compressed(folder / f"{NAME}.npz", **arrays)
    write_file(folder / f"{NAME}.json", body.encode())


def load(folder: Path) -> Facts:
    """What `save` wrote."""
    try:
        body = json.loads((folder / f"{NAME}.json").read_text(encoding="utf-8"))
        arrays = dict(np.load(folder / f"{NAME}.npz"))
    except (OSError, ValueError) as error:
        raise StoreError(f"report: {folder} holds no facts ({error}); `langevin fit --out` writes them.") from None
    return _facts(body, arrays)


def _words(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON of a value; arrays are put aside under a number, in half the precision, which no figure shows."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value.astype(np.float32) if value.dtype == np.float64 else value
        return {"array": name}
    if dataclasses.is_dataclass(value):
        return {f.name: _words(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return {k: _words(v, arrays) for k, v in value._asdict().items()}
    if isinstance(value, dict):
        return {"dict": [[k, _words(v, arrays)] for k, v in value.items()]}
    if isinstance(value, (tuple, list)):
        return {"tuple": [_words(v, arrays) for v in value]}
    return value.item() if isinstance(value, np.generic) else value


def _value(body: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(body, dict):
        return body
    if "array" in body:
        found = arrays[body["array"]]
        return found.astype(np.float64) if found.dtype == np.float32 else found
    if "dict" in body:
        return {k: _value(v, arrays) for k, v in body["dict"]}
    return tuple(_value(v, arrays) for v in body["tuple"])


def _facts(body: dict[str, Any], arrays: dict[str, np.ndarray]) -> Facts:
    of = lambda part: {k: _value(v, arrays) for k, v in part.items()}
    inner = {"said": Said, "start": Said, "diagnosis": Diagnosis}
    known = {k: inner[k](**of(v)) for k, v in body.items() if k in inner and v is not None}
    plain = {k: _value(v, arrays) for k, v in body.items() if k not in known}
    return Facts(**(plain | known))
