"""A step of SGLD on a Bayesian network against the peers, per chain-step: BlackJAX and posteriors (PyTorch).

The small net is an MLP 8-16-16-2 with batch 32 and 10 chains of ours; the large one 784-200-200-2 with batch 128 and
one chain. All use Gaussian noise and the same work: draw a batch, one gradient, one update. The peers run as they are
documented, a Python loop over compiled steps for one chain; BlackJAX's batches come from NumPy indices, which is
faster than the `jax.random.choice` of its tutorial (both are in the table). Peers are in the extra `bench`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved
from langevin.samplers.sgld import SGLD
from langevin_lab.benchmarks.overhead import log_density, problem

STEP = 1e-7
NEEDS = ("blackjax", "posteriors", "torch")
BARS = {
    "blackjax_over_ours_small": "≥ 12",
    "blackjax_over_ours_large": "≥ 1.2",
    "posteriors_over_ours_small": "≥ 80",
}


def ours(model, chains: int, steps: int) -> Callable[[int], object]:
    kernel = SGLD(STEP)
    states = begin_all(noise.key(0), kernel, model.target, model.starts(noise.key(1), chains))
    return lambda i: advance(
        noise.key(i), kernel, model.target, states, length=steps, collect=log_density, n=np.int32(steps)
    )


def blackjax_loop(model, batch: int, steps: int, *, tutorial: bool = False) -> Callable[[int], object]:
    """BlackJAX's documented loop: host-fed batches, one compiled step at a time, one chain."""
    import blackjax

    target, position = model.target, model.position
    x, y = target.data
    one = lambda position, example: target.log_likelihood(position, jax.tree.map(lambda u: u[None], example))[0]
    gradient = blackjax.sgmcmc.gradients.grad_estimator(target.log_prior, one, target.n)
    step = jax.jit(blackjax.sgld(gradient).step)

    def go(i):
        key, draw, now = jax.random.key(i), np.random.default_rng(i), position
        for _ in range(steps):
            key, k_batch, k_step = jax.random.split(key, 3)
            index: Any = draw.integers(target.n, size=batch)
            if tutorial:
                index = jax.random.choice(k_batch, target.n, (batch,))
            now = step(k_step, now, (x[index], y[index]), STEP)
        return now

    return go


def posteriors_loop(model, batch: int, steps: int) -> Callable[[int], object]:
    """The README loop of posteriors: a PyTorch transform, one chain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import posteriors
    import torch

    x, y = (torch.tensor(np.asarray(u)) for u in model.target.data)
    y, n = y.long(), len(x)
    layers = model.position["net"].layers
    sizes = [layers[0].weight.shape[0], *[layer.weight.shape[1] for layer in layers]]
    modules: list[torch.nn.Module] = []
    for a, b in pairwise(sizes):
        modules += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*modules[:-1])
    normal = torch.distributions.Normal(0.0, 1.0)

    def log_posterior(params, data):
        out = torch.func.functional_call(net, params, (data[0],))
        likelihood = -torch.nn.functional.cross_entropy(out, data[1])
        prior = sum(normal.log_prob(p).sum() for p in params.values())
        return likelihood + prior / n, torch.tensor([])

    transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=STEP * n, temperature=1 / n)
    params = {k: v.detach() for k, v in net.named_parameters()}

    def go(i):
        torch.manual_seed(i)
        state = transform.init(params)
        for _ in range(steps):
            index = torch.randint(n, (batch,))
            state, _ = transform.update(state, (x[index], y[index]))
        return ()

    return go


def run(size: str, seed: int) -> Result:
    steps = {"quick": 20, "cpu": 300, "gpu": 300}[size]
    repeats = 2 if size == "quick" else 7
    table, figures = [], {}
    for name, sizes, batch, chains in (("small", (8, 16, 16, 2), 32, 10), ("large", (784, 200, 200, 2), 128, 1)):
        model = problem(sizes, batch, seed=seed)
        runs = {"ours": ours(model, chains, steps), "blackjax": blackjax_loop(model, batch, steps)}
        if name == "small":
            runs["blackjax (tutorial batches)"] = blackjax_loop(model, batch, steps, tutorial=True)
            runs["posteriors"] = posteriors_loop(model, batch, steps)
        seconds = interleaved(runs, repeats)
        per = {k: np.asarray(v) / steps / (chains if k == "ours" else 1) for k, v in seconds.items()}
        for k, v in per.items():
            over = float(np.median(v / per["ours"]))
            table.append(dict(net=name, method=k, us_per_chain_step=1e6 * float(np.median(v)), over_ours=over))
            if k in ("blackjax", "posteriors"):
                figures[f"{k}_over_ours_{name}"] = over
        figures[f"us_per_step_{name}"] = 1e6 * float(np.median(per["ours"]))
    return Result("bnn", figures, table, BARS)
