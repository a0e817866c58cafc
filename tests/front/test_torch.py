"""PyTorch weights: files read as they are published, layers in their own layouts, broken files named."""

from collections import OrderedDict
from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tensors import write

from langevin.convert.torch import from_torch
from langevin.core import tree
from langevin.nets.bnn import bnn
from langevin.nets.images import LeNet, ResNet
from langevin.nets.mlp import MLP


@eqx.filter_jit
def rows(net, x):
    return jax.vmap(net)(x)


def mlp(sizes=(3, 5, 5, 5, 1)):
    """Weights under PyTorch's names and in its layouts."""
    rng, found = np.random.default_rng(0), OrderedDict()
    for i, (a, b) in enumerate(pairwise(sizes), start=1):
        found[f"fc{i}.weight"] = rng.normal(size=(b, a)).astype(np.float32)
        found[f"fc{i}.bias"] = rng.normal(size=b).astype(np.float32)
    return found


# --- which is which -------------------------------------------------------------------------------------------------


def outputs(weights, x):
    """An MLP of tanh in PyTorch's layout, by NumPy."""
    for name in (names := [n for n in weights if n.endswith("weight")]):
        x = x @ weights[name].T + weights[name.replace("weight", "bias")][None]
        x = x if name == names[-1] else np.tanh(x)
    return x


X = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
NET = partial(MLP, (3, 5, 5, 5, 1), activation=jnp.tanh)
OURS = [f"layers.{i}" for i in range(4)]
PLACES = {  # their four layers, the two in the middle of one shape, and what is said of them
    "order": ("zyxw", None),  # of a state_dict, whatever its names
    "numbers": (("fc1", "fc2", "fc3", "fc4"), None),
    "sequential": (("0", "2", "10", "12"), None),  # ten before two in a file
    "same names": (OURS, None),
    "wrapped": ([f"module.{path}" for path in OURS], None),
    "names": ("dcba", dict(zip("dcba", OURS, strict=True))),
    "some names": ("dcba", {"c": "layers.1"}),
    "built": (("fc1", "fc2", "fc3", "fc4"), None),
}


@pytest.mark.parametrize("how", list(PLACES))
def test_layers_find_their_places(how, tmp_path):
    weights = mlp()
    new, names = PLACES[how]
    new = dict(zip(("fc1", "fc2", "fc3", "fc4"), new, strict=True))
    source = OrderedDict((f"{new[n[:3]]}{n[3:]}", u) for n, u in weights.items())
    source = source if how == "order" else write(tmp_path / "net.safetensors", source)
    net = NET(jax.random.key(0)) if how == "built" else NET
    loaded = from_torch(source, net, names=names)
    np.testing.assert_allclose(rows(loaded, X), outputs(weights, X), rtol=1e-5, atol=1e-6)
    assert jax.tree.structure(loaded) == jax.tree.structure(NET(jax.random.key(0)))


def test_layers_of_one_shape_are_not_guessed(tmp_path):
    weights = mlp((3, 3, 3))
    same = {n.replace("fc1", "up").replace("fc2", "down"): u for n, u in weights.items()}
    for source in (same, write(tmp_path / "a.safetensors", same)):
        with pytest.raises(ValueError, match=r"'down', 'up' all have weights of shape \(3, 3\).*pass names="):
            from_torch(source, partial(MLP, (3, 3, 3)))
    loaded = from_torch(same, partial(MLP, (3, 3, 3)), names={"up": "layers.0", "down": "layers.1"})
    np.testing.assert_array_equal(loaded.layers[0].weight, weights["fc1.weight"].T)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda w: w.pop("fc4.weight") is w.pop("fc4.bias"),
            r"no weight for 'layers.3', which needs the shape \(1, 5\)",
        ),
        (lambda w: w.pop("fc2.bias"), r"'fc2' has no bias; 'layers.1' needs one of shape \(5,\)"),
        (
            lambda w: w.update({"fc4.weight": np.ones((1, 4))}),
            r"'fc4.weight' has the shape \(1, 4\); .* needs \(1, 5\)",
        ),
        (lambda w: w.update({"fc4.bias": np.ones(2)}), r"'fc4.bias' has the shape \(2,\); 'layers.3' needs \(1,\)"),
        (
            lambda w: w.update({"fc5.weight": np.ones((1, 1))}),
            r"'fc5.weight' of shape \(1, 1\) has no place in the net",
        ),
        (lambda w: w.update({"fc2.scale": np.ones(5)}), r"'fc2.scale' of shape \(5,\) has no place in 'layers.1'"),
        (lambda w: w.update({"fc2.gain": np.ones((5, 5))}), r"'fc2.gain' of shape \(5, 5\) has no place in 'layers.1'"),
        (lambda w: w.update({"bn.running_mean": np.ones(5)}), "'bn.running_mean' belongs to a batch norm"),
    ],
)
def test_tensors_that_do_not_fit_get_a_sentence(change, words):
    weights = mlp()
    change(weights)
    with pytest.raises(ValueError, match=words):
        from_torch(weights, NET)


def test_more_mistakes():
    with pytest.raises(TypeError, match="Linear has no mirror in PyTorch"):
        from_torch(mlp(), eqx.nn.Linear(3, 1, key=jax.random.key(0)))
    for names in ({"fc9": "layers.0"}, {"fc1": "layers.9"}):
        with pytest.raises(ValueError, match=r"`names` has '.*9', which is no layer of the file"):
            from_torch(mlp(), NET, names=names)
    with pytest.raises(ValueError, match="gives one layer of the net two"):
        from_torch(mlp(), NET, names={"fc1": "layers.1", "fc2": "layers.1"})


