r"""The audit: does a sampler converge to what it says it does, and at what price?

On every target of known truth (`trials`) the kernel is run at its step size h and at h/2 (`measure`), and judged
(`verdict`). The figures, for a target X:

    tv_target_X, tv_claimed_X    total variation at h to the truth and to the law claimed
    tv_floor_X                   what of it Monte Carlo error alone gives
    z_target_X                   the largest |bias|/error at h to the truth
    z_claimed_X                  the same to the law claimed, extrapolated to h = 0 by its order
    order_X                      log₂ of the fall of the clearest bias from h to h/2, where there is a clear one
    ksd_X, ksd_p_X               kernelised Stein discrepancy of one draw a chain and its p-value
    variance_X                   variance over the truth's at h
    cost_grad, cost_time         gradients a step; time of a step over that of SGLD's, interleaved in one process

A passing audit is "no bias found with this budget", not a proof.

References
----------
Gorham & Mackey (2017), Measuring sample quality with kernels.
Talay & Tubaro (1990), Expansion of the global error for numerical schemes solving stochastic differential equations.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from langevin.audit import trials
from langevin.audit.examine import REFUSED, examine, momentum
from langevin.audit.measure import divided, holder, measure, total_variation
from langevin.audit.one_step import look_inside
from langevin.audit.subjects import foreign
from langevin.audit.trials import Trial
from langevin.audit.verdict import Finding, row_words, verdict
from langevin.core import noise, progress
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.display import show
from langevin.core.result import Result, interleaved, ratio
from langevin.core.types import Law
from langevin.samplers.sgld import SGLD


@dataclasses.dataclass
class Audit(Result):
    """A Result that also has the kernel, what it claims, the outcome and the verdict in words.

    The outcome is "passed" (it samples p, as it claims), "as claimed" (not p, and it says so), "failed", or "unclear"
    (parts of the position did not move, or nothing could be judged).
    """

    kernel: str = ""
    law: str = ""
    outcome: str = ""
    verdict: str = ""

    @property
    def passed(self) -> bool:
        """It samples p, as it claims to."""
        return self.outcome == "passed"

    def as_dict(self) -> dict[str, Any]:
        body = super().as_dict()
        where = body.pop("provenance")
        return body | dict(
            kernel=self.kernel, law=self.law, outcome=self.outcome, verdict=self.verdict, provenance=where
        )


def audit_kernel(
    kernel: Any,
    targets: Sequence[str] = (),
    size: str = "cpu",
    seed: int = 0,
    *,
    name: str = "",
    told: Callable[[str], None] = lambda name: None,
) -> Audit:
    """Try `kernel` (anything with init and step) on the named targets, by default on all; `told` hears each name."""
    kernel, shown = foreign(kernel), name or show(kernel)
    chosen, budget = trials.named(targets, size), trials.SIZES[size]
    law = kernel.law()
    findings: list[Finding] = []
    with warnings.catch_warnings(), jax.numpy_rank_promotion("allow"):
        warnings.simplefilter("ignore")
        grads = _grads(kernel, chosen[0])
        for i, (k, trial) in enumerate(zip(jax.random.split(noise.key(seed), len(chosen)), chosen, strict=True)):
            told(trial.name)
            progress.tell(i, len(chosen) + 1)
            findings.append(examine(k, kernel, law, _paced(trial, grads), budget))
        told("cost")
        progress.tell(len(chosen), len(chosen) + 1)
        costs = _cost(noise.key(seed + 1), kernel, chosen)
        local, findings = _looked(noise.key(seed + 2), kernel, law, findings)
    outcome, sentence = verdict(findings, law, local, momentum=momentum(kernel, chosen[0]))
    figures = _figures(findings) | costs
    return Audit(
        name=f"audit-{shown.split('(')[0].lower()}",
        figures=figures,
        table=[_row(f, law) for f in findings],
        seed=seed,
        kernel=show(kernel),
        law=law.words if law else "states none",
        outcome=outcome,
        verdict=f"{shown}: {sentence}",
    )


# --- the price, and what is told --------------------------------------------------------------------------------------


def _cost(key, kernel, chosen: list[Trial]) -> dict[str, float]:
    """Gradients and time of a step against SGLD's, on the dearest target that was tried."""
    by_name = {t.name: t for t in chosen}
    trial = next((by_name[n] for n in ("logistic", "banana50", "gaussian50") if n in by_name), chosen[0])
    k_start, k_sgld, k_kernel = jax.random.split(key, 3)
    group = kernel.group
    start = trial.starts(k_start, -(-64 // group) * group)
    kernels = {"sgld": SGLD(0.01), "kernel": kernel}
    try:
        states = {
            n: begin_all(k, v, trial.target, start)
            for (n, v), k in zip(kernels.items(), (k_sgld, k_kernel), strict=True)
        }
        go = lambda n: (
            lambda turn: (
                advance(
                    jax.random.key(turn), kernels[n], trial.target, states[n], length=32, thin=8, layout="vmap"
                ).info.n_grad
            )
        )
        seconds = interleaved({n: go(n) for n in kernels}, 11)
        n_grad = float(np.mean(go("kernel")(0))) / 8
    except REFUSED:
        return {}
    return {"cost_grad": n_grad, "cost_time": ratio(seconds, "kernel", "sgld")}


def _looked(key, kernel, law: Law | None, findings: list[Finding]):
    """A look inside a kernel that is not what it claims; the note of `normal` then says how far p D^{c−1} is.

    Not where proposals are rejected: the moves of a Metropolis kernel are no drift and diffusion.
    """
    if (
        any(f.adjusted for f in findings)
        or (law is not None and law.kind == "wrong")
        or not any(f.status in ("wrong", "lower") for f in findings)
    ):
        return None, findings
    trial = trials.named(["normal"], "quick")[0]
    inner = holder(kernel, "step_size")
    if inner is None or callable(inner.step_size):
        return None, findings
    finer = divided(kernel, 4)
    try:
        local = look_inside(key, finer, trial, float(inner.step_size) / 4)
        if local is None:
            return None, findings
        k_run = jax.random.fold_in(key, 1)
        run = measure(k_run, finer, trial, trials.SIZES["cpu"]._replace(chains=512))
    except REFUSED:
        return None, findings
    tv, _ = total_variation(run, local.bins)
    return local, [f._replace(note=f"{tv:.3f}") if f.name == "normal" and f.status == "wrong" else f for f in findings]


def _grads(kernel, trial: Trial) -> int:
    """Gradients of one step, as the kernel reports them."""
    group = kernel.group
    try:
        states = begin_all(noise.key(0), kernel, trial.target, trial.starts(noise.key(1), 4 * group))
        info = advance(noise.key(2), kernel, trial.target, states, length=1, thin=1, layout="vmap").info
    except REFUSED:
        return 1
    return max(1, round(float(np.mean(info.n_grad))))


def _paced(trial: Trial, grads: int) -> Trial:
    """The trial with fewer steps between draws for a kernel whose steps are long."""
    length, thin = trial.chunk
    return dataclasses.replace(trial, chunk=(length, max(1, thin // grads)))


def _row(f: Finding, law: Law | None) -> dict[str, Any]:
    number = lambda v, form: "" if v != v else format(v, form)
    return {
        "target": f.name,
        "TV to p": number(f.tv_target, ".3f"),
        "to claim": number(f.tv_claimed, ".3f"),
        "floor": number(f.tv_floor, ".3f"),
        "|z| to p": number(f.z_target, ".1f"),
        "claim, h→0": number(f.z_claimed, ".1f"),
        "order": number(f.order, ".2f"),
        "variance": number(f.ratio, ".3f") + ("" if f.ratio != f.ratio else "×"),
        "KSD": number(f.ksd, ".3f") + ("" if f.ksd != f.ksd else f" (p {f.ksd_p:.2f})"),
        "finding": row_words(f if f.name != "normal" else f._replace(note=""), law),
    }


def _figures(findings: list[Finding]) -> dict[str, float]:
    names = {
        "tv_target": "tv_target", "tv_claimed": "tv_claimed", "tv_floor": "tv_floor", "z_target": "z_target",
        "z_claimed": "z_claimed", "order": "order", "ksd": "ksd", "ksd_p": "ksd_p", "variance": "ratio",
    }  # fmt: skip
    figures = {}
    for f in findings:
        for name, field in names.items():
            value = getattr(f, field)
            if value == value:
                figures[f"{name}_{f.name}"] = float(value)
        if f.diverged:
            figures[f"diverged_{f.name}"] = f.diverged / f.chains
    return figures
