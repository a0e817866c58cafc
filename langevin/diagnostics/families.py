r"""Predictive distributions of a regression: mixtures over posterior draws of one family.

With a draw θ_s a row has the density p_s; the posterior predictive is the mixture 1/S Σ_s p_s of S draws. Parameters
are arrays (draw, n):

    gaussian            mean μ, std σ                    N(μ, σ²)
    lognormal           log_mean m, log_std v            log y ~ N(m, v²): mean exp(m + v²/2)
    poisson             mean λ                           counts
    negative_binomial   mean λ, dispersion α             counts with variance λ + α λ², Gamma-mixed Poisson

Quantiles are those of the mixture, found by its distribution function F; of counts, the smallest whole number k with
F(k) ≥ p. CRPS is closed for Gaussians, and the integral ∫ (F(x) − 1{x ≥ y})² otherwise (by quadrature, a sum for
counts). The PIT of a count is drawn uniformly from [F(y − 1), F(y)], so that it is uniform where predictions are right.

References
    Czado, Gneiting, Held (2009). Predictive model assessment for count data. Biometrics 65, 1254-1261. (PIT)
    Gneiting, Raftery (2007). Strictly proper scoring rules, prediction, and estimation. JASA 102, 359-378. Eq. (20).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import betainc, gammaln, logsumexp, ndtr, ndtri, pdtr, xlogy

from langevin.diagnostics import calibration
from langevin.diagnostics.calibration import LOG_2PI
from langevin.diagnostics.quantile import solve, solve_whole
from langevin.diagnostics.uncertainty import Split, variances

LARGEST = 80.0  # the logarithm of the largest mean and standard deviation of a log-normal that is told
NODES, TAIL, COUNTS = 48, 1e-6, 512  # of the quadrature of CRPS, and counts that are summed at most


@dataclass(frozen=True)
class Mixture:
    """What all families have; a family says `log_prob`, `cdf`, `moments` and `draw` of every draw, (draw, n)."""

    discrete = False
    positive = False

    def log_prob(self, y: Any) -> np.ndarray:
        raise NotImplementedError

    def cdf(self, y: Any) -> np.ndarray:
        raise NotImplementedError

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of every draw."""
        raise NotImplementedError

    def draw(self, random: np.random.RandomState) -> np.ndarray:
        """One value from every draw's distribution."""
        raise NotImplementedError

    quantile: ClassVar[Any]  # of the mixture: p → (n,)
    row_crps: ClassVar[Any]  # of the mixture: y → (n,)

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, draws: Any = slice(None), rows: Any = slice(None)) -> Mixture:
        """Some draws of some rows."""
        return replace(self, **{f.name: np.asarray(getattr(self, f.name))[draws][:, rows] for f in fields(self)})

    def split(self) -> Split:
        """Standard deviations: total² = aleatoric² + epistemic²."""
        return Split(*(np.sqrt(part) for part in variances(*self.moments())))

    def nll(self, y: Any, *, each: bool = False) -> Any:
        """Negative log predictive density (probability, of counts) of y; its mean, or with `each` all n."""
        found = np.log(len(self)) - logsumexp(self.log_prob(np.asarray(y, float)), axis=0)
        return found if each else float(found.mean())

    def pit(self, y: Any, seed: int = 0) -> np.ndarray:
        """Probability integral transform of every y; of counts randomised."""
        y = np.asarray(y, float)
        high = self.cdf(y).mean(axis=0)
        if not self.discrete:
            return high
        low = self.cdf(y - 1).mean(axis=0)
        return low + np.random.default_rng(seed).random(len(y)) * (high - low)

    def quantiles(self, probabilities: Any) -> np.ndarray:
        """Quantiles of the mixture, (probability, n)."""
        wanted = np.atleast_1d(np.asarray(probabilities, float))
        if ((wanted <= 0) | (wanted >= 1)).any():
            raise ValueError(f"quantiles was given {wanted}: each must lie strictly between 0 and 1.")
        return np.stack([self.quantile(p) for p in wanted])

    def _guess(self, p: float) -> np.ndarray:
        """The quantile of the Gaussian with the mixture's moments."""
        mean, std = self.moments()
        return mean.mean(axis=0) + ndtri(p) * np.sqrt((std**2).mean(axis=0) + mean.var(axis=0))

    def intervals(self, levels: Any) -> tuple[np.ndarray, np.ndarray]:
        """Central intervals of probabilities `levels`: (lower, upper), each (level, n)."""
        levels = np.atleast_1d(np.asarray(levels, float))
        bounds = self.quantiles(np.concatenate([(1 - levels) / 2, (1 + levels) / 2]))
        return bounds[: len(levels)], bounds[len(levels) :]

    def crps(self, y: Any, *, max_draws: int = 256, each: bool = False) -> Any:
        """Continuous ranked probability score; of more than `max_draws` draws as many are used, evenly spaced."""
        y = np.asarray(y, float)
        many = np.linspace(0, len(self) - 1, min(len(self), max_draws)).round().astype(int)
        found = self.take(many).row_crps(y)
        return found if each else float(found.mean())

    def sample(self, n_samples: int, random: np.random.RandomState) -> np.ndarray:
        """Draws from the mixture, (n, n_samples)."""
        first = np.asarray(getattr(self, fields(self)[0].name))
        pick = random.randint(len(self), size=(n_samples, first.shape[1]))
        taken = {f.name: np.take_along_axis(np.asarray(getattr(self, f.name)), pick, axis=0) for f in fields(self)}
        return replace(self, **taken).draw(random).T


