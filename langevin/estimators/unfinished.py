"""A fit that is kept while it runs: what it was begun with, beside what its stages store.

    folder/begun.json       fingerprints of the table and of every parameter, and the seed
    folder/train, tune, draws   the stages of the plan (`tune.plan`)

The same fit with the same folder goes on in the stage in which it was stopped, and gives the same draws to the last
bit. Another table, by its content, and other parameters are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax

from langevin.core import document
from langevin.core.files import StoreError
from langevin.core.fingerprint import fingerprint
from langevin.core.shards import Stored, StoredInfo, read_manifest
from langevin.core.types import Info, PyTree

DOCUMENT = "begun"
UNFINISHED = "unfinished"  # the folder, in that of a model, in which `langevin fit` keeps a fit while it runs
FREE = ("verbose", "random_state")  # parameters that may differ: the seed itself is kept


def begin(folder: Path, estimator: Any, table: str, seed: int) -> int:
    """Begin a fit here or go on with it: the seed it began with."""
    marks = {n: fingerprint(v) for n, v in estimator.get_params(deep=False).items() if n not in FREE}
    given = estimator.random_state
    if not document.exists(folder, DOCUMENT):
        if folder.exists() and any(folder.iterdir()):
            raise StoreError(f"fit: {folder} is not empty and holds no unfinished fit; use another folder.")
        folder.mkdir(parents=True, exist_ok=True)
        document.save(folder, DOCUMENT, dict(table=table, params=marks, seed=seed))
        return seed
    found = document.load(folder, DOCUMENT)
    if found["table"] != table:
        raise StoreError(
            f"fit: the unfinished fit in {folder} is of another table (values, rows or columns differ); pass the table "
            "it was begun with, or use another folder."
        )
    other = [name for name, mark in marks.items() if found["params"].get(name) != mark]
    if other or (given is not None and seed != found["seed"]):
        names = " and ".join(other or ["random_state"])
        raise StoreError(
            f"fit: the unfinished fit in {folder} was begun with another {names}; use the same, or another folder."
        )
    return found["seed"]


def sampled(folder: Path | None, like: PyTree) -> list[tuple[PyTree, Info]]:
    """Draws that are stored already, of chains whose position is like this."""
    if folder is None or not (folder / "draws").exists():
        return []
    manifest = read_manifest(folder / "draws")
    if not manifest["shards"]:
        return []
    stored = Stored(folder / "draws", manifest, jax.tree.structure(like))
    return [(stored.load(), StoredInfo(folder / "draws", manifest).load())]


def seconds(folder: Path | None, stages: Iterable[str] = ("train", "draws")) -> float:
    """What the stages took in processes before."""
    if folder is None:
        return 0.0
    there = [folder / stage for stage in stages if (folder / stage / "manifest.json").exists()]
    return sum(float(read_manifest(path).get("seconds", 0.0)) for path in there)
