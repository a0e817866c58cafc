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

from langevin.core import tree
from langevin.core.record import record, static
from langevin.core.smooth import softplus
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
        """What the net says; of a position with a `center`, what its tangent there says (`vi.linearized`)."""
        if "center" in position:
            at = position["center"]
            there = {name: position[name] for name in at}
            out, change = jax.jvp(lambda p: self.outputs(p, x), (at,), (tree.sub(there, at),))
            return out + change
        net = eqx.combine(self.weights(position), self.fixed)
        return net.many(x) if hasattr(net, "many") else jax.vmap(net)(x)

    def by_example(self, position, x, keys, change):
        """What a net says that is changed for every example, by `change(net, key)`."""
        net = eqx.combine(position["net"], self.fixed)
        return jax.vmap(lambda x, key: change(net, key)(x))(x, keys)

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
        return self._each(self.network.outputs(position, x), self.network.sigma(position), y)

    def by_example(self, position, data, keys, change):
        """log p(y_i | x_i) of every example by a net of its own, `change(net, key)`."""
        out = self.network.by_example(position, data[0], keys, change)
        return self._each(out, self.network.sigma(position), data[1])

    def outputs(self, position, data):
        """(example, k): all that the likelihood of an example depends on; the last one is log σ where it is learned."""
        out = self.network.outputs(position, data[0])
        if not self.learns_noise:
            return out
        return jnp.concatenate([out, jnp.broadcast_to(position["log_noise"], (len(out), 1))], axis=1)

    def given(self, out, data):
        """log p(y_i | outputs) of every example."""
        out, sigma = self._parted(out, data[1])
        return self._each(out, sigma, data[1])

    def root(self, out, data):
        """(example, k, k): R with R Rᵀ the Fisher information of the outputs."""
        if self.network.kind == "categorical":
            p = jax.nn.softmax(out)
            return jax.vmap(jnp.diag)(jnp.sqrt(p)) - p[:, :, None] * jnp.sqrt(p)[:, None]
        own, sigma = self._parted(out, data[1])
        return jax.vmap(jnp.diag)(jnp.sqrt(self._information(own, sigma, data[1])))

    def scale_noise(self, position, factor):
        """The position with σ times a factor, where it is learned."""
        return {**position, "log_noise": position["log_noise"] + jnp.log(factor)}

    @property
    def learns_noise(self) -> bool:
        """Whether log σ is one of the position's arrays."""
        return self.network.kind == "gaussian" and self.network.noise is None

    def _parted(self, out, y):
        """The outputs of the net, and σ, of each example where it is one of the outputs."""
        if not self.learns_noise:
            return out, self.network.noise
        sigma = jnp.exp(out[:, -1])
        return out[:, :-1], sigma if y.ndim == 1 else sigma[:, None]

    def _each(self, out, sigma, y):
        kind = self.network.kind
        if kind == "categorical":
            return jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None].astype(jnp.int32), axis=1)[:, 0]
        if kind == "poisson":
            each = log_poisson(y, log_rate(self.network, out))
        elif kind == "negative_binomial":
            each = log_negative_binomial(y, log_rate(self.network, out), log_dispersion(out))
        else:
            mean, std = moments(self.network, sigma, out)
            each = -0.5 * ((y - mean) / std) ** 2 - jnp.log(std) - 0.5 * math.log(2 * math.pi)
        return each if y.ndim == 1 else jnp.sum(each, axis=1)

    def _information(self, out, sigma, y):
        """The diagonal of the Fisher information, the outputs of these kinds being orthogonal.

        Of log dispersions it has no closed form: it is that of the y seen, or 0 where this is negative.
        """
        kind, column = self.network.kind, lambda u: u.reshape(len(out), -1)
        if kind == "poisson":
            return column(jnp.exp(log_rate(self.network, out)))
        if kind == "negative_binomial":
            rate, spread = log_rate(self.network, out), log_dispersion(out)
            own = lambda rate, spread, y: log_negative_binomial(y, rate, spread)
            second = jax.vmap(jax.grad(jax.grad(own, 1), 1))(rate.reshape(-1), spread.reshape(-1), y.reshape(-1))
            of_rate = jnp.exp(rate) / (1 + jnp.exp(rate + spread))
            return jnp.concatenate([column(of_rate), column(jnp.maximum(-second, 0.0))], axis=1)
        mean, std = moments(self.network, sigma, out)
        of_mean = column(jnp.broadcast_to(std**-2.0, mean.shape))
        if kind == "heteroscedastic":
            slope = jax.nn.sigmoid(part_of(out, 1, 2))
            return jnp.concatenate([of_mean, column(2 * (slope / std) ** 2)], axis=1)
        many = [jnp.full((len(out), 1), 2.0 * of_mean.shape[1])] if self.learns_noise else []
        return jnp.concatenate([of_mean, *many], axis=1)


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
        mean, std = moments(self.network, self.network.sigma(position), out)
        return {"mean": mean, "std": jnp.broadcast_to(std, mean.shape)}


def moments(network: Network, sigma, out):
    """Mean and standard deviation of a Gaussian likelihood; sigma: where it is one number."""
    if network.kind == "heteroscedastic":
        # far from the data a positive output grows as the net does, and not as its exponential
        return part_of(out, 0, 2), softplus(part_of(out, 1, 2)) + 1e-3
    return part_of(out, 0, 1), sigma


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
    total = softplus(log_rate + log_dispersion)  # log(1 + α λ)
    return (
        log_gamma_ratio(y, size)
        - jax.scipy.special.gammaln(size)
        - size * total
        - y * softplus(-log_rate - log_dispersion)
    )


def log_gamma_ratio(y, size):
    """log Γ(y + r)/Γ(y + 1), which for large y is no difference of large numbers (Stirling's series)."""
    exact = jax.scipy.special.gammaln(y + size) - jax.scipy.special.gammaln(y + 1.0)
    a, b = y + size, y + 1.0
    series = (b - 0.5) * jnp.log1p((size - 1.0) / b) + (size - 1.0) * (jnp.log(a) - 1.0) + (1 / a - 1 / b) / 12
    return jnp.where(y > 30, series, exact)
