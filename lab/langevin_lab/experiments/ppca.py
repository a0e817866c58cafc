r"""Latent variable models where all is known: probabilistic PCA with eight columns and three latents, 1,000 rows.

log p(x), the posterior and the maximum of the likelihood have closed forms, so every bound, every gradient estimator
and every way of learning can be held to the truth.

    largest_violation_z   the largest (mean of a bound − log p(x))/standard error over bounds and settings, with an
                          encoder that is off by a tenth in the mean and 1.3 times too wide
    tightens              1 if IWAE and Hamiltonian (in draws), Annealed and AnnealedLangevin, with and without a
                          Metropolis test (in steps), come nearer to log p(x) with each fourfold cost, by more than
                          two standard errors, or are within 0.02 nats
    hvae_zero             the largest difference between Hamiltonian of 0 steps and the ELBO, the draws the same
    vcd_exact             the largest |variational contrastive divergence| with the exact posterior as the encoder
    dreg_z                the largest z-score of a coordinate's difference between the mean doubly reparameterised and
                          the mean plain gradient of IWAE with 16 draws, of 4,000 gradients each
    dreg_variance_ratio   the variance of the one over that of the other, in the encoder's mean and log scale
    angle                 the largest principal angle between the space that a learned W spans and that of the maximum
                          of the likelihood, over ways of learning: ELBO, IWAE, Annealed, Hoffman, AmortizedMCMC
    bdmc_gap              upper less lower bound of log p(x) on simulated rows, with the longest ladder
    ais_error             mean of the AIS estimate less log p(x), with that ladder

References
----------
Tipping & Bishop (1999), Probabilistic principal component analysis.
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, eqs. (15), (23).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise, progress
from langevin.core.result import Result
from langevin.evidence.annealing.ais import AIS
from langevin.evidence.base import Normal
from langevin.nets.train import train
from langevin.vae import (
    PPCA,
    AmortizedMCMC,
    Annealed,
    AnnealedLangevin,
    Autoencoder,
    Contrastive,
    Hamiltonian,
    Hoffman,
    Posteriors,
    ReverseNets,
    Thermodynamic,
)
from langevin.vae.autoencoder import bound_of
from langevin.vae.fit import VAE
from langevin.vae.model import Encoder
from langevin.vae.ppca import LinearEncoder
from langevin.vae.weigh import bracket, log_likelihood
from langevin.vi import ELBO, IWAE, Renyi

SIZE, LATENT, NOISE, ROWS = 8, 3, 0.6, 20
STEP = 0.12
BARS = {
    "largest_violation_z": "< 4",
    "tightens": "1",
    "hvae_zero": "0",
    "vcd_exact": "< 1e-3",
    "dreg_z": "< 5",
    "dreg_variance_ratio": "< 1",
    "angle": "≤ 0.02",
    "bdmc_gap": "< 0.05",
}
BAR_SIZES = ("cpu", "gpu")


@dataclass(frozen=True)
class Scale:
    """repeats: estimates of a bound; gradients: of each estimator; steps: of learning; sizes: of the cost, 1, 4 …"""

    repeats: int
    gradients: int
    steps: int
    sizes: int
    rungs: tuple[int, ...]


SCALES = {
    "quick": Scale(20, 50, 100, 2, (20, 40)),
    "cpu": Scale(400, 4000, 6000, 4, (10, 30, 100, 300, 1000)),
    "gpu": Scale(4000, 40_000, 6000, 5, (10, 30, 100, 300, 1000, 3000)),
}


def families(sizes: int) -> dict[str, list[tuple[int, Any]]]:
    """Bounds with their cost, decoder evaluations or gradients, four times as much at each."""
    powers = [4**i for i in range(sizes)]
    return {
        "IWAE": [(k, IWAE(k, estimator="reparameterization")) for k in powers],
        "Annealed": [(k, Annealed(k, 1, STEP)) for k in powers],
        "AnnealedLangevin": [(k, AnnealedLangevin(k, 1, 0.01)) for k in powers],
        "AnnealedLangevin (Metropolis)": [(k, AnnealedLangevin(k, 1, 0.01, metropolis=True)) for k in powers],
        "Hamiltonian": [(k * 3, Hamiltonian(3, k, 0.08, 0.9)) for k in powers],
    }


OTHERS = {
    "ELBO": ELBO(),
    "Rényi ½": Renyi(0.5, 16),
    "Annealed, S = 5": Annealed(8, 5, STEP),
    "LDVI": Annealed(8, 1, STEP, backward=8),
    "Reverse nets": ReverseNets(2),
    "TVO": Thermodynamic(8, 64),
}


def posteriors(true: PPCA, x: jax.Array, *, exact: bool = False) -> Posteriors:
    """The model's, with an encoder that is off, or the diagonal of the exact posterior where it is diagonal."""
    model, theta = true.as_latent()
    mean, covariance = true.posterior(x)
    scale = jnp.broadcast_to(jnp.sqrt(jnp.diag(covariance)), mean.shape)
    return Posteriors(model, theta, x, Normal(mean, scale) if exact else Normal(mean + 0.1, 1.3 * scale))


