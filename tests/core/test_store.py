"""Draws on disk: equal to those in memory bit for bit, whatever interrupts the run."""

import errno
import importlib
import io
import json
import os
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from langevin.core import document, files, noise, sharding
from langevin.core.files import StoreError
from langevin.core.fingerprint import fingerprint
from langevin.core.kernel import replace
from langevin.core.run import run
from langevin.core.serialize import decode, encode
from langevin.core.shards import Stored
from langevin.core.store import Store
from langevin.core.target import Density
from langevin.samplers.sghmc import SGHMC
from langevin.targets.zoo import Scales, logistic

KEY = 7
KERNEL = SGHMC(step_size=0.02, friction=2.0)
TARGET = logistic(noise.key(0, impl="hash"), 50, 3, batch=8, order="epoch")
START = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(2, 3)


def go(folder=None, *, kernel=KERNEL, target=TARGET, start=START, draws=40, chunk=8, seed=KEY, **options):
    """One small run with momentum and an epoch feed; all tests share its compiled program."""
    return run(noise.key(seed, impl="hash"), kernel, target, start, draws=draws, chunk=chunk, store=folder, **options)


def same(a, b):
    """Draws, Info and states agree in every bit."""
    loaded = lambda x: x.load() if hasattr(x, "load") else x
    for one, two in zip(map(loaded, a), map(loaded, b), strict=True):
        assert jax.tree.structure(one) == jax.tree.structure(two)
        for u, v in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
            np.testing.assert_array_equal(u, v)


@pytest.fixture(scope="module")
def whole():
    """The run that nothing disturbs, in memory."""
    return go()


class Failing:
    """A visit that raises after so many draws."""

    def __init__(self, at, error=ZeroDivisionError):
        self.at, self.error = at, error

    def __call__(self, progress):
        if progress.done >= self.at:
            raise self.error
        return progress


def test_a_stream_to_disk_is_what_is_in_memory(tmp_path, whole):
    out = go(tmp_path / "run")
    assert isinstance(out.kept, Stored)
    assert len(out.kept) == 40
    same(out, whole)
    assert [u.shape for u in out.kept] == [(2, 8, 3)] * 5
    np.testing.assert_array_equal(Stored.at(tmp_path / "run").load(), whole.kept)


def test_warm_up_is_not_stored(tmp_path, whole):
    out = go(tmp_path / "run", draws=20, warmup=20)
    assert out.kept.load().shape == (2, 20, 3)
    np.testing.assert_array_equal(out.kept.load(), whole.kept[:, 20:])


def test_bfloat16_draws_are_rounded_and_the_chain_is_not(tmp_path, whole):
    out = go(Store(tmp_path / "run", dtype="bfloat16"))
    assert str(out.kept.load().dtype) == "bfloat16"
    np.testing.assert_array_equal(out.kept.load(), whole.kept.astype(jnp.bfloat16))
    same(out.states, whole.states)
    with pytest.raises(StoreError, match="its dtype differ"):
        go(tmp_path / "run")


@pytest.mark.parametrize("at", [8, 16, 40])
def test_resume_after_an_exception_is_bit_identical(tmp_path, whole, at):
    with pytest.raises(ZeroDivisionError):
        go(tmp_path / "run", callbacks=(Failing(at),))
    # the chunk whose visit failed is not on disk: it was not finished
    assert len(Stored.at(tmp_path / "run")) == at - 8
    same(go(tmp_path / "run"), whole)
    same(go(tmp_path / "run"), whole)


def test_resume_in_warm_up(tmp_path, whole):
    with pytest.raises(ZeroDivisionError):
        go(tmp_path / "run", draws=20, warmup=20, callbacks=(Failing(-4),))
    out = go(tmp_path / "run", draws=20, warmup=20)
    np.testing.assert_array_equal(out.kept.load(), whole.kept[:, 20:])


def test_resume_with_more_draws_and_other_chunks(tmp_path, whole):
    first = go(tmp_path / "run", draws=16)
    np.testing.assert_array_equal(first.kept.load(), whole.kept[:, :16])
    same(go(tmp_path / "run", chunk=7), whole)


