r"""Score matching and diffusion samplers where the truth is known.

precision_<objective>_d<d>   a score −Px learned from draws of N(0, I_d) by every objective: the mean of P's diagonal,
                             which is 1 (of Denoising the noise is taken off again). A library whose Hessian trace is
                             divided by the dimension learns 1/d.
w_<sampler>_n<steps>         with the exact score of eight Gaussians (VP): how far draws are from those of the finest
                             grid, from the same noise and along the same Brownian path; order_<sampler> is its rate.
log_prob_error               of a Gaussian in 3 dimensions, exact divergence, largest error in nats over all diffusions
                             (VP and sub-VP with β up to 30: at 20 the prior is not yet that near to p_T);
log_prob_z                   the largest z-score of Hutchinson's estimate on the mixture.
swd_predictor, swd_corrected a score with a smooth error, at as many looks: predictor alone, and with SGLD as corrector
                             (sliced W₂ to the truth; swd_floor is that of two exact samples). The error was chosen
                             after a scan: with one that grows as 1/s_t the corrector made draws worse.
kl_<data>, swd_<data>_<sampler>   a network trained on eight Gaussians and on rings: KL(data‖model) by `log_prob`, and
                             sliced W₂ of its draws.
swd_energy_<corrector>       an energy trained on eight Gaussians, with SGLD and with MALA as corrector, at a step that
                             is too long for the first.

References
----------
Song, Sohl-Dickstein, Kingma, Kumar, Ermon & Poole (2021), Score-based generative modeling through SDEs.
Du, Durkan, Strudel et al. (2023), Reduce, reuse, recycle: compositional generation with energy-based diffusion models
    and MCMC, §4 (Metropolis-adjusted correctors).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.result import Result
from langevin.diagnostics.samples import sliced
from langevin.diffusion import exact
from langevin.diffusion.likelihood import log_prob
from langevin.diffusion.loss import DSM
from langevin.diffusion.net import TimeMLP
from langevin.diffusion.ode import DPMSolver, Heun, ProbabilityFlow
from langevin.diffusion.sample import EulerMaruyama, PredictorCorrector, generate
from langevin.diffusion.score import NCSN, Denoising, ScoreMatching, Sliced
from langevin.diffusion.sde import EDM, VE, VP, SubVP
from langevin.samplers.mala import MALA
from langevin.samplers.sgld import SGLD
from langevin.targets.zoo import Rings
from langevin_lab.experiments._diffusion import halves, order_of, scatter, trained

SIGMA = 0.3  # of Denoising
NEEDS = ("diffrax",)
BARS = {
    **{f"precision_{o}_d{d}": "1 ± 0.05" for o in ("exact", "sliced", "sliced_vr", "denoising") for d in (2, 8, 32)},
    "precision_ncsn_d2": "1 ± 0.05",
    "order_em": "1 ± 0.2",
    "order_euler": "1 ± 0.2",
    "order_heun": "2 ± 0.3",
    "order_dpm": "2 ± 0.3",
    "log_prob_error": "<= 1e-4",
    "log_prob_z": "< 5",
    "swd_corrected": "< swd_predictor",
    "kl_gaussians": "< 0.1",
    "kl_rings": "< 0.1",
    "swd_energy_mala": "< swd_energy_sgld",
}


@dataclass(frozen=True)
class Scale:
    """dimensions, examples and steps of the precisions; grids; draws; training steps and batch; rows of KL."""

    dims: tuple[int, ...]
    examples: int
    precision_steps: int
    grids: tuple[int, ...]
    draws: int
    steps: int
    batch: int
    rows: int


SCALES = {
    "quick": Scale((2, 8), 4000, 300, (16, 32), 1000, 300, 256, 50),
    "cpu": Scale((2, 8, 32), 20_000, 1500, (16, 32, 64, 128), 8000, 10_000, 512, 2000),
    "gpu": Scale((2, 8, 32), 20_000, 1500, (16, 32, 64, 128), 8000, 30_000, 2048, 4000),
}


def linear(position, x):
    """The score −Px."""
    return -position @ x


def blurred(position, x, sigma):
    """σ times the score of N(0, P⁻¹ + σ²), P = position."""
    return -sigma * position * x / (1 + sigma**2 * position)


def run(size: str, seed: int) -> Result:
    scale = SCALES[size]
    keys = jax.random.split(noise.key(seed), 6)
    figures: dict[str, float] = {}
    panels: dict[str, np.ndarray] = {}
    parts = (precisions, orders, likelihoods, correction, networks, energies)
    for key, part in zip(keys, parts, strict=True):
        found, shown = part(key, scale)
        figures |= found
        panels |= shown
    table = [dict(figure=k, value=v, bar=BARS.get(k, "")) for k, v in figures.items()]
    result = Result("score-2d", figures, table, {k: v for k, v in BARS.items() if k in figures})
    result.drawing = partial(draw, figures, panels, scale)
    return result


# --- objectives -------------------------------------------------------------------------------------------------------


def precisions(key, scale: Scale):
    """The mean of the learned precision's diagonal, of every objective in every dimension."""
    losses = {
        "exact": ScoreMatching(linear),
        "sliced": Sliced(linear, reduced=False),
        "sliced_vr": Sliced(linear),
        "denoising": Denoising(linear, sigma=SIGMA),
    }
    figures = {}
    for d in scale.dims:
        for name, loss in losses.items():
            key, k_x, k_run = jax.random.split(key, 3)
            x = jax.random.normal(k_x, (scale.examples, d))
            how = dict(steps=scale.precision_steps, batch=min(1000, scale.examples), rate=2e-2, decay=0.98)
            found, _ = trained(k_run, loss, x, 0.3 * jnp.eye(d), **how)
            found = np.asarray(found, np.float64)
            if name == "denoising":
                found = np.linalg.inv(np.linalg.inv(found) - SIGMA**2 * np.eye(d))
            figures[f"precision_{name}_d{d}"] = float(np.mean(np.diagonal(found)))
    k_x, k_run = jax.random.split(key)
    x = jax.random.normal(k_x, (scale.examples, 2))
    loss = NCSN(blurred, sigmas=jnp.geomspace(2.0, 0.1, 8), conditional=True)
    found, _ = trained(k_run, loss, x, jnp.full(2, 0.3), **how)
    return figures | {"precision_ncsn_d2": float(np.mean(found))}, {}