@dataclass(frozen=True)
class Gaussian(Mixture):
    """N(mean, std²)."""

    mean: np.ndarray
    std: np.ndarray

    def log_prob(self, y):
        return -0.5 * ((y - self.mean) / self.std) ** 2 - np.log(self.std) - 0.5 * LOG_2PI

    def cdf(self, y):
        return ndtr((y - self.mean) / self.std)

    def moments(self):
        return self.mean, self.std

    def bracket(self, p: float) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest of the draws' quantiles, between which that of the mixture lies."""
        of_each = self.mean + self.std * ndtri(p)
        return of_each.min(axis=0), of_each.max(axis=0)

    def quantile(self, p):
        mean, std = (
            np.ascontiguousarray(self.mean.T),
            np.ascontiguousarray(np.broadcast_to(self.std, self.mean.shape).T),
        )

        def both(x, rows):
            z = (x[:, None] - mean[rows]) / std[rows]
            return ndtr(z).mean(axis=1), (np.exp(-0.5 * z**2) / std[rows]).mean(axis=1) / np.sqrt(2 * np.pi)

        return solve(both, p, self._guess(p), *self.bracket(p))

    def draw(self, random):
        return self.mean + self.std * random.standard_normal(np.shape(self.mean))

    def row_crps(self, y):
        return calibration.crps_mixture(y, self.mean, self.std, max_draws=len(self), each=True)


@dataclass(frozen=True)
class LogNormal(Mixture):
    """exp of N(log_mean, log_std²)."""

    log_mean: np.ndarray
    log_std: np.ndarray
    positive = True

    @property
    def logs(self) -> Gaussian:
        return Gaussian(self.log_mean, self.log_std)

    def log_prob(self, y):
        with np.errstate(divide="ignore"):
            t = np.log(np.maximum(y, 0.0))
        return np.where(y > 0, self.logs.log_prob(np.where(y > 0, t, 0.0)) - np.where(y > 0, t, 0.0), -np.inf)

    def cdf(self, y):
        with np.errstate(divide="ignore"):
            return self.logs.cdf(np.log(np.maximum(y, 0.0)))

    def moments(self):
        half = self.log_std**2 / 2
        log_mean = self.log_mean + half
        with np.errstate(over="ignore"):
            log_std = log_mean + 0.5 * np.log(np.maximum(np.expm1(np.minimum(2 * half, 300.0)), 1e-300))
        return np.exp(np.minimum(log_mean, LARGEST)), np.exp(np.minimum(log_std, LARGEST))

    def quantile(self, p):
        return np.exp(np.minimum(self.logs.quantile(p), 700.0))

    def draw(self, random):
        return np.exp(np.minimum(self.logs.draw(random), 700.0))

    def row_crps(self, y):
        t = np.log(np.maximum(y, np.finfo(float).tiny))
        low, high = self.logs.bracket(TAIL)[0], self.logs.bracket(1 - TAIL)[1]
        low, high = np.minimum(low, t), np.minimum(np.maximum(high, t), 300.0)
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        found = np.zeros_like(y)
        for a, b, above in ((low, t, False), (t, high, True)):
            for x, w in zip(nodes, weights, strict=True):
                at = (a + b) / 2 + (b - a) / 2 * x
                share = self.logs.cdf(at).mean(axis=0)
                found = found + w * (b - a) / 2 * ((1 - share) if above else share) ** 2 * np.exp(at)
        return found


