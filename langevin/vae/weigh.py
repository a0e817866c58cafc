r"""log p_θ(x) of many examples under a trained decoder, by the methods of `lv.evidence`.

    AIS, HAIS    chains annealed from a base to p_θ(z | x), step sizes from a pilot on a few examples, then frozen
    DAIS         the same without a Metropolis test
    Importance   the mean of S weights of the encoder, the IWAE bound
    BDMC         between bounds: `bracket`, on examples simulated by the model, whose z is an exact posterior draw

The base is the prior N(0, I), or the encoder's q(z | x), which is nearer. Estimates of p_θ(x) are unbiased, those of
its logarithm below on average. Examples go in blocks, (example × particle) chains at once; with a `store` what is done
is kept, and the same call goes on.

References
----------
Wu, Burda, Salakhutdinov & Grosse (2017), On the quantitative analysis of decoder-based generative models, §3.
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §6.2, figure 2.
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import document, progress
from langevin.core.advance import advance
from langevin.core.begin import begin
from langevin.core.files import StoreError
from langevin.core.fingerprint import fingerprint
from langevin.core.record import record, static
from langevin.core.types import Key
from langevin.evidence.annealing import dais
from langevin.evidence.annealing.ais import AIS, CHUNK, HAIS, Climbing
from langevin.evidence.annealing.dais import DAIS, Annealing
from langevin.evidence.annealing.ladder import to_host_ladder
from langevin.evidence.annealing.step_sizes import USUAL, InterpolatedStep, check_kernel, tune_steps
from langevin.evidence.base import Normal
from langevin.samplers.ghmc import GHMC
from langevin.targets.path import Geometric
from langevin.tune.warm_start import nothing
from langevin.vae.autoencoder import check_examples
from langevin.vae.fit import VAE
from langevin.vae.model import rows_of

PILOTS = 4  # examples on which step sizes are found
DEFAULT = AIS(ladder=1000, particles=10)
Where = Literal["prior", "encoder"]


@record
class Importance:
    """The mean of S importance weights of the base.

    particles: S.
    """

    particles: int = static(default=1000)


class LogLikelihoods(NamedTuple):
    """log p(x), its standard error and the effective number of particles, of every example; `mean` with its error."""

    values: np.ndarray
    errors: np.ndarray
    ess: np.ndarray

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def stderr(self) -> float:
        """Of the mean over examples, as draws from their population."""
        return float(self.values.std(ddof=1) / np.sqrt(len(self.values))) if len(self.values) > 1 else float("nan")


class Bracket(NamedTuple):
    """Bounds of log p(x) from below and above, of every simulated example."""

    lower: np.ndarray
    upper: np.ndarray

    @property
    def gap(self) -> float:
        return float((self.upper - self.lower).mean())


def log_likelihood(
    key: Key,
    vae: VAE,
    x: Any,
    method: Any = DEFAULT,
    *,
    base: Where = "prior",
    block: int = 500,
    store: str | Path | None = None,
) -> LogLikelihoods:
    """log p_θ(x) of every example.

    method: AIS, HAIS, DAIS or Importance; its `particles` are chains of one example.
    base: where chains begin.
    block: examples weighed together.
    store: a folder; what is done is kept there, and the same call goes on with it.
    """
    check_examples("log_likelihood", x)
    check_method(method, base)
    k_pilot, k_run = jax.random.split(key)
    n, block = rows_of(x), min(block, rows_of(x))
    kept = Kept(store, (key_words(key), vae.weights["decoder"], method, base, block, x))
    plan = prepare(k_pilot, vae, jax.tree.map(lambda u: u[:PILOTS], x), method, base)
    found = []
    for first in range(0, n, block):
        index = np.minimum(np.arange(first, first + block), n - 1)
        log_w = kept.load(first)
        if log_w is None:
            rows = jax.tree.map(lambda u, index=index: jnp.asarray(u)[index], x)
            with progress.part(first // block, -(-n // block)):
                log_w = plan(jax.random.fold_in(k_run, first), vae, rows)[: n - first]
            kept.save(first, log_w)
        found.append(log_w)
        progress.tell(min(first + block, n), n, f"log p(x) {np.concatenate([_mean(u) for u in found]).mean():.2f}")
    return summary(np.concatenate(found))


def bracket(key: Key, vae: VAE, n: int, method: AIS | HAIS = DEFAULT, *, base: Where = "prior") -> Bracket:
    """Both bounds, on n examples simulated by the model."""
    check_method(method, base)
    if not isinstance(method, (AIS, HAIS)):
        raise TypeError(f"bracket: the method is {type(method).__name__}; bounds from above need AIS or HAIS.")
    k_z, k_x, k_pilot, k_up, k_down = jax.random.split(key, 5)
    model, theta = vae.model, vae.weights["decoder"]
    z = model.prior().exact(k_z, n)
    x = jax.vmap(lambda key, z: model.likelihood.sample(key, model.decode(theta, z)))(jax.random.split(k_x, n), z)
    plan = prepare(k_pilot, vae, x[:PILOTS], method, base)
    up = plan(k_up, vae, x)
    start = jnp.repeat(z[:, None], method.particles, axis=1)
    down = anneal(k_down, plan.kernel, vae, x, base, start, np.concatenate([[1.0], plan.beta[::-1]]))
    return Bracket(_mean(up), -_mean(down))


def check_method(method: Any, base: str) -> None:
    if not isinstance(method, (AIS, HAIS, DAIS, Importance)):
        raise TypeError(f"log_likelihood: the method is {type(method).__name__}; take AIS, HAIS, DAIS or Importance.")
    if base not in ("prior", "encoder"):
        raise ValueError(f"log_likelihood: base is {base!r}; it must be 'prior' or 'encoder'.")
    if isinstance(method, AIS):
        check_kernel(method.kernel)


# --- what is prepared once, and weighs a block ------------------------------------------------------------------------


class Climb(NamedTuple):
    """AIS or HAIS with frozen step sizes."""

    kernel: Any
    beta: np.ndarray
    particles: int
    base: Where

    def __call__(self, key, vae, rows):
        k_start, k_run = jax.random.split(key)
        return anneal(
            k_run, self.kernel, vae, rows, self.base, _starts(k_start, vae, rows, self.base, self.particles), self.beta
        )


class Smooth(NamedTuple):
    """DAIS."""

    annealing: Annealing
    particles: int
    base: Where

    def __call__(self, key, vae, rows):
        return np.asarray(_smooth(key, vae, rows, self.annealing, base=self.base, particles=self.particles), np.float64)


class Draws(NamedTuple):
    """Importance sampling."""

    particles: int
    base: Where

    def __call__(self, key, vae, rows):
        return np.asarray(_draws(key, vae, rows, base=self.base, particles=self.particles), np.float64)


def prepare(key: Key, vae: VAE, few: Any, method: Any, base: Where) -> Any:
    """The method made ready: step sizes from a pilot on a few examples, where it has none."""
    if isinstance(method, Importance):
        return Draws(method.particles, base)
    beta = to_host_ladder(method.ladder)
    if isinstance(method, DAIS):
        h = dais_step(key, vae, few, method, base) if method.step_size is None else method.step_size
        return Smooth(Annealing(jnp.asarray(beta[1:]), h, method.gamma, method.mass), method.particles, base)
    given = method.kernel if isinstance(method, AIS) else None
    if given is not None:
        return Climb(given, beta, method.particles, base)
    kernel, rate = (USUAL, 0.8) if isinstance(method, AIS) else (GHMC(gamma=method.gamma), 0.9)
    found = []
    for i, k in enumerate(jax.random.split(key, rows_of(few))):
        example = jax.tree.map(lambda u, i=i: jnp.asarray(u)[i], few)
        path = Geometric(base_of(vae, example, base), vae.posterior(example))
        found.append(tune_steps(k, kernel, path, beta, acceptance=rate)[0])
    steps = np.exp(np.mean([np.log(u.step_size) for u in found], axis=0))
    return Climb(InterpolatedStep(kernel, found[0].beta, steps.astype(beta.dtype)), beta, method.particles, base)


def dais_step(key: Key, vae: VAE, few: Any, method: DAIS, base: Where) -> float:
    """The step size, the same at every rung, of the largest bound on a few examples, of a geometric grid."""
    beta = jnp.asarray(to_host_ladder(method.ladder)[1:])
    grid = np.geomspace(0.01, 0.5, 12)
    bounds = []
    for h in grid:
        plan = Smooth(Annealing(beta, float(h), method.gamma, method.mass), method.particles, base)
        bounds.append(np.nan_to_num(_mean(plan(jax.random.clone(key), vae, few)).mean(), nan=-np.inf))
    return float(grid[int(np.argmax(bounds))])


def base_of(vae: VAE, example: Any, base: Where) -> Normal:
    """Where chains of one example begin."""
    return vae.model.prior() if base == "prior" else vae.encoder(vae.weights["encoder"], example)


def anneal(key: Key, kernel: Any, vae: VAE, rows: Any, base: Where, start: jax.Array, beta: np.ndarray) -> np.ndarray:
    """log w (row, particle) in float64 of going along β from z (row, particle, latent)."""
    k_init, k_run = jax.random.split(key)
    beta, K = np.asarray(beta, np.float32), len(beta) - 1
    length = min(CHUNK, max(64, 1 << (K - 1).bit_length()))
    beta = np.concatenate([beta, np.repeat(beta[-1:], -K % length)])
    states = _begin(k_init, kernel, vae, rows, start, beta[:1], base=base)
    total = np.zeros(start.shape[:2])
    for done in range(0, K, length):
        # the key of a rung folds in its number, so the same key serves every stretch
        climbing = Climbing(kernel, beta[done : done + length + 1], done)
        n = np.int32(min(length, K - done))
        states, gained = _stretch(jax.random.clone(k_run), climbing, vae, rows, states, n, base=base, length=length)
        total += np.asarray(gained, np.float64)
        progress.tell(min(done + length, K), K)
    return total


def _path(vae: VAE, example: Any, base: Where) -> Geometric:
    return Geometric(base_of(vae, example, base), vae.posterior(example))


@partial(jax.jit, static_argnames="base")
def _begin(key, kernel, vae, rows, start, beta, *, base):
    one = lambda key, example, z: begin(key, Climbing(kernel, beta), _path(vae, example, base), z)
    return jax.vmap(one)(jax.random.split(key, start.shape[0]), rows, start)


@partial(jax.jit, static_argnames=("base", "length"))
def _stretch(key, climbing, vae, rows, states, n, *, base, length):
    def one(key, example, states):
        how: dict[str, Any] = dict(length=length, n=n, collect=nothing, layout="vmap")
        out = advance(key, climbing, _path(vae, example, base), states, **how)
        return out.states, jnp.sum(out.info.log_weight, axis=1)

    return jax.vmap(one)(jax.random.split(key, rows_of(rows)), rows, states)


@partial(jax.jit, static_argnames=("base", "particles"))
def _starts(key, vae, rows, base, particles):
    one = lambda key, example: base_of(vae, example, base).exact(key, particles)
    return jax.vmap(one)(jax.random.split(key, rows_of(rows)), rows)


@partial(jax.jit, static_argnames=("base", "particles"))
def _smooth(key, vae, rows, annealing, *, base, particles):
    def one(key, example):
        path = _path(vae, example, base)
        return dais.log_weights(key, path.target, path.base, annealing, particles=particles, memory="scan")

    return jax.vmap(one)(jax.random.split(key, rows_of(rows)), rows)


@partial(jax.jit, static_argnames=("base", "particles"))
def _draws(key, vae, rows, *, base, particles):
    def one(key, example):
        law, target = base_of(vae, example, base), vae.posterior(example)
        return jax.vmap(lambda z: target.log_density(z) - law.log_density(z))(law.exact(key, particles))

    return jax.lax.map(lambda x: one(*x), (jax.random.split(key, rows_of(rows)), rows), batch_size=16)


# --- from weights to figures, and what is kept ------------------------------------------------------------------------


def _mean(log_w: np.ndarray) -> np.ndarray:
    top = log_w.max(axis=1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)  # all weights zero: the logarithm below says so
    with np.errstate(divide="ignore"):
        return top[:, 0] + np.log(np.mean(np.exp(log_w - top), axis=1))


def summary(log_w: np.ndarray) -> LogLikelihoods:
    """Of log weights (example, particle)."""
    bad = ~np.isfinite(log_w).any(axis=1) | np.isnan(log_w).any(axis=1)
    if bad.any():
        raise FloatingPointError(
            f"log_likelihood: weights of {int(bad.sum())} of {len(bad)} examples are NaN or all zero, first example "
            f"{int(np.flatnonzero(bad)[0])}; look whether the decoder's output is finite, or take smaller steps."
        )
    w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
    n = log_w.shape[1]
    errors = w.std(axis=1, ddof=1) / w.mean(axis=1) / np.sqrt(n) if n > 1 else np.full(len(w), np.inf)
    return LogLikelihoods(_mean(log_w), errors, w.sum(axis=1) ** 2 / (w**2).sum(axis=1))


def key_words(key: Key) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


class Kept:
    """Blocks of log weights in a folder, refused where they are of something else."""

    def __init__(self, folder: str | Path | None, what: Any):
        self.folder = None if folder is None else Path(folder)
        self.mark = "" if folder is None else fingerprint(what)

    def load(self, first: int) -> np.ndarray | None:
        if self.folder is None or not document.exists(self.folder, f"block-{first}"):
            return None
        found = document.load(self.folder, f"block-{first}")
        if found["mark"] != self.mark:
            raise StoreError(
                f"log_likelihood: {self.folder} holds other examples, weights or settings; take another folder."
            )
        return np.asarray(found["log_w"])

    def save(self, first: int, log_w: np.ndarray) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            document.save(self.folder, f"block-{first}", dict(mark=self.mark, log_w=log_w))
