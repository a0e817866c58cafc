"""ReportData for reports, from synthetic numbers: a sound regression, a sound classification, and odd cases of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import softmax

from langevin.diagnostics.convergence import Diagnosis, diagnose
from langevin.diagnostics.findings import Finding
from langevin.diagnostics.uncertainty import entropies, variances
from langevin.report.data import Predictions, ReportData

NASTY = "<script>alert('&')</script>"


def regression(*, rows: int = 180, chains: int = 4, draws: int = 250, scale: float = 1.0, seed: int = 0) -> ReportData:
    """Predictions that are right: y comes from what the draws are centred on."""
    rng = np.random.default_rng(seed)
    truth = 150 + 60 * np.sort(rng.normal(size=rows))
    noise = 14 + 8 * rng.random(rows)
    doubt = 3 + 7 * rng.random(rows) ** 2
    mean = truth + doubt * rng.normal(size=(chains, draws, rows))
    std = noise * np.exp(0.05 * rng.normal(size=(chains, draws, 1)))
    y = truth + doubt * rng.normal(size=rows) + noise * rng.normal(size=rows)
    members = truth + 3 * doubt * rng.normal(size=(chains, rows))
    followed = {
        "log density": -412
        + np.cumsum(rng.normal(size=(chains, draws)), axis=1) * 0.02
        + 6 * rng.normal(size=(chains, draws)),
        "noise scale": std[..., 0] * scale,
    }
    said = Predictions(mean=mean.reshape(-1, rows) * scale, std=std.reshape(-1, rows) * scale)
    start = Predictions(mean=members * scale, std=np.broadcast_to(0.7 * noise * scale, members.shape))
    diagnosis = diagnose({"predictions": mean, "predictions²": mean**2, "log density": followed["log density"]})
    n_grad = 2 * chains * draws
    diagnosis = diagnosis._replace(
        n_grad=n_grad, ess_per_grad={name: float(np.min(v)) / n_grad for name, v in diagnosis.ess_bulk.items()}
    )
    known = np.sqrt(variances(said.mean, said.std).epistemic)
    return ReportData(
        **_words("diabetes", "disease progression"),
        task="regression",
        classes=None,
        y=y * scale,
        predictions=said,
        start=start,
        chains=followed,
        energy_error=0.4 * rng.normal(size=(chains, draws)),
        diagnosis=diagnosis,
        known=known,
        shuffled=known[rng.integers(rows, size=300)] * np.exp(0.9 + 0.6 * rng.normal(size=300)),
        threshold=float(np.quantile(known, 0.95)),
        draws_wanted=draws,
        evidence=(_weighed("diabetes"),),
        chain_of=np.repeat(np.arange(chains), draws),
        drivers=_drivers("bmi", "bp", "sex", "age"),
        curves=tuple(_curve(name, levels, scale) for name, levels in (("bmi", None), ("sex", ("female", "male")))),
        baselines={
            "trivial": _gaussian(np.full(rows, 150.0), 62.0, scale),
            "linear": _gaussian(truth + 40 * rng.normal(size=rows), 46.0, scale),
            "boosting": _gaussian(truth + 9 * rng.normal(size=rows), 22.0, scale),
        },
    )


def _gaussian(mean: np.ndarray, std: float, scale: float) -> Predictions:
    return Predictions(mean=scale * mean[None], std=np.full((1, len(mean)), scale * std))


def _drivers(*names: str) -> tuple[dict, ...]:
    return tuple(dict(column=name, increase=1.2 / (i + 1) ** 2 - 0.1, stderr=0.05) for i, name in enumerate(names))


def _curve(column: str, levels: tuple[str, ...] | None, scale: float, classes: int = 0) -> dict:
    """A curve that rises, or probabilities that change with the column."""
    at = np.linspace(18.0, 42.0, 20) if levels is None else np.arange(float(len(levels)))
    mean = 100 + 2 * at if not classes else softmax(np.outer(at / at.max(), np.arange(classes)), axis=-1)
    band = np.full_like(mean, 6.0 if not classes else 0.02)
    return dict(
        column=column, levels=levels, at=at, mean=scale * mean, low=scale * (mean - band), high=scale * (mean + band)
    )


def _weighed(data: str) -> dict:
    lines = (
        ("laplace", -412.31, None, None, "none", ""),
        ("ais", -415.87, 0.42, 31.2, "unbiased-Z", ""),
        ("smc", -415.12, 0.21, 812.0, "consistent", ""),
        ("stochastic_dais", -461.9, 0.93, 1.4, "unbiased-Z", "the effective number of weights is 1."),
    )
    names = ("method", "log_z", "stderr", "ess", "guarantee", "words")
    table = tuple(dict(zip(names, line, strict=True), seed=0, lower=None, upper=None) for line in lines)
    return dict(rows="a", n=353, task="regression", data=data, target="y", trained=True, table=table)


def classification(
    *, rows: int = 300, classes: int = 3, chains: int = 4, draws: int = 250, seed: int = 1
) -> ReportData:
    """Probabilities that are right: labels are drawn from their mean."""
    rng = np.random.default_rng(seed)
    logits = 2.2 * rng.normal(size=(rows, classes))
    proba = softmax(logits + 0.7 * rng.normal(size=(chains, draws, rows, classes)), axis=-1)
    y = np.array([rng.choice(classes, p=p / p.sum()) for p in proba.mean(axis=(0, 1))])
    members = softmax(1.6 * logits + 0.9 * rng.normal(size=(chains, rows, classes)), axis=-1)
    said = Predictions(proba=proba.reshape(-1, rows, classes))
    log_density = -230 + 5 * rng.normal(size=(chains, draws))
    known = entropies(said.proba).epistemic
    names = ("setosa", "versicolor", "virginica", *(f"species {k}" for k in range(4, classes + 1)))
    return ReportData(
        **_words("iris", "species"),
        task="classification",
        classes=names[:classes],
        y=y,
        predictions=said,
        start=Predictions(proba=members),
        chains={"log density": log_density},
        energy_error=None,
        diagnosis=diagnose({"predictions": proba[..., 0], "log density": log_density}),
        known=known,
        shuffled=known[rng.integers(rows, size=200)] * np.exp(0.5 + 0.5 * rng.normal(size=200)),
        threshold=float(np.quantile(known, 0.95)),
        draws_wanted=draws,
        chain_of=np.repeat(np.arange(chains), draws),
        drivers=_drivers("petal width", "sepal length"),
        curves=(_curve("petal width", None, 1.0, classes), _curve("soil", ("clay", "sand", "silt"), 1.0, classes)),
        baselines={
            "trivial": Predictions(proba=np.full((1, rows, classes), 1 / classes)),
            "linear": Predictions(proba=softmax(0.3 * logits, axis=-1)[None]),
            "boosting": Predictions(proba=softmax(1.1 * logits + 0.9 * rng.normal(size=logits.shape), axis=-1)[None]),
        },
    )


def _words(name: str, target: str) -> dict:
    return {
        "name": name,
        "target": target,
        "data": {
            "File": f"{name}.csv",
            "Training rows": "353",
            "Test rows": "89",
            "Features": "10 (8 numbers, 2 categories)",
        },
        "model": {
            "Network": "MLP 10-16-16-2, tanh",
            "Weights": "482",
            "Prior": "N(0, 1) of each weight",
            "Plan": "smile",
            "Kernel": "SMILE(step_size=0.013, friction=1)",
        },
        "notes": ("3 rows without a target were left out.", "The column “id” was left out: all its values differ."),
        "law": "p as h → 0, with a bias of order h²",
        "law_kind": "order",
        "audit": (
            {"target": "gaussian", "tv": 0.0123, "z": 1.4, "chains": 4096, "verdict": "p as h → 0, bias O(h²)"},
            {"target": "funnel", "tv": 0.0391, "z": 2.2, "chains": 4096, "verdict": "p as h → 0, bias O(h²)"},
            {"target": "banana", "tv": float("nan"), "z": float("nan"), "chains": 0, "verdict": "not tried"},
        ),
        "audit_outcome": "passed: converges to p as h → 0 on 2 of 2 targets tried.",
        "provenance": {
            "Command": f"langevin fit {name}.csv --target '{target}' --plan smile --report out.html",
            "Seed": "0",
            "Versions": "python 3.11.2, langevin 0.1.0, jax 0.10.2, numpy 2.3.1, optax 0.2.6",
            "Device": "4 × cpu (cpu)",
            "Seconds": "41.2",
            "Commit": "1dcc4e8",
        },
        "references": (
            "Robnik, De Luca, Silverstein, Seljak (2023). Microcanonical Hamiltonian Monte Carlo. JMLR 24(311).",
            "Sommer, Robnik, Nozadze, Seljak, Rügamer (2025). Microcanonical Langevin ensembles. ICLR.",
        ),
    }


def one_chain() -> ReportData:
    return regression(chains=1)


def unknown_rhat() -> ReportData:
    facts = regression()
    nothing = np.full(180, np.nan)
    d = facts.diagnosis._replace(
        rhat={"predictions": nothing}, ess_bulk={"predictions": nothing}, ess_tail={}, ess_per_grad={}
    )
    return replace(facts, diagnosis=d)


def one_left() -> ReportData:
    """All chains but one diverged, with what that leaves behind."""
    facts = regression(chains=5)
    broken = {name: x.copy() for name, x in facts.chains.items()}
    for x in broken.values():
        x[1:, 100:] = np.nan
    lost = Finding("diverged", chains=(1, 2, 3, 4), value=4, details=dict(of=5))
    energy = facts.energy_error.copy()
    energy[1:, 100:] = np.inf
    d = facts.diagnosis._replace(divergent=(1, 2, 3, 4), findings=(lost,))
    return replace(facts, chains=broken, energy_error=energy, diagnosis=d)


def undiagnosed() -> ReportData:
    """Nothing but predictions: stopped early, no ensemble, no energy, no audit, no shuffled rows, no evidence."""
    few = Finding("too_few_draws", value=3, limit=4, details=dict(chains=0))
    empty = Diagnosis({}, {}, {}, None, {}, (), (few,))
    return replace(
        regression(rows=12),
        diagnosis=empty,
        start=None,
        energy_error=None,
        chains={},
        known=np.zeros(0),
        shuffled=np.zeros(0),
        threshold=float("nan"),
        audit=(),
        audit_outcome="",
        notes=(),
        law_kind="wrong",
        law="p/D, not p",
        draws_wanted=10**6,
        evidence=(),
    )


def nasty() -> ReportData:
    """Markup in every text that comes from outside."""
    facts = classification(classes=3)
    every = {NASTY: NASTY}
    nasty_name = Finding("rhat", "care", (NASTY,), value=1.3, limit=1.01, details=dict(worst=NASTY))
    return replace(
        facts,
        name=NASTY,
        target=NASTY,
        classes=(NASTY, '"><img src=x onerror=alert(1)>', "c" * 60),
        data=every,
        model=every,
        notes=(NASTY,),
        chains={NASTY: facts.chains["log density"]},
        diagnosis=facts.diagnosis._replace(
            rhat={NASTY: np.ones(1), **facts.diagnosis.rhat}, findings=(nasty_name,), divergent=()
        ),
        law=NASTY,
        audit=({NASTY: NASTY},),
        audit_outcome=NASTY,
        provenance=every,
        references=(NASTY,),
        evidence=({**_weighed(NASTY), "table": (dict(_weighed("")["table"][1], method=NASTY, words=NASTY),)},),
    )


def long_names() -> ReportData:
    facts = regression()
    return replace(
        facts,
        name="a table with " + "a very long name " * 6,
        target="the_target_" * 9,
        chains={"log density of " * 8: facts.chains["log density"]},
        data={"path " * 9: "/a/b" * 60},
    )


def off() -> ReportData:
    """Intervals far too narrow, and chains apart."""
    facts = regression(rows=200)
    apart = {name: x + np.std(x) * 4 * np.arange(len(x))[:, None] for name, x in facts.chains.items()}
    rows = len(facts.y)
    mean = facts.predictions.mean.reshape(4, -1, rows) + 12.0 * np.arange(4)[:, None, None]
    said = Predictions(mean=mean.reshape(-1, rows), std=0.3 * facts.predictions.std)
    return replace(facts, predictions=said, chains=apart, diagnosis=diagnose({"predictions": mean, **apart}))


ODD: dict[str, Callable[[], ReportData]] = {
    "one chain": one_chain,
    "twenty chains": lambda: regression(chains=20, draws=60),
    "unknown R-hat": unknown_rhat,
    "one left": one_left,
    "12 rows": lambda: regression(rows=12),
    "1 row": lambda: regression(rows=1),
    "2 classes": lambda: classification(classes=2),
    "30 classes": lambda: classification(classes=30, rows=400, draws=60),
    "huge": lambda: regression(scale=1e9),
    "tiny": lambda: regression(scale=1e-9),
    "undiagnosed": undiagnosed,
    "nasty": nasty,
    "long names": long_names,
    "off": off,
}