def diagonal(key: Any) -> PPCA:
    """A model whose WᵀW is diagonal, so that the posterior is."""
    k_w, k_b = jax.random.split(key)
    q, _ = jnp.linalg.qr(jax.random.normal(k_w, (SIZE, LATENT)))
    return PPCA(q * jnp.array([3.0, 2.0, 1.2]), jax.random.normal(k_b, (SIZE,)), NOISE)


@partial(jax.jit, static_argnames=("how", "repeats"))
def estimates(key: Any, found: Posteriors, how: Any, repeats: int) -> jax.Array:
    """(repeat, row) values of a bound."""
    k_init, k_run = jax.random.split(key)
    bound = bound_of(how)
    params = bound.init(k_init, found.model)
    one = lambda k: bound.values(k, found, params)
    return jax.lax.map(one, jax.random.split(k_run, repeats), batch_size=50)


def compare_bounds(key: Any, true: PPCA, x: jax.Array, scale: Scale) -> tuple[dict[str, float], list[dict[str, Any]]]:
    found, exact = posteriors(true, x), np.asarray(true.log_prob(x), np.float64)
    table, tightens = [], True

    def row(name: str, cost: int, how: Any) -> dict[str, Any]:
        gap = np.asarray(estimates(key, found, how, scale.repeats), np.float64) - exact
        error = gap.std(axis=0, ddof=1) / np.sqrt(scale.repeats)
        mean, stderr = gap.mean(), np.sqrt((error**2).mean() / gap.shape[1])
        return dict(part="bound", name=name, cost=cost, gap=mean, stderr=stderr, z=mean / stderr)

    for name, ways in families(scale.sizes).items():
        rows = [row(name, cost, how) for cost, how in ways]
        steps = [(b["gap"] - a["gap"]) / np.hypot(a["stderr"], b["stderr"]) for a, b in pairwise(rows)]
        near = [abs(b["gap"]) < 0.02 for b in rows[1:]]  # what is there cannot come nearer
        tightens &= all(z > 2 or done for z, done in zip(steps, near, strict=True))
        table += rows
        progress.tell(len(table), 60)
    table += [row(name, 0, how) for name, how in OTHERS.items()]
    return dict(largest_violation_z=max(r["z"] for r in table), tightens=float(tightens)), table


def compare_gradients(key: Any, true: PPCA, x: jax.Array, n: int) -> dict[str, float]:
    """DReG's and the plain gradient of IWAE, in the encoder's mean and log scale and in θ."""
    model, theta = true.as_latent()
    begun = posteriors(true, x[:4])
    start = theta, begun.q.mean, jnp.log(begun.q.scale)

    @partial(jax.jit, static_argnames="estimator")
    def gradients(key, estimator):
        bound = bound_of(IWAE(16, estimator=estimator))

        def value(params, key):
            theta, mean, log_scale = params
            found = Posteriors(model, theta, x[:4], Normal(mean, jnp.exp(log_scale)))
            return jnp.mean(bound.values(key, found, ()))

        flat = lambda k: jnp.concatenate([u.ravel() for u in jax.tree.leaves(jax.grad(value)(start, k))])
        return jax.lax.map(flat, jax.random.split(key, n), batch_size=100)

    k_one, k_two = jax.random.split(key)
    one = np.asarray(gradients(k_one, "dreg"), np.float64)
    two = np.asarray(gradients(k_two, "reparameterization"), np.float64)
    error = np.sqrt((one.var(axis=0, ddof=1) + two.var(axis=0, ddof=1)) / n)
    moving = error > 0
    z = np.abs(one.mean(axis=0) - two.mean(axis=0))[moving] / error[moving]
    encoder = slice(-2 * begun.q.mean.size, None)
    ratio = one[:, encoder].var(axis=0).sum() / two[:, encoder].var(axis=0).sum()
    return dict(dreg_z=float(z.max()), dreg_variance_ratio=float(ratio))


def learn(key: Any, x: jax.Array, how: Any, steps: int) -> PPCA:
    """W, b and σ by an objective, from a random start, on all rows."""
    k_start, k_objective, k_run = jax.random.split(key, 3)
    k_one, k_two = jax.random.split(k_start)
    begun = PPCA(0.3 * jax.random.normal(k_one, (SIZE, LATENT)), jnp.mean(x, axis=0), 1.0)
    model, theta = begun.as_latent()
    net = LinearEncoder(0.1 * jax.random.normal(k_two, (LATENT, SIZE)), jnp.zeros(LATENT), jnp.zeros(LATENT))
    phi, program = eqx.partition(net, eqx.is_inexact_array)
    target = Autoencoder(model, Encoder(program), how, x, batch=None)
    start = {"decoder": theta, "encoder": phi, "objective": target.init(k_objective)}
    starts = jax.tree.map(lambda u: u[None], start)
    found = train(k_run, target, starts, steps=steps, rate=2e-2, last=1e-3, clip=1e3, thin=10, decay=0.99)
    return PPCA.of(found.of(0)["decoder"])


