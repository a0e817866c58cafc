r"""Prior scales of a network for which its functions are as near as can be to those of a Gaussian process.

Weights are hard to have an opinion on; functions are not. Over standard deviations s, one for every array of the net,

    d(s) = E_X E_a  W₂²( law of aᵀf_w(X),  N(0, aᵀ K(X, X) a) ) / aᵀ K(X, X) a,     w ~ prior of scale s,

is minimised by Adam: X are a few inputs drawn from those given, a is a random direction of length one. Along a the
Gaussian process is normal, so its quantiles are exact and W₂ is a mean over sorted draws of the net. Draws of the net
are functions of s, and so have a gradient. What the net cannot be, a Gaussian process of any kernel, remains as d.

References
----------
Tran, Rossi, Milios & Filippone (2022), All you need is a good functional prior for Bayesian deep learning, §3, alg. 1
    (the Wasserstein distance between functions at random inputs; there W₁ by a dual, here W₂ by slices).
Flam-Shepherd, Requeima & Duvenaud (2017), Mapping Gaussian process priors to Bayesian neural networks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.scipy.special import ndtri

from langevin.core.record import positive, record, replace
from langevin.core.types import Key
from langevin.nets.priors.prior import Prior

SLICES = 32  # directions for every set of inputs
JITTER = 1e-6


@record
class SquaredExponential:
    """The covariance a² exp(−|x − x'|² / 2l²) of smooth functions.

    amplitude: a.
    length: l, over which a function changes.
    """

    amplitude: float = positive(default=1.0)
    length: float = positive(default=1.0)

    def __call__(self, x, y):
        square = jnp.sum((x[:, None] - y[None]) ** 2, axis=-1)
        return self.amplitude**2 * jnp.exp(-0.5 * square / self.length**2)


def fit_to_gp(
    key: Key,
    model: Any,
    x: Any,
    covariance: Callable,
    *,
    steps: int = 1000,
    rate: float = 0.02,
    draws: int = 256,
    points: int = 8,
) -> Any:
    """The prior of a model with scales for which its functions are like a Gaussian process: a prior for `bnn`.

    model: a BNN; its prior is what is fitted, and all of its outputs are.
    x: inputs among which functions are compared; those of the data and beyond.
    covariance: (x, x') → matrix, such as SquaredExponential().
    steps, rate: of Adam on log scales.
    draws: functions for one gradient.
    points: inputs compared together.
    """
    x = jnp.asarray(x)
    law, aim = _check("fit_to_gp", model, x, covariance, points)
    net = jax.eval_shape(model.first)["net"]
    start = jnp.log(jnp.stack(jax.tree.leaves(law.scale["net"] if isinstance(law.scale, dict) else law.scale)))
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, steps, alpha=0.01))

    @jax.jit
    def fitted(key, start):
        def step(carry, key):
            at, state = carry
            loss = lambda at: aim(key, _rescale(law, net, jnp.exp(at)), draws, points)
            value, grad = jax.value_and_grad(loss)(at)
            change, state = optimizer.update(grad, state)
            return (optax.apply_updates(at, change), state), value

        return lax.scan(step, (start, optimizer.init(start)), jax.random.split(key, steps))

    (found, _), _ = fitted(key, start)
    if not np.isfinite(np.asarray(found)).all():
        raise FloatingPointError("fit_to_gp: the distance became NaN or infinite; lower `rate`, or scale the inputs.")
    scales = {name: float(s) for name, s in zip(law.layout.names, np.exp(np.asarray(found)), strict=True)}
    return replace(law, scale=scales, layout=None)


def distance_to_gp(
    key: Key, model: Any, x: Any, covariance: Callable, *, draws: int = 1000, points: int = 8, sets: int = 50
) -> tuple[float, float]:
    """d of a model's prior at inputs x, and its standard error over sets of inputs; 0 where functions are the GP's."""
    x = jnp.asarray(x)
    law, aim = _check("distance_to_gp", model, x, covariance, points)
    one = lambda key: aim(key, law, draws, points)
    values = np.asarray(jax.jit(lambda keys: lax.map(one, keys))(jax.random.split(key, sets)), np.float64)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(sets))


def _check(who: str, model: Any, x: jax.Array, covariance: Callable, points: int) -> tuple[Prior, Callable]:
    """The prior, and d at one set of inputs as a function (key, prior, draws, points)."""
    law = getattr(getattr(model, "target", None), "log_prior", None)
    if not isinstance(law, Prior) or law.layout is None:
        raise TypeError(f"{who}: it needs the model that bnn(…) makes; this is {type(model).__name__}.")
    if not 1 <= points <= len(x):
        raise ValueError(f"{who}: points is {points}, but there are {len(x)} inputs.")
    return law, partial(_distance, model.predict.network, x, covariance)


def _rescale(law: Prior, net: Any, scales: jax.Array) -> Prior:
    """The prior for another standard deviation of every array."""
    by_name = dict(zip(law.known().names, scales, strict=True))
    return replace(law, scale=by_name, layout=None).on(net, law.known().learned)


def _distance(network, x, covariance, key, law, draws, points):
    k_rows, k_draw, k_slice = jax.random.split(key, 3)
    rows = x[jax.random.choice(k_rows, len(x), (points,), replace=False)]
    network = replace(network, prior=law if law.adds else None)
    f = jax.vmap(lambda position: network.outputs(position, rows))(law.exact(k_draw, draws))  # (draw, point, output)
    a = jax.random.normal(k_slice, (SLICES, points))
    a = a / jnp.linalg.norm(a, axis=1, keepdims=True)
    K = covariance(rows, rows) + JITTER * jnp.eye(points)
    scale = jnp.sqrt(jnp.einsum("sp,pq,sq->s", a, K, a))
    at = jnp.einsum("sp,dpo->sod", a, f) / scale[:, None, None]
    normal = ndtri((jnp.arange(draws) + 0.5) / draws)
    return jnp.mean((jnp.sort(at, axis=-1) - normal[None, None]) ** 2)
