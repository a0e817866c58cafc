"""What a report is made of: numbers and text alone, so that a page never looks into a model."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from langevin.diagnostics.convergence import Diagnosis
from langevin.diagnostics.families import Mixture, mixture


@dataclass(frozen=True)
class Predictions:
    """Predictions of rows, draw by draw: moments (draw, n) and what else its family has, or probabilities.

    mean, std: of the target by each draw (draw, n), whatever the family
    proba: (draw, n, class)
    family: of a regression (`diagnostics.families`)
    log_mean, log_std, dispersion: its parameters, where it has them
    """

    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    proba: np.ndarray | None = None
    family: str = "gaussian"
    log_mean: np.ndarray | None = None
    log_std: np.ndarray | None = None
    dispersion: np.ndarray | None = None

    def mixture(self) -> Mixture:
        """The predictive distributions of a regression."""
        assert self.mean is not None
        given = {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        given["std"] = np.broadcast_to(given.get("std", np.nan), self.mean.shape)
        return mixture(self.family, given)

    def __len__(self) -> int:
        """How many draws there are."""
        return len(next(v for v in (self.mean, self.proba) if v is not None))

    def only(self, draws: np.ndarray) -> Predictions:
        """Those of some draws, by their places or a mask."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v[draws] for k, v in every.items() if isinstance(v, np.ndarray)})


@dataclass(frozen=True)
class ReportData:
    """What is known of a fit and of its predictions for rows it has not seen.

    name: of the data
    task, target, classes: what is predicted; classes None in regression
    y: of the test rows, in the target's unit, or the places of labels in `classes`
    predictions: of the test rows by the posterior, draws of all good chains pooled
    start: by the deep ensemble the chains started from, a member for a draw; None where there was none
    baselines: by simpler models trained on the same rows (`report.baselines`), a single draw each; empty if not fitted
    data, model: what to tell of them, in order: {"rows": "442", …}
    notes: what was done to the data, sentences
    chains: a few numbers followed through sampling, {name: (chain, draw)}; the log density is the first
    energy_error: (chain, draw), None where the kernel has none
    diagnosis: convergence of predictions, and what was found
    known: epistemic uncertainty of held-out rows of the training data (n,), that the threshold was taken from
    shuffled: epistemic uncertainty of made-up rows (n,), each feature drawn apart from the others
    threshold: above it a row counts as unlike the training data
    law: what the kernel converges to, in words; law_kind "exact", "order", "wrong" or "approximate"
    pareto_k: k̂ of a fitted approximation, the largest of its fits; NaN where it is not known
    audit: rows of the kernel's audit, {"target": …, "verdict": …}, and `audit_outcome` in words; empty if not audited
    provenance: seed, versions, device, seconds …, in order
    references: what to cite, in order
    error: Monte Carlo error of the predicted means over the predictive standard deviation, a number for each of some
        rows, from the differences between chains; None with one chain
    draws_wanted: more than there are when sampling was stopped early, or goes on
    running: whether sampling goes on
    chain_of: the chain that each draw of `predictions` is from (draw,); None where that is not known
    drivers: permutation importance of the columns, the largest first: {"column", "increase", "stderr"} of NLL
    curves: partial dependence on the first of them: {"column", "levels" (names, or None), "at", "mean", "low", "high"},
        (point,) in regression and (point, class) in classification
    evidence: what `langevin evidence` found, an entry for every set of rows (`report.evidence`); empty if not asked
    """

    name: str
    task: Literal["regression", "classification"]
    target: str
    classes: tuple[str, ...] | None
    y: np.ndarray
    predictions: Predictions
    start: Predictions | None
    data: dict[str, str]
    model: dict[str, str]
    notes: tuple[str, ...]
    chains: dict[str, np.ndarray]
    energy_error: np.ndarray | None
    diagnosis: Diagnosis
    known: np.ndarray
    shuffled: np.ndarray
    threshold: float
    law: str
    law_kind: str
    audit: tuple[dict[str, Any], ...] = ()
    audit_outcome: str = ""
    provenance: dict[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    error: np.ndarray | None = None
    draws_wanted: int = 0
    evidence: tuple[dict[str, Any], ...] = ()
    baselines: dict[str, Predictions] = field(default_factory=dict)
    running: bool = False
    chain_of: np.ndarray | None = None
    drivers: tuple[dict[str, Any], ...] = ()
    curves: tuple[dict[str, Any], ...] = ()
    pareto_k: float = float("nan")

    @property
    def approximate(self) -> bool:
        """Whether the draws are independent ones of a fitted distribution."""
        return self.law_kind == "approximate"
