r"""Variational fits where the answer is known: Gaussian targets, and linear regression with Gaussian noise.

`gaussian_optimum_error`: every Gaussian family fitted to a Gaussian that it can reach (the factorized one: to the
conditional variances), the largest error of a covariance relative to √(C_ii C_jj) and of a mean relative to a standard
deviation. `bounds_ordered` is 1 if at one q on a regression with known log Z

    ELBO ≤ VR-IWAE(½) ≤ IWAE ≤ log Z   for K = 4, 16, 64, and the latter two rise with K,

by more than three standard errors each (the last: not above by more than five). `laplace_error` is the largest relative
error of mean and covariance of the full Laplace approximation of the regression, and of its log Z.
`matrix_normal_error` is how far a matrix normal with identity factors is from the factorized Gaussian: densities and
entropies, relative to their size, and draws. `dreg_bias_z` is the largest |z| of the doubly reparameterized gradient of
IWAE (K = 5) against the total derivative, and `stl_bias_z` that of sticking the landing, which is biased.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.14)-(2.22).
Tucker, Lawson, Gu & Maddison (2019), Doubly reparameterized gradient estimators for Monte Carlo objectives.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from langevin import vi
from langevin.core import noise
from langevin.core.begin import begin_all
from langevin.core.kernel import innermost
from langevin.core.result import Result
from langevin.core.target import Density
from langevin.nets.bnn import NormalPrior
from langevin.targets.bayes import Bayes
from langevin.vi.families.full_rank import triangle
from langevin.vi.variational import Variational

STEPS = {"quick": 300, "cpu": 6000, "gpu": 6000}
EVALUATIONS = {"quick": 2000, "cpu": 20_000, "gpu": 20_000}
BARS = dict(
    gaussian_optimum_error="≤ 0.01",
    bounds_ordered="1",
    laplace_error="≤ 1e-4",
    matrix_normal_error="≤ 1e-5",
    dreg_bias_z="< 5",
)


# --- Gaussian targets: a matrix w (3, 2) and a vector b (2,), so that every family has its structure ----------------

SHAPES = {"b": (2,), "w": (3, 2)}
D = 8


def shaped(flat):
    return {"b": flat[:2], "w": flat[2:].reshape(3, 2)}


def targets(seed: int) -> dict[str, tuple[Any, np.ndarray]]:
    """Families by name, with a covariance that each can have."""
    random = np.random.default_rng(seed)
    sd = random.uniform(0.5, 1.5, D)
    factor = 0.7 * random.standard_normal((D, 2))
    any_ = np.diag(sd**2) + factor @ factor.T
    blocks = any_.copy()
    blocks[:2, 2:] = blocks[2:, :2] = 0
    triangle = lambda n: np.tril(0.5 * random.standard_normal((n, n)), -1) + np.diag(random.uniform(0.6, 1.4, n))
    a, b = triangle(3), triangle(2)
    kronecker = np.diag(sd**2)
    scales = np.diag(sd[2:])
    kronecker[2:, 2:] = scales @ np.kron(a @ a.T, b @ b.T) @ scales
    shifts = 0.6 * random.standard_normal((3, 1)), np.array([[0.5], [0.4]])
    rows, columns = (np.eye(len(u)) + u @ u.T for u in shifts)
    shifted = np.diag(sd**2)
    shifted[2:, 2:] = scales @ np.kron(rows @ rows, columns @ columns) @ scales
    return {
        "mean-field": (vi.MeanField(0.5), any_),
        "full-rank": (vi.FullRank(0.5), any_),
        "low-rank": (vi.LowRank(0.5, rank=2), any_),
        "low-rank, layers": (vi.LowRank(0.5, rank=2, scope="layer"), blocks),
        "matrix normal": (vi.MatrixNormal(0.5), kronecker),
        "matrix normal, rank 1": (vi.MatrixNormal(0.5, rank=1), shifted),
    }


def log_normal(position, center, precision):
    apart = jnp.concatenate([position["b"], position["w"].reshape(-1)]) - center
    return -0.5 * apart @ precision @ apart


def fitted(name: str, family: Any, covariance: np.ndarray, size: str, seed: int) -> dict[str, Any]:
    """One family at its optimum: errors of mean and covariance."""
    center = np.linspace(-1, 1, D)
    precision = np.linalg.inv(covariance)
    target = Density(log_normal, (jnp.asarray(center, jnp.float32), jnp.asarray(precision, jnp.float32)))
    start = jax.tree.map(lambda u: u[None], shaped(jnp.zeros(D)))
    # sticking the landing has no noise where q is p; a factorized q is not, and closed forms serve it better
    objective = vi.ELBO(draws=256) if name == "mean-field" else vi.ELBO(draws=32, estimator="stl")
    posterior = vi.fit(
        noise.key(seed), target, family, start, objective=objective, steps=STEPS[size], rate=0.02, draws=1
    )
    q = vi.approximation(posterior)
    hessian = jax.jit(jax.hessian(lambda v: q.log_density(shaped(v))))(jnp.zeros(D))
    found = np.linalg.inv(-np.asarray(hessian, np.float64))
    exact = np.diag(1 / np.diag(precision)) if name == "mean-field" else covariance
    sd = np.sqrt(np.diag(exact))
    mean = ravel_pytree(q.family.mean(q.params))[0]
    errors = np.abs((np.asarray(mean) - center) / sd).max(), np.abs((found - exact) / np.outer(sd, sd)).max()
    return dict(check=f"optimum, {name}", mean_error=float(errors[0]), error=float(max(errors)))


# --- linear regression ------------------------------------------------------------------------------------------------

NOISE, PRIOR = 0.5, 1.2


def log_likelihood(position, data):
    x, y = data
    return -0.5 * ((y - x @ position) / NOISE) ** 2 - jnp.log(NOISE) - 0.5 * jnp.log(2 * jnp.pi)


def regression(seed: int):
    """The target, and its exact mean, covariance and log Z."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((30, 4))
    y = x @ random.standard_normal(4) + NOISE * random.standard_normal(30)
    target = Bayes(
        NormalPrior(jnp.asarray(PRIOR)), log_likelihood, (jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    )
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(4) / PRIOR**2)
    mean = covariance @ x.T @ y / NOISE**2
    marginal = NOISE**2 * np.eye(30) + PRIOR**2 * x @ x.T
    log_z = -0.5 * (y @ np.linalg.solve(marginal, y) + np.linalg.slogdet(2 * np.pi * marginal)[1])
    return target, mean, covariance, float(log_z)


