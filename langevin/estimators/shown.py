"""How an estimator shows itself in a notebook: what it was given, and once it is fitted, to what and at what cost."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import BaseEstimator

from langevin.core import display


class Shown(BaseEstimator):
    """An estimator with a small table of its own in a notebook; its text is scikit-learn's."""

    def _repr_html_(self) -> str:
        found = fitted(self)
        words = "fitted" if found else "not fitted"
        return display.page(type(self).__name__, words, [*given(self), *found])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # a notebook asks for this first
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def given(estimator: BaseEstimator) -> list[tuple[str, str]]:
    """Parameters that are not at their defaults."""
    defaults = {p.name: p.default for p in inspect.signature(type(estimator)).parameters.values()}
    rows = []
    for name, value in estimator.get_params(deep=False).items():
        default = defaults.get(name, inspect.Parameter.empty)
        if default is inspect.Parameter.empty or display.show(value) != display.show(default):
            rows.append((name, display.show(value)))
    return rows


def fitted(estimator: Any) -> list[tuple[str, str]]:
    """What a fit has found, in numbers; nothing before it."""
    if hasattr(estimator, "estimator_"):
        return [("estimator_", display.show(estimator.estimator_)), ("radius_", display.show(estimator.radius_))]
    posterior = getattr(estimator, "posterior_", None)
    if posterior is None:
        return []
    chains, draws = posterior.info.ok.shape
    rows = [("chains × draws", f"{chains} × {draws}"), ("kernel", display.show(posterior.kernel))]
    if hasattr(estimator, "n_rows_"):
        rows.insert(0, ("trained on", f"{estimator.n_rows_:,} rows of {len(estimator.columns_.names)} encoded columns"))
    if posterior.diverged:
        rows.append(("chains that diverged", ", ".join(map(str, posterior.diverged))))
    return [*rows, ("seconds", f"{getattr(estimator, 'seconds_', posterior.provenance.seconds):.1f}")]
