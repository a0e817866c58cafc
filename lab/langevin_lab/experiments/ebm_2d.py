r"""Eleven ways to train an energy, on two densities of the plane: one net, one number of steps, judged exactly.

An energy (a net 2-64-64-1, SiLU, and a factor N(0, 3²)) learns two rings, and four Gaussians of unequal weight that lie
apart, from 20,000 points:

    persistent, replay, cd, short     maximum likelihood by chains: kept, drawn from a buffer, begun at data, at noise
    improved                          cd, with the terms seen through the last step and of entropy
    cooperative                       chains begin where a generator proposes
    score, sliced, denoising          score matching of ∇f: exact, along a random direction, with noise .1
    nce, discrepancy                  against noise of N(0, 2²); against data blurred twice

Chains are MALA, 20 steps a look, 128 of them. `kl_<density>_<way>` is KL(data ‖ model), the model normalised on a grid:
the median over runs that differ in net, chains and mini-batches. `own_<density>_<way>` is that of the chains' own
positions from the data, for ways whose chains do not begin at data; `seconds` are of all runs together, compiling
included.

What to look for: score matching does not see how much mass each of separate parts has, and neither do chains that do
not go from one to another; `short` and `cooperative` train a sampler, whose energy need not be the data's; `denoising`
learns the blurred density. Settings are the same for both densities and were not searched for: a way's rank may change
with its own.

References
----------
Hyvärinen (2005); Song, Garg, Shi & Ermon (2019); Vincent (2011): see `diffusion.score`.
Gutmann & Hyvärinen (2012); Schröder et al. (2023): see `energy.losses`.
Du, Li, Tenenbaum & Mordatch (2021): see `energy.likelihood`. Xie et al. (2020): `energy.cooperative`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.result import Result
from langevin.diagnostics.grid import Grid, grid, sample_kl
from langevin.diffusion.score import Denoising, ScoreMatching, Sliced
from langevin.energy.chains import Around, begun, moved
from langevin.energy.cooperative import Cooperative
from langevin.energy.energy import Energy
from langevin.energy.likelihood import EnergyLikelihood
from langevin.energy.losses import NCE, EnergyDiscrepancy
from langevin.evidence.base import Normal
from langevin.nets.mlp import MLP
from langevin.nets.train import Trained, starts, train
from langevin.samplers.mala import MALA
from langevin.targets.densities_2d import densities_2d
from langevin.targets.loss import Loss
from langevin_lab.experiments.stanley_rings import BOX, CELLS, divergence, perceptron

DENSITIES = ("rings", "unequal")
SIZES = {"quick": (1, 100, 500), "cpu": (3, 3000, 20_000), "gpu": (5, 12_000, 20_000)}  # runs, steps, examples
KERNEL = MALA(step_size=0.003)
BATCH = 128
DRAWS = 4096


def run(size: str, seed: int) -> Result:
    runs, steps, examples = SIZES[size]
    model = parts(seed, runs)
    figures: dict[str, float] = {}
    table: list[dict[str, Any]] = []
    shown: dict[str, dict[str, Grid]] = {}
    for density in DENSITIES if size != "quick" else DENSITIES[:1]:
        truth = densities_2d()[density]
        known = grid(truth.log_density, BOX, CELLS)
        shown[density] = {"data": known}
        for way, (target, start) in ways(model, truth.exact(noise.key(seed), examples)).items():
            began = time.perf_counter()
            trained = train(noise.key(seed + 2), target, start, steps=steps)
            jax.block_until_ready(trained.weights)
            took = time.perf_counter() - began
            found = [
                grid(model.energy.with_weights(weights_of(trained, i)).log_density, BOX, CELLS) for i in range(runs)
            ]
            kl = [divergence(known, each) for each in found]
            table += [dict(density=density, way=way, run=i, kl=kl[i]) for i in range(runs)]
            figures |= {f"kl_{density}_{way}": float(np.median(kl)), f"seconds_{density}_{way}": took}
            points = [own(noise.key(seed + 4), target, trained, i) for i in range(runs)]
            apart = [sample_kl(x, truth.log_density, BOX, cells=20) for x in points if x is not None]
            if apart:
                figures[f"own_{density}_{way}"] = float(np.median(apart))
            shown[density][way] = found[int(np.argsort(kl)[runs // 2])]
    result = Result("ebm-2d", figures, table)
    result.drawing = partial(draw, shown, figures)
    return result


class Parts(NamedTuple):
    """The model, minus its log density as a function of weights and x, and starts of `runs` models and generators."""

    energy: Energy
    minus: Callable
    start: Any
    generator: Any
    proposed: Any


def parts(seed: int, runs: int) -> Parts:
    start, net = starts(perceptron, noise.key(seed + 1), runs)
    energy = Energy.of(net, (2,), scale=3.0)
    proposed, one = starts(generator, noise.key(seed + 3), runs)
    minus = lambda weights, x: -energy.with_weights(weights).log_density(x)
    return Parts(energy, minus, start, eqx.partition(one, eqx.is_inexact_array)[1], proposed)


def ways(model: Parts, data) -> dict[str, tuple[Any, Any]]:
    """By way of training, the target to climb and the weights to start from."""
    energy, minus, start, rest, proposed = model
    chains = partial(EnergyLikelihood, energy, KERNEL, data, Around(0.0, 1.5), steps=20, chains=BATCH, batch=BATCH)
    loss = lambda loss: Loss(loss, data, batch=BATCH)
    free = jnp.zeros(jax.tree.leaves(start)[0].shape[0])
    return {
        "persistent": (chains(buffer=2048, restart=0.0), start),
        "replay": (chains(buffer=2048, start_at="replay", restart=0.02), start),
        "cd": (chains(start_at="data"), start),
        "short": (chains(start_at="noise"), start),
        "improved": (chains(start_at="data", through=1.0, entropy=1.0), start),
        "cooperative": (Cooperative(energy, rest, KERNEL, data, steps=20, batch=BATCH, scale=0.3), (start, proposed)),
        "score": (loss(ScoreMatching(minus, "energy")), start),
        "sliced": (loss(Sliced(minus, "energy")), start),
        "denoising": (loss(Denoising(minus, "energy", sigma=0.1)), start),
        "nce": (loss(NCE(energy, Normal(jnp.zeros(2), 2.0), ratio=4)), (start, free)),
        "discrepancy": (loss(EnergyDiscrepancy(energy)), start),
    }


def generator(key) -> MLP:
    return MLP((2, 64, 64, 2), key, jax.nn.silu)


def weights_of(trained: Trained, i: int) -> Any:
    """The energy's weights of run i: of the ways that learn more, they come first."""
    found = trained.of(i)
    return found[0] if isinstance(found, tuple) else found


