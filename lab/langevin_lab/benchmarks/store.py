"""How fast draws reach the disk and come back: npz shards (ours), Zarr and TensorStore, each with its defaults.

Chunks of 4 chains × 500 draws of 450 and of 50,000 float32 weights (the second with 20 draws), synced to disk. Ours
includes a SHA-256 of every shard, its check on reading, the checkpoint and the manifest; the others only the draws.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from langevin.core.result import Result
from langevin.core.store import Store
from langevin.core.types import Eval, Info, State

NEEDS = ("zarr", "tensorstore")
BARS: dict[str, str] = {}


def ours(folder: Path, chunks: list[np.ndarray]) -> float:
    store, n = Store(folder), chunks[0].shape[1]
    shape = chunks[0].shape[:2]
    state = State(chunks[0][:, 0], (), (), Eval(np.zeros(4), chunks[0][:, 0], np.zeros(4)), (), np.zeros(()))
    info: Any = Info(*(np.zeros(shape, np.float32) for _ in range(6)), ok=np.ones(shape, bool))
    store.open({"benchmark": 1}, (), (), state)
    for i, chunk in enumerate(chunks):
        store.append((i + 1) * n, (), (), state, (chunk, info))
    began = time.perf_counter()
    assert store.draws().load().shape[1] == n * len(chunks)
    return time.perf_counter() - began


def zarr(folder: Path, chunks: list[np.ndarray]) -> float:
    import zarr as library

    c, n, d = chunks[0].shape
    array = library.create_array(folder, shape=(c, n * len(chunks), d), chunks=(c, n, d), dtype="float32")
    for i, chunk in enumerate(chunks):
        array[:, i * n : (i + 1) * n] = chunk
    began = time.perf_counter()
    array[:]
    return time.perf_counter() - began


def tensorstore(folder: Path, chunks: list[np.ndarray]) -> float:
    import tensorstore as library

    c, n, d = chunks[0].shape
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(folder)},
        "metadata": {
            "shape": [c, n * len(chunks), d],
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [c, n, d]}},
        },
    }
    array = library.open(spec, create=True).result()
    for i, chunk in enumerate(chunks):
        array[:, i * n : (i + 1) * n].write(chunk).result()
    began = time.perf_counter()
    array.read().result()
    return time.perf_counter() - began


def run(size: str, seed: int) -> Result:
    draw = np.random.default_rng(seed)
    table, figures = [], {}
    for name, shape, count in (("small", (4, 500, 450), 20), ("large", (4, 20, 50_000), 10)):
        chunks = [draw.normal(size=shape).astype(np.float32) for _ in range(2 if size == "quick" else count)]
        megabytes = sum(c.nbytes for c in chunks) / 2**20
        for way in (ours, zarr, tensorstore):
            writes, reads = [], []
            for _ in range(1 if size == "quick" else 5):
                folder = Path(tempfile.mkdtemp())
                began = time.perf_counter()
                seconds = way(folder / "draws", chunks)
                writes.append(megabytes / (time.perf_counter() - began - seconds))
                reads.append(megabytes / seconds)
                shutil.rmtree(folder)
            row = dict(
                net=name, method=way.__name__, write_mb_s=float(np.median(writes)), read_mb_s=float(np.median(reads))
            )
            table.append(row)
            figures[f"{way.__name__}_write_mb_s_{name}"] = row["write_mb_s"]
    return Result("store", figures, table, BARS)