class Decay:
    """A visit that changes kernel and target: what a checkpoint must remember."""

    def __call__(self, progress):
        kernel, target = progress.kernel, progress.target
        data = dict(target.data, y=target.data["y"] * 0.9)
        kernel = replace(kernel, step_size=float(kernel.step_size) * 0.9)
        return progress._replace(kernel=kernel, target=replace(target, data=data))


def test_what_visits_changed_is_resumed(tmp_path):
    undisturbed = go(callbacks=(Decay(),))
    with pytest.raises(ZeroDivisionError):
        go(tmp_path / "run", callbacks=(Decay(), Failing(24)))
    same(go(tmp_path / "run", callbacks=(Decay(),)), undisturbed)
    # only the changed array is copied into the checkpoint, not the inputs
    with np.load(next((tmp_path / "run").glob("checkpoint-*.npz"))) as file:
        assert sorted(n for n in file.files if n.startswith("target.")) == ["target.1"]


def test_a_change_of_structure_is_refused_on_resume(tmp_path):
    from langevin.core.schedule import Linear

    def scheduled(progress):
        return progress._replace(kernel=replace(progress.kernel, step_size=Linear(0.02, 0.01)))

    go(tmp_path / "run", draws=8, callbacks=(scheduled,))
    with pytest.raises(StoreError, match="a visit changed the structure of the kernel"):
        go(tmp_path / "run")


def test_a_tree_that_is_not_of_dicts_comes_back_as_it_was(tmp_path):
    """An Equinox-like position: leaves in their own order, not that of sorted names."""
    import equinox as eqx

    class Net(eqx.Module):
        weight: jax.Array
        bias: jax.Array

    start = {"net": Net(np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))}
    options = dict(target=Density(net_density), start=start, draws=12)
    memory, disk = go(**options), go(tmp_path / "run", **options)
    same(disk, memory)
    assert isinstance(disk.kept.load()["net"], Net)
    again = go(tmp_path / "run", **options)  # nothing left to do: the structure is found without a draw
    assert isinstance(again.kept.load()["net"], Net)
    plain = Stored.at(tmp_path / "run").load()
    np.testing.assert_array_equal(plain["net"]["weight"], memory.kept["net"].weight)
    like = Stored.at(tmp_path / "run", like=jax.tree.map(lambda u: u[0], start)).load()
    np.testing.assert_array_equal(like["net"].weight, memory.kept["net"].weight)


def net_density(position):
    return -0.5 * jnp.sum((position["net"].weight - 2.0) ** 2) - 2.0 * jnp.sum(position["net"].bias ** 2)


# --- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (dict(seed=8), "key"),
        (dict(kernel=replace(KERNEL, step_size=0.03)), "kernel"),
        (dict(start=START + 1), "start"),
        (dict(thin=2), "thin"),
        (dict(warmup=8), "warmup"),
        (dict(target=replace(TARGET, batch=4)), "target"),
        (dict(kernel=replace(KERNEL, friction=1.0), thin=3), "kernel and thin"),
    ],
)
def test_another_runs_folder_is_refused(tmp_path, change, named):
    go(tmp_path / "run", draws=8)
    with pytest.raises(StoreError, match=rf"holds another run \(its {named} differ, .*\); use another folder"):
        go(tmp_path / "run", **change)


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(StoreError, match="is not empty and holds no run of langevin; use another folder"):
        go(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_file_as_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="store: cannot write to"):
        go(tmp_path / "file" / "run")


USERS = """
import jax.numpy as jnp
from langevin.core.record import record
from langevin.core.target import Density

SCALE = 1.0

def half(x):
    return -0.5 * x**2

def density(x):
    return jnp.sum(half(x)) * SCALE
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("-0.5", "-50"), ("SCALE = 1.0", "SCALE = 2.0"), ("x**2", "x**4"), ("jnp.sum", "jnp.max")],
    ids=["constant", "global", "power", "name"],
)
def test_a_function_that_changed_under_its_name_is_refused(tmp_path, monkeypatch, old, new):
    """In itself, in a function it calls, or in a number of its module; what stands around it does not count."""
    assert old in USERS
    target = lambda text: Density(module(tmp_path, monkeypatch, text).density)
    options = dict(kernel=KERNEL, start=START, draws=8)
    go(tmp_path / "run", target=target(USERS), **options)
    remarks = "# a remark\n" + USERS.replace("def half(x):", "def half(x):\n    'words'\n")
    go(tmp_path / "run", target=target(remarks), **options)
    with pytest.raises(StoreError, match=r"holds another run \(its target differ, in numbers, data or code\)"):
        go(tmp_path / "run", target=target(USERS.replace(old, new)), **options)


def module(tmp_path, monkeypatch, text):
    """A user's module `mine` with this text."""
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    return importlib.import_module("mine")