def own(key, target, trained: Trained, i: int) -> np.ndarray | None:
    """Where the chains of run i are: those kept, or for ways that begin each time anew, new ones; else None."""
    weights, begin = trained.of(i), None
    if isinstance(target, Cooperative):
        k_latent, key = jax.random.split(key)
        begin = target.propose(weights[1], jax.random.normal(k_latent, (DRAWS, target.latent)))
    elif isinstance(target, EnergyLikelihood) and target.start_at == "noise":
        k_base, key = jax.random.split(key)
        begin = begun(k_base, target.base, DRAWS)
    elif isinstance(target, EnergyLikelihood) and target.start_at in ("persistent", "replay"):
        return np.asarray(trained.chains[i])
    if begin is None:
        return None
    energy = target.energy.with_weights(weights_of(trained, i))
    return np.asarray(jax.jit(partial(moved, steps=target.steps))(key, KERNEL, energy, begin).after.position)


def draw(shown: dict[str, dict[str, Grid]], figures: dict[str, float], path: str) -> None:
    """Densities, two rows for each set of data."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    figure, axes = plt.subplots(2 * len(shown), 6, figsize=(12.6, 4.9 * len(shown)), layout="constrained")
    for panels, (density, models) in zip(axes.reshape(len(shown), -1), shown.items(), strict=True):
        top = np.exp(models["data"].log_p.max())
        for axis, (way, model) in zip(panels, models.items(), strict=True):
            image = np.exp(model.log_p).T
            axis.imshow(image, origin="lower", extent=[-BOX, BOX, -BOX, BOX], vmin=0, vmax=top, cmap="magma_r")
            words = density if way == "data" else f"{way}\nKL {figures[f'kl_{density}_{way}']:.3g}"
            axis.set_title(words, fontsize=9, fontweight="bold" if way == "data" else "normal")
            axis.set(xlim=(-2.8, 2.8), ylim=(-2.8, 2.8), xticks=[], yticks=[])
    figure.savefig(path, dpi=130)
    plt.close(figure)
