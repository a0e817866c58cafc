r"""PyTorch weights in the nets of this library: a `state_dict`, as a safetensors file or in memory.

PyTorch is not needed to read a file. A tensor takes its place here so:

    Linear (out, in)           → Dense W (in, out): the transpose
    Conv2d (out, in, k, k)     → Convolution W (k²·in, out), its rows in the order (column, row, channel)
    Linear after a Flatten     → Dense, its inputs taken from (channel, row, column) to (row, column, channel)
    a norm's gain and shift    → Norm γ, β; if they are named weight and bias, γ = weight − 1

What mirrors the nets of `models` in PyTorch, to the last rounding:

    MLP       Linear and the same activation in turn. jax.nn.gelu is torch.nn.GELU(approximate="tanh").
    LeNet     Conv2d(…, 5, padding=2), the activation, MaxPool2d(2), twice; Flatten; Linear, activation, Linear.
    ResNet    Conv2d(…, 3, padding=1) and Norm and ReLU; blocks; x.mean((2, 3)); Linear. In a block the first
              convolution has stride 2, where this library pads as "SAME": nothing before and one after an even side,
              one before and one after an odd side. Conv2d(…, 3, stride=2, padding=1) does the latter always, so an
              even side needs Sequential(ZeroPad2d((0, 1, 0, 1)), Conv2d(…, 3, stride=2)). The shortcut is
              Conv2d(…, 1, stride=2). Norm is (1 + gain) x/√(mean x² + 10⁻⁶) + shift, the mean over places; PyTorch has
              none of its own. `tests/test_torch.py` holds all three in PyTorch.

References
----------
Hugging Face, Safetensors: format, https://huggingface.co/docs/safetensors (as of 2025).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from langevin.nets.images import Convolution, LeNet, Norm, ResNet
from langevin.nets.mlp import MLP, Dense

DTYPES: dict[str, Any] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
    "C64": "<c8",
}
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
ALSO = {"gain": "weight", "shift": "bias"}  # names a norm may have for its two


class Layer(NamedTuple):
    """A layer of a net: its path, the layer, and how many channels were flattened before it (0: none)."""

    path: str
    layer: Any
    channels: int


def from_torch(source: str | Path | Mapping[str, Any], net: Any, *, names: Mapping[str, str] | None = None) -> Any:
    """The net with the weights of a PyTorch state_dict: a start for all chains of `bnn`.

    source: a safetensors file, or the state_dict itself (tensors or NumPy arrays by name).
    net: an MLP, LeNet or ResNet, or a function of a key that builds one; its own values do not count.
    names: their layer → ours ({"fc1": "layers.0"}), for layers that order and shape cannot tell.

    Layers go by their names if these are the same (but for one word before all). Otherwise a layer gets the first one
    of its shape: in the order of the state_dict if it is an OrderedDict as PyTorch makes it, or, as files do not keep
    the order, in that of the numbers in their names (conv1, conv2); if these differ otherwise, `names` is asked for.
    """
    net = net if isinstance(net, eqx.Module) else eqx.filter_eval_shape(net, jax.random.key(0))
    if not isinstance(net, (MLP, LeNet, ResNet)):
        raise TypeError(f"from_torch: {type(net).__name__} has no mirror in PyTorch; give an MLP, a LeNet or a ResNet.")
    tensors = dict(source) if isinstance(source, Mapping) else read(source)
    theirs = _grouped({name: _numbers(value) for name, value in tensors.items()})
    ours, structure = _layers(net)
    pairs = _paired(ours, theirs, dict(names or {}), ordered=isinstance(source, OrderedDict))
    return jax.tree.unflatten(structure, [_filled(layer, pairs[layer.path], theirs) for layer in ours])


def read(path: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file by name."""
    from safetensors import SafetensorError, deserialize

    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"from_torch: {path} cannot be read ({error.strerror}).") from None
    if data[8:9] != b"{" and data.startswith((b"PK\x03\x04", b"\x80")):
        raise ValueError(
            f"from_torch: {path} is a pickle of torch.save, which can run code; save it as safetensors, or pass "
            "torch.load(path, weights_only=True)."
        )
    try:
        found = deserialize(data)
    except SafetensorError as error:
        raise ValueError(f"from_torch: {path} is no whole safetensors file ({error}).") from None
    return {name: _tensor(path, name, entry) for name, entry in found}


def _tensor(path: Path, name: str, entry: dict[str, Any]) -> np.ndarray:
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"from_torch: {path} holds {name!r} as {entry['dtype']}; save it as F32.")
    return np.frombuffer(entry["data"], DTYPES[entry["dtype"]]).reshape(entry["shape"])


# --- which is which -------------------------------------------------------------------------------------------------


def _layers(net: Any) -> tuple[list[Layer], Any]:
    is_layer = lambda u: isinstance(u, (Dense, Convolution, Norm))
    pairs, structure = jax.tree_util.tree_flatten_with_path(net, is_leaf=is_layer)
    paths = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in pairs]
    flattened = {"head.layers.0": net.convolutions[-1].dense.bias.shape[0]} if isinstance(net, LeNet) else {}
    return [Layer(path, u, flattened.get(path, 0)) for path, (_, u) in zip(paths, pairs, strict=True)], structure


def _grouped(tensors: dict[str, np.ndarray]) -> dict[str, dict[str, tuple[str, np.ndarray]]]:
    """layer → {"weight": (name of the tensor, tensor), "bias": …}, in order."""
    groups: dict[str, dict] = {}
    for name, tensor in tensors.items():
        layer, _, part = name.rpartition(".")
        if part in STATISTICS:
            raise ValueError(
                f"from_torch: {name!r} belongs to a batch norm, which ties the examples of a batch together and has no "
                "place in these nets; fold it into the layer before it, or train the mirrored net without."
            )
        group, part = groups.setdefault(layer, {}), ALSO.get(part, part)
        group[name if part in group else part] = (name, tensor)
    return groups


