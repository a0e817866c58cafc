"""Trees on disk, and the digests that tell one run from another."""

import json
import os
import subprocess
import sys
import textwrap
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from langevin.core import sharding
from langevin.core.fingerprint import fingerprint
from langevin.core.run import run
from langevin.core.serialize import decode, encode
from langevin.core.shards import Stored
from langevin.core.target import Density
from langevin.samplers.sghmc import SGHMC
from langevin.targets.zoo import Scales


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


def test_a_schedule_of_optax_is_the_same_after_its_first_use():
    """It turns a whole number that it closes over into a float when it is called."""
    import optax

    schedule = optax.cosine_decay_schedule(0.1, 80)
    before = fingerprint(schedule)
    schedule(3)
    assert fingerprint(schedule) == before
    assert fingerprint(optax.cosine_decay_schedule(0.1, 81)) != before