WAYS = {
    "ELBO": ELBO(),
    "IWAE": IWAE(5),
    "Annealed": Annealed(4, 1, STEP),
    "Hoffman": Hoffman(steps=3),
    "AmortizedMCMC": AmortizedMCMC(steps=3, draws=4),
}


def ladders(key: Any, true: PPCA, x: jax.Array, rungs: tuple[int, ...]) -> list[dict[str, Any]]:
    """The bracket of simulated rows, and AIS of rows, by the length of the ladder."""
    model, theta = true.as_latent()
    vae = VAE(model, None, {"decoder": theta})
    exact, table = np.asarray(true.log_prob(x), np.float64), []
    for k in rungs:
        method = AIS(ladder=k, particles=10)
        found = bracket(key, vae, 50, method)
        error = log_likelihood(key, vae, x, method).values - exact
        row: dict[str, Any] = dict(part="ladder", name="AIS", cost=k, gap=found.gap)
        table.append(row | dict(error=error.mean(), stderr=error.std(ddof=1) / np.sqrt(len(error))))
    return table


def run(size: str, seed: int) -> Result:
    scale = SCALES[size]
    k_true, k_x, k_bounds, k_grads, k_learn, k_ais, k_zero = jax.random.split(noise.key(seed), 7)
    true = diagonal(k_true)
    x = true.sample(k_x, 1000)[1]
    few = x[:ROWS]
    figures, table = compare_bounds(k_bounds, true, few, scale)
    exact, off = posteriors(true, few, exact=True), posteriors(true, few)
    zero = jnp.max(jnp.abs(Hamiltonian(0).values(k_zero, off, ()) - off.log_weight(off.draw(_first(k_zero), 1))[:, 0]))
    vcd = jnp.max(jnp.abs(estimates(jax.random.clone(k_zero), exact, Contrastive(), 20)))
    figures |= dict(hvae_zero=float(zero), vcd_exact=float(vcd))
    figures |= compare_gradients(k_grads, true, few, scale.gradients)
    best, angles = PPCA.fit(x, LATENT), []
    for i, (name, how) in enumerate(WAYS.items()):
        progress.tell(i, len(WAYS), name)
        learned = learn(jax.random.clone(k_learn), x, how, scale.steps)
        angles.append(learned.angle(best))
        short = float(best.log_prob(x).mean() - learned.log_prob(x).mean())
        row: dict[str, Any] = dict(part="learning", name=name, angle=angles[-1], scale=float(learned.scale))
        table.append(row | dict(best_scale=float(best.scale), log_p_below_best=short))
    long = ladders(k_ais, true, few, scale.rungs)
    figures |= dict(angle=max(angles), bdmc_gap=long[-1]["gap"], ais_error=long[-1]["error"])
    table += long
    return Result("ppca", figures, table, BARS, drawing=partial(draw, table))


def _first(key: Any) -> Any:
    """The key with which Hamiltonian draws z."""
    return jax.random.split(jax.random.clone(key))[0]


def draw(table: list[dict[str, Any]], file: str) -> None:
    """Gaps by cost, angles, and brackets."""
    import matplotlib.pyplot as plt

    figure, (bounds, learning, ladder) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    rows = [row for row in table if row["part"] == "bound" and row["cost"]]
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        bounds.plot([r["cost"] for r in own], [max(-r["gap"], 1e-4) for r in own], "o-", ms=4, label=name)
    bounds.set(xscale="log", yscale="log", xlabel="decoder evaluations", ylabel="log p(x) − bound, nats")
    bounds.set_title("Every bound comes nearer to log p(x)", fontsize=10)
    bounds.legend(frameon=False, fontsize=7)
    own = [row for row in table if row["part"] == "learning"]
    learning.barh([r["name"] for r in own], [r["angle"] for r in own], color="#2a6f97")
    learning.axvline(0.02, color="#c44536", lw=1, label="bar")
    learning.invert_yaxis()
    learning.set(xlabel="angle to the maximum of the likelihood, radians")
    learning.set_title("Each way learns the same space", fontsize=10)
    learning.legend(frameon=False, fontsize=8)
    own = [row for row in table if row["part"] == "ladder"]
    ladder.plot(
        [r["cost"] for r in own], [max(r["gap"], 5e-3) for r in own], "o-", label="upper − lower bound, simulated rows"
    )
    ladder.plot([r["cost"] for r in own], [max(abs(r["error"]), 5e-3) for r in own], "s--", label="|AIS − log p(x)|")
    ladder.set(xscale="log", yscale="log", xlabel="rungs", ylabel="nats (at least 0.005 is drawn)")
    ladder.set_title("Longer ladders close the bracket", fontsize=10)
    ladder.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=150)
    plt.close(figure)