def _paired(ours: list[Layer], theirs: dict, names: dict[str, str], *, ordered: bool) -> dict[str, str]:
    """our path → their layer."""
    pairs = {mine: yours for yours, mine in names.items()}
    unknown = [n for n in names if n not in theirs] + [n for n in pairs if n not in {u.path for u in ours}]
    if unknown:
        raise ValueError(f"from_torch: `names` has {unknown[0]!r}, which is no layer of {_listed(theirs, ours)}.")
    if len(pairs) < len(names):
        raise ValueError(f"from_torch: `names` gives one layer of the net two of theirs ({names}).")
    left = [u for u in ours if u.path not in pairs]
    rest = [name for name in theirs if name not in names]
    # wrappers put one name before all others: module.layers.0
    heads = ["", *{f"{name.partition('.')[0]}." for name in rest}]
    same = [head for head in heads if {head + u.path for u in left} <= set(rest)]
    if same:
        pairs |= {u.path: same[0] + u.path for u in left}
    else:
        pairs |= _by_shape(left, {n: theirs[n] for n in (rest if ordered else sorted(rest, key=_natural))}, ordered)
    spare = [name for name in rest if name not in pairs.values()]
    if spare:
        name, tensor = next(iter(theirs[spare[0]].values()))
        raise ValueError(f"from_torch: {name!r} of shape {tensor.shape} has no place in the net; leave it out.")
    return pairs


def _by_shape(ours: list[Layer], theirs: dict, ordered: bool) -> dict[str, str]:
    pairs: dict[str, str] = {}
    shapes = {name: group["weight"][1].shape for name, group in theirs.items() if "weight" in group}
    for layer in ours:
        want = _shapes(layer.layer)["weight"]
        same = [name for name, shape in shapes.items() if shape == want]
        free = [name for name in same if name not in pairs.values()]
        if not free:
            raise ValueError(_unfit(layer, want, {n: s for n, s in shapes.items() if n not in pairs.values()}))
        if not ordered and len({re.sub(r"\d+", "#", name) for name in same}) > 1:
            raise ValueError(
                f"from_torch: {', '.join(map(repr, same))} all have weights of shape {want}, and nothing says which is "
                f"{layer.path!r}; pass names={{{same[0]!r}: {layer.path!r}, …}}."
            )
        pairs[layer.path] = free[0]
    return pairs


def _unfit(layer: Layer, want: tuple, spare: dict[str, tuple]) -> str:
    near = [name for name, shape in spare.items() if len(shape) == len(want)]
    if not near:
        return f"from_torch: there is no weight for {layer.path!r}, which needs the shape {want}."
    name = f"{near[0]}.weight".lstrip(".")
    return f"from_torch: {name!r} has the shape {spare[near[0]]}; {layer.path!r} needs {want}."


def _natural(name: str) -> list:
    """conv2 before conv10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _listed(theirs: dict, ours: list[Layer]) -> str:
    return f"the file ({', '.join(theirs)}) or the net ({', '.join(u.path for u in ours)})"


# --- layouts --------------------------------------------------------------------------------------------------------


def _shapes(layer: Any) -> dict[str, tuple[int, ...]]:
    """The shapes PyTorch has for a layer."""
    if isinstance(layer, Norm):
        return {"weight": layer.gain.shape, "bias": layer.shift.shape}
    if isinstance(layer, Convolution):
        rows, n_out = layer.dense.weight.shape
        return {"weight": (n_out, rows // layer.size**2, layer.size, layer.size), "bias": (n_out,)}
    return {"weight": layer.weight.shape[::-1], "bias": layer.bias.shape}


def _filled(layer: Layer, name: str, theirs: dict) -> Any:
    """The layer with their tensors."""
    group, found = dict(theirs[name]), {}
    for part, want in _shapes(layer.layer).items():
        if part not in group:
            raise ValueError(f"from_torch: {name!r} has no {part}; {layer.path!r} needs one of shape {want}.")
        own, tensor = group.pop(part)
        if tensor.shape != want:
            raise ValueError(f"from_torch: {own!r} has the shape {tensor.shape}; {layer.path!r} needs {want}.")
        found[part] = tensor
        if isinstance(layer.layer, Norm) and own.rpartition(".")[2] == "weight":
            found[part] = tensor.astype(np.float64) - 1
    for own, tensor in group.values():
        raise ValueError(f"from_torch: {own!r} of shape {tensor.shape} has no place in {layer.path!r}; leave it out.")
    weight, bias = found["weight"], found["bias"]
    if isinstance(layer.layer, Norm):
        return _with(lambda u: (u.gain, u.shift), layer.layer, weight, bias)
    if isinstance(layer.layer, Convolution):
        rows = weight.transpose(3, 2, 1, 0).reshape(-1, len(weight))
        return _with(lambda u: (u.dense.weight, u.dense.bias), layer.layer, rows, bias)
    if layer.channels:
        weight = weight.reshape(len(weight), layer.channels, -1).swapaxes(1, 2).reshape(len(weight), -1)
    return _with(lambda u: (u.weight, u.bias), layer.layer, weight.T, bias)


def _with(where: Callable, layer: Any, *values: np.ndarray) -> Any:
    cast = [jnp.asarray(new, old.dtype) for new, old in zip(values, where(layer), strict=True)]
    return eqx.tree_at(where, layer, tuple(cast))


def _numbers(value: Any) -> np.ndarray:
    """A tensor or an array as NumPy has it, which knows no bfloat16: doubles hold all kinds."""
    return value.detach().cpu().double().numpy() if hasattr(value, "detach") else np.asarray(value)
