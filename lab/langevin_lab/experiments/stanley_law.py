"""What STANLEY converges to, with nothing corrected and with each correction, where the answer is known.

    ex2          E x² on N(0, 1), τ = ½, hard threshold; p/D says 1.786
    cov_error    |C − C₀|/|C₀| on a correlated Gaussian of the plane, one smooth step size a coordinate, τ = 0.4 (for
                 `weights`, which need one a chain, one a chain)
    precision    a of the energy a x²/2 trained on draws of N(0, 1) with persistent chains, τ = 0.3: the maximum of
                 likelihood is 1; chains of p/D stop at 1.955
    square       E|x|²/d on N(0, I_d), nothing corrected, by what shares a step size; as τ → 0 it is (d + 1)/d for one
                 a chain, 2 for one a coordinate, 4/3 for one a pixel of 3 channels

and the two updates of the released code, AMALA and T-MALA on the first. Every prediction is a quadrature of the law
that the kernel names. Chains start at exact draws of the truth and forget them before they are looked at; the noise
figures are standard errors over chains.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.audit import bins
from langevin.baselines.noise_scaled import NoiseScaled
from langevin.core import noise
from langevin.core.advance import MAPPED, advance
from langevin.core.begin import begin_all
from langevin.core.kernel import refresh
from langevin.core.result import Result
from langevin.core.target import Density
from langevin.samplers.amala import AMALA
from langevin.samplers.stanley import Stanley
from langevin.samplers.tmala import TMALA
from langevin.targets.zoo import Gaussian
from langevin_lab.experiments._stanley_figure import CORRECTIONS, draw

COVARIANCE = np.array([[1.328, 0.938], [0.938, 1.250]])
LEARNT, EVERY, RUNS = 0.05, 25, 8  # learning rate of the one-parameter model; steps between updates; trainings
BARS = {
    "ex2_none": "1.786 ± 0.03 (predicted)",
    **{f"ex2_{c}": "1 ± 0.03" for c in ("metropolis", "hk2", "weights", "amala", "tmala")},
    "cov_error_none": "about 1",
    **{f"cov_error_{c}": "< 0.04" for c in ("metropolis", "hk2", "weights")},
    "precision_none": "1.955 ± 0.03 (predicted)",
    **{f"precision_{c}": "1 ± 0.03" for c in ("metropolis", "hk2", "weights")},
    "ex2_images": "0.587 ± 0.01 (predicted)",
}


class Size(NamedTuple):
    """How much is spent: chains, steps of burn-in and as many of draws, updates of the model, dimensions tried."""

    chains: int
    steps: int
    updates: int
    wide: tuple[int, ...] = (3, 30, 300)


SIZES = {"quick": Size(1024, 2000, 200, (30,)), "cpu": Size(8192, 6000, 600), "gpu": Size(1 << 16, 16000, 1600)}


def normal(x):
    """log N(0, I) up to a constant."""
    return -0.5 * jnp.sum(x**2)


def bell(x, a):
    """The energy with one parameter, −a x²/2."""
    return -0.5 * a * jnp.sum(x**2)


def quietly(cls, *args, **fields):
    """A kernel that says at its making that its law is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(*args, **fields)


# --- measuring ----------------------------------------------------------------------------------------------------


class Draws(NamedTuple):
    """Positions (chain, draw, d) of one run, their weights and the share accepted."""

    x: np.ndarray
    w: np.ndarray
    acceptance: float

    def mean(self, value) -> tuple[Any, Any]:
        """The weighted mean of (chain, draw, …) values and its standard error over chains."""
        w = self.w.reshape(*self.w.shape, *(1,) * (value.ndim - 2))
        a, b = (w * value).sum(1), self.w.sum(1).reshape(-1, *(1,) * (value.ndim - 2))
        mean = a.sum(0) / b.sum(0)
        return mean, np.sqrt(((a - mean * b) ** 2).sum(0)) / b.sum(0)