# --- samplers ---------------------------------------------------------------------------------------------------------


def orders(key, scale: Scale):
    """Distances to the finest grid from the same noise, and their rates."""
    process = VP()
    score = exact.ring(process, std=0.5)
    k_start, k_path = jax.random.split(key)
    start = process.prior(k_start, (512, 2))
    finest = 8 * max(scale.grids)
    most = dict(denoise=False)
    ways = {
        "em": lambda n: EulerMaruyama(n, increments=finest, **most),
        "euler": lambda n: EulerMaruyama(n, "rho", stochasticity=0.0, **most),
        "heun": lambda n: Heun(n, **most),
        "dpm": lambda n: DPMSolver(n, **most),
    }
    of = lambda sampler: generate(jax.random.clone(k_path), sampler, process, score, (2,), start=start)
    flow = of(Heun(finest, **most))
    figures: dict[str, float] = {}
    for name, way in ways.items():
        truth = of(way(finest)) if name == "em" else flow
        gaps = [float(jnp.sqrt(jnp.mean((of(way(n)) - truth) ** 2))) for n in scale.grids]
        figures |= {f"w_{name}_n{n}": g for n, g in zip(scale.grids, gaps, strict=True)}
        figures[f"order_{name}"] = order_of(scale.grids[-2:], gaps[-2:])
    return figures, {}


def likelihoods(key, scale: Scale):
    k_x, k_mixture, k_probe = jax.random.split(key, 3)
    errors = []
    # long enough that the prior is the law at the end, to float32
    for process in (VP(last=30.0), SubVP(last=30.0), VE(high=500.0), EDM(high=500.0)):
        score = exact.MixtureScore(process, jnp.zeros((1, 3)), jnp.array([0.7]), jnp.ones(1))
        x = score.exact(jax.random.clone(k_x), 50)
        truth = jax.vmap(lambda x: score.log_density(x, jnp.asarray(process.cut)))(x)
        errors.append(jnp.max(jnp.abs(log_prob(None, process, score, x, rtol=1e-6, atol=1e-6).value - truth)))
    score = exact.ring(VP(), std=0.5)
    x = score.exact(k_mixture, 50)
    truth = log_prob(None, VP(), score, x).value
    found = log_prob(k_probe, VP(), score, x, divergence="hutchinson", probes=64)
    z = jnp.abs(found.value - truth) / jnp.maximum(found.stderr, 1e-3)
    return {"log_prob_error": float(max(errors)), "log_prob_z": float(jnp.max(z))}, {}


def correction(key, scale: Scale):
    """A score with an error: predictor alone at 60 steps, or 20 with two corrections each."""
    k_truth, k_other, k_alone, k_both = jax.random.split(key, 4)
    process = VP()
    true = exact.ring(process, std=0.3)
    score = exact.Rough(true, 0.3)
    truth, other = (true.exact(k, scale.draws) for k in (k_truth, k_other))
    alone = generate(k_alone, EulerMaruyama(60), process, score, (2,), n=scale.draws)
    both = generate(k_both, PredictorCorrector(20, corrector=SGLD(0.3), inner=2), process, score, (2,), n=scale.draws)
    drawn = {"swd_floor": other, "swd_predictor": alone, "swd_corrected": both}
    return {k: sliced(v, truth)[0] for k, v in drawn.items()}, {"predictor alone": alone, "with corrector": both}


# --- networks ---------------------------------------------------------------------------------------------------------


