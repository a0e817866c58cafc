"""A Bayesian network in a few words: its net, likelihood, prior and data, for its text and its table in a notebook."""

from __future__ import annotations

from typing import Any

import jax

from langevin.core import tree
from langevin.core.display import show


def facts(model: Any) -> list[tuple[str, str]]:
    """Names and words for what a BNN is made of; no numbers of data or weights."""
    network, target = model.predict.network, model.target
    known = "" if network.noise is None else f", σ = {show(network.noise)}"
    weights = tree.size(jax.eval_shape(model.first)["net"])
    return [
        ("net", f"{type(network.fixed).__name__}, {weights:,} weights sampled"),
        ("likelihood", f"{network.kind}{known}"),
        ("prior", model.prior.words()),
        ("data", f"{target.n:,} examples {show(target.data)}"),
        ("batch", "all data" if target.batch is None else f"{target.batch} examples"),
    ]