@dataclass(frozen=True)
class Poisson(Mixture):
    """Counts of rate `mean`."""

    mean: np.ndarray
    discrete = True
    positive = True

    def log_prob(self, y):
        return _counts_only(y, xlogy(y, self.mean) - self.mean - gammaln(np.maximum(y, 0) + 1.0))

    def cdf(self, y):
        return np.where(y < 0, 0.0, pdtr(np.maximum(np.floor(y), 0), self.mean))

    def moments(self):
        return self.mean, np.sqrt(self.mean)

    def quantile(self, p):
        return solve_whole(lambda k, rows: self.take(rows=rows).cdf(k).mean(axis=0), p, self._guess(p))

    def draw(self, random):
        return random.poisson(np.minimum(self.mean, 1e15)).astype(float)

    def row_crps(self, y):
        tail = 1e-4  # whose square is added to no figure
        least, most = np.minimum(self.quantile(tail), y), np.maximum(self.quantile(1 - tail), y)
        step = np.maximum(np.ceil((most - least) / COUNTS), 1.0)  # of F at every step-th count
        found = np.zeros_like(y)
        if (step == 1).all():
            return self._sum_counts(y, least, most)
        for i in range(int(np.max(np.ceil((most - least) / step))) + 1):
            k = least + i * step
            gap = (self.cdf(k + (step - 1) / 2).mean(axis=0) - (k + (step - 1) / 2 >= y)) ** 2
            found += np.where(k <= most, step * gap, 0.0)
        return found

    def _sum_counts(self, y: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
        """Σ (F(k) − 1{k ≥ y})², with F from the ratio of a probability to the one before."""
        found, k, reach = np.zeros_like(y), least.copy(), self.cdf(least).mean(axis=0)
        each = np.exp(self.log_prob(least))
        while (k <= most).any():
            found += np.where(k <= most, (reach - (k >= y)) ** 2, 0.0)
            each = each * self.ratio(k)
            k, reach = k + 1, reach + each.mean(axis=0)
        return found

    def ratio(self, k: Any) -> np.ndarray:
        """Of the probability of k + 1 to that of k."""
        return self.mean / (k + 1)


@dataclass(frozen=True)
class NegativeBinomial(Poisson):
    """Counts of mean `mean` and variance mean + dispersion · mean²."""

    dispersion: np.ndarray

    def log_prob(self, y):
        size = 1 / self.dispersion
        u = np.maximum(y, 0)
        found = gammaln(u + size) - gammaln(size) - gammaln(u + 1.0)
        found = found + xlogy(u, self.mean / (self.mean + size)) - size * np.log1p(self.mean * self.dispersion)
        return _counts_only(y, found)

    def cdf(self, y):
        p = 1 / (1 + self.mean * self.dispersion)
        return np.where(y < 0, 0.0, betainc(1 / self.dispersion, np.maximum(np.floor(y), 0) + 1.0, p))

    def ratio(self, k):
        size = 1 / self.dispersion
        return (k + size) / (k + 1) * (self.mean / (self.mean + size))

    def moments(self):
        return self.mean, np.sqrt(self.mean + self.dispersion * self.mean**2)

    def draw(self, random):
        size = 1 / self.dispersion
        return random.poisson(np.minimum(random.gamma(size, self.mean * self.dispersion), 1e15)).astype(float)


FAMILIES: dict[str, type[Mixture]] = dict(
    gaussian=Gaussian, lognormal=LogNormal, poisson=Poisson, negative_binomial=NegativeBinomial
)


def mixture(family: str, parameters: Mapping[str, Any]) -> Mixture:
    """The mixture of a family, from a dict that holds its parameters among others."""
    cls = FAMILIES[family]
    return cls(**{f.name: np.asarray(parameters[f.name], float) for f in fields(cls)})


def _counts_only(y: Any, found: np.ndarray) -> np.ndarray:
    return np.where((y >= 0) & (y == np.floor(y)), found, -np.inf)
