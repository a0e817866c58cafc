r"""Table 2 of the DAIS paper: test NLL of autoencoders on MNIST, trained by ELBO, IWAE and annealed bounds.

The paper's net and protocol: 784-200-200-50, tanh, bits drawn anew from the grey values at every access, Adam at 1e-3
with 0.8 times the rate every 100 epochs, batches of 100, 1,500 epochs; DAVI with one leapfrog step size for all rungs,
γ = 0.9 and β_k = k/K; "adapt" learns the ladder (and here the step sizes too). S × K decoder evaluations for every
example: `nll_iwae_50` has 50 draws, `nll_davi_50_10` K = 10 and S = 5. The NLL of test images (bits drawn once) is by
AIS from the encoder's q, a sigmoid ladder, 10 particles, HMC with step sizes from a pilot, and so an upper bound on
average. Paper (three runs): VAE 86.93; IWAE 85.43, 84.46, 83.87; DAVI 86.51, 84.49, 84.45, 85.23, 83.62; adapt 86.49,
84.42, 84.39, 85.00, 83.56.

`--store` keeps states and weights, so that a full length is made of several short runs; `--data` names one cell. The
cpu size shows that the code runs: 2 epochs, 200 test images, 100 rungs.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, table 2, §6.2.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin.core import noise, progress
from langevin.core.result import Result
from langevin.core.run import run as run_chains
from langevin.data import images
from langevin.evidence.annealing.ais import AIS
from langevin.evidence.annealing.ladder import sigmoid_ladder
from langevin.samplers.optimize import Adam, Optimize
from langevin.tune.warm_start import nothing
from langevin.vae import Annealed, Autoencoder, binarize, dense
from langevin.vae.fit import VAE
from langevin.vae.weigh import log_likelihood
from langevin.vi import ELBO, IWAE

ADAPT = ("rises", "log_step")
PAPER = {
    "vae_1": 86.93, "iwae_5": 85.43, "davi_5_5": 86.51, "davi_adapt_5_5": 86.49,
    "iwae_50": 84.46, "davi_50_5": 84.49, "davi_50_10": 84.45, "davi_50_50": 85.23,
    "davi_adapt_50_5": 84.42, "davi_adapt_50_10": 84.39, "davi_adapt_50_50": 85.00,
    "iwae_500": 83.87, "davi_500_10": 83.62, "davi_adapt_500_10": 83.56,
}  # fmt: skip
BARS = {"nll_davi_adapt_50_10": "≤ 84.4", "nll_davi_adapt_500_10": "≤ 83.6"}
BAR_SIZES = ("gpu",)


@dataclass(frozen=True)
class Scale:
    """epochs: of training; fall: after how many the rate is 0.8 times as large; test: images; rungs: of AIS."""

    epochs: int
    fall: int
    test: int
    rungs: int
    cells: tuple[str, ...]
    train: int = 60_000
    hidden: tuple[int, ...] = (200, 200)
    latent: int = 50
    every: int = 5


FULL = ("davi_adapt_50_10", "iwae_50", "davi_adapt_500_10", "iwae_500", "vae_1", "iwae_5", "davi_50_10", "davi_500_10",
        "davi_adapt_50_5", "davi_50_5", "davi_adapt_5_5", "davi_5_5", "davi_adapt_50_50", "davi_50_50")  # fmt: skip
SCALES = {
    "quick": Scale(2, 1, 20, 20, ("vae_1", "davi_adapt_5_5"), train=500, hidden=(20, 20), latent=5, every=1),
    "cpu": Scale(2, 1, 200, 100, ("vae_1", "iwae_5", "davi_adapt_5_5", "iwae_50", "davi_adapt_50_10"), every=1),
    "gpu": Scale(1500, 100, 10_000, 10_000, FULL),
}


def objective(cell: str) -> Any:
    """What a cell is trained by: its name is the method, S × K and, of DAVI, K."""
    method, *numbers = cell.replace("davi_adapt", "adapt").split("_")
    total = int(numbers[0])
    if method == "vae":
        return ELBO(total)
    if method == "iwae":
        return IWAE(total, estimator="reparameterization")  # as in the paper; our own default is DReG
    k = int(numbers[1])
    return Annealed(k, total // k, learn=ADAPT if method == "adapt" else ())


class Deadline:
    """A callback that stops when the time is over."""

    def __init__(self, end: float):
        self.end = end

    def __call__(self, chunk):
        return None if time.monotonic() > self.end else chunk


def mnist(scale: Scale, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grey values of training images, and bits of test images, drawn once."""
    found = images.load("mnist" if scale.hidden == (200, 200) else "digits")
    flat = lambda u, n: np.asarray(u[:n], np.float32).reshape(min(n, len(u)), -1)
    bits = binarize(jax.random.key(10_000 + seed), jnp.asarray(flat(found.x_test, scale.test)))
    return flat(found.x, scale.train), np.asarray(bits)