def bounds(size: str, seed: int) -> tuple[list[dict], float]:
    """Bounds at a factorized q that is somewhat too wide, and whether they are in order."""
    target, mean, covariance, log_z = regression(seed)
    sd = 1.3 / np.sqrt(np.diag(np.linalg.inv(covariance)))
    params = vi.MeanField().init(noise.key(0), jnp.asarray(mean, jnp.float32))
    q = vi.Approximation(vi.MeanField(), params._replace(log_scale=jnp.log(jnp.asarray(sd, jnp.float32))))
    keys = iter(jax.random.split(noise.key(seed), 16))
    of = lambda objective: vi.bound(next(keys), target, q, objective, n=EVALUATIONS[size])
    elbo = of(vi.ELBO(analytic=False))
    rows, right = [dict(check="bound, ELBO", K=1, value=elbo.value - log_z, error=elbo.error)], []
    renyi: list[vi.Bound] = []
    iwae: list[vi.Bound] = []
    above = lambda high, low: high.value - low.value > 3 * np.hypot(high.error, low.error)
    for k in (4, 16, 64):
        half, one = of(vi.Renyi(0.5, draws=k)), of(vi.IWAE(k))
        right += [above(half, elbo), above(one, half), one.value < log_z + 5 * one.error]
        for name, found, kept in (("VR-IWAE, α = ½", half, renyi), ("IWAE", one, iwae)):
            rows.append(dict(check=f"bound, {name}", K=k, value=found.value - log_z, error=found.error))
            kept.append(found)
    right += [above(b, a) for kept in (renyi, iwae) for a, b in pairwise(kept)]
    return rows, float(all(right))


def laplace_error(seed: int) -> float:
    target, mean, covariance, log_z = regression(seed)
    kernel = vi.Independent(vi.FullRank())
    states = begin_all(noise.key(seed), kernel, target, jnp.zeros((1, 4)))
    fit = vi.Laplace("full", newton=2)
    kernel, states = fit(noise.key(seed), kernel, target, states)
    params = jax.tree.map(lambda u: u[0], innermost(kernel).params)
    low = np.asarray(triangle(params.factor), np.float64)
    sd = np.sqrt(np.diag(covariance))
    errors = (
        np.abs((np.asarray(params.mean) - mean) / sd).max(),
        np.abs((low @ low.T - covariance) / np.outer(sd, sd)).max(),
    )
    found = float(vi.laplace_evidence(target, vi.Approximation(innermost(kernel).family, params)))
    return float(max(*errors, abs(found / log_z - 1)))


