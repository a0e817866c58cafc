"""Bayesian computation for deep learning, in JAX: samplers that say, and are held to, the law they converge to."""

import importlib
from typing import Any

__version__ = "0.1.0"

# public name → where it lives; nothing is imported before it is asked for
_WHERE = {
    "key": "core.noise",
    "replace": "core.record",
    "Density": "core.target",
    "Diagonal": "core.metric",
    "Dense": "core.metric",
    "Spiked": "core.metric",
    "PerChain": "core.kernel",
    "advance": "core.advance",
    "run": "core.run",
    "Store": "core.store",
    "Stored": "core.store",
    "StoreError": "core.store",
    "Posterior": "core.posterior",
    "sample": "core.posterior",
    "Progress": "core.visits",
    "EarlyStop": "core.visits",
    "Bayes": "targets.bayes",
    "Tempered": "targets.tempered",
    "Geometric": "targets.path",
    "Bijected": "targets.bijected",
    "variates": "targets.variates",
    "Recentre": "targets.variates",
    "from_numpyro": "targets.numpyro",
    "RMS": "metrics.diagonal",
    "Fixed": "metrics.diagonal",
    "Block": "metrics.block",
    "Position": "metrics.position",
    "LowRank": "metrics.lowrank",
    "Kronecker": "metrics.kronecker",
    "Windowed": "metrics.windowed",
    "SGLD": "samplers.sgld",
    "SGHMC": "samplers.sghmc",
    "SGNHT": "samplers.sgnht",
    "Underdamped": "samplers.underdamped",
    "PSGLD": "samplers.psgld",
    "Monge": "samplers.monge",
    "Shampoo": "samplers.shampoo",
    "Riemannian": "samplers.riemannian",
    "AdamSGLD": "samplers.adam_sgld",
    "MSGLD": "samplers.msgld",
    "Friction": "samplers.friction",
    "SGRHMC": "samplers.sgrhmc",
    "Jackknife": "samplers.jackknife",
    "SamAdams": "samplers.samadams",
    "CSGLD": "samplers.csgld",
    "Replica": "samplers.replica",
    "MALA": "samplers.mala",
    "HMC": "samplers.hmc",
    "GHMC": "samplers.ghmc",
    "MCLMC": "samplers.mclmc",
    "MAMS": "samplers.mams",
    "SMILE": "samplers.smile",
    "NUTS": "samplers.blackjax",
    "BlackJAX": "samplers.blackjax",
    "Cyclical": "samplers.cyclical",
    "Ascend": "samplers.ascend",
    "Thin": "samplers.thin",
    "Guard": "samplers.guard",
    "Averaged": "samplers.averaged",
    "Loss": "targets.loss",
    "dual_averaging": "tune.dual_averaging",
    "window": "tune.window",
    "gradient_noise": "tune.gradient_noise",
    "floors": "tune.floors",
    "energy": "tune.energy",
    "adjusted": "tune.trajectory",
    "whiten": "tune.whiten",
    "fisher": "tune.fisher",
    "settle": "tune.settle",
    "heat": "diagnostics.heat",
    "PLANS": "tune.plan",
    "Plan": "tune.plan",
    "warm_start": "tune.warm_start",
    "MLP": "models.nets",
    "LeNet": "models.images",
    "ResNet": "models.images",
    "bnn": "models.bnn",
    "from_equinox": "models.adapters",
    "from_flax": "models.flax",
    "from_function": "models.adapters",
    "from_torch": "models.torch",
    "BayesianRegressor": "estimators.regressor",
    "BayesianClassifier": "estimators.classifier",
    "Conformal": "estimators.conformal",
    "load": "estimators.files",
    "evidence": "evidence.entry",
    "Evidence": "evidence.types",
    "Normal": "evidence.base",
    "diagnose": "diagnostics.convergence",
    "audit": "diagnostics.audit",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'langevin' has no attribute {name!r}")
    return getattr(importlib.import_module(f"langevin.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
