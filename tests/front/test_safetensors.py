"""Files of safetensors: every type is read, and broken files are refused in one sentence."""

import json
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from tensors import write

from langevin.convert.torch import DTYPES, from_torch, read
from langevin.nets.mlp import MLP


def test_every_type_is_read(tmp_path):
    """Also a scalar, an empty tensor, and a header filled up."""
    rng = np.random.default_rng(0)
    tensors = {code: (8 * rng.normal(size=(2, 3))).astype(kind) for code, kind in DTYPES.items()}
    tensors |= {"scalar": np.asarray(3, np.int64), "empty": np.zeros((0, 4), np.float32)}
    found = read(write(tmp_path / "all.safetensors", tensors, pad=7))
    assert set(found) == set(tensors)
    for name, u in tensors.items():
        assert found[name].dtype == u.dtype
        assert found[name].tobytes() == u.tobytes()
        assert found[name].shape == u.shape


def test_a_file_of_known_bytes(tmp_path):
    """Not by the writer above."""
    text = (
        b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"I16","shape":[],"data_offsets":[4,6]}}'
    )
    path = tmp_path / "known.safetensors"
    path.write_bytes(bytes([len(text), 0, 0, 0, 0, 0, 0, 0]) + text + b"\x80\x3f\x00\xc0\xfe\xff")
    found = read(path)
    assert found["a"].astype(float).tolist() == [1.0, -2.0]
    assert found["a"].dtype == ml_dtypes.bfloat16
    assert int(found["b"]) == -2


def entry(dtype="F32", shape=(1,), ends=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(ends)}


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        (b"", b"", "is no whole safetensors file"),
        (b"[]", b"", "invalid JSON in header"),
        (b"{'a': 1}", b"", "invalid JSON in header"),
        (b"\xff\xfe", b"", "invalid UTF-8"),
        ({"a": {"dtype": "F32", "shape": [1]}}, b"1234", "data_offsets"),
        ({"a": entry(shape=(1.5,))}, b"1234", "expected usize"),
        ({"a": entry(shape=(-1,))}, b"1234", "expected usize"),
        ({"a": entry(ends=(0, 4, 8))}, b"1234", "invalid length"),
        ({"a": entry(dtype=[])}, b"1234", "expected string"),
        ({"a": entry(dtype="F4", shape=(8,))}, b"1234", "holds 'a' as F4"),
        ({"a": entry(), "b": entry(ends=(2, 6))}, b"123456", "invalid offset for tensor `b`"),
        ({"a": entry(), "b": entry(ends=(6, 10))}, b"1234567890", "invalid offset for tensor `b`"),
        ({"a": entry(shape=(2,))}, b"1234", "invalid shape"),
        ({"a": entry(shape=(2**40, 2**40))}, b"1234", "overflow"),
        ({"a": entry()}, b"123", "not fully covered"),
        ({"a": entry()}, b"12345", "not fully covered"),
    ],
)
def test_broken_files_get_a_sentence(header, data, words, tmp_path):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "broken.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    with pytest.raises(ValueError, match=words) as caught:
        from_torch(path, partial(MLP, (1, 1)))
    assert "broken.safetensors" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "header too small"),
        (b"1234567", "header too small"),
        (b"\xff" * 8 + b"{}", "header too large"),
        ((1000).to_bytes(8, "little") + b"{}", "invalid header length"),
        (b"PK\x03\x04" + bytes(20), "a pickle of torch.save"),
        (b"\x80\x02\x8a\x0a" + bytes(20), "a pickle of torch.save"),
    ],
)
def test_what_is_no_safetensors_file_is_named(data, words, tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words):
        read(path)
    with pytest.raises(ValueError, match="cannot be read"):
        read(tmp_path / "nowhere")


def test_a_header_of_128_bytes_is_no_pickle(tmp_path):
    """Its length begins with the byte a pickle begins with."""
    tensors = {"a": np.ones(2, np.float32)}
    short = int.from_bytes(write(tmp_path / "a", tensors).read_bytes()[:8], "little")
    path = write(tmp_path / "b", tensors, pad=128 - short)
    assert path.read_bytes()[0] == 0x80
    np.testing.assert_array_equal(read(path)["a"], 1.0)
