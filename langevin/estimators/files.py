"""Estimators in folders: parameters, plan, columns and threshold as a document, draws as `Posterior.save` writes them.

A network of one's own is code, and code is not saved: `load` takes it again, as `network=`. So are a plan that tunes by
a function of one's own, and a kernel that holds one; without these an estimator predicts as it did, and only to fit it
anew are they needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from langevin.core import document
from langevin.core.files import StoreError
from langevin.core.posterior import Posterior
from langevin.core.record import replace
from langevin.core.serialize import encode
from langevin.estimators.unfinished import UNFINISHED
from langevin.tune.plan import Plan

DOCUMENT = "estimator"
KEPT = (
    *("center_", "scale_", "threshold_", "epistemic_", "seed_", "n_rows_", "n_features_in_", "seconds_", "table_"),
    *("classes_", "feature_names_in_", "columns_", "targets_"),
)


def save(estimator: Any, folder: Path) -> None:
    """All of it or nothing: estimator.json, which makes the folder one, comes last."""
    params = estimator.get_params(deep=False)
    code = sorted(name for name, value in params.items() if encode(value).lost)
    estimator.posterior_.save(folder)
    value = dict(
        kind=type(estimator).__name__,
        params={name: value for name, value in params.items() if name not in code},
        code=code,
        start=jax.tree.leaves(estimator.start_),
        plan=_storable(estimator.plan_),
        kept={name: getattr(estimator, name) for name in KEPT if hasattr(estimator, name)},
    )
    document.save(folder, DOCUMENT, value)


def load(path: str | Path, **given: Any) -> Any:
    """What `save` wrote: a fitted estimator. network, plan, kernel: again, where they are code of one's own."""
    from langevin.estimators.classifier import BayesianClassifier
    from langevin.estimators.regressor import BayesianRegressor

    folder = Path(path)
    if not document.exists(folder, DOCUMENT):
        if (folder / UNFINISHED).is_dir():
            raise StoreError(f"load: the fit in {folder} is not finished; go on with it by the command that began it.")
        raise StoreError(f"load: {folder} holds no saved estimator (there is no {DOCUMENT}.json).")
    body = document.load(folder, DOCUMENT)
    try:
        if "network" in body["code"] and "network" not in given:
            raise StoreError(f"load: {folder} has a network of its own, which is code: load(path, network=…).")
        kinds = {k.__name__: k for k in (BayesianRegressor, BayesianClassifier)}
        estimator = kinds[body["kind"]](**(body["params"] | given))
        for name in KEPT:
            if name in body["kept"]:
                setattr(estimator, name, body["kept"][name])
        if not isinstance(body["plan"], Plan):
            raise TypeError(f"its plan is {type(body['plan']).__name__}")
        estimator.plan_ = body["plan"]
        like = _fitting(estimator, body["start"], folder)
        estimator.start_ = jax.tree.unflatten(jax.tree.structure(like), body["start"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"load: {folder / DOCUMENT}.json is not as langevin writes it ({error}).") from None
    estimator.posterior_ = Posterior.load(folder, like=like)
    return estimator


def _fitting(estimator: Any, start: list, folder: Path) -> Any:
    """Shapes of the network's position, compared with the arrays that are there before a network is built."""
    net = estimator._net()
    like = jax.eval_shape(lambda: net.position)
    wanted = [u.shape for u in jax.tree.leaves(like)]
    found = [u.shape[1:] for u in start]
    if wanted != found:
        raise StoreError(
            f"load: the network that {folder / DOCUMENT}.json describes has arrays of shapes {wanted}, and those saved "
            f"are {found}; the folder is damaged, or the network given is another."
        )
    return like


def _storable(plan: Any) -> Any:
    """The plan without what is code: it is not needed to predict, nor to go on."""
    if encode(plan.tune).lost:
        plan = replace(plan, tune=None)
    lost = encode(plan.kernel).lost
    return replace(plan, kernel=None) if lost else plan
