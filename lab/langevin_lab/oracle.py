r"""What annealing does on average in Bayesian linear regression, without Monte Carlo.

Prior N(0, s² I), y = Xθ + N(0, σ²), A = XᵀX/σ², b = Xᵀy/σ². At β the log density is quadratic with precision
P = I/s² + βA and linear term r = βb, so a leapfrog step (h = η²) is affine in (θ, v):

    θ' = T₁₁θ + T₁₂v + ½h (r + ε),   v̂ = −ηPθ + T₁₁v + η (r + ε),   T₁₁ = I − ½hP,   T₁₂ = η(I − ¼hP),

with ε the noise of a mini-batch, and mean and covariance of (θ, v) follow exactly. Batches of B alike examples have
Cov ε = N, averaged over the chain's own law at the midpoint x = θ + ½ηv of mean m and covariance S:

    N = β²n²/(Bσ⁴) [ (1/n) Σ_i E(y_i − x_iᵀx)² x_i x_iᵀ − G Gᵀ − (σ⁴/n²) A S A ],   G = σ²(b − Am)/n,

times (n − B)/(n − 1) without replacement; control variates anchored at a put x_iᵀa for y_i. From the moments come the
expectations of three scores of the same trajectory:

    kinetic     log p̃(θ_K) − log q(θ_0) + Σ_k log N(v̂_k)/N(v_{k−1}): DAIS, whose gap is log Z less this
    two_batch   the same with |g|² from two batches, which takes the + ½ Σ h tr N of noise out of the gap
    work        Σ_k (β_k − β_{k−1}) l(x_k) at midpoints, or at θ_{k−1} ("left")

Without noise everything falls apart into d scalar recursions along eigenvectors of A, and 10⁷ steps take a minute.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, eqs. 16–22; theorems 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Regression:
    """Bayesian linear regression with known noise, in float64.

    X: (n, d).
    y: (n,).
    scale: s, the prior's standard deviation.
    sigma: σ of the noise.
    """

    X: np.ndarray
    y: np.ndarray
    scale: float = 1.0
    sigma: float = 1.0

    @cached_property
    def A(self) -> np.ndarray:
        return self.X.T @ self.X / self.sigma**2

    @cached_property
    def b(self) -> np.ndarray:
        return self.X.T @ self.y / self.sigma**2

    @cached_property
    def fourth(self) -> np.ndarray:
        """(1/n) Σ x⊗x⊗x⊗x."""
        square = np.einsum("ni,nj->nij", self.X, self.X).reshape(self.n, -1)
        return (square.T @ square / self.n).reshape((self.d,) * 4)

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @cached_property
    def precision(self) -> np.ndarray:
        """Of the posterior."""
        return np.eye(self.d) / self.scale**2 + self.A

    @cached_property
    def mode(self) -> np.ndarray:
        return np.linalg.solve(self.precision, self.b)

    @property
    def stiffness(self) -> float:
        """The largest eigenvalue of A."""
        return float(np.linalg.eigvalsh(self.A)[-1])

    @property
    def constant(self) -> float:
        """log p(y | θ) + ½ θᵀAθ − bᵀθ."""
        return -0.5 * self.n * (LOG_2PI + 2 * np.log(self.sigma)) - 0.5 * float(self.y @ self.y) / self.sigma**2

    @cached_property
    def log_z(self) -> float:
        spread = self.d * np.log(self.scale) + 0.5 * np.linalg.slogdet(self.precision)[1]
        return float(self.constant + 0.5 * self.b @ self.mode - spread)


def published(problem: Regression, K: int, c: float) -> tuple[np.ndarray, np.ndarray]:
    """β and η of the released code: linspace(0, 1, K) and (1 + β L)^{−½} (K/10)^{−c}."""
    beta = np.linspace(0.0, 1.0, K)
    return beta, (1 + beta * problem.stiffness) ** -0.5 / (K / 10) ** c


def gaps(problem: Regression, K: int, powers, gamma: float = 0.0) -> np.ndarray:
    """The gap of DAIS on all data for step sizes falling as K^{−c}, c of `powers`, along eigenvectors of A."""
    with jax.enable_x64(True):
        value, vector = np.linalg.eigh(problem.A)
        where = jnp.asarray(value), jnp.asarray(vector.T @ problem.b)
        scale = jnp.asarray((K / 10) ** -np.asarray(powers, float))
        start = _along(where, scale, problem.scale**-2, gamma, problem.stiffness, K)
        m, S, ratio = map(np.asarray, start)
        lam, b = value, vector.T @ problem.b
        end = problem.constant + (b * m - 0.5 * lam * (m**2 + S)).sum(1)
        prior = -0.5 * ((m**2 + S) / problem.scale**2 + LOG_2PI + 2 * np.log(problem.scale)).sum(1)
        begin = -0.5 * problem.d * (1 + LOG_2PI + 2 * np.log(problem.scale))
        return problem.log_z - (end + prior - begin + ratio)


@partial(jax.jit, static_argnames="K")
def _along(where, scale, tau, gamma, stiffness, K):
    """Means and variances of θ_K (c, d) along eigenvectors, and the expected kinetic ratio (c,)."""
    lam, b = (u[None] for u in where)
    shape = (scale.shape[0], lam.shape[1])

    def step(k, carry):
        m, u, S, C, V, ratio = carry
        beta = k / (K - 1.0)
        eta = (scale / jnp.sqrt(1 + beta * stiffness))[:, None]
        P, r, h = tau + beta * lam, beta * b, eta**2
        T11, T12, T21 = 1 - 0.5 * h * P, eta - 0.25 * h * eta * P, -eta * P
        moved, kicked = T11 * m + T12 * u + 0.5 * h * r, T21 * m + T11 * u + eta * r
        S2 = T11**2 * S + 2 * T11 * T12 * C + T12**2 * V
        C2 = T11 * T21 * S + (T11 * T11 + T12 * T21) * C + T12 * T11 * V
        V2 = T21**2 * S + 2 * T21 * T11 * C + T11**2 * V
        ratio = ratio + 0.5 * jnp.sum(u**2 + V - kicked**2 - V2, axis=1)
        return moved, gamma * kicked, S2, gamma * C2, gamma**2 * V2 + (1 - gamma**2), ratio

    zero = jnp.zeros(shape)
    start = zero, zero, zero + 1 / tau, zero, zero + 1.0, jnp.zeros(shape[0])
    m, _, S, _, _, ratio = lax.fori_loop(0, K, step, start)
    return m, S, ratio


@dataclass(frozen=True)
class Expected:
    """Expectations of the scores of one trajectory, each less log Z: negative is below.

    kinetic: of DAIS; its gap is the negative of this.
    two_batch: of DAIS with |g|² from two batches.
    midpoint: of the work at midpoints.
    left: of the work at the beginnings of steps.
    noise: ½ Σ h tr N, what mini-batches cost `kinetic`.
    """

    kinetic: float
    two_batch: float
    midpoint: float
    left: float
    noise: float


def expected(problem: Regression, beta, eta, *, gamma=0.0, batch=None, anchor=None, replacement=False) -> Expected:
    """Exact expectations for a ladder β_1 … β_K and steps η_1 … η_K, with mini-batches of `batch` examples.

    anchor: where control variates are anchored; None for none.
    """
    with jax.enable_x64(True):
        noise = _moments(problem, batch, anchor, replacement)
        parts = tuple(jnp.asarray(u) for u in (problem.A, problem.b, problem.scale**-2, gamma))
        ladder = jnp.asarray(np.concatenate([[0.0], np.asarray(beta, float)]))
        m, S, ratio, half, middle, left = _followed(parts, noise, ladder, jnp.asarray(eta, float))
        m, S = np.asarray(m), np.asarray(S)
        second = S + np.outer(m, m)
        end = problem.constant + problem.b @ m - 0.5 * np.trace(problem.A @ second)
        size = LOG_2PI + 2 * np.log(problem.scale)
        prior = -0.5 * (np.trace(second) / problem.scale**2 + problem.d * size)
        begin = -0.5 * problem.d * (1 + size)
        kinetic = float(end + prior - begin + ratio) - problem.log_z
        total = problem.constant * float(ladder[-1]) - problem.log_z
        return Expected(kinetic, kinetic + float(half), total + float(middle), total + float(left), float(half))


def _moments(problem: Regression, batch, anchor, replacement):
    """Sums over examples that give the noise of a mini-batch for any mean and covariance of the chain."""
    X, d, n = problem.X, problem.d, problem.n
    y = problem.y if anchor is None else X @ np.asarray(anchor)
    factor = 0.0
    if batch is not None:
        factor = n**2 / batch / problem.sigma**4 * (1.0 if replacement else (n - batch) / (n - 1))
    square = np.einsum("ni,nj->nij", X, X).reshape(n, -1)
    second, third = (square.T @ y**2 / n).reshape(d, d), (square.T @ (y[:, None] * X) / n).reshape(d, d, d)
    sums = X.T @ X / n, X.T @ y / n, second, third, problem.fourth
    return tuple(jnp.asarray(u) for u in (factor, *sums))


@jax.jit
def _followed(parts, noise, ladder, eta):
    A, b, tau, gamma = parts
    factor, gram, cross, second, third, fourth = noise
    eye = jnp.eye(A.shape[0])

    def likelihood(m, S):
        return b @ m - 0.5 * jnp.sum(A * (S + jnp.outer(m, m)))

    def covariance(beta, m, S):
        G = cross - gram @ m
        inner = second - 2 * jnp.tensordot(third, m, 1) + jnp.tensordot(fourth, jnp.outer(m, m) + S, 2)
        return factor * beta**2 * (inner - jnp.outer(G, G) - gram @ S @ gram)

    def step(carry, x):
        m, u, S, C, V, ratio, half, middle, left = carry
        before, beta, eta = x
        h, P, r = eta**2, tau * eye + beta * A, beta * b
        mid, around = m + 0.5 * eta * u, S + 0.5 * eta * (C + C.T) + 0.25 * h * V
        N = covariance(beta, mid, around)
        rise = beta - before
        T11, T12, T21 = eye - 0.5 * h * P, eta * eye - 0.25 * h * eta * P, -eta * P
        moved, kicked = T11 @ m + T12 @ u + 0.5 * h * r, T21 @ m + T11 @ u + eta * r
        S2 = T11 @ S @ T11 + T11 @ C @ T12 + T12 @ C.T @ T11 + T12 @ V @ T12 + 0.25 * h**2 * N
        C2 = T11 @ S @ T21 + T11 @ C @ T11 + T12 @ C.T @ T21 + T12 @ V @ T11 + 0.5 * h * eta * N
        V2 = T21 @ S @ T21 + T21 @ C @ T11 + T11 @ C.T @ T21 + T11 @ V @ T11 + h * N
        carry = (
            moved,
            gamma * kicked,
            S2,
            gamma * C2,
            gamma**2 * V2 + (1 - gamma**2) * eye,
            ratio + 0.5 * (u @ u + jnp.trace(V) - kicked @ kicked - jnp.trace(V2)),
            half + 0.5 * h * jnp.trace(N),
            middle + rise * likelihood(mid, around),
            left + rise * likelihood(m, S),
        )
        return carry, None

    zero = jnp.zeros(A.shape[0])
    start = zero, zero, eye / tau, 0 * eye, eye, *(jnp.zeros(()),) * 4
    (m, _, S, _, _, ratio, half, middle, left), _ = lax.scan(step, start, (ladder[:-1], ladder[1:], eta))
    return m, S, ratio, half, middle, left
