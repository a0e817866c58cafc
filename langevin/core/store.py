"""Draws and checkpoints on disk: checksummed npz shards and a JSON manifest. No pickle: an untrusted file runs no code.

    folder/manifest.json            what is here: identity of the run, shards, checkpoint, each with its SHA-256
    folder/manifest.previous.json   the generation before
    folder/checkpoint-<n>.npz       states, kernel and what callbacks changed of the target after n draws; two are kept
    folder/shard-<n>.npz            the draws and Info of one chunk
    folder/lock                     held by the process that writes

Files are whole or absent (`core.files`), and the manifest comes last, so a run killed at any moment finds either this
chunk or the one before. Shards need no dependency, and with a SHA-256 and a sync of every file they keep pace with
Zarr's defaults; TensorStore's, which do neither, write two to four times as fast for 66 MB of dependency
(`langevin bench store`).
On many processes the first one writes and all read: the folder must be one they share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from langevin.core import sharding, tree
from langevin.core.arrays import flatten, to_plain, unflatten
from langevin.core.document import seal
from langevin.core.files import WRITING, Lock, StoreError, digest, pack_arrays, write_file
from langevin.core.fingerprint import fingerprint
from langevin.core.serialize import decode, encode
from langevin.core.shards import CURRENT, FORMAT, PREVIOUS, Stored, StoredInfo, read_entry, read_manifest
from langevin.core.types import Info, PyTree

LOCK = "lock"


class Store:
    """A folder of one run. dtype: "float32" or "bfloat16" for the stored draws; None keeps theirs."""

    def __init__(self, path: str | Path, dtype: str | None = None):
        self.path = Path(path)
        self.dtype = dtype
        self.manifest: dict[str, Any] = {}
        self.structure: Any = None  # of what is kept, known to the process that samples
        self.given: list = []  # the target's leaves as the run began
        self.before, self.began = 0.0, time.perf_counter()  # seconds of processes before, and when this one began
        self.lock = Lock(self.path / LOCK, f"the folder {self.path}")

    def open(
        self, identity: dict[str, Any], kernel: PyTree, target: PyTree, states: PyTree
    ) -> tuple[int, PyTree, PyTree, PyTree]:
        """Begin a run here or go on with it: draws done (warm-up included), kernel, target and states."""
        marks = {name: fingerprint(value) for name, value in identity.items()} | {"dtype": str(self.dtype)}
        self.given = jax.tree.leaves(target)
        try:
            if self.is_empty():
                self._begin(marks)
                return 0, kernel, target, states
            if any((self.path / name).exists() for name in (CURRENT, PREVIOUS)):
                self.guarded(self.lock.acquire)
            return self._resume(marks, kernel, target, states)
        except BaseException:
            self.close()
            raise

    def is_empty(self) -> bool:
        """Whether the folder is free for a run."""
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"store: {self.path} is a file; name a folder.")
        own = lambda file: file.suffix == WRITING or file.name == LOCK
        return not self.path.exists() or all(map(own, self.path.iterdir()))

    def close(self) -> None:
        """Let other processes write here."""
        self.lock.release()

    def _resume(self, marks: dict[str, str], kernel: PyTree, target: PyTree, states: PyTree) -> tuple:
        self.manifest = read_manifest(self.path)
        self.before = float(self.manifest.get("seconds", 0.0))
        other = [name for name, mark in marks.items() if self.manifest["identity"].get(name) != mark]
        if other:
            raise StoreError(
                f"store: {self.path} holds another run (its {' and '.join(other)} differ, in numbers, data or code); "
                "use another folder, or call with what that run was started with."
            )
        if self.manifest["checkpoint"] is None:
            return 0, kernel, target, states
        arrays = read_entry(self.path, self.manifest["checkpoint"])
        for name, now in {"kernel": kernel, "target": target, "states": states}.items():
            if self.manifest["shapes"][name] != _shapes(now):
                raise StoreError(
                    f"store: {self.path} cannot be resumed, for a visit changed the structure of the {name}; its draws "
                    "can be read with Stored.at, and a new run can start from them in another folder."
                )
        changed = [
            unflatten([arrays[f"target.{i}"]], u) if f"target.{i}" in arrays else u for i, u in enumerate(self.given)
        ]
        target = jax.tree.unflatten(jax.tree.structure(target), changed)
        kernel, states = (_restore(arrays, name, like) for name, like in (("kernel", kernel), ("state", states)))
        return self.manifest["done"], kernel, target, states

    def append(
        self,
        done: int,
        kernel: PyTree,
        target: PyTree,
        states: PyTree,
        chunk: tuple[PyTree, Info] | None,
        memories: tuple[list, bool] = ((), False),  # type: ignore[assignment]
    ) -> None:
        """Write one chunk and the checkpoint after it. Asked twice for the same draws, it does nothing.

        memories: what callbacks remember, and whether one of them ends the run here.
        """
        if done <= self.manifest["done"]:
            return
        manifest = dict(self.manifest, done=done, shards=list(self.manifest["shards"]))
        manifest["shapes"] = {"kernel": _shapes(kernel), "target": _shapes(target), "states": _shapes(states)}
        remembered, stopped = encode(list(memories[0])), memories[1]
        manifest |= dict(callbacks=remembered.body, stopped=stopped, seconds=self.seconds())
        checkpoint = {**_flat("state", states), **_flat("kernel", kernel), **self._changed(target)}
        checkpoint |= {f"callback.{i}": u for i, u in enumerate(remembered.arrays)}
        if chunk is not None:
            kept, info = chunk
            self.structure = jax.tree.structure(kept)
            encoded = encode(jax.tree.map(self._cast, kept))
            manifest["structure"] = encoded.body
            arrays = {f"draws.{i}": u for i, u in enumerate(encoded.arrays)}
            arrays |= {f"info.{name}": np.asarray(value) for name, value in zip(Info._fields, info, strict=True)}
            n = int(info.ok.shape[1])
            manifest["shards"].append(dict(self._write(f"shard-{done:010d}.npz", arrays), draws=n))
        manifest["checkpoint"] = self._write(f"checkpoint-{done:010d}.npz", checkpoint)
        self._commit(manifest)

    def memories(self) -> tuple[list, bool]:
        """What callbacks remembered at the checkpoint, and whether one of them ended the run there."""
        body = self.manifest.get("callbacks")
        if not body:
            return [], False
        arrays = read_entry(self.path, self.manifest["checkpoint"])
        count = sum(name.startswith("callback.") for name in arrays)
        return decode(body, [arrays[f"callback.{i}"] for i in range(count)]), self.manifest["stopped"]

    def seconds(self) -> float:
        """How long the run has taken, in all processes that went on with it."""
        return self.before + time.perf_counter() - self.began

    def draws(self) -> Stored:
        return Stored(self.path, self.manifest, self.structure)

    def info(self) -> StoredInfo:
        return StoredInfo(self.path, self.manifest)

    def sync(self) -> None:
        """On many processes: wait for the writer, then read what it wrote."""
        if jax.process_count() > 1:
            sharding.together("store")
            self.manifest = read_manifest(self.path)

    # --- files ------------------------------------------------------------------------------------------------

    def _begin(self, marks: dict[str, str]) -> None:
        """An empty run, on disk at once: a folder killed in its first chunk is known again."""
        self.manifest = dict(format=FORMAT, identity=marks, done=0, shards=[], checkpoint=None)

        def write():
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.acquire()
            for left in self.path.glob(f"*{WRITING}"):
                left.unlink()
            write_file(self.path / CURRENT, seal(self.manifest))

        self.guarded(write)

    def _commit(self, manifest: dict[str, Any]) -> None:
        def write():
            # the generation before is what this process knows to be good: the file may be the damaged one
            write_file(self.path / PREVIOUS, seal(self.manifest))
            write_file(self.path / CURRENT, seal(manifest))
            kept = {(m["checkpoint"] or {}).get("file") for m in (manifest, self.manifest)}
            for old in self.path.glob("checkpoint-*.npz"):
                if old.name not in kept:
                    old.unlink()

        self.guarded(write)
        self.manifest = manifest

    def _changed(self, target: PyTree) -> dict[str, np.ndarray]:
        """The target's arrays that callbacks have put in place of those given; the data, unchanged, are not copied."""
        leaves = jax.tree.leaves(target)
        if len(leaves) != len(self.given):
            return {}
        pairs = enumerate(zip(leaves, self.given, strict=True))
        return {f"target.{i}": to_plain(new) for i, (new, old) in pairs if new is not old}

    def _write(self, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        body = pack_arrays(arrays)
        self.guarded(partial(write_file, self.path / name, body))
        return dict(file=name, sha256=digest(body))

    def guarded(self, write: Callable[[], Any]) -> None:
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


def _shapes(x: PyTree) -> str:
    """Paths, shapes and dtypes of all leaves, as a digest."""
    leaves = [f"{n} {np.shape(u)} {jnp.result_type(u)}" for n, u in zip(tree.names(x), jax.tree.leaves(x), strict=True)]
    return digest("\n".join(leaves).encode())


def _flat(name: str, x: PyTree) -> dict[str, np.ndarray]:
    return {f"{name}.{i}": u for i, u in enumerate(flatten(x))}


def _restore(arrays: dict[str, np.ndarray], name: str, like: PyTree) -> PyTree:
    return unflatten([arrays[f"{name}.{i}"] for i in range(len(jax.tree.leaves(like)))], like)