# --- against PyTorch ------------------------------------------------------------------------------------------------


def torch_lenet(depth, n_out, places, channels=(2, 3), hidden=5):
    from torch import nn

    gelu = lambda: nn.GELU(approximate="tanh")
    return nn.Sequential(
        *(nn.Conv2d(depth, channels[0], 5, padding=2), gelu(), nn.MaxPool2d(2)),
        *(nn.Conv2d(channels[0], channels[1], 5, padding=2), gelu(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(channels[1] * places, hidden), gelu(), nn.Linear(hidden, n_out)),
    )


def torch_resnet(depth, n_out, widths, scale="gain"):
    """The mirror of ResNet; scale: "gain" for norms as here, "weight" for norms as PyTorch names them."""
    import torch
    from torch import nn

    class Norm(nn.Module):
        def __init__(self, channels):
            super().__init__()
            names = ("gain", "shift") if scale == "gain" else ("weight", "bias")
            self.names = names
            for name in names:
                self.register_parameter(name, nn.Parameter(torch.randn(channels)))

        def forward(self, x):
            gain, shift = (getattr(self, name)[:, None, None] for name in self.names)
            gain = 1 + gain if scale == "gain" else gain
            return gain * x * torch.rsqrt((x**2).mean((2, 3), keepdim=True) + 1e-6) + shift

    class Block(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.first = nn.Conv2d(n_in, n_out, 3, stride=2)
            self.second = nn.Conv2d(n_out, n_out, 3, padding=1)
            self.shortcut = nn.Conv2d(n_in, n_out, 1, stride=2)
            self.norms = nn.ModuleList([Norm(n_out), Norm(n_out)])

        def forward(self, x):
            high, wide = (side % 2 for side in x.shape[2:])
            y = torch.relu(self.norms[0](self.first(nn.functional.pad(x, (wide, 1, high, 1)))))
            return torch.relu(self.shortcut(x) + self.norms[1](self.second(y)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.norm = nn.Conv2d(depth, widths[0], 3, padding=1), Norm(widths[0])
            self.blocks = nn.ModuleList([Block(a, b) for a, b in zip((widths[0], *widths[:-1]), widths, strict=True)])
            self.head = nn.Linear(widths[-1], n_out)

        def forward(self, x):
            x = torch.relu(self.norm(self.stem(x)))
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean((2, 3)))

    return Net()


def torch_mlp():
    from torch import nn

    hidden = [layer for _ in range(2) for layer in (nn.Linear(5, 5), nn.Tanh())]
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), *hidden, nn.Linear(5, 1))


MIRRORS = {
    "mlp": (torch_mlp, NET, (3,)),
    # images that are not square, so that no two axes are alike
    "lenet": (lambda: torch_lenet(2, 4, 3 * 2), partial(LeNet, (2, 13, 8), 4, channels=(2, 3), hidden=5), (2, 13, 8)),
    "resnet, even sides": (
        lambda: torch_resnet(2, 3, (3, 4)),
        partial(ResNet, (2, 8, 8), 3, widths=(3, 4)),
        (2, 8, 8),
    ),
    "resnet, odd and even": (
        lambda: torch_resnet(1, 3, (3, 3), "weight"),
        partial(ResNet, (1, 7, 10), 3, widths=(3, 3)),
        (1, 7, 10),
    ),
}


@pytest.mark.parametrize("name", MIRRORS)
@pytest.mark.parametrize("source", ["memory", "file"])
def test_outputs_are_those_of_pytorch(name, source, tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    mirror, net, shape = MIRRORS[name]
    theirs = mirror()
    weights = theirs.state_dict()
    x = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    with torch.no_grad():
        want = theirs(torch.from_numpy(x)).numpy()
    if source == "file":
        weights = write(tmp_path / "net.safetensors", {n: u.numpy() for n, u in weights.items()})
    else:  # other names: by order and shape
        weights = OrderedDict((f"their_{n}", u) for n, u in weights.items())
    loaded = from_torch(weights, net)
    out = np.asarray(rows(loaded, x))
    assert np.abs(out - want).max() < 1e-5 * np.abs(want).max()


def test_half_precision_tensors_are_read():
    torch = pytest.importorskip("torch")
    weights = OrderedDict((n, torch.from_numpy(u).to(torch.bfloat16).requires_grad_()) for n, u in mlp().items())
    loaded = from_torch(weights, NET)
    assert {u.dtype for u in jax.tree.leaves(loaded)} == {np.dtype("float32")}
    np.testing.assert_array_equal(loaded.layers[1].weight, weights["fc2.weight"].detach().float().numpy().T)


def test_chains_start_near_imported_weights(key):
    loaded = from_torch(mlp(), NET)
    m = bnn(loaded, (X, np.zeros(4, np.float32)), noise=0.3, part=("layers.3.*",))
    np.testing.assert_array_equal(m.position["net"].layers[3].weight, mlp()["fc4.weight"].T)
    starts = m.starts(key, 3)["net"].layers[3].weight
    assert 0 < np.abs(starts - loaded.layers[3].weight[None]).max() < 0.1
    assert tree.size(m.position) == 6
