r"""An energy of images, trained by persistent chains and judged: what `ebm-digits` and `ebm-mnist` run.

Images in [−1, 1] plus noise of deviation `jitter`; f by a convolutional net (SiLU, no normalisation); p ∝ e^{f/T} times
N(0, 1). A Langevin step moves by ε²/2 ∇log p and ε ξ, with ε² = 2T, so that drift is ∇f and noise ε, and both belong to
one temperature (Nijkamp et al. 2020). Chains are persistent, `restart` of them begun anew from uniform noise each look.
Ways: `ula`, unadjusted; `mala`, the same step accepted or rejected; `restarted`, which is `ula` with 2 % of restarts.
These are rare in the others: chains on their way from noise are not draws of the model, and learning takes them for
such. On digits, by log p of training images after 2500 looks, 2 % of them cost 0.15 nats a pixel, and 0.2 % cost 0.01.

Images are judged without their noise: E[clean | x] = x + jitter² ∇log p(x) (`Energy.denoised`).

    ffd_…, kfd_…        of the persistent chains' images from one half of the training images, by two extractors, and
                        the floor: of as many of the other half
    ffd_raw_…           of the same with their noise
    ffd_long_…          of chains begun at noise and run 20 times as long as a look with the trained weights
    ffd_lived_…         of the same run on until they have moved as often as the persistent chains did in training
    energy_…            mean f of training, persistent, short-run, long-run, lived and noise images, less that of test
                        images, over the standard deviation of f of test images: long runs should be near 0
    overlap_…           of the histograms of f of test images and of persistent, long and lived runs; 1 if they are one
    nats_per_dim        mean log p of test images with noise, a pixel; log Z by annealing from N(0, 1), so that it is
                        too large where the ladder is too coarse (log_z_ess, log_z_stderr)
    nats_per_dim_down   with log Z by annealing down from the persistent chains. Were they draws of the model it would
                        be the smaller of the two
    nats_per_dim_gauss  of a Gaussian with the mean and covariance of the training images with noise
    acceptance          of a Metropolis test of the last step (of `ula` it is not made)
    auroc_…             how well f tells test images from others: shuffled pixels, uniform noise, inverted images
    memorisation        1 for new images, near 0 for copies
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.result import Result
from langevin.data import images
from langevin.diagnostics.samples import memorisation
from langevin.diffusion.loss import ready
from langevin.energy.chains import Uniform, moved
from langevin.energy.energy import Energy
from langevin.energy.likelihood import EnergyLikelihood
from langevin.energy.nets import Convolutional
from langevin.energy.watch import Watchdog
from langevin.energy.weigh import log_z
from langevin.nets.train import Trained, starts
from langevin.nets.train import train as fit
from langevin.samplers.mala import MALA
from langevin.samplers.sgld import SGLD
from langevin_lab.features import distances

KINDS = (("test", "#444444"), ("persistent", "#2a6f97"), ("long", "#e0a458"), ("lived", "#c44536"))


@dataclass(frozen=True)
class Scale:
    """How large: channels of the net, steps of training, steps of chains a look, chains, buffer, learning rate; rungs
    of annealing."""

    widths: tuple[int, ...]
    steps: int
    moves: int
    chains: int
    buffer: int
    rate: float
    epsilon: float = 0.02
    jitter: float = 0.05
    restart: float = 0.0005
    ways: tuple[str, ...] = ("ula", "mala")
    rungs: int = 4000


def run(name: str, data: str, scale: Scale, seed: int) -> Result:
    found = images.load(data)
    train, test = ready(found.x), ready(found.x_test)
    figures: dict[str, float] = {}
    table: list[dict[str, Any]] = []
    sheets: dict[str, dict[str, np.ndarray]] = {}
    energies: dict[str, dict[str, np.ndarray]] = {}
    for which in scale.ways:
        energy, trained = learned(which, train, scale, seed)
        judged, sheet, f = judge(data, energy, trained, kernel(which, scale), (train, test), scale)
        figures |= {f"{k}_{which}": v for k, v in judged.items()}
        table.append(dict(way=which) | judged)
        sheets[which], energies[which] = sheet, f
    note = f"p ∝ e^(f/T) N(0, 1), T = {scale.epsilon**2 / 2:.3g}: drift ∇f, noise {scale.epsilon:.3g}."
    result = Result(name, figures, table, notes=[*found.notes, note])
    result.drawing = partial(draw, train, sheets, energies)
    return result


def kernel(which: str, scale: Scale) -> Any:
    h = 0.5 * scale.epsilon**2
    return MALA(step_size=h) if which == "mala" else SGLD(step_size=h)


def learned(which: str, train: np.ndarray, scale: Scale, seed: int) -> tuple[Energy, Trained]:
    shape = train.shape[1:]
    build = partial(Convolutional, shape, widths=scale.widths)
    start, net = starts(lambda key: build(key), noise.key(seed), 1)
    energy = Energy.of(net, shape, temperature=0.5 * scale.epsilon**2, scale=1.0)
    target = EnergyLikelihood(
        energy,
        kernel(which, scale),
        jnp.asarray(train),
        Uniform(-1.0, 1.0, shape=shape),
        steps=scale.moves,
        chains=scale.chains,
        batch=scale.chains,
        buffer=scale.buffer,
        restart=0.02 if which == "restarted" else scale.restart,
        jitter=scale.jitter,
    )
    dog = Watchdog(limit=1e4)
    how = dict(steps=scale.steps, rate=scale.rate, clip=0.1, decay=0.999, callbacks=[dog])
    trained = fit(noise.key(seed + 1), target, start, **how)
    return energy.with_weights(trained.of(0)), trained


def judge(data: str, energy: Energy, trained: Trained, kernel, real, scale: Scale):
    """Figures of one model, sheets of its chains, and f of several kinds of images."""
    train, test = real
    chains = np.asarray(trained.chains[0])
    n = min(1024, len(chains), len(test))
    noisy = np.random.default_rng(0)
    blurred = lambda x: x + scale.jitter * noisy.normal(size=x.shape).astype(np.float32)
    sets = dict(test=blurred(test), train=blurred(train[: len(test)]), persistent=chains)
    sets |= runs(energy, kernel, scale, n)
    clean = jax.jit(lambda x: jax.lax.map(lambda x: energy.denoised(x, scale.jitter), x, batch_size=256))
    clear = {k: np.asarray(clean(sets[k])) for k in ("persistent", "long", "lived")}
    unit = lambda x: np.clip(0.5 * (np.asarray(x) + 1), 0, 1)
    found: dict[str, float] = {}
    compared = {"": clear["persistent"], "raw_": chains, "long_": clear["long"], "lived_": clear["lived"]}
    for extra, x in compared.items():
        for name, value in distances(data, unit(train), unit(x)).items():
            if not extra or not name.endswith("_floor"):
                found[name.replace("fd_", f"fd_{extra}", 1)] = value
    more, energies = _energies(energy, sets)
    found |= more | _likelihoods(noise.key(8), energy, sets["test"], blurred(train), chains, scale.rungs)
    last = jax.tree.map(lambda u: float(np.mean(np.asarray(u)[0, -20:])), trained.notes)
    found |= dict(acceptance=last.shadow, chains_ok=last.ok, gap=last.energy_chain - last.energy_data)
    found["memorisation"] = memorisation(_flat(clear["persistent"][:n]), _flat(train[: len(test)]), _flat(test))
    return found, {"persistent chains": clear["persistent"], "as long from noise": clear["lived"]}, energies


def runs(energy: Energy, kernel, scale: Scale, n: int) -> dict[str, jax.Array]:
    """n uniform noises, and where chains from them are after a look, 20 looks, and as many as persistent chains had."""
    k_noise, k_long, k_short, k_lived = jax.random.split(noise.key(7), 4)
    begin = jax.random.uniform(k_noise, (n, *energy.shape), minval=-1.0, maxval=1.0)
    go = jax.jit(lambda key, begin, k: moved(key, kernel, energy, begin, k).after.position, static_argnums=2)
    short, long = go(k_short, begin, scale.moves), go(k_long, begin, 20 * scale.moves)
    more = max(scale.steps * scale.chains // scale.buffer - 20, 1)
    return dict(noise=begin, short=short, long=long, lived=go(k_lived, long, more * scale.moves))


def _energies(energy: Energy, sets: dict[str, Any]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Where f of each kind of images lies, in deviations from its mean over test images; f so scaled comes back too."""
    f = jax.jit(lambda x: jax.lax.map(energy.f, x, batch_size=256))
    value = {k: np.asarray(f(jnp.asarray(x, jnp.float32)), np.float64) for k, x in sets.items()}
    test = sets["test"]
    order = np.random.default_rng(1).permutation(int(np.prod(energy.shape)))
    shuffled = test.reshape(len(test), -1)[:, order].reshape(test.shape)
    ood = dict(shuffled=f(jnp.asarray(shuffled)), noise=value["noise"], inverted=f(-jnp.asarray(test)))
    found = {f"auroc_{k}": auroc(value["test"], np.asarray(v)) for k, v in ood.items()}
    middle, spread = value["test"].mean(), value["test"].std()
    value = {k: (v - middle) / spread for k, v in value.items()}
    found |= {f"energy_{k}": float(v.mean()) for k, v in value.items() if k != "test"}
    return found | {f"overlap_{k}": overlap(value["test"], value[k]) for k in ("persistent", "long", "lived")}, value