def networks(key, scale: Scale):
    figures, panels = {}, {}
    gaussians = exact.ring(VP())
    laws = {
        "gaussians": (gaussians.exact, lambda x: gaussians.log_density(x, jnp.zeros(())), 1.0),
        "rings": (Rings(jnp.array([1.0, 2.0]), 0.15).exact, Rings(jnp.array([1.0, 2.0]), 0.15).log_density, 1.0),
    }
    for name, (draws, log_density, _) in laws.items():
        key, k_data, k_net, k_run, k_truth, k_sample, k_probe = jax.random.split(key, 7)
        process = VP()
        position, program = halves(TimeMLP(2, 2, k_net))
        loss = DSM(process, program, "noise", "sample")
        data = draws(k_data, 50_000)
        position, _ = trained(k_run, loss, data, position, steps=scale.steps, batch=scale.batch, rate=2e-3)
        score = loss.denoiser(position)
        truth = np.asarray(draws(k_truth, scale.draws))
        samplers = {
            "em": EulerMaruyama(200),
            "dpm": DPMSolver(20),
            "pc": PredictorCorrector(100),
            "flow": ProbabilityFlow(1e-4, 1e-4),
        }
        for which, sampler in samplers.items():
            k_sample, k_one = jax.random.split(k_sample)
            drawn = generate(k_one, sampler, process, score, (2,), n=scale.draws)
            figures[f"swd_{name}_{which}"] = sliced(drawn, truth)[0]
            if which == "em":
                panels[f"{name}, network"] = drawn
        rows = truth[: scale.rows]
        model = log_prob(k_probe, process, score, rows, rtol=1e-4, atol=1e-4).value
        figures[f"kl_{name}"] = float(jnp.mean(jax.vmap(log_density)(rows) - model))
    return figures, panels


def energies(key, scale: Scale):
    """An energy on eight Gaussians; the corrector's step is one at which SGLD is too hot."""
    k_data, k_net, k_run, k_truth, *keys = jax.random.split(key, 6)
    process = VP()
    true = exact.ring(process)
    position, program = halves(TimeMLP(2, 1, k_net))
    loss = DSM(process, program, "energy", "sample")
    position, _ = trained(
        k_run, loss, true.exact(k_data, 50_000), position, steps=scale.steps, batch=scale.batch, rate=2e-3
    )
    truth = true.exact(k_truth, scale.draws)
    figures, panels = {}, {}
    for k, (name, corrector) in zip(keys, {"sgld": SGLD(0.6), "mala": MALA(0.6)}.items(), strict=True):
        sampler = PredictorCorrector(50, "quadratic", corrector=corrector, inner=4)
        drawn = generate(k, sampler, process, loss.denoiser(position), (2,), n=scale.draws)
        figures[f"swd_energy_{name}"] = sliced(drawn, truth)[0]
        panels[f"energy, {name.upper()}"] = drawn
    return figures, panels


# --- the figure -------------------------------------------------------------------------------------------------------


def draw(figures: dict[str, float], panels: dict[str, np.ndarray], scale: Scale, path: str) -> None:
    """Learned precisions, distances of solvers against steps, and points."""
    import matplotlib.pyplot as plt

    grids, dims = scale.grids, scale.dims
    plt.switch_backend("agg")
    figure = plt.figure(figsize=(12, 6.4), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.25, 1))
    left, right = top.subplots(1, 2)
    for i, name in enumerate(("exact", "sliced", "sliced_vr", "denoising")):
        values = [figures[f"precision_{name}_d{d}"] for d in dims]
        left.plot(np.arange(len(dims)) + 0.12 * (i - 1.5), values, "o", ms=6, label=name.replace("_vr", ", reduced"))
    left.axhspan(0.95, 1.05, color="#8a8f94", alpha=0.2, lw=0)
    left.axhline(1, color="#22303c", lw=0.8)
    left.set(xticks=range(len(dims)), xticklabels=[f"d = {d}" for d in dims], ylim=(0.85, 1.15))
    left.set_title("precision of N(0, I) learned by each objective; band: ± 5 %", fontsize=10)
    left.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    words = {"em": "reverse SDE, Euler", "euler": "flow, Euler", "heun": "flow, Heun", "dpm": "flow, DPM-Solver++(2M)"}
    for name, label in words.items():
        values = [figures[f"w_{name}_n{n}"] for n in grids]
        right.loglog(grids, values, "o-", ms=4, label=f"{label}: order {figures[f'order_{name}']:.2f}")
    right.set(xlabel="steps", xticks=grids, xticklabels=grids)
    right.minorticks_off()
    right.set_title("distance to the finest grid, same noise and path", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    for axis, (title, points) in zip(bottom.subplots(1, len(panels)), panels.items(), strict=True):
        scatter(axis, points, title, 3.2)
    figure.savefig(path, dpi=150)
    plt.close(figure)
