"""Draws and checkpoints on disk: checksummed npz shards and a JSON manifest. No pickle: a stranger's file runs no code.

    folder/manifest.json            what is here: identity of the run, shards, checkpoint, each with its SHA-256
    folder/manifest.previous.json   the generation before
    folder/checkpoint-<n>.npz       states, kernel and what callbacks changed of the target after n draws; two are kept
    folder/shard-<n>.npz            the draws and Info of one chunk

Every file is written under a temporary name, synced and renamed; the manifest comes last, so a run killed at any
moment finds either this chunk or the one before. Shards need no dependency, and with a SHA-256 and a sync of every
file they keep pace with Zarr's defaults; TensorStore's, which do neither, write two to four times as fast for 66 MB
of dependency (`langevin bench store`).
On many processes the first one writes and all read: the folder must be one they share.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from langevin.core import sharding, tree
from langevin.core.skeleton import concrete, fingerprint, plain, rebuild, skeleton, typed
from langevin.core.types import Info, PyTree, State

FORMAT = 1
CURRENT, PREVIOUS, WRITING = "manifest.json", "manifest.previous.json", ".writing"


class StoreError(RuntimeError):
    """Something on disk is not as it should be; the sentence says what and where."""


class Store:
    """A folder of one run. dtype: "float32" or "bfloat16" for the stored draws; None keeps theirs."""

    def __init__(self, path: str | Path, dtype: str | None = None):
        self.path = Path(path)
        self.dtype = dtype
        self.manifest: dict[str, Any] = {}
        self.structure: Any = None  # of what is kept, known to the process that samples
        self.given: list = []  # the target's leaves as the run began

    def open(
        self, identity: dict[str, Any], kernel: PyTree, target: PyTree, states: State
    ) -> tuple[int, PyTree, PyTree, State]:
        """Begin a run here or go on with it: draws done (warm-up included), kernel, target and states."""
        marks = {name: fingerprint(value) for name, value in identity.items()} | {"dtype": str(self.dtype)}
        self.given = jax.tree.leaves(target)
        if not self.path.exists() or all(file.suffix == WRITING for file in self.path.iterdir()):
            self._begin(marks)
            return 0, kernel, target, states
        self.manifest = self._read_manifest()
        other = [name for name, mark in marks.items() if self.manifest["identity"].get(name) != mark]
        if other:
            raise StoreError(
                f"store: {self.path} holds another run (its {' and '.join(other)} differ); "
                "use another folder, or call with what that run was started with."
            )
        if self.manifest["checkpoint"] is None:
            return 0, kernel, target, states
        arrays = self._read(self.manifest["checkpoint"])
        wanted = {"kernel": kernel, "target": target, "states": states}
        for name, now in wanted.items():
            if self.manifest["shapes"][name] != _shapes(now):
                raise StoreError(
                    f"store: {self.path} cannot be resumed, for a visit changed the structure of the {name}; its draws "
                    "can be read with Stored.at, and a new run can start from them in another folder."
                )
        changed = [_as(arrays[f"target.{i}"], u) if f"target.{i}" in arrays else u for i, u in enumerate(self.given)]
        target = jax.tree.unflatten(jax.tree.structure(target), changed)
        return self.manifest["done"], _restore(arrays, "kernel", kernel), target, _restore(arrays, "state", states)

    def append(
        self, done: int, kernel: PyTree, target: PyTree, states: State, chunk: tuple[PyTree, Info] | None
    ) -> None:
        """Write one chunk and the checkpoint after it. Asked twice for the same draws, it does nothing."""
        if done <= self.manifest["done"]:
            return
        manifest = dict(self.manifest, done=done, shards=list(self.manifest["shards"]))
        manifest["shapes"] = {"kernel": _shapes(kernel), "target": _shapes(target), "states": _shapes(states)}
        checkpoint = {**_flat("state", states), **_flat("kernel", kernel), **self._changed(target)}
        if chunk is not None:
            kept, info = chunk
            self.structure = jax.tree.structure(kept)
            leaves = [self._cast(u) for u in jax.tree.leaves(kept)]
            manifest["structure"] = skeleton(kept)
            manifest["dtypes"] = [str(u.dtype) for u in leaves]
            arrays = {f"draws.{i}": plain(u) for i, u in enumerate(leaves)}
            arrays |= {f"info.{name}": value for name, value in zip(Info._fields, info, strict=True)}
            n = int(info.ok.shape[1])
            manifest["shards"].append(dict(self._write(f"shard-{done:010d}.npz", arrays), draws=n))
        manifest["checkpoint"] = self._write(f"checkpoint-{done:010d}.npz", checkpoint)
        self._commit(manifest)

    def draws(self) -> Stored:
        return Stored(self, self.structure)

    def info(self) -> StoredInfo:
        return StoredInfo(self)

    def sync(self) -> None:
        """On many processes: wait for the writer, then read what it wrote."""
        if jax.process_count() > 1:
            sharding.together("store")
            self.manifest = self._read_manifest()

    # --- files ------------------------------------------------------------------------------------------------

    def _begin(self, marks: dict[str, str]) -> None:
        """An empty run, on disk at once: a folder killed in its first chunk is known again."""
        self.manifest = dict(format=FORMAT, identity=marks, done=0, shards=[], checkpoint=None)

        def write():
            self.path.mkdir(parents=True, exist_ok=True)
            for left in self.path.glob(f"*{WRITING}"):
                left.unlink()
            write_file(self.path / CURRENT, _sealed(self.manifest))

        self._guarded(write)

    def _commit(self, manifest: dict[str, Any]) -> None:
        def write():
            # the generation before is what this process knows to be good: the file may be the damaged one
            write_file(self.path / PREVIOUS, _sealed(self.manifest))
            write_file(self.path / CURRENT, _sealed(manifest))
            kept = {(m["checkpoint"] or {}).get("file") for m in (manifest, self.manifest)}
            for old in self.path.glob("checkpoint-*.npz"):
                if old.name not in kept:
                    old.unlink()

        self._guarded(write)
        self.manifest = manifest

    def _changed(self, target: PyTree) -> dict[str, np.ndarray]:
        """The target's arrays that callbacks have put in place of those given; the data, unchanged, are not copied."""
        leaves = jax.tree.leaves(target)
        if len(leaves) != len(self.given):
            return {}
        pairs = enumerate(zip(leaves, self.given, strict=True))
        return {f"target.{i}": plain(concrete(new)) for i, (new, old) in pairs if new is not old}

    def _read_manifest(self) -> dict[str, Any]:
        found = False
        for name in (CURRENT, PREVIOUS):
            file = self.path / name
            if not file.exists():
                continue
            found = True
            try:
                body = json.loads(file.read_text())
                mark = body.pop("sha256")
                if mark == _digest(json.dumps(body, sort_keys=True).encode()) and body["format"] == FORMAT:
                    if body["checkpoint"] is not None:
                        self._read(body["checkpoint"])
                    return body
            except (ValueError, KeyError, StoreError):
                continue
        if found:
            raise StoreError(f"store: both manifests in {self.path} are damaged; restore the folder or use another.")
        raise StoreError(f"store: {self.path} is not empty and holds no run of langevin; use another folder.")

    def _write(self, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        body = buffer.getbuffer()
        self._guarded(partial(write_file, self.path / name, body))
        return dict(file=name, sha256=_digest(body))

    def _read(self, entry: dict[str, Any]) -> dict[str, np.ndarray]:
        file = self.path / Path(entry["file"]).name  # a manifest cannot point outside its folder
        try:
            body = file.read_bytes()
        except OSError as error:
            raise StoreError(f"store: {file} cannot be read ({error.strerror}).") from None
        if _digest(body) != entry["sha256"]:
            raise StoreError(f"store: {file} is damaged (its SHA-256 is not the manifest's).")
        try:
            return dict(np.load(io.BytesIO(body), allow_pickle=False))
        except (ValueError, EOFError, zipfile.BadZipFile):
            raise StoreError(f"store: {file} holds something other than plain arrays and is not read.") from None

    def _guarded(self, write: Callable[[], Any]) -> None:
        if jax.process_index() > 0:
            return
        try:
            write()
        except OSError as error:
            done = sum(s["draws"] for s in self.manifest.get("shards", []))
            raise StoreError(
                f"store: cannot write to {self.path} ({error.strerror or error}); the {done} draws a chain already "
                "stored are safe: make room and start the same run again to go on."
            ) from None

    def _cast(self, u) -> np.ndarray:
        u = np.asarray(u)
        if self.dtype is None or not jnp.issubdtype(u.dtype, jnp.floating):
            return u
        return u.astype(np.dtype(getattr(ml_dtypes, self.dtype, self.dtype)))


class Stored:
    """Draws on disk, read shard by shard. Iterating gives trees of (chain, draw, …); `load` gives all at once."""

    def __init__(self, store: Store, structure: Any = None):
        self.store = store
        self.structure = structure

    @classmethod
    def at(cls, path: str | Path, like: PyTree = None) -> Stored:
        """The draws in a folder. `like` gives each the structure of a tree that is not made of dicts and lists."""
        store = Store(path)
        store.manifest = store._read_manifest()
        return cls(store, None if like is None else jax.tree.structure(like))

    def __len__(self) -> int:
        return sum(s["draws"] for s in self.store.manifest["shards"])

    def __iter__(self) -> Iterator[PyTree]:
        manifest = self.store.manifest
        for entry in manifest["shards"]:
            arrays = self.store._read(entry)
            leaves = [typed(arrays[f"draws.{i}"], d) for i, d in enumerate(manifest["dtypes"])]
            if self.structure is None:
                yield rebuild(manifest["structure"], leaves)
            else:
                yield jax.tree.unflatten(self.structure, leaves)

    def load(self) -> PyTree:
        _need_draws(self.store)
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self)


