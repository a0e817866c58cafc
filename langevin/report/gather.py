"""From a fitted estimator and rows it has not seen to the facts of a report."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jax
import numpy as np

from langevin.core import kernel as kernels
from langevin.core import progress, tree
from langevin.core.record import is_record, values
from langevin.core.serialize import Unstored
from langevin.core.types import Law
from langevin.diagnostics.convergence import diagnose
from langevin.estimators.network import NetworkEstimator
from langevin.report.baselines import fit_baselines
from langevin.report.data import Predictions, ReportData
from langevin.report.drivers import explain
from langevin.vi.family import HasLogProb
from langevin.vi.independent import Independent
from langevin.vi.quality import pareto_k

ROWS = 2000  # test rows a report uses, at most
FOLLOWED = 3  # of them, followed through the chains
PARTS = 4  # of gathering, as progress tells it: what drives predictions, predictions, baselines, the rest
WATCHED = 50  # of them, whose convergence is judged


def gather(
    estimator: NetworkEstimator,
    X: Any,
    y: np.ndarray,
    *,
    name: str,
    target: str,
    notes: tuple[str, ...] = (),
    train: tuple[Any, np.ndarray] | None = None,
    running: bool = False,
) -> ReportData:
    """ReportData about an estimator, judged on rows (X, y) it has not seen.

    train: the rows it was trained on, to fit baselines to; running: whether sampling goes on. What takes longer than
    predictions (baselines, what drives them) is left out without the one, and with the other.
    """
    posterior, classes = estimator.posterior_, getattr(estimator, "classes_", None)
    random = np.random.default_rng(0)
    n_all, index = len(y), np.sort(random.permutation(len(y))[:ROWS])
    X, y = _rows(X, index), np.asarray(y)[index]
    whole = train is not None and len(y) > 0 and not running
    drivers, curves = explain(estimator, X, y) if whole else ((), ())
    progress.tell(1, PARTS)
    y = y.astype(float) if classes is None else np.searchsorted(classes, y)
    family = getattr(estimator, "likelihood", "gaussian")
    said = Predictions(family=family, **estimator.predictive(X))
    progress.tell(2, PARTS)
    baselines = fit_baselines(estimator, *train, X) if whole and train is not None else {}
    progress.tell(3, PARTS)
    watched = _rows(X, np.linspace(0, len(y) - 1, min(WATCHED, len(y))).round().astype(int))
    followed = estimator.followed(watched)
    info = posterior.info
    law, name_of, shown, references = _kernel(posterior.kernel)
    audit = _audit(name_of)
    return ReportData(
        name=name,
        task=estimator.task,
        target=target,
        classes=None if classes is None else tuple(map(str, classes)),
        y=y,
        predictions=said,
        start=Predictions(family=family, **estimator.predictive(X, start=True)),
        data=_data(estimator, n_all),
        model=_model(estimator, shown),
        notes=(*notes, *estimator.columns_.notes()),
        chains=_chains(info, followed, estimator.task),
        energy_error=np.asarray(info.energy_error) if np.any(np.asarray(info.energy_error)) else None,
        diagnosis=diagnose({"predictions": followed, "log density": np.asarray(info.log_density)}, info),
        known=estimator.epistemic_,
        shuffled=estimator.disagreement(_shuffle(X, random)),
        threshold=estimator.threshold_,
        law=law.words,
        law_kind=law.kind,
        pareto_k=_pareto_k(posterior) if law.kind == "approximate" else float("nan"),
        audit=tuple(audit.get("table", ())),
        audit_outcome=audit.get("verdict", ""),
        provenance=_provenance(estimator),
        references=references,
        error=_error(estimator, watched, followed),
        draws_wanted=estimator.plan_.draws,
        baselines=baselines,
        running=running,
        chain_of=estimator._pooled_places() // posterior.info.ok.shape[1],
        drivers=drivers,
        curves=curves,
    )


def _rows(X: Any, index: np.ndarray) -> Any:
    return X.iloc[index] if hasattr(X, "iloc") else np.asarray(X)[index]


def _shuffle(X: Any, random: np.random.Generator) -> Any:
    """Rows whose features come from different rows each: every value is usual, their company is not."""
    if hasattr(X, "columns"):
        return X.apply(lambda column: column.sample(frac=1, random_state=random).to_numpy())
    return random.permuted(np.asarray(X), axis=0)


def _kernel(kernel: Any) -> tuple[Law, str, str, tuple[str, ...]]:
    """The law, the name, the settings and the references of a kernel; one that a file could not hold has no law."""
    if isinstance(kernel, Unstored):
        return Law("unknown", 0.0, None, "not known: the kernel holds code and was not saved"), "", repr(kernel), ()
    inner = kernel.kernel if isinstance(kernel, kernels.PerChain) else kernel
    return kernel.law(), type(inner).__name__, _shown(inner), tuple(kernels.references(type(inner)))


def _pareto_k(posterior: Any) -> float:
    """The largest k̂ of a mixture's fits; NaN where the approximation has no density over the weights."""
    drawn = kernels.innermost(posterior.kernel)
    if not isinstance(drawn, Independent) or drawn.linearized or not isinstance(drawn.family, HasLogProb):
        return float("nan")
    return float(np.max(pareto_k(posterior)))


