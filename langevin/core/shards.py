"""Draws on disk, to be read shard by shard; and the manifest that says which shards there are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from langevin.core.document import unseal
from langevin.core.files import StoreError, read_file, unpack_arrays
from langevin.core.serialize import decode
from langevin.core.types import Info, PyTree

FORMAT = 2
CURRENT, PREVIOUS = "manifest.json", "manifest.previous.json"


def read_manifest(folder: Path, *, drawn: bool = False) -> dict[str, Any]:
    """The manifest of a run; the generation before, with a warning, where it or its checkpoint is damaged.

    drawn: it is to be read and not to go on, so that a generation before the first draw is of no use.
    """
    found = [name for name in (CURRENT, PREVIOUS) if (folder / name).exists()]
    if not found:
        raise StoreError(f"store: {folder} is not empty and holds no run of langevin; use another folder.")
    reasons = [] if CURRENT in found else [f"store: {folder / CURRENT} is missing."]
    for name in found:
        try:
            body = unseal(folder / name, read_file(folder / name))
            if body.get("format") != FORMAT:
                raise StoreError(f"store: {folder / name} has format {body.get('format')!r}, not {FORMAT}.")
            if body["checkpoint"] is not None:
                read_entry(folder, body["checkpoint"])
        except StoreError as error:
            reasons.append(str(error))
            continue
        if reasons and drawn and not body["shards"]:
            raise StoreError(reasons[0])
        if reasons:
            lost = max(_newest(folder) - body["done"], 0)
            warnings.warn(
                f"{reasons[0]} The run goes on from the generation before: the last {lost} draws a chain are lost and "
                "will be drawn again.",
                stacklevel=3,
            )
        return body
    raise StoreError(
        f"store: both manifests in {folder} are damaged; restore the folder or use another ({' '.join(reasons)})"
    )


def _newest(folder: Path) -> int:
    """The number of draws, warm-up included, after which the newest shard was written."""
    numbers = [file.stem.partition("-")[2] for file in folder.glob("shard-*.npz")]
    return max((int(n) for n in numbers if n.isdecimal()), default=0)


def read_entry(folder: Path, entry: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a file that a manifest names, checked."""
    file = folder / Path(entry["file"]).name  # a manifest cannot point outside its folder
    return unpack_arrays(file, read_file(file, entry["sha256"]))


class Stored:
    """Draws on disk, read shard by shard. Iterating gives trees of (chain, draw, …); `load` gives all at once."""

    def __init__(self, path: Path, manifest: dict[str, Any], structure: Any = None):
        self.path, self.manifest, self.structure = path, manifest, structure

    @classmethod
    def at(cls, path: str | Path, like: PyTree = None) -> Stored:
        """The draws in a folder. `like` gives each the structure of a tree whose classes are not known here."""
        return cls(
            Path(path), read_manifest(Path(path), drawn=True), None if like is None else jax.tree.structure(like)
        )

    def __repr__(self) -> str:
        return f"Stored({len(self)} draws a chain in {self.path})"

    def __len__(self) -> int:
        return sum(s["draws"] for s in self.manifest["shards"])

    def __iter__(self) -> Iterator[PyTree]:
        for entry in self.manifest["shards"]:
            arrays = read_entry(self.path, entry)
            try:
                count = sum(name.startswith("draws.") for name in arrays)
                draws = decode(self.manifest["structure"], [arrays[f"draws.{i}"] for i in range(count)], lenient=True)
            except (StoreError, KeyError) as error:
                raise StoreError(f"store: the draws in {self.path} do not fit their manifest ({error}).") from None
            # a class that is not known here has become a dict of its leaves, in their order
            yield draws if self.structure is None else jax.tree.unflatten(self.structure, jax.tree.leaves(draws))

    def load(self) -> PyTree:
        _need_draws(self.path, self.manifest)
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self)


class StoredInfo:
    """Info on disk, read when it is first asked for; draws are not kept in memory by it."""

    _fields = Info._fields

    def __init__(self, path: Path, manifest: dict[str, Any]):
        self._path, self._manifest = path, manifest
        self._read: Info | None = None

    def __repr__(self) -> str:
        return f"StoredInfo(in {self._path})"

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in Info._fields:
            raise AttributeError(name)
        return getattr(self.load(), name)

    def load(self) -> Info:
        _need_draws(self._path, self._manifest)
        if self._read is None:
            parts = []
            for entry in self._manifest["shards"]:
                arrays = read_entry(self._path, entry)
                parts.append(Info._make(arrays[f"info.{name}"] for name in Info._fields))
            self._read = Info._make(np.concatenate(p, axis=1) for p in zip(*parts, strict=True))
        return self._read


def _need_draws(path: Path, manifest: dict[str, Any]) -> None:
    if not manifest["shards"]:
        raise StoreError(f"store: {path} holds no draws yet, only warm-up; run longer.")