class StoredInfo:
    """Info on disk, read when it is first asked for; draws are not kept in memory by it."""

    _fields = Info._fields

    def __init__(self, store: Store):
        self._store = store
        self._read: tuple[int, Info] | None = None

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in Info._fields:
            raise AttributeError(name)
        return getattr(self.load(), name)

    def load(self) -> Info:
        _need_draws(self._store)
        shards = self._store.manifest["shards"]
        if self._read is None or self._read[0] != len(shards):
            parts = []
            for entry in shards:
                arrays = self._store._read(entry)
                parts.append(Info(*(arrays[f"info.{name}"] for name in Info._fields)))
            self._read = len(shards), Info(*(np.concatenate(p, axis=1) for p in zip(*parts, strict=True)))
        return self._read[1]


def _need_draws(store: Store) -> None:
    if not store.manifest["shards"]:
        raise StoreError(f"store: {store.path} holds no draws yet, only warm-up; run longer.")


# --- arrays as files -------------------------------------------------------------------------------------------------


def _digest(body) -> str:
    return hashlib.sha256(body).hexdigest()


def _sealed(manifest: dict[str, Any]) -> bytes:
    """The manifest as JSON, with its own digest."""
    mark = _digest(json.dumps(manifest, sort_keys=True).encode())
    return json.dumps(dict(manifest, sha256=mark), sort_keys=True).encode()


def write_file(path: Path, body) -> None:
    """The whole file or the one before, whatever happens, power cuts included."""
    temporary = path.with_name(path.name + WRITING)
    try:
        with open(temporary, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk wants its room back
        raise
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _shapes(x: PyTree) -> str:
    """Paths, shapes and dtypes of all leaves, as a digest."""
    leaves = [f"{n} {np.shape(u)} {jnp.result_type(u)}" for n, u in zip(tree.names(x), jax.tree.leaves(x), strict=True)]
    return _digest("\n".join(leaves).encode())


def _flat(name: str, x: PyTree) -> dict[str, np.ndarray]:
    return {f"{name}.{i}": plain(concrete(u)) for i, u in enumerate(jax.tree.leaves(x))}


def _restore(arrays: dict[str, np.ndarray], name: str, like: PyTree) -> PyTree:
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, [_as(arrays[f"{name}.{i}"], leaf) for i, leaf in enumerate(leaves)])


def _as(u: np.ndarray, like):
    if isinstance(like, jax.Array) and jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(u), impl=jax.random.key_impl(like))
    if not isinstance(like, jax.Array):
        return u[()] if u.ndim == 0 else u
    return jnp.asarray(typed(u, str(like.dtype)))
