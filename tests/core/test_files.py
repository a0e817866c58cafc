"""Files: no write follows a link, none holds more than its size, one process at a time, damage is one sentence."""

import contextlib
import importlib
import io
import json
import os
import pkgutil
import signal
import subprocess
import sys
import warnings
import zipfile
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import langevin
from langevin.core import document, noise
from langevin.core.files import Lock, StoreError, pack_arrays, read_file, unpack_arrays, write_file
from langevin.core.fingerprint import fingerprint
from langevin.core.kernel import PerChain, spread
from langevin.core.record import RECORDS, record, static
from langevin.core.serialize import decode, encode
from langevin.core.types import Eval
from langevin.nets.mlp import MLP
from langevin.samplers.optimize import Adam, Optimize
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.sgld import SGLD
from langevin.samplers.smile import SMILE
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.schedules import Polynomial
from langevin.tune.plan import PLANS

# --- any value -----------------------------------------------------------------------------------------------------


@record
class Own:
    """A user's record."""

    x: float = 1.0
    name: str = static(default="a")


VALUES = {
    "user": Own(2.0, "b"),
    "nested": Own(Own(3.0)),
    "named tuple": Eval(jnp.ones(2), {"b": np.arange(3), "a": None}, 3),
    "third party": optax.adam(0.1).init({"w": jnp.ones(2)}),
    "module": MLP((2, 3, 1), jax.random.key(0), jnp.tanh),
    "schedule": SGLD(Polynomial(0.1)),
    "optimizer": Optimize(Adam(3e-4)),
    "default": Optimize(),
    "bfloat16": jnp.asarray([1.5, -2.0], jnp.bfloat16),
    "numbers": [np.float32(1), np.int8(2), 3, 4.0, True, np.bool_(False), np.inf, "5", None],
    "strings": np.array(["a", "bb"]),
    "objects": np.array(["a", None], object),
    "other keys": {1: "a", 2: {"$": 3}},
    "function": jax.nn.relu,
    "empty": [(), {}, np.zeros((0, 3))],
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_in_structure_kind_and_dtype(name):
    value = VALUES[name]
    encoded = encode(value)
    assert encoded.lost == {}
    back = decode(json.loads(json.dumps(encoded.body, allow_nan=False)), encoded.arrays)
    assert type(back) is type(value)
    if not jax.tree_util.all_leaves([value]):
        assert jax.tree.structure(back) == jax.tree.structure(value)
    for one, two in zip(jax.tree.leaves(back), jax.tree.leaves(value), strict=True):
        assert type(one) is type(two)
        assert getattr(one, "dtype", None) == getattr(two, "dtype", None)
        np.testing.assert_array_equal(one, two)


def test_every_record_of_the_library_comes_back():
    """All that can be built without arguments, and kernels that did not survive: of metrics, in wrappers."""
    for module in pkgutil.walk_packages(langevin.__path__, "langevin."):
        with contextlib.suppress(ImportError):  # an optional package
            if not module.name.startswith("langevin.cli"):
                importlib.import_module(module.name)
    values = [PerChain(spread(SMILE(0.1), 2)), Cyclical(SMILE(0.1), period=9), PLANS["mile"], PLANS["smile"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # baselines say that they are biased
        for path, cls in sorted(RECORDS.items()):
            if path.startswith("langevin."):
                with contextlib.suppress(TypeError, NotImplementedError):  # fields that must be given
                    values.append(cls())
    values += [Riemannian(0.1, metric=v) for v in values if ".metrics." in type(v).__module__ and hasattr(v, "kind")]
    assert len(values) > 80
    assert sum(isinstance(v, Riemannian) for v in values) >= 5
    for value in values:
        encoded = encode(value)
        assert encoded.lost == {}, value
        back = decode(json.loads(json.dumps(encoded.body)), encoded.arrays)
        assert fingerprint(back) == fingerprint(value), value
        if not any(isinstance(leaf, partial) for leaf in vars(value).values()):
            assert jax.tree.structure(back) == jax.tree.structure(value), value


def test_keys_come_back():
    for key in (noise.key(3, impl="hash"), jax.random.key(3)):
        encoded = encode({"k": key})
        back = decode(encoded.body, encoded.arrays)["k"]
        assert jax.random.key_impl(back) == jax.random.key_impl(key)
        np.testing.assert_array_equal(jax.random.key_data(back), jax.random.key_data(key))


def test_what_cannot_be_stored_is_named_by_its_field():
    kernel = SGLD(optax.constant_schedule(0.1))
    assert list(encode(kernel).lost) == ["step_size.fn"]
    assert list(encode({"a": [1, lambda x: x]}).lost) == ["a.1"]
    with pytest.raises(StoreError, match="is code or a structure that a file cannot hold"):
        decode(encode(kernel).body, [])


@pytest.mark.parametrize(
    "body",
    [
        {"$": "record", "class": "os:stat_result", "leaves": [], "fields": {}},
        {"$": "record", "class": "langevin.samplers.sgld:SGLD", "leaves": [], "fields": {"step_size": 1}},
        {"$": "function", "name": "os:system"},
        {"$": "function", "name": "langevin.core.provenance:subprocess.run"},
        {"$": "function", "name": "langevin.cli.fit:fit"},
        {"$": "function", "name": "jax.nn:initializers.normal"},
        {"$": "array", "at": 7, "dtype": "float32", "as": "numpy"},
        {"$": "array", "at": 0, "dtype": "exec", "as": "numpy"},
        {"$": "array", "at": 0, "dtype": "rot13", "as": "key"},
        {"$": "pairs", "items": [1, 2]},
        {"$": "unheard"},
    ],
    ids=str,
)
def test_an_untrusted_value_is_one_sentence(body):
    with pytest.raises(StoreError, match="store: "):
        decode(body, [np.zeros(2, np.float32)])


def test_nesting_without_end_is_one_sentence(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"deep\.json is damaged"):
        document.load(tmp_path, "deep")


# --- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["json", "npz"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone", "noise"])
def test_a_damaged_document_is_named(tmp_path, end, damage):
    document.save(tmp_path, "thing", {"a": np.arange(100.0), "b": "text", "c": [1, 2.5]})
    file = tmp_path / f"thing.{end}"
    body = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        spoilt = {"cut": body[:-20], "empty": b"", "noise": os.urandom(300), "flip": b""}[damage]
        if damage == "flip":
            middle = len(body) // 2
            spoilt = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
        file.write_bytes(spoilt)
    with pytest.raises(StoreError, match=rf"store: .*thing\.{end} (is damaged|cannot be read)"):
        document.load(tmp_path, "thing")


def test_every_flipped_bit_of_a_document_is_seen(tmp_path):
    document.save(tmp_path, "thing", {"hidden": (16, 8), "prior": 0.5})
    file = tmp_path / "thing.json"
    body, rng = file.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        at, bit = int(rng.integers(len(body))), int(rng.integers(8))
        file.write_bytes(body[:at] + bytes([body[at] ^ (1 << bit)]) + body[at + 1 :])
        with contextlib.suppress(StoreError):
            assert document.load(tmp_path, "thing") == {"hidden": (16, 8), "prior": 0.5}, "white space alone"


# --- links and sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["evidence.json", "evidence.json.writing"])
def test_a_write_does_not_follow_a_link(tmp_path, link):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / link).symlink_to(victim)
    write_file(tmp_path / "evidence.json", b"new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "evidence.json").read_bytes() == b"new"
    assert not (tmp_path / "evidence.json").is_symlink()


def test_a_lock_does_not_follow_a_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(StoreError, match="cannot write to"):
        Lock(tmp_path / "lock", "it").acquire()
    assert not (tmp_path / "made").exists()


def test_compressed_arrays_are_refused_before_they_are_unpacked(tmp_path):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.zeros(50_000_000, np.float64))  # 400 MB in 400 KB
    assert len(buffer.getvalue()) < 1_000_000
    with pytest.raises(StoreError, match="its arrays are compressed"):
        unpack_arrays(tmp_path / "bomb.npz", buffer.getvalue())


def test_a_shape_that_does_not_fit_its_bytes_is_refused(tmp_path):
    member = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(member, header)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", member.getvalue() + bytes(16))
    with pytest.raises(StoreError, match="its shape does not fit its bytes"):
        unpack_arrays(tmp_path / "lie.npz", buffer.getvalue())


@pytest.mark.parametrize(
    "array", [np.zeros((2, 0)), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.float32(3), np.array(True)], ids=str
)
def test_arrays_come_back(array, tmp_path):
    back = unpack_arrays(tmp_path / "a.npz", bytes(pack_arrays({"a": np.asarray(array)})))["a"]
    assert back.dtype == np.asarray(array).dtype
    np.testing.assert_array_equal(back, array)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere cannot be read \(No such file"):
        read_file(tmp_path / "nowhere")


# --- one process at a time --------------------------------------------------------------------------------------------


HOLD = """
import sys, time
from pathlib import Path
from langevin.core.files import Lock
lock = Lock(Path(sys.argv[1]), "the folder").acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_a_lock_is_held_by_one_process_and_let_go_when_it_dies(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=rf"the folder is in use by process {other.pid} on .*; wait for it or use"):
            Lock(path, "the folder").acquire()
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert path.exists(), "a killed process leaves its file"
    with Lock(path, "the folder"), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        Lock(path, "the folder").acquire()
    assert not Path(path).exists()
