r"""A diffusion model of digits: samples, bits a dimension, distances; with classifier-free guidance.

A U-Net with the preconditioning and the loss of EDM, trained on dequantised images with labels, one in ten of them
dropped. MNIST (28×28) at the GPU size; scikit-learn's digits (8×8) at the others; --data cifar10 for another.

bits_per_dim        −log₂ p a pixel of test images, the label left out: by the probability flow, Hutchinson's divergence
                    with one probe an image, plus the offset of dequantisation; bits_per_dim_stderr is over images and
                    probes. It is an upper bound of the discrete model's, of the density at the noise `cut`.
nats_per_dim        log p a pixel of test images with noise of deviation 0.1: to compare with `ebm-digits`, `ebm-mnist`
                    (but not of CIFAR-10, whose energies have half that noise)
swd_<sampler>       sliced W₂ in pixels of as many draws as test images to these; swd_floor that of training images
accuracy_w<w>       how often a classifier of real images sees the class asked for, at guidance w (accuracy_real: on
                    test images; accuracy_share: the first over it, at guidance 1)
memorisation        distance to the nearest training image ÷ to the nearest test image: 1 for new images, 0 for copies
ffd_…, kfd_…        Fréchet and kernel distances of features, named by the extractor and its weights

References
----------
Karras, Aittala, Aila & Laine (2022), Elucidating the design space of diffusion-based generative models.
Ho & Salimans (2022), Classifier-free diffusion guidance.
Lu, Zhou, Bao, Chen, Li & Zhu (2022), DPM-Solver++.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.record import record, static
from langevin.core.result import Result
from langevin.data import images
from langevin.diagnostics.samples import memorisation, sliced
from langevin.diffusion.denoiser import Denoiser
from langevin.diffusion.guidance import ClassifierFree
from langevin.diffusion.likelihood import bits_per_dim, log_prob
from langevin.diffusion.loss import DSM, dequantised, quantised, ready
from langevin.diffusion.ode import DPMSolver, Heun
from langevin.diffusion.sample import EulerMaruyama, generate
from langevin.diffusion.sde import EDM
from langevin.nets.unet import UNet
from langevin_lab.experiments._diffusion import halves, trained
from langevin_lab.features import classifier, distances

CLASSES = 10
GREYS = {"digits": 17, "mnist": 256, "fashion-mnist": 256}
SAMPLERS = {"dpm": DPMSolver(20, "rho"), "heun": Heun(18), "em": EulerMaruyama(100)}
NEEDS = ("diffrax",)
BARS = {"accuracy_share": "> 0.9", "memorisation": "> 0.8"}
BLUR = 0.1


@dataclass(frozen=True)
class Scale:
    """data; widths and depth of the U-Net; steps, batch and rate of training; draws; rows of the likelihood."""

    data: str
    widths: tuple[int, ...]
    depth: int
    steps: int
    batch: int
    rate: float
    draws: int
    rows: int
    block: int


SCALES = {
    "quick": Scale("digits", (16, 32), 1, 60, 64, 2e-3, 100, 8, 100),
    "cpu": Scale("digits", (24, 48), 1, 2500, 64, 2e-3, 360, 100, 360),
    "gpu": Scale("mnist", (64, 128, 128), 1, 4000, 256, 1e-3, 2000, 200, 1000),
}


@record
class Dequantised:
    """A loss of images whose grey values are spread over their bins anew each time.

    loss: of rows (x, label).
    levels: grey values.
    """

    loss: Any
    levels: int = static(default=256)

    def __call__(self, key, position, rows):
        k_spread, k_loss = jax.random.split(key)
        x, label = rows
        return self.loss(k_loss, position, (dequantised(k_spread, x, self.levels), label))


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    scale = SCALES[size]
    name = data or scale.data
    found = images.load(name)
    levels = GREYS.get(name, 256)
    k_net, k_run, k_rest = jax.random.split(noise.key(seed), 3)
    train, test = ready(found.x), ready(found.x_test)
    score, losses = _trained(k_net, k_run, train, found.y, levels, scale)
    figures = {"loss": float(np.mean(losses[-len(losses) // 10 :]))}
    keys = jax.random.split(k_rest, 3)
    figures |= _bits(keys[0], score, test[: scale.rows], levels) | _nats(keys[2], score, test[: scale.rows])
    drawn, labels = _drawn(keys[1], score, train.shape[1:], levels, scale)
    n = min(scale.draws, len(test))
    flat = lambda x: np.asarray(x, np.float64).reshape(len(x), -1)
    for which, x in drawn.items():
        figures[f"swd_{which}"] = sliced(flat(x[:n]), flat(test[:n]))[0]
    figures["swd_floor"] = sliced(flat(train[:n]), flat(test[:n]))[0]
    figures["memorisation"] = memorisation(flat(drawn["dpm"]), flat(train[: len(test)]), flat(test))
    more, notes = _features(name, train, (test, found.y_test), drawn, labels)
    figures |= more
    table = [dict(figure=k, value=v) for k, v in figures.items()]
    result = Result("diffusion-mnist", figures, table, BARS, notes=[*found.notes, *notes])
    result.drawing = partial(draw, {"guidance 1": drawn["dpm"], "guidance 2": drawn["dpm_w2"]}, labels, found, losses)
    return result


def _trained(k_net, k_run, x, y, levels: int, scale: Scale) -> tuple[Denoiser, np.ndarray]:
    """The score, and the losses of training."""
    net = UNet(x.shape[1], k_net, scale.widths, depth=scale.depth, classes=CLASSES)
    position, program = halves(net)
    loss = DSM(EDM(), program, "edm", "edm", data_scale=float(x.std()), drop=0.1, null=CLASSES)
    how = dict(steps=scale.steps, batch=scale.batch, rate=scale.rate)
    position, losses = trained(k_run, Dequantised(loss, levels), (jnp.asarray(x), jnp.asarray(y)), position, **how)
    return loss.denoiser(position), losses


def _bits(key, score, x, levels: int) -> dict[str, float]:
    """Bits a dimension of images x in [−1, 1], and their standard error."""
    k_spread, k_probe = jax.random.split(key)
    found = _log_prob(k_probe, score.process, score, dequantised(k_spread, x, levels))
    bits = np.asarray(bits_per_dim(found.value, x[0].size, dequantised_levels=levels), np.float64)
    steps = float(jnp.mean(found.steps))
    return {"bits_per_dim": bits.mean(), "bits_per_dim_stderr": bits.std() / np.sqrt(len(bits)), "flow_steps": steps}


def _nats(key, score, x) -> dict[str, float]:
    """Log density a pixel of images with noise: the flow begins at that noise."""
    k_noise, k_probe = jax.random.split(key)
    x = x + BLUR * jax.random.normal(k_noise, x.shape)
    nats = np.asarray(_log_prob(k_probe, EDM(cut=BLUR), score, x).value, np.float64) / x[0].size
    return {"nats_per_dim": nats.mean(), "nats_per_dim_stderr": nats.std() / np.sqrt(len(nats))}


def _log_prob(key, process, score, x):
    how = dict(divergence="hutchinson", rtol=1e-3, atol=1e-3, block=min(len(x), 250))
    return log_prob(key, process, score, x, condition=(jnp.full(len(x), CLASSES),), **how)


def _drawn(key, score, shape, levels: int, scale: Scale) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draws of grey values by every sampler at guidance 1, and by DPMSolver at guidance 2; class after class."""
    labels = jnp.arange(scale.draws) % CLASSES
    drawn = {}
    ways = {**{k: (v, 1.0) for k, v in SAMPLERS.items()}, "dpm_w2": (SAMPLERS["dpm"], 2.0)}
    for which, (sampler, weight) in ways.items():
        key, k_one = jax.random.split(key)
        guided = score if weight == 1.0 else ClassifierFree(score, CLASSES, weight)
        how = dict(n=scale.draws, condition=(labels,), block=min(scale.block, scale.draws))
        drawn[which] = quantised(generate(k_one, sampler, score.process, guided, shape, **how), levels)
    return drawn, np.asarray(labels)


