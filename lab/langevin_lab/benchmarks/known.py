r"""log Z of eight laws whose log Z is known, by `evidence(key, target, base)` as it is, against dynesty's.

Coordinates z have the prior N(0, I); "in a box" means x = a + (b − a) Φ(z), uniform there. dynesty has the same prior
by u = Φ(z).

    shells2, shells5   two Gaussian shells of radius 2 and width 0.1, centres ±3.5 e₁, in [−6, 6]^d, d = 2 and 5
    eggbox             exp (2 + cos(x₁/2) cos(x₂/2))⁵ in [0, 10π]²: eighteen modes
    modes              four Gaussians of width 0.4 and shares .4, .3, .2, .1 in [−5, 5]⁵
    funnel             Neal's: v ~ N(0, 9), four x ~ N(0, e^v), in [−10, 10] × [−20, 20]⁴
    logistic           logistic regression, 200 examples, d = 8; log Z by importance sampling from a wide Laplace
    gaussian           20 coordinates of deviation ½, each two correlated 0.9, in [−5, 5]²⁰
    loggamma           ten coordinates, four modes and long tails (Beaujean & Caldwell), in [−30, 30]¹⁰

Calls are values of the likelihood; a gradient, where our fallback takes them, counts as two. Ours is run with eight
seeds, dynesty (500 live points; `rwalk` beyond the plane, as its own warnings advise) with one, and the ratio is that
of calls at equal error: calls · error², with the error that dynesty states, and for ours the root mean square of true
errors, or what it states if that is more.

Figures: `within_3_stderr`, how many of the eight have all errors, and `ratio_<law>`, calls of dynesty over ours.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr

from langevin.core import noise
from langevin.core.result import Result
from langevin.core.target import Density
from langevin.evidence.base import Normal
from langevin.evidence.entry import log_evidence
from langevin.targets.zoo import laplace_truth

BARS = {"within_3_stderr": "8", "five_times_fewer": "≥ 5"}
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
LIVE = 500
MODES = 2.5 * np.array([[1, 1, 1, 1, 1], [-1, -1, -1, -1, -1], [1, -1, 1, -1, 1], [-1, 1, 1, -1, -1]], np.float32)
SHARES = np.array([0.4, 0.3, 0.2, 0.1], np.float32)


class Law(NamedTuple):
    """log likelihood of z, what it also needs, how many coordinates, and log Z."""

    likelihood: Any
    args: tuple
    d: int
    log_z: float


def boxed(z, low, high):
    return low + (high - low) * ndtr(z)


def normal(x, scale):
    return -0.5 * (x / scale) ** 2 - jnp.log(scale) - HALF_LOG_2PI


def log_shells(z):
    x, centre = boxed(z, -6.0, 6.0), 3.5 * jnp.eye(1, z.shape[0])[0]
    one = lambda c: normal(jnp.linalg.norm(x - c) - 2.0, 0.1)
    return jnp.logaddexp(one(centre), one(-centre))


def log_eggbox(z):
    x = boxed(z, 0.0, 10 * math.pi)
    return (2 + jnp.cos(x[0] / 2) * jnp.cos(x[1] / 2)) ** 5


def log_modes(z):
    x = boxed(z, -5.0, 5.0)
    return logsumexp(jnp.sum(normal(x[None] - MODES, 0.4), axis=1) + jnp.log(SHARES))


def log_funnel(z):
    v, x = boxed(z[0], -10.0, 10.0), boxed(z[1:], -20.0, 20.0)
    return normal(v, 3.0) + jnp.sum(normal(x, jnp.exp(0.5 * v)))


def log_logistic(z, x, sign):
    return -jnp.sum(jax.nn.softplus(-sign * (x @ z)))


def log_gaussian(z, root):
    u = jax.scipy.linalg.solve_triangular(root, boxed(z, -5.0, 5.0), lower=True)
    return jnp.sum(normal(u, 1.0)) - jnp.sum(jnp.log(jnp.diagonal(root)))


def log_loggamma(z):
    x = boxed(z, -30.0, 30.0)
    gamma = lambda u: u - jnp.exp(u)
    first = jnp.logaddexp(gamma(x[0] - 10), gamma(x[0] + 10)) - math.log(2)
    second = jnp.logaddexp(normal(x[1] - 10, 1.0), normal(x[1] + 10, 1.0)) - math.log(2)
    return first + second + jnp.sum(gamma(x[2:6])) + jnp.sum(normal(x[6:], 1.0))


def log_prior(z):
    return jnp.sum(normal(z, 1.0))


def log_posterior(z, likelihood, args):
    return likelihood(z, *args) + log_prior(z)


def laws() -> dict[str, Law]:
    root = np.linalg.cholesky(0.25 * (0.1 * np.eye(20) + 0.9)).astype(np.float32)
    r, v = np.linspace(1, 3, 100_001), np.linspace(-10, 10, 100_001)
    width = np.exp(-0.5 * ((r - 2) / 0.1) ** 2) / (0.1 * math.sqrt(2 * math.pi))
    shell = lambda d: np.trapezoid(r ** (d - 1) * width, r)
    inside = np.array([math.erf(20 * math.exp(-0.5 * u) / math.sqrt(2)) for u in v]) ** 4
    neck = np.trapezoid(np.exp(-0.5 * (v / 3) ** 2) / (3 * math.sqrt(2 * math.pi)) * inside, v)
    ball = lambda d: 2 * math.pi ** (d / 2) / math.gamma(d / 2)
    return {
        "shells2": Law(log_shells, (), 2, math.log(2 * ball(2) * shell(2)) - 2 * math.log(12)),
        "shells5": Law(log_shells, (), 5, math.log(2 * ball(5) * shell(5)) - 5 * math.log(12)),
        "eggbox": Law(log_eggbox, (), 2, _eggbox()),
        "modes": Law(log_modes, (), 5, -5 * math.log(10)),
        "funnel": Law(log_funnel, (), 5, math.log(neck) - math.log(20) - 4 * math.log(40)),
        "logistic": _logistic(),
        "gaussian": Law(log_gaussian, (root,), 20, -20 * math.log(10)),
        "loggamma": Law(log_loggamma, (), 10, -10 * math.log(60)),
    }


def _eggbox(n: int = 3000) -> float:
    """By the midpoint rule, which is exact to rounding for a periodic function."""
    c = np.cos(0.5 * 10 * math.pi * (np.arange(n) + 0.5) / n)
    value = (2 + c[:, None] * c[None]) ** 5
    return float(value.max() + np.log(np.mean(np.exp(value - value.max()))))


def _logistic(d: int = 8, n: int = 200) -> Law:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(n, d))
    sign = np.where(draw.random(n) < 1 / (1 + np.exp(-x @ draw.normal(size=d))), 1.0, -1.0)
    args = x.astype(np.float32), sign.astype(np.float32)
    target = Density(log_posterior, (jax.tree_util.Partial(log_logistic), args))
    return Law(log_logistic, args, d, float(laplace_truth(noise.key(1), target, d, n=400_000).log_z))


def ours(key, law: Law) -> tuple[float, float, float, str]:
    """The error, what is said of it, calls, and the guarantee."""
    target = Density(log_posterior, (jax.tree_util.Partial(law.likelihood), law.args))
    found = log_evidence(key, target, Normal(jnp.zeros(law.d), 1.0))
    calls = float(found.n_grad) * (1 if found.guarantee == "unbiased-Z" else 2)
    return float(found.log_z) - law.log_z, float(found.stderr), calls, found.guarantee


def beside(jobs: list[tuple]) -> list[Any]:
    """Results of (function, law's name, seed, …), as many at a time as there are processors: calls are compared, not
    seconds."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        return [one.result() for one in [pool.submit(_alone, *job) for job in jobs]]


def _alone(job, *args):
    jax.config.update("jax_platforms", "cpu")  # one call at a time: an accelerator would only wait
    return job(*args)


def theirs(name: str, seed: int) -> tuple[float, float, float]:
    """dynesty's error, what it says of it, and its calls."""
    import dynesty

    law = laws()[name]
    value = jax.jit(lambda u: law.likelihood(jax.scipy.special.ndtri(u), *law.args))
    call = lambda u: float(value(np.clip(u, 1e-6, 1 - 1e-6).astype(np.float32)))
    random = np.random.default_rng(seed)
    # its own choice in the plane; beyond, `rwalk`: by uniform draws from ellipsoids `modes` took millions of calls
    sample = "auto" if law.d == 2 else "rwalk"
    sampler = dynesty.NestedSampler(call, lambda u: u, law.d, nlive=LIVE, sample=sample, rstate=random)
    sampler.run_nested(print_progress=False)
    found = sampler.results
    return float(found.logz[-1]) - law.log_z, float(found.logzerr[-1]), float(np.sum(found.ncall))


def row(name: str, seed: int, repeats: int) -> dict:
    law, keys, began = laws()[name], jax.random.split(noise.key(seed), repeats), time.perf_counter()
    error, stderr, calls, guarantee = (np.array(u) for u in zip(*(ours(k, law) for k in keys), strict=True))
    spent = time.perf_counter() - began
    found = dict(law=name, log_z=law.log_z, rmse=math.sqrt(np.mean(error**2)), stderr=float(np.median(stderr)))
    found |= dict(worst_z=float(np.max(np.abs(error / stderr))), calls=calls.mean(), seconds=spent / repeats)
    return found | dict(guarantee=" ".join(sorted(set(guarantee.tolist()))))


def compared(found: dict, peer: tuple[float, float, float]) -> dict:
    """A row with dynesty's figures, and the ratio of calls at equal error."""
    error, stderr, calls = peer
    told = max(found["rmse"], found["stderr"])
    more = dict(peer_error=error, peer_stderr=stderr, peer_calls=calls)
    return found | more | dict(ratio=float(calls * stderr**2 / (found["calls"] * told**2)))


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    known, notes = list(laws()), []
    if data is not None and data not in known:
        raise ValueError(f"known: there is no law {data!r}; there are {', '.join(known)}.")
    names = ["shells2", "logistic"] if size == "quick" else known if data is None else [data]
    peers = size != "quick" and find_spec("dynesty") is not None
    if size == "quick":
        table = [row(name, seed, 2) for name in names]
    else:
        jobs = [(row, name, seed, 8) for name in names] + [(theirs, name, seed) for name in names if peers]
        found = beside(jobs)
        table = found[: len(names)]
        table = [compared(*both) for both in zip(table, found[len(names) :], strict=True)] if peers else table
    figures: dict[str, float] = {"within_3_stderr": sum(r["worst_z"] < 3 for r in table)}
    if peers:
        figures["five_times_fewer"] = sum(r["ratio"] >= 5 for r in table)
        figures |= {f"ratio_{r['law']}": r["ratio"] for r in table}
    else:
        notes.append(
            "dynesty is not run: it is in the extra, pip install 'langevin[bench]', and not in the quick size."
        )
    figures |= {f"rmse_{r['law']}": r["rmse"] for r in table}
    return Result("known", figures, table, BARS if len(table) == len(known) else {}, notes=notes)
