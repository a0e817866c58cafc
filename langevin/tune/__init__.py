"""Kernel → kernel before sampling. A tuner takes (key, kernel, target, states) and returns (kernel, states)."""

from langevin.tune.auto import auto
from langevin.tune.curvature import curvature
from langevin.tune.dual_averaging import dual_averaging
from langevin.tune.fisher import fisher
from langevin.tune.gradient_noise import gradient_noise
from langevin.tune.mclmc import tune_mclmc
from langevin.tune.metric_floor import metric_floor
from langevin.tune.mile_warmup import mile_warmup
from langevin.tune.plan import PLANS, Plan
from langevin.tune.trajectory import tune_mams
from langevin.tune.warm_start import warm_start
from langevin.tune.whiten import whiten
from langevin.tune.window import window

__all__ = [
    "PLANS",
    "Plan",
    "auto",
    "curvature",
    "dual_averaging",
    "fisher",
    "gradient_noise",
    "metric_floor",
    "mile_warmup",
    "tune_mams",
    "tune_mclmc",
    "warm_start",
    "whiten",
    "window",
]