def test_a_method_of_a_users_class_counts(tmp_path, monkeypatch):
    text = (
        USERS
        + """
@record
class Own:
    scale: float = 1.0

    def log_density(self, x):
        return self.scale * jnp.sum(half(x))
"""
    )
    one, same_again, other = (
        fingerprint(module(tmp_path, monkeypatch, t).Own())
        for t in (text, text, text.replace("jnp.sum(half", "3 * jnp.sum(half"))
    )
    assert one == same_again != other


def test_a_folder_in_use_is_refused(tmp_path, whole):
    def another(progress):
        with pytest.raises(StoreError, match=rf"the folder {folder} is in use by process {os.getpid()}"):
            go(folder)
        return progress

    folder = tmp_path / "run"
    same(go(folder, callbacks=(another,)), whole)
    assert not (folder / "lock").exists()
    (folder / "lock").write_text("process 1 on a machine that is gone")  # left by a killed process
    same(go(folder), whole)


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


def test_no_file_of_a_stranger_runs_code(tmp_path):
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


# --- trees and fingerprints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree", [1.0, {"a": [1.0, (2.0, None)], "b": {}}, [], (3.0,), {"b": 1.0, "a": 2.0}, {1: "x", "$": np.inf}]
)
def test_trees_round_trip(tree):
    encoded = encode(tree)
    assert decode(json.loads(json.dumps(encoded.body)), encoded.arrays) == tree


def test_fingerprints_see_what_a_function_closes_over():
    a, b = optax.adam(1e-3), optax.adam(1e-2)
    assert fingerprint(a) == fingerprint(optax.adam(1e-3)) != fingerprint(b)
    assert fingerprint(partial(pow, 2)) != fingerprint(partial(pow, 3))
    assert fingerprint(Scales()) == fingerprint(Scales())
    assert fingerprint(np.float32(1)) != fingerprint(np.float64(1))
    assert fingerprint(object()) == fingerprint(object()), "an address is no content"

    def recursive(n):
        return recursive(n - 1) if n else 0

    assert fingerprint(recursive) == fingerprint(recursive)


def test_fingerprints_are_the_same_in_another_process():
    code = """
        import optax, jax
        from langevin.core.fingerprint import fingerprint
        from langevin.core import noise
        from langevin.targets.zoo import logistic
        from langevin.nets.mlp import MLP
        target = logistic(noise.key(0, impl="hash"), 50, 3)
        print(fingerprint((target, optax.adam(1e-3), MLP((2, 3, 1), jax.random.key(0)), noise.key(1, impl="hash"))))
    """
    env = dict(os.environ, JAX_PLATFORMS="cpu")
    ask = partial(subprocess.run, env=env, capture_output=True, text=True, check=True)
    one, two = (ask([sys.executable, "-c", textwrap.dedent(code)]).stdout for _ in range(2))
    assert one == two != ""


def test_a_run_goes_on_in_the_layout_it_began_with(tmp_path, key, monkeypatch):

    target, start = Density(_bowl), jnp.ones((2, 3))
    kernel, folder = SGHMC(0.1), tmp_path / "run"
    go = lambda draws: run(jax.random.clone(key), kernel, target, start, draws=draws, chunk=5, store=folder)
    monkeypatch.setattr(sharding, "layout", lambda *_: "map")
    go(5)
    monkeypatch.undo()
    go(10)
    assert Stored.at(folder).manifest["layout"] == "map"


def _bowl(x):
    return -0.5 * jnp.sum(x**2)
