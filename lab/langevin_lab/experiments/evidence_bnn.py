r"""The evidence of a Bayesian neural network on UCI tables: bracketed on simulated data, told with its worth on real.

A network with one hidden layer of tanh units, weights N(0, 1/fan-in) and biases N(0, 1), on the training part of the
first published split, inputs and target standardised. The noise is Gaussian: σ = 0.25 on boston and 0.1 on yacht, or
learned with log σ ~ N(0, 1) (`yacht_learned`). Chains of annealed importance sampling climb from the prior by
Hamiltonian trajectories in the prior's metric, whose step sizes a pilot finds; many leapfrog steps a rung are worth
more than many rungs.

Simulated: θ* ~ prior, y ~ p(y | θ*, X) at the real X. θ* is then an exact draw of the posterior, and

    lower = log mean e^W of chains that climb from the prior,    upper = −log mean e^−W of chains down from θ*

have log Z between them on average. Their distance is what annealing loses on data like these.

Real: `ais` (unbiased for Z: below log Z on average), `smc` (consistent) with the same trajectories, and `reverse`, down
from the ends of a long chain: an upper bound that is as good as those ends, so without a guarantee. The simulated
bracket speaks for the real data as far as these look like draws of the model. `yacht_learned` shows where they do not:
log σ of the real table is 3.7 standard deviations away from its prior's mean, one weight has all the mass, and every
longer ladder raises the estimate by tens of nats.

Figures: `bracket_<case>`, |upper − lower| in nats, the largest of all simulated sets, and `bracket_mean_<case>`, the
mean of upper − lower; `log_z_<case>_<method>` and `stderr_<case>_<method>` on real data, and `apart_<case>`, `reverse`
less `ais` there. `--data boston` runs one table alone.

References
----------
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo, §3.
Grosse, Ancha & Roy (2016), Measuring the reliability of MCMC inference with bidirectional Monte Carlo, §4 (settings
  tried on simulated data tell how they do on real data).
"""

from __future__ import annotations

import dataclasses
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise, tree
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.record import replace
from langevin.core.result import Result
from langevin.core.target import examples
from langevin.core.types import Key, PyTree
from langevin.data import parts, tables
from langevin.dynamics.mass import DiagonalMetric
from langevin.evidence import AIS, SMC, Reverse
from langevin.evidence.annealing.ladder import power_ladder, to_host_ladder
from langevin.evidence.annealing.step_sizes import MARKS, PILOTS, InterpolatedStep, run_pilot
from langevin.evidence.base import Normal
from langevin.evidence.types import Evidence
from langevin.nets.bnn import BNN, bnn
from langevin.nets.mlp import MLP
from langevin.samplers.hmc import HMC
from langevin.targets.path import Geometric
from langevin.tune.warm_start import nothing
from langevin_lab.experiments._evidence_bnn_figure import NATS, draw

NOISE = {"boston": 0.25, "yacht": 0.1}
USUAL = 0.3  # σ for another table
POWER = 3.0  # of the ladder: where the likelihood is stiff, rungs near β = 1 count for more than near the prior
FEW = 3  # effective weights below which an error from their spread says nothing


