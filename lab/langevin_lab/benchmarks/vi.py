r"""What a step of mean-field variational inference costs: over plain training, and beside NumPyro's SVI.

A classifier with 10,000 random examples, mini-batches of 128 drawn inside one compiled loop, one draw of the weights a
step: an MLP 784-200-200-10 on the CPU, and with `--size gpu` also the residual net
of `langevin.nets` (308,000 weights) on 32 × 32 images.
`mfvi_over_sgd` is a step of `vi.Fit` (the factorized Gaussian, ELBO with entropy and prior in closed form) ÷ a plain
training step, both by the same optimizer: SGD in both, or Adam in both (`mfvi_over_adam`). NumPyro has the same net,
prior, likelihood and mini-batches, `AutoNormal`, `Trace_ELBO` (and `TraceMeanField_ELBO`), Adam, `lax.scan` over
`SVI.update`: `numpyro_over_ours` is its faster form ÷ ours with Adam, each with the random keys it has by default, and
`numpyro_over_ours_same_keys` with our generator in both. `numpyro_over_adam` is the same form ÷ a plain training step
with Adam: the largest ratio that any mean-field fit in this loop could have, were draws and scales free. Seconds are
medians over turns in one process.

`memory` (on the CPU) is the peak of the resident memory, in MB, of a process that takes 100 of these steps and nothing
else, and `import` that of its imports alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin import vi
from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved, ratio
from langevin.nets.bnn import BNN, bnn
from langevin.nets.images import ResNet
from langevin.samplers.optimize import Adam, Optimize
from langevin_lab.benchmarks._peers import missing
from langevin_lab.benchmarks.overhead import log_density, problem
from langevin_lab.benchmarks.steps import _peak

SIZES, IMAGE, BATCH, RATE = (784, 200, 200, 10), (3, 32, 32), 128, 1e-4
STEPS = {"quick": 10, "cpu": 200, "gpu": 100}
TURNS = {"quick": 3, "cpu": 15, "gpu": 9}
OPTIMIZERS: dict[str, Any] = {"sgd": optax.sgd(1e-7), "adam": Adam(RATE)}
BARS = {
    "mfvi_over_sgd": "≤ 1.6 (CPU)",
    "mfvi_over_sgd_resnet": "≤ 2.2 (GPU)",
    "numpyro_over_ours": "≥ 3",
}


def images(seed: int) -> BNN:
    """Random images and classes, and a residual net."""
    k_x, k_y = jax.random.split(jax.random.key(seed))
    x, y = jax.random.normal(k_x, (10_000, *IMAGE)), jax.random.randint(k_y, (10_000,), 0, 10)
    return bnn(partial(ResNet, IMAGE, 10), (x, y), kind="categorical", batch=BATCH)


def loop(target: Any, optimizer: str, start: Any, steps: int) -> Callable[[int], Any]:
    """So many steps of an optimizer in the library's compiled loop."""
    kernel = Optimize(OPTIMIZERS[optimizer])
    states = begin_all(noise.key(0), kernel, target, jax.tree.map(lambda u: u[None], start))
    return lambda turn: advance(
        noise.key(turn), kernel, target, states, length=steps, collect=log_density, n=np.int32(steps)
    )


def ours(model: BNN, optimizer: str, steps: int) -> Callable[[int], Any]:
    family = vi.MeanField(0.01)
    return loop(vi.Variational(model.target, family), optimizer, family.init(noise.key(0), model.position), steps)


def plain(model: BNN, optimizer: str, steps: int) -> Callable[[int], Any]:
    return loop(model.target, optimizer, model.position, steps)


def theirs(model: BNN, elbo: str, steps: int, new_key: Callable[[int], Any] = jax.random.key) -> Callable[[int], Any]:
    """NumPyro on the same data; weights have N(0, 1) priors."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, autoguide
    from numpyro.infer import elbo as elbos

    x, y = model.target.data
    n = len(x)

    def classifier(x, y):
        for i, (a, b) in enumerate(pairwise(SIZES)):
            w = numpyro.sample(f"w{i}", dist.Normal(jnp.zeros((a, b)), 1.0).to_event(2))
            c = numpyro.sample(f"b{i}", dist.Normal(jnp.zeros(b), 1.0).to_event(1))
            x = x @ w + c
            x = jax.nn.relu(x) if i < len(SIZES) - 2 else x
        with numpyro.plate("rows", n, subsample_size=len(y)):
            numpyro.sample("y", dist.Categorical(logits=x), obs=y)

    guide = autoguide.AutoNormal(classifier, init_scale=0.01)
    svi = SVI(classifier, guide, optax.adam(RATE), getattr(elbos, elbo)())
    begun = svi.init(new_key(0), x[:BATCH], y[:BATCH])

    @jax.jit
    def go(key, state):
        def step(state, key):
            index = jax.random.randint(key, (BATCH,), 0, n)
            state, loss = svi.update(state, x[index], y[index])
            return state, loss

        return jax.lax.scan(step, state, jax.random.split(key, steps))

    return lambda turn: go(new_key(turn), begun)


def made(name: str, seed: int, steps: int) -> Callable[[int], Any]:
    """A method by its name: 'net way optimizer', or NumPyro's objective, with 'ours' for our random keys."""
    net, way, *rest = name.split()
    model = images(seed) if net == "resnet" else problem(SIZES, BATCH, seed=seed)
    if way == "numpyro":
        return theirs(model, rest[0], steps, *([noise.key] if rest[1:] else []))
    return (ours if way == "mfvi" else plain)(model, rest[0], steps)


def run(size: str, seed: int) -> Result:
    nets = ["mlp"] + ["resnet"] * (size == "gpu")
    names = [f"{net} {way} {optimizer}" for net in nets for optimizer in OPTIMIZERS for way in ("plain", "mfvi")]
    peer = missing("numpyro")
    elbos = ["Trace_ELBO", "TraceMeanField_ELBO"]
    names += [] if peer else [f"mlp numpyro {elbo}{keys}" for elbo in elbos for keys in ("", " ours")]
    steps = STEPS[size]
    seconds = interleaved({name: made(name, seed, steps) for name in names}, TURNS[size])
    table: list[dict[str, Any]] = [
        dict(method=name, us_per_step=1e6 * float(np.median(seconds[name])) / steps)
        | (memory(name, seed) if size == "cpu" else {})
        for name in names
    ]
    figures = {}
    for net in nets:
        tail = "" if net == "mlp" else f"_{net}"
        for optimizer in OPTIMIZERS:
            figures[f"mfvi_over_{optimizer}{tail}"] = ratio(
                seconds, f"{net} mfvi {optimizer}", f"{net} plain {optimizer}"
            )
    if not peer:
        fastest = lambda keys, base: min(ratio(seconds, f"mlp numpyro {elbo}{keys}", f"mlp {base}") for elbo in elbos)
        figures["numpyro_over_ours"] = fastest("", "mfvi adam")
        figures["numpyro_over_ours_same_keys"] = fastest(" ours", "mfvi adam")
        figures["numpyro_over_adam"] = fastest("", "plain adam")
    else:
        table.append(dict(method="mlp numpyro", note=peer))
    return Result("vi", figures, table, BARS)


def memory(name: str, seed: int) -> dict[str, float]:
    command = [sys.executable, "-m", "langevin_lab.benchmarks.vi", name, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}


def main(name: str, seed: str) -> None:
    """Peak memory of this process."""
    if "numpyro" in name:
        missing("numpyro")
    before = _peak()
    jax.block_until_ready(made(name, int(seed), 100)(0))
    print(json.dumps({"memory": _peak(), "import": before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
