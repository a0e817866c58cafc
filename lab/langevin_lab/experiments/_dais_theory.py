r"""What differentiable annealing's theory says of Bayesian linear regression, term by term, in float64.

Along eigenvectors of A = XᵀX/σ² every posterior at β is a product of normals with precisions P = 1/s² + βλ and means
μ^β = βb/P (`langevin_lab.oracle` has the notation). The chain of algorithm 1 is followed as it is written, drift, kick,
drift and refreshment, through its means and covariances, and compared with them before every step:

    lemma 1   |μ_{k−1} − μ^{β_k}| and |Λ_{k−1} − Λ^{β_k}|, the lags
    eq. 17    gap = ½|μ_K − μ|²_P + [½ tr PΣ_K − ½d] + [½ log |Σ|/|Σ_p| − E Σ_k log N(v̂_k)/N(v_{k−1})]
    eq. 8     gap of perfect transitions = Σ_k KL(p_{k−1} ‖ p_k), K times which tends to ½ (E_1 − E_0) log p(y | θ)

For γ = 0 the mean obeys e_k = (1 − ½hP) e_{k−1} + Δ_k, so it lags by at most max Δ/(½hP), on equal rungs and the
published steps 2s⁴|b| (K/10)^{2c}/(K − 1): at every k, the first included. The covariance tends to P⁻¹ − ¼h, so
its error has a part K^{−2c} besides the lag K^{2c−1}, and so have the second and, with the other sign, the third term.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, eqs. 8, 17 and 18; lemma 1.
Grosse, Maddison & Salakhutdinov (2013), Annealing between distributions by averaging moments (the limit of eq. 8).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin_lab.oracle import Regression

LAGS = ("lag_mean", "lag_precision", "late_mean", "late_precision")
TERMS = ("term_mean", "term_covariance", "term_kinetic")
LATE = 0.5  # lags are also taken over steps with β from here on, where the rate shows at shorter ladders


def exponents(c: float) -> dict[str, float]:
    """Powers of K that theory gives for steps that fall as K^{−c}, γ = 0.

    The lag is 2c − 1, the leapfrog's error of a covariance −2c. Lemma 1 and theorem 1 give 2c − 1 for c ≥ ¼.
    """
    lag, leapfrog = 2 * c - 1, -2 * c
    slow = max(lag, leapfrog)
    terms = dict(zip(TERMS, (2 * lag, slow, slow), strict=True))
    return dict(zip(("gap", *LAGS), (max(lag, 2 * leapfrog), lag, slow, lag, slow), strict=True)) | terms


def follow(problem: Regression, K: int, powers, gamma: float = 0.0) -> dict[str, np.ndarray]:
    """Lags of a chain of K steps and the terms of its gap, each an array over `powers`.

    lag_mean, lag_precision: the largest of all steps, in the Euclidean and the spectral norm.
    late_mean, late_precision: the largest of the steps with β ≥ ½.
    term_mean, term_covariance, term_kinetic: of eq. 17.
    """
    with jax.enable_x64(True):
        scale = (K / 10) ** -np.asarray(powers, float)
        lam, b, tau = spectrum(problem)
        m, S, ratio, lags = map(np.asarray, _chain(lam, b, tau, scale, problem.stiffness, gamma, K))
    P = tau + lam
    terms = (
        0.5 * (P * (m - b / P) ** 2).sum(1),
        0.5 * (P * S - 1).sum(1),
        -0.5 * np.log(P / tau).sum() - ratio,
    )
    return dict(zip(LAGS + TERMS, (*lags, *terms), strict=True))


def spectrum(problem: Regression) -> tuple[np.ndarray, np.ndarray, float]:
    """Eigenvalues of A, b along its eigenvectors, and the precision of the prior."""
    value, vector = np.linalg.eigh(problem.A)
    return value, vector.T @ problem.b, problem.scale**-2


@jax.jit
def _chain(lam, b, tau, scale, stiffness, gamma, K):
    """Means and variances of θ_K (c, d), the expected kinetic ratio (c,), and the largest lags (4, c)."""
    lam, b = lam[None], b[None]

    def step(k, carry):
        m, u, S, C, V, ratio, lags = carry
        beta = k / (K - 1.0)
        P, r = tau + beta * lam, beta * b
        eta = (scale / jnp.sqrt(1 + beta * stiffness))[:, None]
        behind = jnp.stack([jnp.sqrt(jnp.sum((m - r / P) ** 2, axis=1)), jnp.max(jnp.abs(1 / S - P), axis=1)])
        lags = jnp.maximum(lags, jnp.concatenate([behind, jnp.where(beta >= LATE, behind, 0.0)]))
        m, S, C = m + 0.5 * eta * u, S + eta * C + 0.25 * eta**2 * V, C + 0.5 * eta * V  # drift
        g = r - P * m
        ratio = ratio - jnp.sum(eta * (g * u - P * C) + 0.5 * eta**2 * (g**2 + P**2 * S), axis=1)
        u, V, C = u + eta * g, V - 2 * eta * P * C + eta**2 * P**2 * S, C - eta * P * S  # kick
        m, S, C = m + 0.5 * eta * u, S + eta * C + 0.25 * eta**2 * V, C + 0.5 * eta * V  # drift
        return m, gamma * u, S, gamma * C, gamma**2 * V + (1 - gamma**2), ratio, lags

    zero = jnp.zeros((scale.shape[0], lam.shape[1]))
    start = zero, zero, zero + 1 / tau, zero, zero + 1.0, zero[:, 0], jnp.zeros((4, scale.shape[0]))
    m, _, S, _, _, ratio, lags = lax.fori_loop(0, K, step, start)
    return m, S, ratio, lags


def most_lag(problem: Regression, K: int, c: float) -> float:
    """The most that the mean can lag at any step for γ = 0, which `lag_mean` tends to where c < ½.

    It holds where no eigenvalue of A is below a third of the largest.
    """
    _, b, tau = spectrum(problem)
    return float(2 * np.linalg.norm(b) / tau**2 * (K / 10) ** (2 * c) / (K - 1))


def perfect(problem: Regression, K: int) -> float:
    """Σ_k KL(p_{k−1} ‖ p_k) for β_k = k/K: the gap where every transition is an independent exact draw."""
    values, pulls, tau = spectrum(problem)
    beta, total = np.linspace(0.0, 1.0, K + 1), 0.0
    for lam, b in zip(values, pulls, strict=True):
        P = tau + beta * lam
        rise = lam / K / P[:-1]  # P_k/P_{k−1} − 1
        shift = b * tau / K / (P[1:] * P[:-1])  # μ_k − μ_{k−1}
        total += 0.5 * np.sum(rise - np.log1p(rise) + P[1:] * shift**2)
    return float(total)


def perfect_limit(problem: Regression) -> float:
    """What K times `perfect` tends to."""
    lam, b, tau = spectrum(problem)
    m, S = b / (tau + lam), 1 / (tau + lam)
    return float(0.5 * np.sum(b * m - 0.5 * lam * (m**2 + S) + 0.5 * lam / tau))
