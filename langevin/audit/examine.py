r"""One kernel on one trial: which runs it takes, and what they add up to.

A run at h first. A kernel that claims to be exact, or claims nothing, and is within Monte Carlo error of p is right.
The others are run at h/2, and if the law claimed is not the limit, at h/4 (`measure.limit`). The law that a wrong
kernel names is found by quadrature in one dimension, else by reweighting exact draws; on mini-batches it names none,
for the batch changes the metric too.

References
----------
Talay & Tubaro (1990), Expansion of the global error for numerical schemes solving stochastic differential equations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from langevin.audit.measure import (
    LIMIT,
    Measured,
    divided,
    holder,
    limit,
    measure,
    total_variation,
    with_field,
    zscores,
)
from langevin.audit.trials import Budget, Expected, Trial, variance_index, weighted
from langevin.audit.verdict import Finding
from langevin.core.types import Law
from langevin.diagnostics.stein import ksd

ENOUGH = 1000  # effective draws behind a claimed law found by reweighting
MANY = 0.01  # share of chains that may diverge before the rest is not judged
SLOW = "no coordinate forgot its start in this budget"
REFUSED = (ValueError, TypeError, NotImplementedError)  # how a kernel says that a target is not for it


def examine(key, kernel, law: Law | None, trial: Trial, budget: Budget) -> Finding:
    """What one trial finds; what a kernel refuses in words is not tried."""
    kind = law.kind if law else "none"
    if trial.temperature != 1.0:
        if holder(kernel, "temperature") is None:
            return Finding(trial.name, "skipped", "it has no temperature", trial.temperature)
        kernel = with_field(kernel, "temperature", trial.temperature)
        law = kernel.law() if law else None
    if trial.stochastic and kind == "exact":
        return Finding(trial.name, "skipped", "it claims to be exact on exact targets only")
    if trial.step_size is not None:
        if kind == "exact" or momentum(kernel, trial) or holder(kernel, "step_size") is None:
            return Finding(trial.name, "skipped", "its step size is not that of overdamped Langevin dynamics")
        kernel = with_field(kernel, "step_size", trial.step_size)
    try:
        return _examined(key, kernel, law, trial, budget)
    except REFUSED as error:
        return Finding(trial.name, "skipped", str(error).strip().split("\n")[0].rstrip("."), trial.temperature)


def momentum(kernel, trial: Trial) -> bool:
    """Whether a chain carries more than a position and statistics of gradients."""
    group = kernel.group
    shape = trial.draws()[0].shape[1:]
    x = jax.ShapeDtypeStruct((group, *shape) if group > 1 else shape, jnp.float32)
    try:
        state = jax.eval_shape(lambda k, x: kernel.init(k, x, trial.target), jax.random.key(0), x)
    except REFUSED:
        return False
    return bool(jax.tree.leaves(state.aux))


def _examined(key, kernel, law, trial: Trial, budget: Budget) -> Finding:
    kind = law.kind if law else "none"
    k_whole, k_stein, k_finer = jax.random.split(key, 3)
    claimed, log_tilt = _claimed(law, trial) if kind == "wrong" else (trial.expected, None)
    whole = measure(k_whole, kernel, trial, budget, log_tilt=log_tilt)
    found = Finding(trial.name, "wrong", "", trial.temperature, whole.chains, whole.diverged, n_grad=whole.n_grad)
    found = found._replace(unmoved=whole.unmoved, adjusted=whole.acceptance < 1)
    if whole.diverged > MANY * whole.chains:
        return found._replace(status="diverged")
    if not whole.judged.any():
        note = f"{whole.unmoved} of {whole.dimension} coordinates did not move" if whole.unmoved else SLOW
        return found._replace(status="unclear", note=note)
    if not np.isfinite(whole.mean).all():
        return found._replace(status="skipped", note="it collected no draws")
    truth, claim = trial.expected(whole.judged), claimed(whole.judged) if claimed else None
    tv, floor = total_variation(whole, truth.bins)
    z = float(np.nanmax(np.abs(zscores(whole, truth))))
    stein = _stein(k_stein, trial, whole.last)
    found = found._replace(
        tv_target=tv,
        tv_claimed=total_variation(whole, claim.bins)[0] if claim else math.nan,
        tv_floor=floor,
        z_target=z,
        ksd=stein.ksd,
        ksd_p=stein.pvalue,
        ratio=_ratios(truth, whole.mean)["ratio_limit"],
        note=_note(whole),
        **_ratios(truth, whole.mean),
    )
    if whole.unmoved and z < LIMIT:
        note = f"{whole.unmoved} of {whole.dimension} coordinates did not move"
        return found._replace(status="unclear", note=note)
    if whole.forgotten < 2.0 and z < LIMIT:
        return found._replace(status="unclear", note=f"it moves {whole.forgotten:.1f} relaxation times in this budget")
    alone = trial.step_size is not None or divided(kernel, 2) is None
    if (kind in ("exact", "none") or (alone and kind != "wrong")) and z < LIMIT:
        return found._replace(status="right", z_claimed=z)
    if alone:
        z_claimed = float(np.nanmax(np.abs(zscores(whole, claim)))) if claim else math.nan
        return found._replace(
            status="claimed" if kind == "wrong" and z_claimed < LIMIT else "wrong", z_claimed=z_claimed
        )
    return _followed(k_finer, kernel, law, trial, budget, whole, found, claim, log_tilt)


def _followed(key, kernel, law, trial: Trial, budget, whole: Measured, found: Finding, claim, log_tilt) -> Finding:
    """The limit h → 0, with an appeal to h/4."""
    kind = law.kind if law else "none"
    order = 1.0 if trial.stochastic or kind in ("none", "wrong") else max(law.order, 1.0)
    truth, runs = trial.expected(whole.judged), [whole]
    reference = claim or truth
    for finer, k in zip((2, 4), jax.random.split(key), strict=True):
        run = measure(k, divided(kernel, finer), trial, budget, log_tilt=log_tilt, finer=finer, like=whole)
        if run.diverged > MANY * run.chains:
            return found._replace(status="diverged", diverged=run.diverged, chains=run.chains)
        runs.append(run)
        end = limit(runs, reference, order)
        clear = end.z > 4 * LIMIT and end.order < 0.3 * order
        dear = run.turns > finer * whole.turns  # an appeal would take 16 times as long
        if end.met or clear or dear:
            break
    found = found._replace(order=end.order, **_ratios(truth, end.mean))
    if claim is None:  # a law without closed form: only p can be asked about
        return found._replace(status="right" if found.z_target < LIMIT else "wrong")
    found = found._replace(z_claimed=end.z)
    if dear and not end.met and end.order > 0.5 * order:
        return found._replace(
            status="unclear", note=f"the bias falls as h^{end.order:.1f}, which was not followed further"
        )
    if not end.met:
        lower = order > 1 and limit(runs, reference, 1.0).met
        return found._replace(status="lower" if lower else "wrong")
    if kind == "exact":
        return found._replace(status="wrong")  # it is here because its bias at h is clear, and exact means at every h
    if found.z_target >= LIMIT and end.order < order - 0.55:
        return found._replace(status="unclear", note=f"the bias falls as h^{end.order:.1f} only")
    met = "claimed" if kind == "wrong" else "right" if found.z_target < LIMIT else "order"
    return found._replace(status=met)


def _note(run: Measured) -> str:
    """What limits a finding that is otherwise clear."""
    judged, k = int(run.judged.sum()), len(run.judged)
    slow = f"judged by the {judged} of {k} coordinates that forgot their start" if judged < k else ""
    lost = f"{run.diverged} of {run.chains} chains diverged" if run.diverged else ""
    return "; ".join(filter(None, (lost, slow)))


def _ratios(truth: Expected, mean: np.ndarray) -> dict[str, float]:
    """Variances over the truth's: pooled, and of the first coordinate."""
    i = variance_index(len(mean))
    share = mean / np.where(truth.mean == 0, 1.0, truth.mean)
    return {"ratio_limit": float(share[i]), "quick": float(share[i // 2])}


def _claimed(law: Law, trial: Trial) -> tuple[Callable[[np.ndarray], Expected] | None, np.ndarray | None]:
    """What a wrong law says of the statistics of judged latents, and the log weights of the trial's draws under it.

    None where it cannot be said.
    """
    if law.density is None or trial.stochastic:
        return None, None
    positions, log_weight = trial.draws()
    try:
        density = jax.jit(jax.vmap(law.density(trial.target).log_density))
        tilt = np.asarray(density(jnp.asarray(positions)), np.float64)
    except REFUSED:  # no closed form on this target
        return None, None
    truth = np.asarray(jax.jit(jax.vmap(trial.target.log_density))(jnp.asarray(positions)), np.float64)
    tilted = log_weight + tilt - truth / trial.temperature
    if positions.shape[1] == 1:
        u = np.linspace(-8.0, 8.0, 16_001)[:, None] + 5e-4
        x = u * math.sqrt(trial.temperature) / float(trial.target.unit)
        value = np.asarray(density(jnp.asarray(x, jnp.float32)), np.float64)
        return lambda those: weighted(u[:, those], value, independent=False), tilted
    w = np.exp(tilted - tilted.max())
    if w.sum() ** 2 / (w**2).sum() < ENOUGH:
        return None, None
    latents = trial.latents(positions)
    return lambda those: weighted(latents[:, those], tilted), tilted


def _stein(key, trial: Trial, last: np.ndarray):
    """KSD of independent draws, one a chain, coordinates standardised."""
    positions, log_weight = trial.draws()
    w = np.exp(log_weight - log_weight.max())
    mean = w @ positions / w.sum()
    sd = np.sqrt(w @ (positions - mean) ** 2 / w.sum())
    x = jnp.asarray(last[:1024], jnp.float32)
    score = np.asarray(jax.jit(jax.vmap(jax.grad(trial.target.log_density)))(x)) / trial.temperature
    return ksd(np.asarray(x) / sd, score * sd, bootstrap=500, key=key)
