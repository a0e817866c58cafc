"""Train the nets whose features compare images, on the training parts alone: `make features`."""

from __future__ import annotations

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin.core import noise
from langevin.core.run import run
from langevin.data import images
from langevin.energy.losses import CrossEntropy
from langevin.samplers.optimize import Optimize
from langevin.targets.loss import Loss
from langevin_lab.features import FOLDER, SHAPES, Reader, loaded


def train(name: str, steps: int = 3000, batch: int = 128) -> float:
    """Train a classifier and write its weights; its accuracy on the test part comes back."""
    found = images.load(name)
    weights, rest = eqx.partition(Reader(SHAPES[name], jax.random.key(2026)), eqx.is_inexact_array)
    target = Loss(CrossEntropy(rest), (jnp.asarray(found.x), jnp.asarray(found.y)), batch=batch)
    climb = Optimize(optax.adamw(optax.cosine_decay_schedule(2e-3, steps), weight_decay=1e-3))
    start = jax.tree.map(lambda u: u[None], weights)
    trained = run(noise.key(0), climb, target, start, draws=1, thin=steps, chunk=1, collect=_nothing)
    leaves = [np.asarray(u[0], np.float16) for u in jax.tree.leaves(trained.states.position)]
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / f"{name}.npz", *leaves)
    net = loaded(Reader(SHAPES[name], jax.random.key(2026)), FOLDER / f"{name}.npz")
    said = jnp.argmax(jax.jit(jax.vmap(net))(jnp.asarray(found.x_test)), axis=1)
    return float(jnp.mean(said == jnp.asarray(found.y_test)))


def _nothing(state):
    return state.eval.log_density


if __name__ == "__main__":
    for each in sys.argv[1:] or SHAPES:
        print(f"{each}: {train(each):.4f} of the test part told rightly", flush=True)