class Case(NamedTuple):
    """A model on a table: its name, the table, and σ of the noise, None to learn it."""

    name: str
    table: str
    sigma: float | None


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of everything.

    hidden: widths of hidden layers; none makes the model linear
    rungs, leapfrog: of the ladder, and steps of a trajectory, of which there is one a rung
    particles: chains each way
    sets: data sets that are simulated
    swarm: particles of `smc`
    settle: trajectories of a chain at β = 1 before it goes down on real data
    learned: whether σ is learned too
    """

    hidden: tuple[int, ...] = (8,)
    rungs: int = 1500
    leapfrog: int = 32
    particles: int = 32
    sets: int = 3
    swarm: int = 512
    settle: int = 200
    learned: bool = True


SIZES = {
    "quick": Scale((8,), rungs=600, leapfrog=32, particles=16, sets=2, swarm=256, settle=100, learned=False),
    "cpu": Scale(),
    "gpu": Scale((16,), rungs=3000, leapfrog=32, particles=256, swarm=4096, settle=1000),
}


class Model(NamedTuple):
    """A network on real data, and its prior, which is the base."""

    net: BNN
    base: Normal


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    scale = SIZES[size]
    names = (data,) if data else ("yacht",) if size == "quick" else tuple(NOISE)
    rows, notes = [], []
    for i, case in enumerate(_cases(names, learned=scale.learned)):
        model = modelled(case, scale.hidden)
        # products rounded to ten bits, as GPUs do, move a log density of −1000 by tenths of a nat
        with jax.default_matmul_precision("highest"):
            rows += weighed(jax.random.fold_in(noise.key(seed), i), case, model, scale)
        notes.append(f"{case.name}: {examples(model.net.target)} rows, {tree.size(model.net.position)} coordinates.")
    notes += [
        f"{row['case']}: {row['method']} on real data has an ESS of {row['ess']:.1f}: its error is not to be trusted."
        for row in rows
        if row["method"] == "ais" and row["ess"] < FEW
    ]
    result = Result("evidence-bnn", _figures(rows), rows, bars=_bars(rows), notes=notes)
    result.drawing = partial(draw, rows)
    return result


def _cases(names, *, learned: bool) -> list[Case]:
    known = [Case(Path(name).stem, name, NOISE.get(name, USUAL)) for name in names]
    return known + [Case("yacht_learned", "yacht", None)] * (learned and "yacht" in names)


def modelled(case: Case, hidden: tuple[int, ...]) -> Model:
    """The network on the training part of the first published split."""
    table = tables.load(case.table, task="regression")
    train, _ = parts.published_split(len(table.X), 0)
    standard = lambda u: np.asarray(parts.Standard.fit(u).apply(u), np.float32)
    return network(standard(table.X[train]), standard(table.y[train]), hidden, case.sigma)


def network(x, y, hidden: tuple[int, ...], sigma: float | None) -> Model:
    build = partial(MLP, (x.shape[1], *hidden, 1), activation=jnp.tanh)
    net = bnn(build, (x, y), prior="fan_in", noise=sigma)
    prior: Any = net.target.log_prior
    return Model(net, Normal(jax.tree.map(jnp.zeros_like, net.position), prior.scale))


def simulated(key: Key, model: Model, position: PyTree) -> Any:
    """The target with y drawn at this position, of the same inputs."""
    x, y = model.net.target.data
    said = model.net.predict(position, x)
    return replace(model.net.target, data=(x, said["mean"] + said["std"] * jax.random.normal(key, y.shape, y.dtype)))


# --- weighing ---------------------------------------------------------------------------------------------------------


def weighed(key: Key, case: Case, model: Model, scale: Scale) -> list[dict]:
    """A row for every simulated set, and one for every method on real data."""
    k_sets, k_real = jax.random.split(key)
    head = dict(case=case.name)
    rows = []
    for i, k in enumerate(jax.random.split(k_sets, scale.sets)):
        k_data, k_bracket = jax.random.split(k)
        found = bracketed(k_bracket, model, *drawn(k_data, model), scale)
        rows.append(head | dict(data=f"simulated {i + 1}", **found))
        _tell(rows[-1])
    for row in estimated(k_real, model, scale):
        rows.append(head | dict(data="real", **row))
        _tell(rows[-1])
    return rows


def drawn(key: Key, model: Model) -> tuple[Any, PyTree]:
    """A target with data simulated from the model, and the position (1, …) they came from: an exact draw of it."""
    k_star, k_data = jax.random.split(key)
    star = model.base.exact(k_star, 1)
    return simulated(k_data, model, jax.tree.map(lambda u: u[0], star)), star


def bracketed(key: Key, model: Model, target: Any, star: PyTree, scale: Scale) -> dict:
    """log Z from both sides, with an exact draw of the target."""
    k_pilot, k_up, k_down = jax.random.split(key, 3)
    began = time.perf_counter()
    kernel, _, spent = _piloted(k_pilot, model, target, scale)
    how = dict(ladder=power_ladder(scale.rungs, POWER), kernel=kernel, particles=scale.particles)
    up, down = AIS(**how)(k_up, target, model.base), Reverse(**how)(k_down, target, model.base, star)
    return dict(
        method="bdmc",
        lower=float(up.lower),
        stderr=float(up.stderr),
        upper=float(down.upper),
        stderr_upper=float(down.stderr),
        bracket=float(down.upper) - float(up.lower),
        ess=min(float(up.ess), float(down.ess)),
        n_grad=float(spent + up.n_grad + down.n_grad),
        seconds=time.perf_counter() - began,
    )


def estimated(key: Key, model: Model, scale: Scale):
    """log Z of real data: a row for every method, as soon as it is known."""
    k_pilot, k_settle, *keys = jax.random.split(key, 5)
    target = model.net.target
    kernel, ends, spent = _piloted(k_pilot, model, target, scale)
    draws, settled = _settled(k_settle, kernel, model, ends, scale.settle)
    how = dict(ladder=power_ladder(scale.rungs, POWER), kernel=kernel, particles=scale.particles)
    smc = SMC(kernel=kernel, particles=scale.swarm, share=0.9)
    ways = {"ais": (AIS(**how), 0), "smc": (smc, 0), "reverse": (Reverse(**how), settled)}
    for k, (name, (method, more)) in zip(keys, ways.items(), strict=True):
        began = time.perf_counter()
        found: Evidence = method(k, target, model.base, draws)
        yield dict(
            method=name,
            log_z=float(found.log_z),
            stderr=float(found.stderr),
            # its draws are those of a chain, and not exact
            guarantee="none" if name == "reverse" else found.guarantee,
            ess=float(found.ess),
            n_grad=float(found.n_grad + spent + more),
            seconds=time.perf_counter() - began,
        )


def _piloted(key: Key, model: Model, target: Any, scale: Scale) -> tuple[InterpolatedStep, PyTree, int]:
    """Trajectories in the prior's metric with a step size for every β, where the pilot ended, and its gradients."""
    k_start, k_climb = jax.random.split(key)
    wide = lambda p, s: jnp.broadcast_to(s**2, p.shape)
    metric = DiagonalMetric(jax.tree.map(wide, model.net.position, model.base.scale))
    kernel = HMC(n_leapfrog=scale.leapfrog, jitter=0.5, metric=metric)
    beta = to_host_ladder(power_ladder(scale.rungs, POWER))
    marks = beta[np.unique(np.linspace(1, scale.rungs, MARKS).round().astype(int))]
    start = model.base.exact(k_start, PILOTS)
    h, kept, n_grad = run_pilot(k_climb, kernel, Geometric(model.base, target), marks, start, acceptance=0.8)
    return InterpolatedStep(kernel, marks, h.astype(beta.dtype)), kept[-1], n_grad


