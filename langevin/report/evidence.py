"""The evidence of a model in its folder, as `langevin evidence` left it, and what a report says of it.

evidence.json holds one entry for every set of rows that the model was weighed on, with a line for every method and
seed. A line that is found again replaces itself; all others stay.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from langevin.core import document
from langevin.core.files import StoreError
from langevin.report.data import ReportData
from langevin.report.markup import listed, pair, paragraph, section, table
from langevin.report.numbers import MINUS, UNKNOWN, count, number, several, short
from langevin.report.plot import Axis, Chart

DOCUMENT = "evidence"
FEW = 10  # effective weights below which an error from their spread says little
STDERRS = 3.0  # methods that differ by more do not agree
NAME, METHOD = 40, 24  # letters of a table's name, and of a method's
WORTH = {
    "unbiased-Z": "too low on average, Z unbiased",
    "lower": "too low on average",
    "upper": "too high on average",
    "consistent": "right in the limit",
    "none": "no guarantee",
}
UNBIASED = "Where Z is unbiased, log Z is too high by c nats with probability e⁻ᶜ at most. "
BELOW = ("unbiased-Z", "lower")
TENDS = ("smc", "adapted")  # consistent, and what is off is off to below, but for chance


def fingerprint(y: np.ndarray) -> str:
    """Of targets, in their order."""
    return hashlib.sha256("\n".join(map(str, np.asarray(y).tolist())).encode()).hexdigest()


def read(folder: Path) -> tuple[dict[str, Any], ...]:
    """Entries {"rows", "n", "task", "data", "table"}, the latest last; none where the model was never weighed."""
    if not document.exists(folder, DOCUMENT):
        return ()
    try:
        return tuple(map(_entry_of, document.load(folder, DOCUMENT)))
    except (StoreError, TypeError, KeyError, ValueError) as error:
        file = folder / f"{DOCUMENT}.json"
        raise StoreError(f"evidence: {file} cannot be read ({error}); remove it and weigh the model again.") from None


def _entry_of(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry as it was written: an untrusted one is refused here, and not in the page."""
    _rows(entry)
    for row in entry["table"]:
        numbers = [row.get(k) for k in ("log_z", "stderr", "ess", "lower", "upper")]
        if row["guarantee"] not in WORTH or not all(v is None or isinstance(v, (int, float)) for v in numbers):
            raise ValueError(f"{row['method']} of seed {row['seed']} is no line of evidence")
    return {**entry, "n": int(entry["n"]), "data": str(entry["data"]), "table": tuple(map(dict, entry["table"]))}


def write(folder: Path, about: dict[str, Any], row: dict[str, Any]) -> None:
    """Add a line to the entry of the same rows; `about` is an entry without its table."""
    line = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    mine = lambda other: (other["method"], other["seed"]) == (row["method"], row["seed"])
    entries = list(read(folder))
    before = next((e for e in entries if _rows(e) == _rows(about)), None)
    kept = [other for other in before["table"] if not mine(other)] if before else []
    entries = [{**e, "table": list(e["table"])} for e in entries if e is not before]
    document.save(folder, DOCUMENT, [*entries, {**about, "table": [*kept, line]}])


def _rows(entry: dict[str, Any]) -> tuple:
    return entry["rows"], entry["task"]


# --- two models -------------------------------------------------------------------------------------------------------


def factor(first: Path, second: Path) -> dict[str, Any] | None:
    """The row of `langevin compare`: log Z of both by one method, on the latest rows that both were weighed on."""
    others = {_rows(entry): entry for entry in read(second)}
    shared = [(entry, others[_rows(entry)]) for entry in read(first) if _rows(entry) in others]
    pairs = [(one, two, found) for one, two in shared if (found := _paired(one, two))]
    if not pairs:
        return None
    one, two, (a, b) = pairs[-1]
    gap, stderr = a["log_z"] - b["log_z"], math.hypot(a["stderr"], b["stderr"])
    better = "neither" if abs(gap) <= 2 * stderr else "first" if gap > 0 else "second"
    favour = "for neither model" if better == "neither" else f"for the {better} model"
    return dict(
        score="log evidence",
        first=a["log_z"],
        second=b["log_z"],
        difference=gap,
        stderr=stderr,
        better=better,
        notes=_doubts("first", one, a) + _doubts("second", two, b),
        words=f"log Bayes factor {gap:.1f} ± {stderr:.1f}, {favour} ({a['method']}, {several(one['n'], 'row')})",
    )


