r"""A training step of differentiable annealing against NumPyro's AutoDAIS: the bound, its gradient, and Adam.

Logistic regression, and Rubin's eight schools (non-centred): `logistic` and `EightSchools` of our zoo, and the same two
models in NumPyro; their log densities are checked to agree. Both anneal K rungs with S particles from a diagonal normal
base, climb the mean log weight (`Trace_ELBO`), and learn the same numbers in the same coordinates from the same start:
base, rises of β, η = clip(η₀ + c β, 0, 0.1), γ and the diagonal mass. Both are compiled, as one scan over training
steps that splits its keys inside. They run in turns, each going on from what its last turn learned, so both have taken
as many steps when the bounds of the table are drawn anew, `begun` before the first and `elbo` after the last. Compiling
is timed apart.

Keys are those each library would use by itself: ours of the hash generator on a CPU, theirs threefry. At K = 32, S = 16
ours is timed twice more: with threefry (`…_same_keys`), and with NumPyro's own log density in place of the zoo's
(`…_same_density`). JAX finds the derivative of its softplus by a log1p, which on a CPU is most of a step; that of
`core.smooth`, which the zoo has, is one exponential. NumPyro's mass is a scale of the momentum, ours a variance, so the
bounds are equal in expectation before training, and part a little as the mass is learned. `limit_…` is NumPyro's time
over that of the matrix products of a step alone, which every exact gradient needs: the largest ratio there could be
were all else free. NumPyro is in the extra `bench`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin.core import noise
from langevin.core.result import Result, interleaved, ratio
from langevin.evidence.annealing.dais import Annealing, log_weights
from langevin.evidence.base import Normal
from langevin.targets.zoo import EightSchools, logistic

NEEDS = ("numpyro",)
BARS = {"throughput_ratio": "≥ 3"}
ETA, MOST, GAMMA, SCALE, RATE = 0.01, 0.1, 0.9, 0.1, 1e-2  # AutoDAIS's defaults, and Adam's rate
SIZES = {"quick": (500, 10), "cpu": (1000, 20), "gpu": (2000, 50)}  # examples and coordinates of `logistic`
DRAWN = 2048  # particles of a figure `elbo_…`


class Problem(NamedTuple):
    """A model twice: our target with a position to start from, and NumPyro's with arguments and start."""

    target: Any
    start: Any
    model: Callable
    args: tuple
    values: dict


class Trainer:
    """A compiled run of training steps that goes on from where the last call left it.

    steps: state → (state, losses), compiled; `seconds` is how long that took.
    state: where it stands.
    elbo: (key, state) → DRAWN log weights.
    """

    def __init__(self, steps: Callable, state: Any, elbo: Callable):
        began = time.perf_counter()
        self.steps = jax.jit(steps).lower(state).compile()
        self.seconds = time.perf_counter() - began
        self.begun = self.state = state
        self.elbo = jax.jit(elbo)

    def __call__(self, turn: int) -> Any:
        self.state, losses = self.steps(self.state)
        return losses

    def drawn(self, seed: int, state: Any) -> np.ndarray:
        """Fresh log weights of a state: `begun`, or where training stands now."""
        return np.asarray(self.elbo(jax.random.key(seed), state), np.float64)


# --- the two models ------------------------------------------------------------------------------------------------


def logistic_model(x, y):
    import numpyro
    from numpyro import distributions as law

    weight = numpyro.sample("weight", law.Normal(jnp.zeros(x.shape[1]), 1.0).to_event(1))
    numpyro.sample("y", law.Bernoulli(logits=x @ weight).to_event(1), obs=y)


