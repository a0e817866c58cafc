"""Estimators in folders: parameters, columns and threshold as JSON, draws as `Posterior.save` writes them; no pickle.

A network, plan or kernel of one's own is code, and code is not saved: `load` takes them again, as `network=`, `plan=`
and `kernel=`. Without the last two an estimator predicts as it did; only to fit it anew are they needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from langevin.core.posterior import Posterior
from langevin.core.record import replace
from langevin.core.store import StoreError, write_file
from langevin.estimators.columns import Columns
from langevin.tune.plan import PLANS

FORM = 1  # of the folder
KEPT = ("center_", "scale_", "threshold_", "seed_", "n_rows_", "n_features_in_", "seconds_")


def save(estimator: Any, folder: Path) -> None:
    """All of it or nothing: estimator.json, which makes the folder one, comes last."""
    estimator.posterior_.save(folder)
    leaves = jax.tree.leaves(estimator.start_)
    arrays = {f"start{i}": np.asarray(u) for i, u in enumerate(leaves)} | {"epistemic": estimator.epistemic_}
    np.savez(folder / "estimator.npz", **arrays)
    params = {k: _plain(v) for k, v in estimator.get_params(deep=False).items()}
    body = dict(
        form=FORM,
        kind=type(estimator).__name__,
        params={k: v[0] for k, v in params.items() if v},
        code=sorted(k for k, v in params.items() if not v),
        columns=estimator.columns_.as_json(),
        plan=_named(estimator.plan_),
        lengths={k: getattr(estimator.plan_, k) for k in ("draws", "thin", "batch")},
        kept={k: getattr(estimator, k) for k in KEPT if hasattr(estimator, k)},
    )
    for name in ("classes_", "feature_names_in_"):
        if hasattr(estimator, name):
            values = getattr(estimator, name)
            body[name] = dict(dtype=str(values.dtype), values=values.tolist())
    write_file(folder / "estimator.json", json.dumps(body, indent=1, ensure_ascii=False).encode())


def load(path: str | Path, **given: Any) -> Any:
    """What `save` wrote: a fitted estimator. network, plan, kernel: again, where they are code of one's own."""
    from langevin.estimators.classifier import BayesianClassifier
    from langevin.estimators.regressor import BayesianRegressor

    folder = Path(path)
    try:
        body = json.loads((folder / "estimator.json").read_text())
        arrays = dict(np.load(folder / "estimator.npz"))
    except (OSError, ValueError) as error:
        raise StoreError(f"load: {folder} holds no saved estimator ({error}).") from None
    if body["form"] > FORM:
        raise StoreError(f"load: {folder} was written by a newer langevin; update to read it.")
    if "network" in body["code"] and "network" not in given:
        raise StoreError(f"load: {folder} has a network of its own, which is code: load(path, network=…).")
    kinds = {k.__name__: k for k in (BayesianRegressor, BayesianClassifier)}
    estimator = kinds[body["kind"]](**({k: _tuples(v) for k, v in body["params"].items()} | given))
    for name, value in body["kept"].items():
        setattr(estimator, name, value)
    for name in ("classes_", "feature_names_in_"):
        if name in body:
            setattr(estimator, name, np.array(body[name]["values"], dtype=body[name]["dtype"]))
    estimator.columns_ = Columns.from_json(body["columns"])
    estimator.epistemic_ = arrays["epistemic"]
    like = estimator._net().position
    estimator.posterior_ = Posterior.load(folder, like=like)
    count = len(jax.tree.leaves(like))
    estimator.start_ = jax.tree.unflatten(jax.tree.structure(like), [arrays[f"start{i}"] for i in range(count)])
    estimator.plan_ = replace(PLANS[body["plan"]], **body["lengths"])
    return estimator


def _plain(value: Any) -> tuple:
    """(value,) if JSON gives it back, else ()."""
    try:
        return (value,) if json.loads(json.dumps(value)) == _lists(value) else ()
    except TypeError:
        return ()


def _lists(value: Any) -> Any:
    return [_lists(v) for v in value] if isinstance(value, (tuple, list)) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _named(plan: Any) -> str:
    """The named plan that one was made from, by its kernel."""
    alike = (name for name, other in PLANS.items() if type(other.kernel) is type(plan.kernel))
    return next(alike, "mile")