def _paired(first: dict[str, Any], second: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """A line of each by one method that both have with an error: bounds from below first, the highest of them.

    Such a bound is above log Z by c with probability e^−c at most, so the highest is nearest.
    """
    a, b = ({r["method"]: r for r in entry["table"] if _known(r)} for entry in (first, second))
    below = lambda row: row["guarantee"] in BELOW or row["method"] in TENDS
    rank = lambda name: (below(a[name]), a[name]["guarantee"] != "none", a[name]["log_z"] + b[name]["log_z"])
    name = max((name for name in a if name in b), key=rank, default=None)
    return None if name is None else (a[name], b[name])


def _doubts(place: str, entry: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """Why a log evidence is not to be trusted, if it is not."""
    told = []
    if row["ess"] < FEW:
        told.append(
            f"log evidence: the effective number of weights of {row['method']} is {row['ess']:.0f} in the {place} "
            "model, and its error is not to be trusted."
        )
    if found := _apart([other for other in entry["table"] if _known(other)]):
        low, high, gap = found
        told.append(
            f"log evidence: {low['method']} and {high['method']} of the {place} model differ by {gap:.1f} nats, which "
            "their errors do not explain."
        )
    return told


def _apart(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any], float] | None:
    """The lowest and the highest line and their distance, where that is more than their errors explain."""
    if len(rows) < 2:
        return None
    low, high = (of(rows, key=lambda row: row["log_z"]) for of in (min, max))
    gap = high["log_z"] - low["log_z"]
    return (low, high, gap) if gap > STDERRS * math.hypot(low["stderr"], high["stderr"]) else None


def _known(row: dict[str, Any]) -> bool:
    return all(row.get(k) is not None for k in ("log_z", "stderr", "ess"))


# --- the section ------------------------------------------------------------------------------------------------------


def weighed(facts: ReportData) -> list[dict[str, Any]]:
    """What was found for sets of rows, of those for which something was."""
    return [entry for entry in facts.evidence if any(row.get("log_z") is not None for row in entry["table"])]


def evidence(facts: ReportData) -> Markup:
    entries = weighed(facts)
    lead = Markup(
        "The evidence Z is how probable the model held these targets before it saw any of them. It is high for a model "
        "that fits and is no larger than it must be. Models of the same rows differ in log Z by the log Bayes factor: "
        "<code>langevin compare FOLDER OTHER</code>."
    )
    return section("evidence", "Evidence", lead, *(_entry(entry, alone=len(entries) == 1) for entry in entries))


def _entry(entry: dict[str, Any], *, alone: bool) -> Markup:
    rows = [row for row in entry["table"] if row.get("log_z") is not None]
    several_seeds = len({row["seed"] for row in rows}) > 1
    named = lambda row: row["method"].replace("_", " ") + (f", seed {row['seed']}" if several_seeds else "")
    names = [short(named(row), METHOD) for row in rows]
    where = f"{several(entry['n'], 'row')} of {short(entry['data'], NAME)}"
    where += ", those the model was trained on" if entry.get("trained") else ""
    cells = [
        (name, _nats(row["log_z"]), _error(row), _whole(row["ess"]), WORTH[row["guarantee"]])
        for name, row in zip(names, rows, strict=True)
    ]
    head = ("Method", "log Z", "Error", "ESS", "Guarantee")
    caption = "log Z by method, in nats" if alone else f"log Z of {where}"
    told = [f"{row['method'].replace('_', ' ')}: {row['words']}" for row in entry["table"] if row.get("words")]
    unbiased = UNBIASED if any(row["guarantee"] == "unbiased-Z" for row in rows) else ""
    said = paragraph(f"Weighed on {where}. {unbiased}{_agreement(rows)}") + (listed(told) if told else "")
    return pair(_chart(names, rows).html(), table(head, cells, caption, text=(0, 4)) + said)


def _chart(names: list[str], rows: list[dict[str, Any]]) -> Chart:
    of = lambda key: np.array([np.nan if row.get(key) is None else row[key] for row in rows], float)
    log_z, reach = of("log_z"), 2 * of("stderr")
    lower, upper = of("lower"), of("upper")
    both = np.isfinite(lower) & np.isfinite(upper)
    place = np.arange(len(rows), 0, -1.0)
    low, high = log_z - reach, log_z + reach
    chart = Chart(
        "log Z by method",
        Axis.over("log Z (nats)", log_z, low, high, lower[both], upper[both], pad=0.08),
        Axis("Method", 0.4, len(rows) + 0.6, list(place), names),
        "; ".join(f"{name}: {_nats(z)}" for name, z in zip(names, log_z, strict=True)) + ".",
        height=110 + 38 * len(rows),
    )
    if both.any():
        chart.whiskers(place[both], lower[both], upper[both], "soft", "between both bounds", across=True)
    if np.isfinite(reach).any():
        chart.whiskers(place, low, high, "a", "two standard errors", across=True)
    return chart.points(log_z, place, "ink" if np.isfinite(reach).any() else "a", "estimate", size=4.2)


def _agreement(rows: list[dict[str, Any]]) -> str:
    """Whether the methods agree as well as their errors say."""
    known = [row for row in rows if _known(row)]
    if len(known) < 2:
        return ""
    found = _apart(known)
    if found is None:
        return "The methods agree within their errors."
    low, high = (row["method"].replace("_", " ") for row in found[:2])
    return (
        f"The methods {low} and {high} differ by {number(found[2])} nats, which their errors do not explain: an "
        "estimate that is too low on average has not arrived yet. Take a finer ladder or more particles."
    )


def _nats(x: float) -> str:
    return f"{x:,.2f}".replace("-", MINUS)


def _error(row: dict[str, Any]) -> str:
    return UNKNOWN if row["stderr"] is None else _nats(row["stderr"])


def _whole(x: float | None) -> str:
    return UNKNOWN if x is None else count(round(x))