def trained(cell: str, scale: Scale, seed: int, x: np.ndarray, store: Path | None, end: float) -> tuple[VAE, float]:
    """The model of a cell, and the share of its epochs that is done."""
    k_net, k_init, k_run = jax.random.split(noise.key(seed), 3)
    nets = dense(k_net, (x.shape[1],), latent=scale.latent, hidden=scale.hidden)
    how = objective(cell)
    target = Autoencoder(nets.model, nets.encoder, how, jnp.asarray(x), batch=100, corrupt=binarize)
    start = nets.weights | {"objective": target.init(k_init)}
    epoch = len(x) // 100
    rate = optax.exponential_decay(1e-3, scale.fall * epoch, 0.8, staircase=True)
    out = run_chains(
        k_run,
        Optimize(Adam(rate)),
        target,
        jax.tree.map(lambda u: jnp.asarray(u)[None], start),
        draws=scale.epochs,
        thin=epoch,
        chunk=scale.every,
        collect=nothing,
        callbacks=(Deadline(end),),
        store=None if store is None else store / "train",
    )
    if out.interrupted:
        raise KeyboardInterrupt(f"dais-table2: interrupted in {cell}; with --store the same command goes on.")
    weights = jax.tree.map(lambda u: u[0], out.states.position)
    return VAE(nets.model, nets.encoder, weights, how), int(out.states.count) / (scale.epochs * epoch)


def run(
    size: str, seed: int, *, data: str | None = None, store: Path | None = None, seconds: float | None = None
) -> Result:
    scale, end = SCALES[size], time.monotonic() + (seconds or np.inf)
    cells = scale.cells if data is None else (data,)
    unknown = [cell for cell in cells if cell not in PAPER]
    if unknown:
        raise ValueError(f"dais-table2: there is no cell {unknown[0]!r}; there are {', '.join(PAPER)}.")
    x, x_test = mnist(scale, seed)
    figures: dict[str, float] = {}
    table: list[dict[str, Any]] = []
    for i, cell in enumerate(cells):
        place = None if store is None else store / f"{cell}-{size}-{seed}"
        with progress.part(i, len(cells)):
            vae, done = trained(cell, scale, seed, x, place, end)
        row: dict[str, Any] = dict(cell=cell, paper=PAPER[cell], epochs=round(done * scale.epochs))
        if done == 1 or store is None:
            method = AIS(sigmoid_ladder(scale.rungs), particles=10)
            kept = None if place is None else place / "ais"
            found = log_likelihood(noise.key(seed), vae, x_test, method, base="encoder", block=1000, store=kept)
            row |= dict(nll=-found.mean, stderr=found.stderr, ess=float(np.median(found.ess)))
            figures[f"nll_{cell}"] = -found.mean
        bound = -vae.bound(noise.key(seed), x_test).mean()
        table.append(row | dict(bound=float(bound)))
        if time.monotonic() > end:
            break
    return Result("dais-table2", figures, table, BARS, drawing=partial(draw, table))


def draw(table: list[dict[str, Any]], file: str) -> None:
    """Ours against the paper's."""
    import matplotlib.pyplot as plt

    rows = [row for row in table if "nll" in row]
    figure, axes = plt.subplots(figsize=(6, 0.4 * max(len(rows), 3) + 1), layout="constrained")
    for i, row in enumerate(rows):
        axes.plot([row["paper"], row["nll"]], [i, i], color="#bbbbbb", zorder=0)
        axes.plot(row["paper"], i, "o", color="#888888", label="paper" if not i else None)
        axes.plot(row["nll"], i, "o", color="#2a6f97", label="here" if not i else None)
    axes.set_yticks(range(len(rows)), [row["cell"].replace("_", " ") for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("test NLL in nats")
    if rows:
        axes.legend(frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)
