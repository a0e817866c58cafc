r"""How much of a decoder's overfitting a posterior over its weights recovers, on statically binarised images.

An autoencoder (IWAE, five draws) is trained on bits that are never drawn anew, so it overfits: its test NLL is above
its training NLL. From there SGHMC samples the decoder's weights, p(θ) Π exp(bound), prior N(0, σ²) with σ chosen on
validation images, the encoder held, and the mixture of the draws is weighed. All NLL are by importance sampling from
the encoder's q; the mixture's is log of the mean over draws of θ of p_θ(x).

    nll_single        test NLL of the trained decoder, at the step of the best validation bound ("early" stopping), and
                      `nll_last` at the end of training
    nll_sampled       test NLL of the mixture
    overfitting       nll_last less the NLL of training images
    recovered         nll_last − nll_sampled
    recovered_early   nll_single − nll_sampled

The quick and cpu sizes have digits of 8 × 8 and a small net; the gpu size statically binarised MNIST and the net of
`dais-table2`.

References
----------
Burda, Grosse & Salakhutdinov (2016), Importance weighted autoencoders, §5 (the sets), and the README of its code.
Larochelle & Murray (2011), The neural autoregressive distribution estimator (the bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import langevin as lv
from langevin.core import noise, progress
from langevin.core.result import Result
from langevin.data import images
from langevin.data.images import binarized_mnist
from langevin.vae import VAE, DecoderPosterior, Importance, binarize, dense, fit, log_likelihood, mixture
from langevin.vi import IWAE

BARS = {"recovered": "≥ 1 (MNIST)"}
BAR_SIZES = ("gpu",)


@dataclass(frozen=True)
class Scale:
    """steps: of training, in `stages`; draws, thin: of SGHMC after a third as many to warm up."""

    steps: int
    stages: int
    draws: int
    thin: int
    hidden: tuple[int, ...] = (100, 100)
    latent: int = 20
    particles: int = 500
    images: int = 400
    step_size: float = 1e-3
    friction: float = 30.0
    batch: int = 100
    priors: tuple[float, ...] = (0.1, 0.3, 1.0)


SCALES = {
    "quick": Scale(200, 2, 2, 5, (20,), 4, 20, 50, priors=(0.3,)),
    "cpu": Scale(12_000, 8, 20, 200),
    "gpu": Scale(300_000, 20, 50, 2000, (200, 200), 50, 5000, 10_000, 1e-4, 200.0, 500),
}


def load(size: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits of training, validation and test images."""
    if size == "gpu":
        return binarized_mnist()
    found = images.load("digits")
    flat = lambda u: np.asarray(u, np.float32).reshape(len(u), -1)
    x, x_test = (
        np.asarray(binarize(jax.random.key(seed + i), jnp.asarray(flat(u))))
        for i, u in enumerate((found.x, found.x_test))
    )
    return x[:-200], x[-200:], x_test


def run(size: str, seed: int) -> Result:
    scale = SCALES[size]
    x, x_val, x_test = load(size, seed)
    k_net, k_train, k_weigh, k_sample = jax.random.split(noise.key(seed), 4)
    x_test, x_val = x_test[: scale.images], x_val[: scale.images]
    method = Importance(scale.particles)

    def nll(vae: VAE, rows: np.ndarray) -> float:
        return -log_likelihood(jax.random.clone(k_weigh), vae, rows, method, base="encoder", block=100).mean

    nets = dense(k_net, (x.shape[1],), latent=scale.latent, hidden=scale.hidden, mean=x.mean(axis=0))
    table: list[dict[str, Any]] = []
    stages = []
    for i, k in enumerate(jax.random.split(k_train, scale.stages)):
        how: dict[str, Any] = dict(objective=IWAE(5), steps=scale.steps // scale.stages, batch=100, decay=0.99)
        vae = fit(k, nets, x, rate=1e-3 if i < scale.stages - 1 else 3e-4, **how)
        nets = nets._replace(weights={part: vae.weights[part] for part in ("decoder", "encoder")})
        stages.append(vae)
        steps = (i + 1) * scale.steps // scale.stages
        row: dict[str, Any] = dict(part="training", steps=steps, nll_val=nll(vae, x_val), nll_test=nll(vae, x_test))
        table.append(row | dict(nll_train=nll(vae, x[: scale.images])))
        progress.tell(i + 1, scale.stages + len(scale.priors))
    early = int(np.argmin([row["nll_val"] for row in table]))
    best: dict[str, Any] = {}
    for i, prior in enumerate(scale.priors):
        target = DecoderPosterior(stages[-1], x, objective=IWAE(5), scale=prior, batch=scale.batch)
        kernel = lv.SGHMC(step_size=scale.step_size, friction=scale.friction)
        warmup = scale.draws // 3
        found = lv.sample(
            jax.random.clone(k_sample),
            kernel,
            target,
            target.begin(1),
            draws=scale.draws,
            warmup=warmup,
            thin=scale.thin,
        )
        draws = jax.tree.map(lambda u: np.asarray(u)[0], found.draws)
        mixed = lambda rows, draws=draws: (
            -float(
                mixture(jax.random.clone(k_weigh), stages[-1], draws, rows, method, base="encoder", block=100).mean()
            )
        )
        row = dict(part="sampling", prior=prior, nll_val=mixed(x_val), nll_test=mixed(x_test))
        table.append(row | dict(nll_train=mixed(x[: scale.images])))
        if not best or row["nll_val"] < best["nll_val"]:
            best = row
        progress.tell(scale.stages + i + 1, scale.stages + len(scale.priors))
    last = table[scale.stages - 1]
    figures = {
        "nll_single": table[early]["nll_test"],
        "nll_last": last["nll_test"],
        "nll_sampled": best["nll_test"],
        "overfitting": last["nll_test"] - last["nll_train"],
        "recovered": last["nll_test"] - best["nll_test"],
        "recovered_early": table[early]["nll_test"] - best["nll_test"],
        "prior": best["prior"],
    }
    return Result("sampled-decoder", figures, table, BARS, drawing=partial(draw, table))


def draw(table: list[dict[str, Any]], file: str) -> None:
    """NLL in training, and of the mixtures."""
    import matplotlib.pyplot as plt

    rows = [row for row in table if row["part"] == "training"]
    mixed = [row for row in table if row["part"] == "sampling"]
    best = min(mixed, key=lambda row: row["nll_val"])
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    for name, color in (("train", "#888888"), ("test", "#2a6f97")):
        axes.plot(
            [r["steps"] for r in rows],
            [r[f"nll_{name}"] for r in rows],
            "o-",
            color=color,
            label=f"{name}, one decoder",
        )
        axes.axhline(best[f"nll_{name}"], color=color, ls="--", label=f"{name}, mixture of sampled decoders")
    axes.set(xlabel="steps of training", ylabel="NLL, nats")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=150)
    plt.close(figure)