def _likelihoods(key, energy: Energy, test, train, chains, rungs: int) -> dict[str, float]:
    """Mean log p of test images, a pixel, with log Z from either side; and that of a Gaussian."""
    few = chains[np.linspace(0, len(chains) - 1, 64).astype(int)]
    z = log_z(key, energy, draws=jnp.asarray(few), ladder=rungs)
    value = np.asarray(jax.jit(lambda x: jax.lax.map(energy.log_density, x, batch_size=256))(jnp.asarray(test)))
    mean, d = float(value.astype(np.float64).mean()), test[0].size
    x, y = _flat(train).astype(np.float64), _flat(test).astype(np.float64)
    covariance = np.cov(x, rowvar=False)
    off = y - x.mean(0)
    square = np.mean(np.sum(off * np.linalg.solve(covariance, off.T).T, axis=1))
    gauss = -0.5 * (square + np.linalg.slogdet(2 * np.pi * covariance)[1])
    return {
        "nats_per_dim": (mean - float(z.log_z)) / d,
        "nats_per_dim_down": (mean - float(z.upper)) / d,
        "nats_per_dim_gauss": float(gauss) / d,
        "log_z_stderr": float(z.stderr),
        "log_z_ess": float(z.ess),
    }


def overlap(a, b, bins: int = 40) -> float:
    """What two histograms over the range of the first have in common, as a share."""
    line = np.linspace(a.min(), a.max(), bins + 1)
    share = lambda u: np.histogram(u, line)[0] / len(u)
    return float(np.minimum(share(a), share(b)).sum())