def schools_model(y, sigma):
    import numpyro
    from numpyro import distributions as law

    mu = numpyro.sample("mu", law.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", law.HalfCauchy(5.0))
    t = numpyro.sample("t", law.Normal(jnp.zeros(8), 1.0).to_event(1))
    numpyro.sample("y", law.Normal(mu + tau * t, sigma).to_event(1), obs=y)


def problems(size: str, seed: int) -> dict[str, Problem]:
    n, d = SIZES[size]
    data = logistic(jax.random.key(seed), n, d)
    schools, zero = EightSchools(), jnp.zeros(())
    start = {"mu": zero, "log_tau": zero, "t": jnp.zeros(8)}
    values = {"mu": 0.0, "tau": 1.0, "t": jnp.zeros(8)}
    args = data.data["x"], data.data["y"]
    return {
        "logistic": Problem(data, jnp.zeros(d), logistic_model, args, {"weight": jnp.zeros(d)}),
        "schools": Problem(schools, start, schools_model, (schools.y, schools.sigma), values),
    }


# --- the two ways to train -------------------------------------------------------------------------------------------


def opened(start, length: int) -> dict[str, Any]:
    """What AutoDAIS learns, in its coordinates, at its first values."""
    like = lambda value: jax.tree.map(lambda u: jnp.full(u.shape, value, u.dtype), start)
    logit = lambda share: jnp.asarray(math.log(share / (1 - share)))
    numbers = dict(eta=logit(ETA / MOST), slope=jnp.zeros(()), gamma=logit(GAMMA), rises=jnp.zeros(length))
    return numbers | dict(mass=like(0.0), mean=start, scale=like(math.log(SCALE)))


def closed(p) -> tuple[Annealing, Normal]:
    beta = jnp.cumsum(jnp.exp(p["rises"]))
    beta = beta / beta[-1]
    eta = jnp.clip(MOST * jax.nn.sigmoid(p["eta"]) + p["slope"] * beta, 0.0, MOST)
    exp = partial(jax.tree.map, jnp.exp)
    return Annealing(beta, eta, jax.nn.sigmoid(p["gamma"]), exp(p["mass"])), Normal(p["mean"], exp(p["scale"]))


def ours(target, start, length: int, particles: int, steps: int, key) -> Trainer:
    optimizer, impl = optax.adam(RATE), jax.random.key_impl(key)

    def weigh(key, p, particles):
        annealing, base = closed(p)
        return log_weights(key, target, base, annealing, particles=particles, memory="scan")

    def step(state, _):
        p, memory, words = state
        k_next, k_loss = jax.random.split(jax.random.wrap_key_data(words, impl=impl))
        loss, grad = jax.value_and_grad(lambda p: -jnp.mean(weigh(k_loss, p, particles)))(p)
        updates, memory = optimizer.update(grad, memory, p)
        return (optax.apply_updates(p, updates), memory, jax.random.key_data(k_next)), loss

    p = opened(start, length)
    begin = p, optimizer.init(p), jax.random.key_data(key)
    elbo = lambda key, state: weigh(key, state[0], DRAWN)
    return Trainer(lambda state: jax.lax.scan(step, state, None, length=steps), begin, elbo)


def theirs(problem: Problem, length: int, particles: int, steps: int, seed: int) -> Trainer:
    from numpyro import infer
    from numpyro.infer.autoguide import AutoDAIS
    from numpyro.optim import optax_to_numpyro

    at = infer.init_to_value(values=problem.values)
    how = dict(K=length, eta_init=ETA, eta_max=MOST, gamma_init=GAMMA, init_scale=SCALE, init_loc_fn=at)
    guide = AutoDAIS(problem.model, **how)
    svi = infer.SVI(problem.model, guide, optax_to_numpyro(optax.adam(RATE)), infer.Trace_ELBO(particles))
    begin = svi.init(jax.random.key(seed), *problem.args)
    step = lambda state, _: svi.update(state, *problem.args)

    def elbo(key, state):
        one = lambda key: -infer.Trace_ELBO().loss(key, svi.get_params(state), problem.model, guide, *problem.args)
        return jax.vmap(one)(jax.random.split(key, DRAWN))

    return Trainer(lambda state: jax.lax.scan(step, state, None, length=steps), begin, elbo)


def checked(problem: Problem, seed: int):
    """NumPyro's density as a target of ours and its start; refused where the two do not agree."""
    try:
        from langevin.targets.numpyro import from_numpyro

        same, start, _ = from_numpyro(jax.random.key(seed), problem.model, *problem.args)
    except ImportError as error:
        words = "autodais: NumPyro is not installed; take `make setup-bench`, or pip install 'langevin[numpyro]'."
        raise ImportError(words, name="numpyro") from error
    start = jax.tree.map(jnp.zeros_like, start)
    here, there = float(problem.target.log_density(problem.start)), float(same.log_density(start))
    if abs(here - there) > 1e-4 * abs(there):
        raise ValueError(
            f"autodais: the log densities are {here} and {there} at the start; the models are not the same."
        )
    return same, start


def products(problem: Problem, length: int, particles: int, steps: int) -> Trainer:
    """The matrix products of a training step of logistic regression and nothing else: six for each rung and particle.

    Two are of the gradient, X w and Xᵀ r; four differentiate both.
    """
    x = problem.args[0]

    def rung(w, _):
        for _ in range(3):
            w = w + 1e-9 * (x @ w) @ x
        return w, None

    def step(w, _):
        return jax.vmap(lambda w: jax.lax.scan(rung, w, None, length=length)[0])(w), None

    climb = lambda w: (jax.lax.scan(step, w, None, length=steps)[0], w)
    return Trainer(climb, jnp.ones((particles, x.shape[1])), lambda key, w: w)


# --- the comparison --------------------------------------------------------------------------------------------------


def compared(name: str, problem: Problem, length: int, particles: int, plan: dict, seed: int):
    """Rows and figures of one model at one K and S."""
    case = f"{name}_K{length}_S{particles}"
    steps = max(1, plan["work"] * (1 if name == "logistic" else 8) // (length * particles))
    same, zero = checked(problem, seed)
    train = partial(ours, length=length, particles=particles, steps=steps)
    trainers = {
        "numpyro": theirs(problem, length, particles, steps, seed),
        "ours": train(problem.target, problem.start, key=noise.key(seed)),
    }
    if (length, particles) == plan["more"]:
        trainers["ours, same keys"] = train(problem.target, problem.start, key=noise.key(seed, impl="threefry"))
        trainers["ours, same density"] = train(same, zero, key=noise.key(seed))
    if name == "logistic":
        trainers["products alone"] = products(problem, length, particles, steps)
    seconds = interleaved(trainers, plan["repeats"])
    figures: dict[str, float] = {}
    table = []
    for method, trainer in trainers.items():
        row = dict(case=case, method=method, us_per_step=1e6 * float(np.median(seconds[method])) / steps)
        row |= dict(numpyro_over_it=ratio(seconds, "numpyro", method), compile_s=trainer.seconds)
        if method in ("numpyro", "ours"):
            begun, log_w = (trainer.drawn(seed + 1, state) for state in (trainer.begun, trainer.state))
            row |= dict(trained=steps * (plan["repeats"] + 1), begun=begun.mean())
            row |= dict(elbo=log_w.mean(), stderr=log_w.std() / math.sqrt(DRAWN))
            figures[f"elbo_{method}_{case}"] = row["elbo"]
        if method == "products alone":
            figures[f"limit_{case}"] = row["numpyro_over_it"]
        elif method != "numpyro":
            end = method.removeprefix("ours").replace(", ", "_").replace(" ", "_")
            figures[f"throughput_ratio_{case}{end}"] = row["numpyro_over_it"]
        table.append(row)
    return figures, table


def run(size: str, seed: int) -> Result:
    quick: dict[str, Any] = dict(lengths=(8,), particles=(4,), more=None, work=640, repeats=3)
    whole: dict[str, Any] = dict(lengths=(8, 32, 128), particles=(1, 16), more=(32, 16), work=10240, repeats=15)
    plan = {"quick": quick, "cpu": whole, "gpu": whole | dict(particles=(16,))}[size]
    figures: dict[str, float] = {}
    table: list[dict[str, Any]] = []
    for name, problem in problems(size, seed).items():
        for length in plan["lengths"]:
            for particles in plan["particles"]:
                found, rows = compared(name, problem, length, particles, plan, seed)
                figures, table = figures | found, table + rows
    cases = [k for k in figures if k.startswith("throughput_ratio") and k.split("_S")[-1].isdigit()]
    least = {"throughput_ratio": min(figures[k] for k in cases)}
    return Result("autodais", least | figures, table, BARS)
