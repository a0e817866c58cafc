r"""What a training step of annealed variational inference costs, beside IWAE with as many decoder evaluations.

The paper's net (784-200-200-50) on random bits, batches of 100, Adam, in the library's compiled loop. `davi_over_iwae`
is a step of `Annealed(steps=10, draws=5)` ÷ one of IWAE with 50 draws: ten gradients of the decoder for each of five
chains against fifty values; both are then differentiated. `…_learned` learns step sizes and ladder too. `…_block` holds
the decoder constant in the forces on the way (`Annealed(gradient="block")`).

A layer of the decoder costs three products in IWAE: forward, and back to its input and to its weights. In a leapfrog
step it costs two, and differentiating both costs four more: `floor` = 6/3 is the ratio of their arithmetic, and no
exact gradient costs less, unless launches and not arithmetic set the pace. "block" costs 4/3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved, ratio
from langevin.samplers.optimize import Adam, Optimize
from langevin.vae import Annealed, Autoencoder, dense
from langevin.vi import IWAE
from langevin_lab.benchmarks.overhead import log_density

STEPS = {"quick": 2, "cpu": 10, "gpu": 200}
TURNS = {"quick": 3, "cpu": 9, "gpu": 9}
HIDDEN = {"quick": (20, 20), "cpu": (200, 200), "gpu": (200, 200)}
WAYS: dict[str, Any] = {
    "elbo": IWAE(1),
    "iwae": IWAE(50),
    "iwae plain": IWAE(50, estimator="reparameterization"),
    "davi": Annealed(10, 5),
    "davi learned": Annealed(10, 5, learn=("rises", "log_step")),
    "davi block": Annealed(10, 5, gradient="block"),
}
BARS = {"davi_over_iwae": "≤ 1.3"}


def made(objective: Any, size: str, seed: int) -> Callable[[int], Any]:
    k_x, k_net = jax.random.split(jax.random.key(seed))
    x = jax.random.bernoulli(k_x, 0.2, (2000, 784)).astype(np.float32)
    nets = dense(k_net, (784,), latent=50, hidden=HIDDEN[size])
    target = Autoencoder(nets.model, nets.encoder, objective, x, batch=100)
    start = nets.weights | {"objective": target.init(jax.random.key(seed))}
    kernel, steps = Optimize(Adam(1e-3)), STEPS[size]
    states = begin_all(noise.key(0), kernel, target, jax.tree.map(lambda u: u[None], start))
    return lambda turn: advance(
        noise.key(turn), kernel, target, states, length=steps, collect=log_density, n=np.int32(steps)
    )


def run(size: str, seed: int) -> Result:
    seconds = interleaved({name: made(how, size, seed) for name, how in WAYS.items()}, TURNS[size])
    table = [dict(method=name, ms_per_step=1e3 * float(np.median(s)) / STEPS[size]) for name, s in seconds.items()]
    figures = {
        "davi_over_iwae": ratio(seconds, "davi", "iwae"),
        "davi_over_iwae_learned": ratio(seconds, "davi learned", "iwae"),
        "davi_over_iwae_block": ratio(seconds, "davi block", "iwae"),
        "dreg_over_plain": ratio(seconds, "iwae", "iwae plain"),
        "floor": 2.0,
    }
    return Result("vae", figures, table, BARS)