def _settled(key: Key, kernel: InterpolatedStep, model: Model, ends: PyTree, count: int) -> tuple[PyTree, int]:
    """Where chains are that go on at β = 1 from the pilot's ends, and their gradients."""
    k_init, k_run = jax.random.split(key)
    path = Geometric(model.base, model.net.target).at(1.0)
    states = begin_all(k_init, kernel, path, ends)
    out = advance(k_run, kernel, path, states, length=count, collect=nothing)
    return out.states.position, int(np.asarray(out.info.n_grad, np.int64).sum())


def _tell(row: dict) -> None:
    """A line of the log: what is known when a later one fails."""
    shown = {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}
    print(shown, file=sys.stderr, flush=True)


# --- figures ----------------------------------------------------------------------------------------------------------


def _figures(rows: list[dict]) -> dict[str, float]:
    found: dict[str, float] = {}
    for case in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == case]
        brackets = [row["bracket"] for row in own if "bracket" in row]
        found |= {f"bracket_{case}": max(map(abs, brackets)), f"bracket_mean_{case}": float(np.mean(brackets))}
        real = {row["method"]: row for row in own if "log_z" in row}
        for method, row in real.items():
            found |= {f"log_z_{case}_{method}": row["log_z"], f"stderr_{case}_{method}": row["stderr"]}
        found[f"apart_{case}"] = real["reverse"]["log_z"] - real["ais"]["log_z"]
    return found


def _bars(rows: list[dict]) -> dict[str, str]:
    return {f"bracket_{case}": f"≤ {NATS:g}" for case in dict.fromkeys(row["case"] for row in rows)}