def matrix_normal_error(seed: int) -> float:
    """The largest of three."""
    matrix, plain = vi.MatrixNormal(0.3), vi.MeanField(0.3)
    position = shaped(jnp.linspace(-1, 1, D))
    a, b = (f.init(noise.key(seed), position) for f in (matrix, plain))
    keys = jax.random.split(noise.key(seed), 100)
    x = jax.vmap(matrix.sample, (0, None))(keys, a)
    y = jax.vmap(plain.sample, (0, None))(jax.random.clone(keys), b)
    p, q = jax.vmap(matrix.log_prob, (None, 0))(a, x), jax.vmap(plain.log_prob, (None, 0))(b, x)
    draws = max(float(jnp.abs(u - v).max()) for u, v in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True))
    return max(
        draws, float(jnp.abs(p - q).max() / jnp.abs(q).mean()), abs(float(matrix.entropy(a) / plain.entropy(b)) - 1)
    )


def bias(estimator: str, size: str, seed: int) -> float:
    """The largest |z| of a gradient of IWAE, K = 5, against the total derivative's mean."""
    target, mean, _, _ = regression(seed)
    family = vi.MeanField()
    params = family.init(noise.key(0), jnp.asarray(mean, jnp.float32) + 0.1)
    params = params._replace(log_scale=params.log_scale + 1.5)
    n = 5 * EVALUATIONS[size]

    @partial(jax.jit, static_argnums=0)
    def gradients(estimator, key):
        aim = Variational(target, family, vi.IWAE(5, estimator=estimator))
        one = lambda key: ravel_pytree(aim.evaluate((key, target.data), params).grad)[0]
        return jax.lax.map(one, jax.random.split(key, n), batch_size=200)

    k_a, k_b = jax.random.split(noise.key(seed))
    a, b = (np.asarray(gradients(e, k), np.float64) for e, k in ((estimator, k_a), ("reparameterization", k_b)))
    return float(np.abs((a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / n)).max())


def run(size: str, seed: int) -> Result:
    table: list[dict[str, Any]] = [fitted(name, *which, size, seed) for name, which in targets(seed).items()]
    optimum = max(row["error"] for row in table)
    rows, ordered = bounds(size, seed)
    figures = dict(
        gaussian_optimum_error=optimum,
        bounds_ordered=ordered,
        laplace_error=laplace_error(seed),
        matrix_normal_error=matrix_normal_error(seed),
        dreg_bias_z=bias("dreg", size, seed),
        stl_bias_z=bias("stl", size, seed),
    )
    result = Result("vi-exact", figures, table + rows, bars=dict(BARS))
    result.drawing = partial(draw, table, rows)
    return result


def draw(table: list[dict], rows: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    names = [row["check"].removeprefix("optimum, ") for row in table]
    left.barh(names[::-1], [row["error"] for row in table][::-1], color="#2a6f97")
    left.axvline(0.01, color="#d1495b", ls="--", lw=1)
    left.annotate("bar", (0.01, len(names) - 0.4), (3, 0), textcoords="offset points", color="#d1495b", fontsize=9)
    left.set(xscale="log", xlabel="largest relative error of mean or covariance", title="fits against known optima")
    for name, colour in (("VR-IWAE, α = ½", "#2a6f97"), ("IWAE", "#d1495b")):
        mine = [row for row in rows if row["check"] == f"bound, {name}"]
        right.errorbar(
            [r["K"] for r in mine], [r["value"] for r in mine], [3 * r["error"] for r in mine],
            color=colour, marker="o", lw=1.5, capsize=3, label=name,
        )  # fmt: skip
    right.axhline(rows[0]["value"], color="#22303c", lw=1, ls=":", label="ELBO")
    right.axhline(0, color="#22303c", lw=1, ls="--")
    right.set(xscale="log", xlabel="draws $K$", ylabel=r"bound $-\,\log Z$ (nats)", title="bounds at one $q$")
    right.set_xticks([4, 16, 64], ["4", "16", "64"])
    right.minorticks_off()
    right.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.3))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
