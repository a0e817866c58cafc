"""Damaged files, full disks and interrupts: nothing wrong is read without a word."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stored_run import KERNEL, TARGET, Failing, go, same

from langevin.core import document, files
from langevin.core.files import StoreError
from langevin.core.shards import Stored
from langevin.core.store import Store

# --- damage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "text", "gone", "checkpoint", "format"])
def test_a_damaged_manifest_falls_back_one_generation(tmp_path, whole, damage):
    folder = tmp_path / "run"
    go(folder, draws=24)
    manifest = folder / "manifest.json"
    if damage == "cut":
        manifest.write_bytes(manifest.read_bytes()[:-100])
    elif damage == "text":
        manifest.write_text(manifest.read_text().replace('"done": 24', '"done": 32'))
    elif damage == "gone":
        manifest.unlink()
    elif damage == "checkpoint":
        spoil(folder / json.loads(manifest.read_text())["checkpoint"]["file"])
    else:
        manifest.write_text(json.dumps(dict(json.loads(manifest.read_text()), format=99)))
    said = r"(manifest\.json|checkpoint-0000000024\.npz) .* the last 8 draws a chain are lost and will be drawn again"
    with pytest.warns(UserWarning, match=said):
        assert len(Stored.at(folder)) == 16
    # killed again before the next chunk is done: the good generation must survive the damaged one
    with pytest.raises(ZeroDivisionError), pytest.warns(UserWarning, match=said):
        go(folder, callbacks=(Failing(24),))
    with pytest.warns(UserWarning, match=said):
        same(go(folder), whole)


def test_the_good_generation_is_not_overwritten_by_the_damaged_one(tmp_path, whole, monkeypatch):
    folder = tmp_path / "run"
    go(folder, draws=24)
    (folder / "manifest.json").write_text("{")
    real = os.replace

    def killed(a, b):
        if Path(b).name == "manifest.json":
            raise SystemExit("killed between the two manifests")
        real(a, b)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(SystemExit), pytest.warns(UserWarning, match="8 draws a chain are lost"):
            go(folder)
    with pytest.warns(UserWarning, match="8 draws a chain are lost"):
        same(go(folder), whole)


def test_two_damaged_manifests_are_refused(tmp_path):
    go(tmp_path / "run", draws=16)
    for file in (tmp_path / "run").glob("manifest*.json"):
        file.write_text("{}")
    with pytest.raises(StoreError, match=r"both manifests in .* are damaged; restore the folder or use another"):
        go(tmp_path / "run")


def test_a_damaged_shard_is_named(tmp_path):
    out = go(tmp_path / "run", draws=24)
    spoil(tmp_path / "run" / "shard-0000000016.npz")
    with pytest.raises(StoreError, match=r"shard-0000000016\.npz is damaged \(its SHA-256 is not"):
        out.kept.load()
    (tmp_path / "run" / "shard-0000000008.npz").unlink()
    with pytest.raises(StoreError, match=r"shard-0000000008\.npz cannot be read \(No such file"):
        out.info.load()


def spoil(file):
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.write_bytes(bytes(body))


class Trap:
    """An object that tells when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def test_no_untrusted_file_runs_code(tmp_path):
    """A shard of pickled objects, with manifest and digests that agree, is refused and never opened."""
    folder = tmp_path / "run"
    go(folder, draws=8)
    buffer = io.BytesIO()
    np.savez(buffer, **{"draws.0": np.array([Trap()], object)})
    (folder / "shard-0000000008.npz").write_bytes(buffer.getvalue())
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]
    manifest["shards"][0]["sha256"] = files.digest(buffer.getvalue())
    (folder / "manifest.json").write_bytes(document.seal(manifest))
    with pytest.raises(StoreError, match="holds something other than plain arrays"):
        Stored.at(folder).load()
    assert not Trap.sprung


def test_a_manifest_cannot_point_outside_its_folder(tmp_path):
    folder = tmp_path / "run"
    go(folder, draws=8)
    shard = folder / "shard-0000000008.npz"
    shard.rename(tmp_path / shard.name)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]
    manifest["shards"][0]["file"] = f"../{shard.name}"
    (folder / "manifest.json").write_bytes(document.seal(manifest))
    with pytest.raises(StoreError, match="cannot be read"):
        Stored.at(folder).load()


# --- a full disk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", range(1, 14, 3))
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(tmp_path, whole, monkeypatch, where, call):
    folder, count, real = tmp_path / "run", [0], getattr(os, where)

    def full(*args):
        count[0] += 1
        if count[0] >= call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, where, full)
        sentence = r"cannot write to .*run \(No space left on device\); the \d+ draws a chain already stored are safe"
        with pytest.raises(StoreError, match=sentence):
            go(folder)
    assert not list(folder.glob("*.writing")), "room is given back"
    same(go(folder), whole)


def test_a_really_full_disk(tmp_path, whole):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", small], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user cannot mount a tmpfs")
    try:
        with pytest.raises(StoreError, match=r"No space left on device.* make room and start the same run again"):
            go(small / "run", chunk=2)
        subprocess.run(["mount", "-o", "remount,size=4m", small], check=True)
        assert 0 < len(Stored.at(small / "run")) < 40
        same(go(small / "run", chunk=2), whole)
    finally:
        subprocess.run(["umount", small], check=True)


# --- interruption -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", range(6, 10))  # shard, checkpoint and the two manifests of the second chunk
def test_an_interrupt_while_writing_keeps_the_chunk(tmp_path, whole, monkeypatch, call):
    real, count = os.replace, [0]

    def interrupted(a, b):
        count[0] += 1
        if count[0] == call:
            raise KeyboardInterrupt
        real(a, b)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.warns(UserWarning, match="run: interrupted; 16 draws a chain are kept"):
        out = go(tmp_path / "run")
    np.testing.assert_array_equal(out.kept.load(), whole.kept[:, :16])
    same(go(tmp_path / "run"), whole)


def test_a_chunk_is_appended_once(tmp_path):
    out = go(tmp_path / "run", draws=8)
    folder = Store(tmp_path / "run")
    folder.manifest = Stored.at(tmp_path / "run").manifest
    chunk = out.kept.load(), out.info.load()
    for _ in range(2):
        folder.append(16, KERNEL, TARGET, out.states, chunk)
    assert len(Stored.at(tmp_path / "run")) == 16


MEMORY = """
import gc, resource, sys
import jax, numpy as np
from langevin.core import noise
from langevin.core.run import run
from langevin.samplers.sgld import SGLD
from langevin.targets.zoo import Gaussian

d, chunk = 20_000, 50  # a shard of 8 MB
target = Gaussian(np.zeros(d), np.ones(d))
start = np.zeros((2, d), np.float32)
for i, draws in enumerate((200, 2000)):
    out = run(noise.key(0, impl="hash"), SGLD(0.1), target, start, draws=draws, chunk=chunk, store=f"{sys.argv[1]}/{i}")
    assert len(out.kept) == draws
    gc.collect()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_the_memory_of_a_streaming_run_is_flat(tmp_path):
    """Ten times the draws (320 MB of them) take no more memory than a few shards."""
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS="")
    out = subprocess.run([sys.executable, "-c", MEMORY, tmp_path], env=env, capture_output=True, text=True, check=True)
    short, long = map(float, out.stdout.split())
    assert long - short < 40, f"{short:.0f} MB, then {long:.0f} MB"