def drawn(seed, kernel, target, start, steps: int) -> Draws:
    """Every 50th step of the second half of 2·steps; of a quarter of them for a kernel of long steps."""
    steps = steps // 4 if isinstance(kernel, AMALA | TMALA) else steps
    k_init, k_run = jax.random.split(noise.key(seed))
    states = begin_all(k_init, kernel, target, start)
    half = partial(advance, kernel=kernel, target=target, thin=50, layout="vmap", length=steps // 50)
    states = half(k_run, states=states).states
    run = half(jax.random.clone(k_run), states=states)
    x = np.asarray(run.kept, np.float64).reshape(*run.kept.shape[:2], -1)
    return Draws(x, np.exp(np.asarray(run.info.log_weight, np.float64)), float(np.mean(run.info.acceptance)))


def claimed(kernel) -> tuple[np.ndarray, np.ndarray]:
    """The law the kernel names on N(0, 1): a grid and the density on it."""
    x = np.linspace(-12, 12, 24_001)
    law = kernel.law().density(Density(normal))
    log_q = np.asarray(jax.vmap(law.log_density)(jnp.asarray(x[:, None], jnp.float32)), np.float64)
    q = np.exp(log_q - log_q.max())
    return x, q / (q.sum() * (x[1] - x[0]))


def predicted(kernel) -> tuple[float, float]:
    """E x² and P(|x| < ¼) under the law the kernel names."""
    x, q = claimed(kernel)
    return float((q * x**2).sum() / q.sum()), float(q[np.abs(x) < 0.25].sum() / q.sum())


def radial(n: int, threshold: float) -> float:
    """E r²/n under r^{n−1} e^{−r²/2} max(τ, r): n coordinates of N(0, 1) that share a step size."""
    r = np.linspace(0, 12 + 2 * np.sqrt(n), 200_001)[1:]
    log_q = (n - 1) * np.log(r) - 0.5 * r**2 + np.log(np.maximum(threshold, r))
    q = np.exp(log_q - log_q.max())
    return float((q * r**2).sum() / q.sum() / n)


def fixed_point(threshold: float) -> float:
    """a at which chains of e^{−ax²/2} max(τ, a|x|) have E x² = 1, by bisection."""
    x = np.linspace(0, 12, 120_001)
    low, high = 0.5, 4.0
    for _ in range(60):
        a = 0.5 * (low + high)
        q = np.exp(-0.5 * a * x**2) * np.maximum(threshold, a * x)
        low, high = (a, high) if (q * x**2).sum() > q.sum() else (low, a)
    return a


# --- the experiments --------------------------------------------------------------------------------------------------


def one_dimension(seed: int, size: Size) -> tuple[dict, list, dict]:
    """E x² and P(|x| < ¼) on N(0, 1), with a histogram of each."""
    step = dict(step_size=0.005, threshold=0.5)
    kernels = {c: quietly(Stanley, correction=c, **step) for c in CORRECTIONS}
    kernels |= {v: quietly(NoiseScaled, variant=v, per="chain", **step) for v in ("images", "toy")}
    kernels |= {"amala": AMALA(0.2, bound=0.5, floor=0.5), "tmala": TMALA(0.3, bound=0.5)}
    start = jax.random.normal(noise.key(seed + 1), (size.chains, 1))
    figures: dict[str, float] = {}
    table: list[dict[str, Any]] = []
    shown: dict[str, Any] = {}
    for name, kernel in kernels.items():
        draws = drawn(seed, kernel, Density(normal), start, size.steps)
        (ex2, near), error = draws.mean(np.concatenate([draws.x**2, np.abs(draws.x) < 0.25], -1))
        figures[f"ex2_{name}"] = float(ex2)
        row = dict(what="N(0, 1)", method=name, value=ex2, noise=error[0], near=near, acceptance=draws.acceptance)
        if kernel.law().kind == "wrong":
            row["predicted"], row["near_predicted"] = predicted(kernel)
            figures[f"ex2_{name}_predicted"] = row["predicted"]
        table.append(row)
        flat = draws.x.ravel()
        counted = np.histogram(
            flat, bins.EDGES[1:-1], weights=np.broadcast_to(draws.w[..., None], draws.x.shape).ravel()
        )
        shown[name] = counted[0] / draws.w.sum() / 0.1
    figures["ex2_noise"] = float(max(row["noise"] for row in table))
    return figures, table, shown | {"claimed": claimed(kernels["none"])}


def plane(seed: int, size: Size) -> tuple[dict, list]:
    """The covariance of a correlated Gaussian."""
    step = dict(step_size=0.01, threshold=0.4, form="smooth")
    kernels = {c: quietly(Stanley, correction=c, per="coordinate", **step) for c in CORRECTIONS[:3]}
    kernels["weights"] = Stanley(correction="weights", **step)
    kernels["none, one a chain"] = quietly(Stanley, correction="none", **step)
    kernels |= {"amala": AMALA(0.15, bound=1.0, floor=0.5), "tmala": TMALA(0.15, bound=0.5)}
    target = Gaussian(np.zeros(2), COVARIANCE)
    start, length = target.exact(noise.key(seed + 2), size.chains), np.linalg.norm(COVARIANCE)
    figures: dict[str, float] = {}
    table: list[dict[str, Any]] = []
    for name, kernel in kernels.items():
        draws = drawn(seed + 10, kernel, target, start, size.steps)
        found, error = draws.mean(draws.x[..., :, None] * draws.x[..., None, :])
        away, floor = np.linalg.norm(found - COVARIANCE) / length, np.linalg.norm(error) / length
        if name in CORRECTIONS:
            figures[f"cov_error_{name}"] = float(away)
        per = f"per {kernel.per}" if isinstance(kernel, Stanley) else ""
        method = f"{name.split(',')[0]} {per}".strip()
        table.append(dict(what="plane", method=method, value=away, noise=floor, acceptance=draws.acceptance))
    figures["cov_error_noise"] = float(max(row["noise"] for row in table))
    return figures, table


def dimensions(seed: int, size: Size) -> tuple[dict, list]:
    """E|x|²/d on N(0, I_d) with nothing corrected, by what shares a step size."""
    figures, table = {}, []
    for d in size.wide:
        chains = max(size.chains // d, 128)
        start = jax.random.normal(noise.key(seed + 3), (chains, 3, d // 3, 1))
        for per, n in (("chain", d), ("coordinate", 1), ("pixel", 3)):
            threshold = 0.3 * n**0.5
            kernel = quietly(Stanley, 0.01, threshold=threshold, per=per, correction="none")
            draws = drawn(seed + 20, kernel, Density(normal), start, size.steps // 2)
            mean, error = draws.mean((draws.x**2).mean(-1))
            figures[f"square_{per}_{d}"] = float(mean)
            row = dict(what=f"N(0, I), d = {d}", method=f"none per {per}", value=mean, noise=error)
            table.append(row | dict(predicted=radial(n, threshold)))
    return figures, table


def learnt(key, kernel, updates: int, chains: int) -> np.ndarray:
    """a after each update, from 1, with chains that persist."""
    k_start, k_init, k_loop = jax.random.split(key, 3)
    start = jax.random.normal(k_start, (chains, 1))
    states = begin_all(k_init, kernel, Density(bell, (jnp.ones(()),)), start)
    return np.asarray(_learnt(k_loop, kernel, states, updates=updates))


@partial(jax.jit, static_argnames="updates")
def _learnt(key, kernel, states, *, updates: int):
    words, wrap = noise.words(jax.random.split(key, updates))
    chains = states.position.shape[0]

    def update(carry, word):
        a, states = carry
        k_look, k_run, k_data = jax.random.split(wrap(word), 3)
        target = Density(bell, (a,))
        look = lambda k, s: refresh(k, s, target)
        states = jax.vmap(look, (0, MAPPED), MAPPED)(jax.random.split(k_look, chains), states)
        run = advance(k_run, kernel, target, states, length=1, thin=EVERY, layout="vmap")
        w = jnp.exp(run.info.log_weight[:, 0])  # 1, where draws are not weighted
        model = jnp.sum(w * run.kept[:, 0, 0] ** 2) / jnp.sum(w)
        a = jnp.maximum(a + LEARNT * 0.5 * (model - jnp.mean(noise.normal(k_data, (chains,)) ** 2)), 0.1)
        return (a, run.states), a

    return lax.scan(update, (jnp.ones(()), states), words)[1]


def model(seed: int, size: Size) -> tuple[dict, list, dict]:
    """The precision a model learns, in eight independent trainings of an eighth of the chains each."""
    figures, table, paths = {"precision_none_predicted": fixed_point(0.3)}, [], {}
    for c in CORRECTIONS:
        kernel = quietly(Stanley, 0.005, threshold=0.3, correction=c)
        keys = jax.random.split(noise.key(seed + 30), RUNS)
        path = np.stack([learnt(k, kernel, size.updates, size.chains // RUNS) for k in keys])
        ends = path[:, size.updates // 2 :].mean(1)
        figures[f"precision_{c}"], paths[c] = float(ends.mean()), path
        row = dict(what="learnt precision", method=c, value=ends.mean(), noise=ends.std(ddof=1) / RUNS**0.5)
        table.append(row | ({"predicted": figures["precision_none_predicted"]} if c == "none" else {}))
    figures["precision_noise"] = float(max(row["noise"] for row in table))
    return figures, table, paths


def run(size: str, seed: int) -> Result:
    spent = SIZES[size]
    first, table, shown = one_dimension(seed, spent)
    second, rows = plane(seed, spent)
    third, more, paths = model(seed, spent)
    fourth, last = dimensions(seed, spent)
    figures = first | second | third | fourth
    result = Result("stanley-law", figures, table + rows + more + last, BARS)
    result.notes.append(
        "cov_error_weights is with one step size a chain, for weights undo nothing else; noise is a standard error."
    )
    result.drawing = partial(draw, shown, paths, figures)
    return result


# --- the figure -------------------------------------------------------------------------------------------------------