def _flat(x) -> np.ndarray:
    return np.asarray(x).reshape(len(x), -1)


def auroc(inside, outside) -> float:
    """The share of pairs in which the one inside has the larger value."""
    ranks = np.argsort(np.argsort(np.concatenate([inside, outside])))[: len(inside)] + 1.0
    n, m = len(inside), len(outside)
    return float((ranks.sum() - n * (n + 1) / 2) / (n * m))


def draw(train, sheets: dict[str, dict[str, np.ndarray]], energies: dict, path: str) -> None:
    """A row a way: training images, its chains, and histograms of f."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    figure, axes = plt.subplots(len(sheets), 4, figsize=(13, 3.4 * len(sheets)), layout="constrained", squeeze=False)
    for row, (which, kinds) in zip(axes, sheets.items(), strict=True):
        for axis, (title, x) in zip(row, {"training images": train, **kinds}.items(), strict=False):
            axis.imshow(tiled(np.clip(0.5 * (x + 1), 0, 1)), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axis.set_axis_off()
            axis.set_title(title if title == "training images" else f"{title}, {which}", fontsize=9)
        for kind, colour in KINDS:
            value = energies[which][kind]
            weights = np.full(len(value), 1 / len(value))
            bins = np.linspace(-8, 4, 61)
            row[3].hist(value, bins, weights=weights, histtype="step", color=colour, label=kind, linewidth=1.3)
        row[3].set(yticks=[], box_aspect=1)
        row[3].set_xlabel("f, in deviations of test images from their mean", fontsize=8)
        row[3].tick_params(labelsize=8)
        row[3].legend(fontsize=8, frameon=False)
        row[3].set_title(f"energies, {which}", fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def tiled(x: np.ndarray, rows: int = 8, columns: int = 8) -> np.ndarray:
    """One image of rows × columns of the images, evenly chosen, with white between them."""
    x = x[np.linspace(0, len(x) - 1, rows * columns).astype(int)]
    depth, side = x.shape[1], x.shape[2] + 2
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=1.0).reshape(rows, columns, depth, side, side)
    return x.transpose(0, 3, 1, 4, 2).reshape(rows * side, columns * side, depth).squeeze()
