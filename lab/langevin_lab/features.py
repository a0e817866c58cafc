r"""Features of images for distances between sets of them, by nets of this project, their hash in the metric's name.

`extractor("mnist")` gives a function of images (n, channel, height, width) in [0, 1] and a name such as
`mnist-classifier-3f2a`. There are two kinds: the last hidden layer (64 numbers) of a small classifier, whose weights
ship with the package, and one that has seen no labels: 64 random convolutions of the same shape, always the same. Where
the two disagree about two models, neither is to be believed. `distances` has both. `classifier` says the classes.

`make features` trains the classifiers again, on the training parts alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.diagnostics.features import ffd, kfd

FOLDER = Path(__file__).parent / "weights"
SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
KINDS = ("classifier", "random")
BLOCK = 500


class Reader(eqx.Module):
    """Two convolutions that halve the image, 64 features, and ten classes."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    dense: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], key: jax.Array):
        depth, height, width = shape
        keys = jax.random.split(key, 4)
        self.first = eqx.nn.Conv2d(depth, 16, 5, 2, 2, key=keys[0])
        self.second = eqx.nn.Conv2d(16, 32, 3, 2, 1, key=keys[1])
        flat = 32 * -(-height // 4) * -(-width // 4)
        self.dense = eqx.nn.Linear(flat, 64, key=keys[2])
        self.head = eqx.nn.Linear(64, 10, key=keys[3])

    def features(self, x):
        x = jax.nn.silu(self.second(jax.nn.silu(self.first(2 * x - 1))))
        return jax.nn.silu(self.dense(x.reshape(-1)))

    def __call__(self, x):
        return self.head(self.features(x))


@cache
def extractor(name: str, kind: str = "classifier") -> tuple[Callable[[np.ndarray], np.ndarray], str]:
    """The features of a set's images, and the name to print them under."""
    if name not in SHAPES or kind not in KINDS:
        raise ValueError(f"extractor: there is none for {name!r}, {kind!r}; there are {', '.join(SHAPES)}, {KINDS}.")
    net = Reader(SHAPES[name], jax.random.key(2026))
    if kind == "classifier":
        net = loaded(net, FOLDER / f"{name}.npz")
    else:
        net = jax.tree.map(lambda u: 3.0 * u if eqx.is_inexact_array(u) else u, net)  # of a size that bends
    mark = hashlib.sha256()
    for leaf in jax.tree.leaves(eqx.filter(net, eqx.is_inexact_array)):
        mark.update(np.asarray(leaf, np.float16).tobytes())
    return partial(_seen, name, jax.jit(jax.vmap(net.features))), f"{name}-{kind}-{mark.hexdigest()[:4]}"


@cache
def classifier(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """What a set's classifier says the classes of images are."""
    if name not in SHAPES:
        raise ValueError(f"classifier: there is none for {name!r}; there are {', '.join(SHAPES)}.")
    net = loaded(Reader(SHAPES[name], jax.random.key(2026)), FOLDER / f"{name}.npz")
    return partial(_seen, name, jax.jit(jax.vmap(lambda x: jnp.argmax(net(x)))))


def _seen(name: str, see: Callable, x) -> np.ndarray:
    """What a compiled function of images sees in x, a block at a time."""
    x = np.asarray(x, np.float32)
    if x.shape[1:] != SHAPES[name]:
        raise ValueError(f"extractor: images of {x.shape[1:]} given, {name} has {SHAPES[name]}.")
    if not np.isfinite(x).all() or x.min() < -0.01 or x.max() > 1.01:
        raise ValueError(f"extractor: pixels lie in [{x.min():.3g}, {x.max():.3g}]; give numbers in [0, 1].")
    return np.concatenate([np.asarray(see(jnp.asarray(x[i : i + BLOCK]))) for i in range(0, len(x), BLOCK)])


def distances(name: str, real, generated) -> dict[str, float]:
    """FFD and KFD of generated images from one half of the real ones by both extractors, and the floor: of the other
    half, in as many images."""
    n = min(len(real) // 2, len(generated))
    order = np.random.default_rng(0).permutation(len(real))[: 2 * n]
    half, other = real[order[:n]], real[order[n:]]
    found: dict[str, float] = {}
    for kind in KINDS:
        extract, called = extractor(name, kind)
        a, b, c = (extract(u) for u in (half, generated[:n], other))
        found[f"ffd_{called}"], found[f"ffd_{called}_floor"] = ffd(a, b), ffd(a, c)
        value = kfd(a, b)
        found |= {f"kfd_{called}": value.value, f"kfd_{called}_stderr": value.stderr}
        found[f"kfd_{called}_floor"] = kfd(a, c).value
    return found


def loaded(net: Reader, path: Path) -> Reader:
    if not path.is_file():
        raise ValueError(f"extractor: {path.name} is not there; `make features` trains it.")
    weights, rest = eqx.partition(net, eqx.is_inexact_array)
    with np.load(path) as file:
        leaves = [jnp.asarray(file[f"arr_{i}"], jnp.float32) for i in range(len(file.files))]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(weights), leaves), rest)
