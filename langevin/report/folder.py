"""A model in its folder: what the estimator saves, and beside it

    fit.json                  what it was fitted to
    report.json, report.npz   what its report is made of
    scores.json, scores.npz   scores of every row, for `langevin compare`
    evidence.json             what `langevin evidence` found
    unfinished/               of a fit that has not ended: asked.json, what was asked for, and its stages

Every file is checked when it is read (`core.document`). A folder is replaced as a whole: the new one is written beside
it and takes its place when all of it is there, so a process killed at any moment leaves one of the two.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from langevin.core import document
from langevin.core.files import Lock, StoreError, remove, write_file
from langevin.estimators.unfinished import UNFINISHED
from langevin.report import comparison, evidence
from langevin.report.data import ReportData

FIT, DATA, ASKED = "fit", "report", "asked"


def save(
    folder: Path,
    model: Any,
    facts: Sequence[ReportData],
    told: dict[str, Any],
    train: tuple[Any, np.ndarray],
    *,
    finished: bool = True,
) -> None:
    """The whole model. What `langevin evidence` found of the one before stays.

    facts: of every target.
    told: what it was fitted to.
    finished: whether it has all of its draws; if not, what is needed to go on stays too.
    """

    def write(new: Path) -> None:
        model.save(new)
        document.save(new, DATA, _short(tuple(facts)))
        comparison.write(new, facts, model, *train)
        if document.exists(folder, evidence.DOCUMENT):  # it is of the model and its data, not of its draws
            shutil.copy2(folder / f"{evidence.DOCUMENT}.json", new)
        document.save(new, FIT, told)

    replace(folder, write, kept=() if finished else (UNFINISHED,))


def replace(folder: Path, write: Callable[[Path], None], kept: Sequence[str] = ()) -> None:
    """Write a folder beside this one, and put it in its place. kept: names of what is taken over."""
    recover(folder)
    new, old = _beside(folder, ".new"), _beside(folder, ".old")
    remove(new)
    folder.parent.mkdir(parents=True, exist_ok=True)
    write(new)
    for name in kept:
        if (folder / name).exists():
            (folder / name).rename(new / name)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    remove(old)


def recover(folder: Path) -> None:
    """Undo what a process killed while it replaced a folder has left."""
    new, old = _beside(folder, ".new"), _beside(folder, ".old")
    if folder.exists():
        remove(old)
    elif old.exists():
        old.rename(folder)
    elif (new / UNFINISHED).exists():  # it was taken over, and the folder that was to be replaced had nothing else
        new.rename(folder)
    if (new / UNFINISHED).exists() and folder.is_dir() and not (folder / UNFINISHED).exists():
        (new / UNFINISHED).rename(folder / UNFINISHED)


# --- a fit that has not ended ---------------------------------------------------------------------------------------


def stages(folder: Path) -> Path:
    """Where the stages of a fit are kept while it runs."""
    return folder / UNFINISHED / "stages"


def write_asked(folder: Path, asked: dict[str, Any]) -> None:
    """Begin a fit here."""
    (folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
    document.save(folder / UNFINISHED, ASKED, asked)


def read_asked(folder: Path) -> dict[str, Any] | None:
    """What the fit that has not ended was asked for; None where there is none."""
    place = folder / UNFINISHED
    return document.load(place, ASKED) if document.exists(place, ASKED) else None


def lock(folder: Path) -> Lock:
    """Held by the process that fits a model into the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    return Lock(_beside(folder, ".lock"), f"the folder {folder}")


def read_data(folder: Path) -> tuple[ReportData, ...]:
    """What the report of every target of a model is made of, with what `langevin evidence` found."""
    if not document.exists(folder, DATA):
        raise StoreError(f"report: {folder} holds no data of a report; `langevin fit --out` writes them.")
    found = document.load(folder, DATA)
    every = (found,) if isinstance(found, ReportData) else found  # files of earlier versions have one alone
    if not (isinstance(every, tuple) and every and all(isinstance(facts, ReportData) for facts in every)):
        raise StoreError(f"report: {folder / DATA}.json holds no data of a report; fit the model again.")
    known = evidence.read(folder)
    return tuple(dataclasses.replace(_long(facts), evidence=known) for facts in every)


def read_fit(folder: Path) -> dict[str, Any]:
    """What `langevin fit` wrote of its table; nothing where an estimator was saved without it."""
    return document.load(folder, FIT) if document.exists(folder, FIT) else {}


def page_paths(path: Path, facts: Sequence[ReportData]) -> list[Path]:
    """Where the report of every target goes: of one target to the path, of several to its name with theirs."""
    if len(facts) == 1:
        return [path]
    names = [re.sub(r"[^\w.-]+", "-", one.target) for one in facts]
    clear = names if len(set(names)) == len(names) else [f"{i + 1}-{name}" for i, name in enumerate(names)]
    return [path.with_name(f"{path.stem}-{name}{path.suffix}") for name in clear]


def write_page(path: Path, html: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, html.encode())


def _beside(folder: Path, end: str) -> Path:
    return folder.with_name(folder.name + end)


def _short(value: Any) -> Any:
    """Arrays in half the precision, which no figure shows."""
    return _cast(value, np.float64, np.float32)


def _long(value: Any) -> Any:
    return _cast(value, np.float32, np.float64)


def _cast(value: Any, old: Any, new: Any) -> Any:
    inner = lambda v: _cast(v, old, new)
    if isinstance(value, np.ndarray):
        return value.astype(new) if value.dtype == old else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: inner(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {k: inner(v) for k, v in value.items()}
    if isinstance(value, tuple):
        made = [inner(v) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return value