def _features(name: str, train, real, drawn: dict, labels) -> tuple[dict[str, float], list[str]]:
    """How often draws are of the class asked for, and their distances from training images with the floor; a note
    where there is no net for the set."""
    unit = lambda x: 0.5 * (np.asarray(x, np.float32) + 1)
    try:
        tell = classifier(name)
        found = distances(name, unit(train), unit(drawn["dpm"]))
    except ValueError as error:
        return {}, [f"No distances of features: {error}"]
    right = lambda x, y: float(np.mean(tell(unit(x)) == np.asarray(y)))
    found |= {"accuracy_real": right(*real), "accuracy_w1": right(drawn["dpm"], labels)}
    found |= {"accuracy_w2": right(drawn["dpm_w2"], labels)}
    return found | {"accuracy_share": found["accuracy_w1"] / found["accuracy_real"]}, []


def draw(panels: dict[str, np.ndarray], labels, found: images.Images, losses: np.ndarray, path: str) -> None:
    """A sheet: a row for every class, of draws and of real images."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    real = [found.x[found.y == c][:8] for c in range(CLASSES)]
    sheets = {k: [0.5 * (x[labels == c][:8] + 1) for c in range(CLASSES)] for k, x in panels.items()}
    figure, axes = plt.subplots(1, 3, figsize=(12, 5.2), layout="constrained")
    for axis, (title, rows) in zip(axes, {**sheets, "training images": real}.items(), strict=True):
        framed = [[np.pad(i.transpose(1, 2, 0), ((1, 1), (1, 1), (0, 0))) for i in row] for row in rows]
        sheet = np.concatenate([np.concatenate(row, axis=1) for row in framed]).squeeze()
        axis.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_axis_off()
        axis.set_title(title, fontsize=10)
    tenth = max(len(losses) // 10, 1)
    figure.suptitle(
        f"{found.name}: a class a row, DPM-Solver++(2M) in 20 steps; loss {losses[:tenth].mean():.3f} at first, "
        f"{losses[-tenth:].mean():.3f} at last",
        fontsize=10,
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)
