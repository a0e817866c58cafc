r"""The stationary distribution of SGLD, SGHMC and PSGLD at three temperatures: BlackJAX, posteriors and this library.

The posterior of a linear regression, 200 examples and four coefficients of unequal scales, is Gaussian and known; at
temperature T its covariance is T times the posterior's. All gradients are of all data, so what is measured is the
sampler alone. Every sampler gets the settings of the table in `settings`, with λ the largest curvature: SGLD h = 0.1/λ,
whose own bias in the variance is at most 5 %; SGHMC h = 0.2/√λ and friction √λ. PSGLD is tuned by
`tune="auto"`, and its uncorrected form has the same settings. BlackJAX runs in the loop of this library.

A row: `variance`, the mean over coefficients of variance ÷ T · posterior variance, which should be 1; `worst`, that of
the coefficient farthest from 1; `bias`, the largest of |bias of the mean|/sd and |bias of the second moment|/sd;
`noise`, the standard error of a variance ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from langevin.core import noise, progress
from langevin.core.kernel import replace
from langevin.core.result import Result
from langevin.core.run import run as run_chains
from langevin.diagnostics import ess
from langevin.samplers.blackjax import adapted
from langevin.samplers.psgld import PSGLD
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.underdamped import Underdamped
from langevin.targets.bayes import Bayes
from langevin.tune.auto import auto
from langevin_lab.benchmarks._peers import busy_cores, label, missing

TEMPERATURES = (1.0, 0.1, 0.01)
SIZES = {"quick": (64, 200), "cpu": (256, 600), "gpu": (256, 600)}  # chains, draws
THIN = 10
SCALES = np.array([0.5, 1.0, 1.5, 2.0])


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w, data):
    return -0.5 * (data[1] - data[0] @ w) ** 2


class Regression:
    """The data, the exact posterior (mean, covariance) and λ."""

    def __init__(self, seed: int, n: int = 200):
        random = np.random.default_rng(seed)
        self.x = random.standard_normal((n, 4)) * SCALES
        self.y = self.x @ np.array([1.0, -1.0, 0.5, 0.0]) + random.standard_normal(n)
        precision = np.eye(4) + self.x.T @ self.x
        self.covariance = np.linalg.inv(precision)
        self.mean = self.covariance @ self.x.T @ self.y
        self.curvature = float(np.linalg.eigvalsh(precision)[-1])

    @property
    def target(self) -> Bayes:
        return Bayes(log_prior, log_likelihood, (jnp.asarray(self.x, jnp.float32), jnp.asarray(self.y, jnp.float32)))

    def score(self, draws: np.ndarray, T: float) -> dict[str, float]:
        """Of draws (chain, draw, 4)."""
        variance = T * np.diag(self.covariance)
        flat = np.asarray(draws, float).reshape(-1, 4) - self.mean
        ratio, off = np.mean(flat**2, axis=0) / variance, np.abs(flat.mean(axis=0)) / np.sqrt(variance)
        se = float(np.sqrt(2 / np.nanmin(ess(np.asarray(draws, float) ** 2, kind="mean"))))
        worst = float(ratio[np.argmax(np.abs(ratio - 1))])
        bias = float(max(off.max(), np.abs(ratio - 1).max() / np.sqrt(2)))
        return dict(variance=float(ratio.mean()), worst=worst, bias=bias, noise=se)


def run(size: str, seed: int) -> Result:
    chains, draws = SIZES[size]
    given, table, figures = Regression(seed), [], {"busy_cores": busy_cores()}
    h1, h2, C = 0.1 / given.curvature, 0.2 / np.sqrt(given.curvature), np.sqrt(given.curvature)
    kernels: dict[str, tuple[str, Callable[[float], Any]]] = {
        "langevin SGLD": ("h = 0.1/λ", lambda T: SGLD(h1, T)),
        "langevin SGHMC": ("h = 0.2/√λ, friction √λ", lambda T: SGHMC(h2, T, C)),
        "langevin Underdamped": ("h = 0.2/√λ, friction √λ, BAOAB", lambda T: Underdamped(h2, T, C)),
        "langevin PSGLD": ('tune="auto", corrected', lambda T: PSGLD(1e-3, T)),
        "langevin PSGLD, no Γ": ('as tuned, correction="none"', lambda T: PSGLD(1e-3, T)),
    }
    if not missing("blackjax"):
        kernels |= {
            "blackjax sgld": ("h = 0.1/λ", lambda T: adapted("sgld", step_size=h1, temperature=T)),
            "blackjax sghmc": (
                "h = 0.2/√λ, its defaults: alpha 0.01, 10 leapfrog steps",
                lambda T: adapted("sghmc", step_size=h2, temperature=T),
            ),
        }
    temperatures = TEMPERATURES[:2] if size == "quick" else TEMPERATURES
    for i, T in enumerate(temperatures):
        tuned: Any = None
        for method, (settings, kernel) in kernels.items():
            made, states = kernel(T), jnp.tile(jnp.asarray(given.mean, jnp.float32), (chains, 1))
            if method == "langevin PSGLD":
                tuned, ended = auto(noise.key(seed + 1), made, given.target, states)
                made, states = tuned, ended.position
            elif method == "langevin PSGLD, no Γ":
                made = replace(tuned, correction="none")
            how: dict[str, Any] = dict(draws=draws, warmup=draws // 3, thin=THIN)
            kept = run_chains(noise.key(seed + 2), made, given.target, states, **how).kept
            table.append(_row(given, method, T, settings, kept))
        table += _posteriors(given, T, seed, chains, draws, dict(sgld=h1, sghmc=h2, baoa=h2), C)
        progress.tell(i + 1, len(temperatures))
    for row in table:
        if "bias" in row:
            figures[f"variance_{row['method'].replace(' ', '_')}_T{row['T']:g}"] = row["variance"]
    return Result("laws", figures, table)


def _row(given: Regression, method: str, T: float, settings: str, kept) -> dict[str, Any]:
    name = method.split()[0]
    row: dict[str, Any] = dict(T=T, method=method.rstrip(), version=label(name), settings=settings)
    return row | given.score(np.asarray(kept), T)


def _posteriors(given: Regression, T: float, seed: int, chains: int, draws: int, steps: dict, C: float) -> list[dict]:
    """posteriors on log p, all chains as one tensor: the sum of their log densities has the gradient of each."""
    if missing("posteriors"):
        return [dict(T=T, method="posteriors", note=missing("posteriors"))]
    import posteriors
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # small tensors
    x, y = (torch.as_tensor(u, dtype=torch.float32) for u in (given.x, given.y))

    def log_posterior(w, batch):
        return -0.5 * torch.sum(w**2) - 0.5 * torch.sum((y - w @ x.T) ** 2), torch.tensor([])

    rows = []
    for name, h in steps.items():
        friction = {} if name == "sgld" else dict(alpha=float(C))
        transform = getattr(posteriors.sgmcmc, name).build(log_posterior, lr=float(h), temperature=T, **friction)
        start = torch.as_tensor(given.mean, dtype=torch.float32).repeat(chains, 1)
        state, kept = transform.init(start), []
        for step in range(THIN * (draws + draws // 3)):
            state, _ = transform.update(state, None, inplace=False)
            if step >= THIN * (draws // 3) and step % THIN == 0:
                kept.append(state.params.numpy().copy())
        settings = f"lr as langevin's h{', alpha = √λ' if friction else ''}"
        rows.append(_row(given, f"posteriors {name}", T, settings, np.stack(kept, axis=1)))
    return rows
