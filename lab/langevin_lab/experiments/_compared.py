"""What `smile-images` and `smile-gpt` share: methods from one deep ensemble, their choice, their scores, the figure."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from langevin.baselines.published_smile import PublishedSMILE
from langevin.core import noise
from langevin.core.begin import begin_all
from langevin.core.posterior import Posterior, sample
from langevin.diagnostics import calibration
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.smile import SMILE
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.tune.warm_start import HeldOut, warm_start
from langevin.tune.whiten import whiten

CYCLES, LOST = 4, 0.05


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of everything.

    examples: of training, validation and test, at most
    draws, thin: of a chain, and gradients from one to the next; the budget is 3/2 of their product
    ascent, ascent_batch, rate: steps of training, examples in one, and the learning rate at first
    """

    examples: tuple[int, int, int]
    seeds: int = 1
    chains: int = 4
    batch: int = 64
    draws: int = 12
    thin: int = 20
    ascent: int = 600
    ascent_batch: int = 64
    rate: float = 1e-3
    rank: int = 16

    @property
    def warmup(self) -> int:
        return self.draws // 2

    @property
    def gradients(self) -> int:
        return (self.draws + self.warmup) * self.thin

    @property
    def chunk(self) -> int:
        return max(self.draws // 4, 1)


@dataclasses.dataclass(frozen=True)
class Task:
    """What the samplers are tried on, for one seed.

    target: to train and to sample, its batch the sampler's
    starts: fresh positions of chains
    predict: (position, inputs) → probabilities (…, class) for every input
    validation, test: inputs and classes
    ood: out-of-distribution inputs, or None
    """

    target: Any
    starts: Callable
    predict: Any
    validation: tuple[Any, np.ndarray]
    test: tuple[Any, np.ndarray]
    ood: Any = None
    block: int = 500

    @property
    def held_out(self) -> HeldOut:
        data = jax.tree.map(jnp.asarray, self.validation)
        return HeldOut(self.target.log_likelihood, data, self.block)


def compared(tasks, scale: Scale, seed: int, methods: Sequence[str], grids: dict) -> list[dict]:
    """A row for every method and seed; values from grids are chosen on the first."""
    # built once: another object would compile training anew
    rate = optax.cosine_decay_schedule(scale.rate, scale.ascent, alpha=1e-2)
    optimizer = optax.adamw(rate, weight_decay=0.0)
    rows: list[dict] = []
    values: dict[str, Any] = {}
    for i, task in enumerate(tasks):
        k_train, *keys = jax.random.split(noise.key(seed + i), 1 + len(methods))
        began = time.perf_counter()
        start, steps = trained(k_train, task, scale, optimizer)
        rows.append(_row("ensemble", seed + i, task, start, time.perf_counter() - began))
        rows[-1]["data_passes"] = steps * scale.ascent_batch / task.target.n
        _tell(rows[-1])
        for method, k in zip(methods, keys, strict=True):
            k_grid, k_run = jax.random.split(k)
            if method not in values:
                values[method] = _chosen(k_grid, method, grids.get(method, ()), task, start, scale)
            began = time.perf_counter()
            found = sampled(k_run, method, values[method], task, start, scale, scale.draws)
            rows.append(_row(method, seed + i, task, found, time.perf_counter() - began))
            rows[-1]["data_passes"] = scale.gradients * scale.batch / task.target.n
            rows[-1] |= {} if values[method] is None else dict(value=values[method])
            _tell(rows[-1])
    return rows


def trained(key, task: Task, scale: Scale, optimizer) -> tuple[Any, int]:
    """The deep ensemble, positions (chain, …), and the steps it took."""
    k_fresh, k_ascent = jax.random.split(key)
    target = dataclasses.replace(task.target, batch=scale.ascent_batch, order="epoch")
    how = dict(steps=scale.ascent, optimizer=optimizer, score=task.held_out, chunk=max(scale.ascent // 30, 1))
    done: list[int] = []

    def count(progress):
        done.append(progress.done)
        return progress

    starts = task.starts(k_fresh, scale.chains)
    return warm_start(k_ascent, target, starts, patience=8, callbacks=(count,), **how), done[-1]


def sampled(key, method: str, value, task: Task, start, scale: Scale, draws: int) -> Any:
    """A Posterior of `draws` draws a chain, or the positions of a longer training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the published law, and chains that diverge: both are in the table
        return WAYS[method](key, value, task, start, scale, draws)


def _smile(key, variance, task: Task, start, scale: Scale, draws: int) -> Posterior:
    k_begin, k_tune, k_run = jax.random.split(key, 3)
    states = begin_all(k_begin, SMILE(0.05), task.target, start)
    steps = scale.warmup * scale.thin * 4 // 5  # every fourth has two gradients
    how = dict(steps=steps, rounds=min(8, steps // 8), rank=scale.rank, variance=(max(0.5, variance), variance))
    kernel, states = whiten(k_tune, SMILE(0.05), task.target, states, **how)
    return sample(k_run, kernel, task.target, states, draws=draws, thin=scale.thin, chunk=scale.chunk)


def _psmile(key, step_size, task: Task, start, scale: Scale, draws: int) -> Posterior:
    kernel, thin = PublishedSMILE(step_size), scale.thin // 2  # two gradients a step
    return sample(key, kernel, task.target, start, draws=draws, warmup=scale.warmup, thin=thin, chunk=scale.chunk)


def _sghmc(key, rate, task: Task, start, scale: Scale, draws: int) -> Posterior:
    kernel = _heavy(rate, task.target.n)
    how = dict(warmup=scale.warmup, thin=scale.thin, chunk=scale.chunk)
    return sample(key, kernel, task.target, start, draws=draws, **how)


def _csghmc(key, rate, task: Task, start, scale: Scale, draws: int) -> Posterior:
    total = draws + scale.warmup
    kernel = Cyclical(_heavy(rate, task.target.n), period=total * scale.thin // CYCLES, exploration=1 / 3)
    return sample(key, kernel, task.target, start, draws=total, thin=scale.thin, chunk=scale.chunk)


def _heavy(rate: float, n: int) -> SGHMC:
    """SGHMC that at T = 0 would be descent of the mean loss with this rate and momentum."""
    h = np.sqrt(rate / n)
    return SGHMC(h, friction=LOST / h)


def _longer(key, value, task: Task, start, scale: Scale, draws: int) -> Any:
    rate = optax.cosine_decay_schedule(scale.rate / 4, scale.gradients, alpha=1e-2)
    target = dataclasses.replace(task.target, order="epoch")
    how = dict(steps=scale.gradients, chunk=max(scale.gradients // 8, 1), score=task.held_out)
    return warm_start(key, target, start, optimizer=optax.adamw(rate, weight_decay=0.0), **how)


WAYS = {"smile": _smile, "psmile": _psmile, "csghmc": _csghmc, "sghmc": _sghmc, "longer": _longer}


def _chosen(key, method: str, grid: Sequence[float], task: Task, start, scale: Scale):
    """The value of least NLL on the validation part."""
    best: tuple[float, Any] = (np.inf, grid[0] if grid else None)
    for value, k in zip(grid, jax.random.split(key, max(len(grid), 1)), strict=False):
        began = time.perf_counter()
        found = sampled(k, method, value, task, start, scale, max(scale.draws // 3, 1))
        held = _held(task, found)
        _tell(dict(choosing=method, value=value, validation_nll=held, seconds=time.perf_counter() - began))
        best = min(best, (held, value), key=lambda pair: pair[0])
    return best[1]


def _held(task: Task, found) -> float:
    x, y = task.validation
    said = predictive(task, found, x)
    return np.inf if said is None else calibration.nll_categorical(y.reshape(-1), said[0])


def _row(method: str, seed: int, task: Task, found, seconds: float) -> dict:
    """Scores on the test part; none where every chain diverged."""
    row: dict[str, Any] = dict(method=method, seed=seed)
    x, y = task.test
    y = y.reshape(-1)
    said = predictive(task, found, x)
    if said is not None:
        proba, doubt = said
        row |= dict(accuracy=calibration.accuracy(y, proba), nll=calibration.nll_categorical(y, proba))
        row |= dict(ece=calibration.ece(y, proba), validation_nll=_held(task, found))
        if task.ood is not None:
            other, doubt_other = predictive(task, found, task.ood)
            inside, outside = entropy(proba), entropy(other)
            row["ood_auroc"] = auroc(inside, outside)
            row["ood_auroc_mutual"] = auroc(inside - doubt, outside - doubt_other)
    diverged = len(found.diverged) if isinstance(found, Posterior) else 0
    return row | dict(seconds=seconds, diverged=diverged)


def predictive(task: Task, found, x) -> tuple[np.ndarray, np.ndarray] | None:
    """The mean probabilities (n, class) over draws, and the mean entropy (n,) of a draw; None if there is none."""
    if isinstance(found, Posterior):
        try:
            weights = found.weights()
        except ValueError:
            return None
        used = np.flatnonzero(weights.sum(0) > 0)
        draws = jax.tree.map(lambda u: np.swapaxes(u[:, used], 0, 1), found.draws)
        weights = weights[:, used].T
    else:
        draws = jax.tree.map(lambda u: u[None], found)
        chains = len(jax.tree.leaves(found)[0])
        weights = np.full((1, chains), 1 / chains)
    draws, weights = jax.device_put((draws, np.asarray(weights, np.float32)))
    parts = []
    for i in range(0, len(x), task.block):
        cut = x[i : i + task.block]
        short = task.block - len(cut)
        padded = np.concatenate([cut, np.repeat(cut[-1:], short, axis=0)]) if short else cut
        parts.append([np.asarray(u)[: len(cut)] for u in _averaged(task.predict, draws, weights, padded)])
    proba, doubt = (np.concatenate(p).astype(np.float64) for p in zip(*parts, strict=True))
    proba = proba.reshape(-1, proba.shape[-1])
    return proba / proba.sum(1, keepdims=True), doubt.reshape(-1)


@jax.jit
def _averaged(predict, draws, weights, x):
    """Σ w p and Σ w H(p), over draws (draw, chain, …) one after the other; a chain that diverged has weight 0."""

    def add(total, one):
        positions, w = one
        p = jax.vmap(predict, (0, None))(positions, x)
        p = jnp.where(w.reshape(-1, *[1] * (p.ndim - 1)) > 0, p, 0.0)
        return (total[0] + jnp.tensordot(w, p, 1), total[1] + jnp.tensordot(w, entropy(p, jnp), 1)), None

    p = jax.eval_shape(predict, jax.tree.map(lambda u: u[0, 0], draws), x)
    return lax.scan(add, (jnp.zeros(p.shape), jnp.zeros(p.shape[:-1])), (draws, weights))[0]


def entropy(p, xp=np):
    return -xp.sum(p * xp.log(xp.maximum(p, 1e-30)), axis=-1)


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """How often an out-of-distribution input scores above one of the test part; ties count half."""
    from sklearn.metrics import roc_auc_score

    truth = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(truth, np.concatenate([inside, outside])))


def means(rows: list[dict], columns: Sequence[str]) -> dict[str, float]:
    """`column_method`, the mean over seeds; left out where a seed has none because all its chains diverged."""
    of = {m: [r for r in rows if r["method"] == m] for m in dict.fromkeys(r["method"] for r in rows)}
    return {
        f"{c}_{m}": float(np.mean([r[c] for r in each]))
        for m, each in of.items()
        for c in columns
        if all(c in r for r in each)
    }


def _tell(row: dict) -> None:
    """A line of the log: what is known when a later method fails."""
    short = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
    print(json.dumps(short), file=sys.stderr, flush=True)


# --- the figure -------------------------------------------------------------------------------------------------------