def _shown(kernel: Any) -> str:
    """A kernel's fields in short: numbers that differ from chain to chain by their median, others by kind."""
    said = ", ".join(f"{name} {_short(value)}" for name, value in values(kernel).items())
    return f"{type(kernel).__name__}: {said}" if said else type(kernel).__name__


def _short(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str | bool):
        return str(value)
    if is_record(value) or isinstance(value, dict | list | tuple):
        return type(value).__name__
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    number = np.asarray(value)
    return f"{np.median(number):.3g}" if number.dtype.kind in "biuf" and number.size else type(value).__name__


def _audit(name: str) -> dict[str, Any]:
    """The kernel's recorded audit (`make audit-table`), which is package data."""
    table = resources.files("langevin.audit") / "table.json"
    return json.loads(table.read_text(encoding="utf-8")).get(name.lower(), {})


def _chains(info: Any, followed: np.ndarray, task: str) -> dict[str, np.ndarray]:
    """The log density, and predictions of a few rows."""
    what = "mean" if task == "regression" else "probability of the last class"
    at = np.linspace(0, followed.shape[2] - 1, min(FOLLOWED, followed.shape[2])).round().astype(int)
    return {"log density": np.asarray(info.log_density)} | {
        f"test row {i + 1}, {what}": followed[:, :, i] for i in dict.fromkeys(at.tolist())
    }


def _error(estimator: NetworkEstimator, X: Any, followed: np.ndarray) -> np.ndarray | None:
    """The standard error of what chains say on average, over the standard deviation of the answer."""
    alive = np.delete(followed, list(estimator.posterior_.diverged), axis=0).mean(axis=1)
    if len(alive) < 2:
        return None
    mean = alive.mean(axis=0)
    wide = estimator.uncertainty(X).total if estimator.task == "regression" else np.sqrt(mean * (1 - mean)).clip(0.1)
    return np.asarray(alive.std(axis=0, ddof=1) / np.sqrt(len(alive)) / np.asarray(wide))


def _data(estimator: NetworkEstimator, n_test: int) -> dict[str, str]:
    said = {"rows to train": f"{estimator.n_rows_:,}", "rows held out in fit": f"{len(estimator.epistemic_):,}"}
    said |= {"rows to test": f"{n_test:,}", "columns": f"{estimator.n_features_in_:,}"}
    return said | {"inputs of the network": f"{len(estimator.columns_.names):,}"}


def _model(estimator: NetworkEstimator, kernel: str) -> dict[str, str]:
    one = jax.tree.map(lambda u: np.asarray(u)[0], estimator.start_)
    hidden = " × ".join(map(str, estimator.hidden)) or "none"
    network = (
        f"{estimator.activation}, hidden layers {hidden}" if estimator.network is None else repr(estimator.network)
    )
    chains, draws = estimator.posterior_.info.ok.shape
    return {
        "network": network,
        **({"likelihood": estimator.likelihood.replace("_", " ")} if estimator.task == "regression" else {}),
        "weights sampled": f"{tree.size(one):,}",
        "prior": estimator._net().prior.words(),
        "plan": str(estimator.plan) if isinstance(estimator.plan, str) else "of its own",
        "kernel": kernel,
        "chains × draws": f"{chains} × {draws}, {estimator.plan_.thin} steps apart",
    }


def _provenance(estimator: NetworkEstimator) -> dict[str, str]:
    known = estimator.posterior_.provenance
    seconds = getattr(estimator, "seconds_", known.seconds)
    seed = estimator.random_state if isinstance(estimator.random_state, int) else estimator.seed_
    said = {"seed": str(seed), "device": known.device, "seconds": f"{seconds:.1f}"}
    said |= {"gradients while sampling": f"{known.n_grad:,}"}
    return said | {k: v for k, v in known.versions.items()} | ({"commit": known.git} if known.git else {})
