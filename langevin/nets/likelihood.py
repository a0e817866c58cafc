r"""Likelihoods of networks: what the outputs of a net mean, and log p(y | f_θ(x)).

    gaussian            mean; σ is one number, known or learned
    heteroscedastic     mean, and softplus⁻¹ of the standard deviation
    categorical         logits of the classes
    poisson             log rate, relative to `center`
    negative_binomial   log rate, relative to `center`, and log dispersion α: variance λ + α λ²

With several targets an example has the first parameter of every target, then the second ones; targets are independent
given them.

References
----------
Hilbe (2011), Negative binomial regression, §8.2 (NB2).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.core.types import PyTree

Kind = Literal["gaussian", "heteroscedastic", "categorical", "poisson", "negative_binomial"]
OUTPUTS = {"gaussian": 1, "heteroscedastic": 2, "poisson": 1, "negative_binomial": 2}
WIDEST = 15.0  # of log rates around their center, and of log dispersions: exponentials of more leave the numbers


@record
class Network:
    """The net as a function of the position: what a likelihood and a prediction share.

    fixed: the arrays that are not sampled.
    kind: "gaussian", "heteroscedastic", "categorical", "poisson" or "negative_binomial".
    noise: σ of a Gaussian likelihood when it is known; None when it is learned.
    center: of counts: log rates are relative to it.
    prior: the prior, where the weights of the net are a function of the position; else None.
    """

    fixed: PyTree
    noise: Any = None
    center: Any = 0.0
    prior: Any = None
    kind: Kind = static(default="gaussian")

    def weights(self, position):
        """The sampled weights of the net."""
        return position["net"] if self.prior is None else self.prior.weights(position)

    def outputs(self, position, x):
        net = eqx.combine(self.weights(position), self.fixed)
        return net.many(x) if hasattr(net, "many") else jax.vmap(net)(x)

    def sigma(self, position):
        return jnp.exp(position["log_noise"]) if "log_noise" in position else self.noise


@record
class Likelihood:
    """log p(y_i | f_θ(x_i)) of every example of data = (x, y).

    network: the net.
    """

    network: Network

    def __call__(self, position, data):
        x, y = data
        out = self.network.outputs(position, x)
        kind = self.network.kind
        if kind == "categorical":
            return jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None].astype(jnp.int32), axis=1)[:, 0]
        if kind == "poisson":
            each = log_poisson(y, log_rate(self.network, out))
        elif kind == "negative_binomial":
            each = log_negative_binomial(y, log_rate(self.network, out), log_dispersion(out))
        else:
            mean, std = moments(self.network, position, out)
            each = -0.5 * ((y - mean) / std) ** 2 - jnp.log(std) - 0.5 * math.log(2 * math.pi)
        return each if y.ndim == 1 else jnp.sum(each, axis=1)


@record
class Predict:
    """What the net says of inputs: {"mean", "std"}, {"proba"}, {"rate"} or {"rate", "dispersion"}, for one position.

    Each (example,), or (example, target) with several targets.

    network: the net.
    """

    network: Network

    def __call__(self, position, x):
        out = self.network.outputs(position, x)
        if self.network.kind == "categorical":
            return {"proba": jax.nn.softmax(out)}
        if self.network.kind == "poisson":
            return {"rate": jnp.exp(log_rate(self.network, out))}
        if self.network.kind == "negative_binomial":
            return {"rate": jnp.exp(log_rate(self.network, out)), "dispersion": jnp.exp(log_dispersion(out))}
        mean, std = moments(self.network, position, out)
        return {"mean": mean, "std": jnp.broadcast_to(std, mean.shape)}


def moments(network: Network, position, out):
    """Mean and standard deviation of a Gaussian likelihood."""
    if network.kind == "heteroscedastic":
        # far from the data a positive output grows as the net does, and not as its exponential
        return part_of(out, 0, 2), jax.nn.softplus(part_of(out, 1, 2)) + 1e-3
    return part_of(out, 0, 1), network.sigma(position)


def part_of(out, i: int, parts: int):
    """The i-th parameter of every target: outputs are all first parameters, then all second ones."""
    many = out.shape[1] // parts
    return out[:, i] if many == 1 else out[:, i * many : (i + 1) * many]


def log_rate(network: Network, out):
    """Of counts."""
    around = jnp.clip(part_of(out, 0, OUTPUTS[network.kind]), -WIDEST, WIDEST)
    return around + jnp.broadcast_to(network.center, around.shape)


def log_dispersion(out):
    """Of counts with variance rate + dispersion · rate²; below 1e-4 they are as good as Poisson."""
    return jnp.clip(part_of(out, 1, 2), -9.0, WIDEST)


def log_poisson(y, log_rate):
    return y * log_rate - jnp.exp(log_rate) - jax.scipy.special.gammaln(y + 1.0)


def log_negative_binomial(y, log_rate, log_dispersion):
    """log Γ(y + r)/(Γ(r) y!) + r log(r/(r + λ)) + y log(λ/(r + λ)) with r = 1/α."""
    size = jnp.exp(-log_dispersion)
    softplus = jax.nn.softplus(log_rate + log_dispersion)  # log(1 + α λ)
    return (
        log_gamma_ratio(y, size)
        - jax.scipy.special.gammaln(size)
        - size * softplus
        - y * jax.nn.softplus(-log_rate - log_dispersion)
    )


def log_gamma_ratio(y, size):
    """log Γ(y + r)/Γ(y + 1), which for large y is no difference of large numbers (Stirling's series)."""
    exact = jax.scipy.special.gammaln(y + size) - jax.scipy.special.gammaln(y + 1.0)
    a, b = y + size, y + 1.0
    series = (b - 0.5) * jnp.log1p((size - 1.0) / b) + (size - 1.0) * (jnp.log(a) - 1.0) + (1 / a - 1 / b) / 12
    return jnp.where(y > 30, series, exact)
