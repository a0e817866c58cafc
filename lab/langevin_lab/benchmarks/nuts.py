r"""NUTS of BlackJAX, NumPyro and nutpie and of this library on models with trusted draws.

Every library has the same log density in JAX on the same unconstrained space, the same four chains' starts (nutpie: its
own jitter around the same guess), an acceptance of 0.8, a diagonal metric, and 1,000 steps of warm-up; then 1,000
draws of each chain are taken. NUTS here is BlackJAX's kernel, so that row shows what the loop and the tuner of this
library cost or save. MAMS, which this library recommends in high dimension, has 4,000 steps.

A row: bias and noise (`references.score`), the least ESS over values for 1,000 gradients of sampling and for a second
of the whole second call (warm-up and sampling), those seconds, and `compile`, by how much a first call took longer.
`quality` is the seconds of a first call, from nothing to these draws. Calls run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise, progress
from langevin.core.posterior import sample
from langevin.core.result import Result
from langevin.samplers.blackjax import NUTS
from langevin.samplers.mams import MAMS
from langevin_lab.benchmarks._peers import busy_cores, label, missing, twice
from langevin_lab.references import Model, models, trusted
from langevin_lab.references.score import score

CHAINS, WARMUP, DRAWS = 4, 1000, 1000
NAMES = (
    "eight_schools-eight_schools_noncentered",
    "gp_pois_regr-gp_pois_regr",
    "breast_cancer-logistic",
    "stochastic_volatility",
)
SETTINGS = {
    "langevin NUTS": 'sample(NUTS(0.1), draws=1000, tune="auto")',
    "langevin MAMS": 'sample(MAMS(0.1), draws=4000, tune="auto")',
    "blackjax": "window_adaptation(nuts, 1000 steps), vmap over chains, scan of 1000 steps",
    "numpyro": 'MCMC(NUTS(potential_fn), 1000, 1000, num_chains=4, chain_method="vectorized")',
    "nutpie": "from_pyfunc(jax.jit(value_and_grad)), draws=1000, tune=1000, chains=4",
}


class Drawn(NamedTuple):
    """draws (chain, draw, d) and the gradients they took, all chains together."""

    draws: Any
    gradients: float


def run(size: str, seed: int) -> Result:
    names = NAMES[:1] if size == "quick" else NAMES
    length = 100 if size == "quick" else DRAWS
    table, load = [], busy_cores()
    for i, name in enumerate(names):
        for method in SETTINGS:
            table.append(dict(model=name, method=method) | row(name, models()[name], method, seed, length))
        progress.tell(i + 1, len(names))
    figures: dict[str, float] = {"busy_cores": load}
    ours = _rates(table, "langevin NUTS")
    for method in SETTINGS:
        theirs = _rates(table, method)
        if method != "langevin NUTS" and theirs:
            ratios = [ours[name] / theirs[name] for name in theirs if name in ours]
            figures[f"ess_per_s_over_{method.replace(' ', '_')}"] = float(np.median(ratios))
    return Result("nuts", figures, table, notes=[f"{k}: {v}" for k, v in SETTINGS.items()])


def _rates(table: list[dict[str, Any]], method: str) -> dict[str, float]:
    return {row["model"]: row["ess_per_s"] for row in table if row["method"] == method and "ess_per_s" in row}


def row(name: str, model: Model, method: str, seed: int, length: int) -> dict[str, Any]:
    package = method.split()[0]
    why = "" if package == "langevin" else missing(package)
    if why:
        return dict(note=why)
    start = model.start(noise.key(seed), CHAINS)
    drawn, seconds, compiling = twice(METHODS[method](model, start, seed, length))
    values = np.asarray(jax.jit(jax.vmap(jax.vmap(model.values)))(jnp.asarray(drawn.draws, jnp.float32)))
    found = score(values, trusted(name))
    rates = dict(ess_per_1000=1000 * found.ess / drawn.gradients, ess_per_s=found.ess / seconds)
    times = dict(seconds=seconds, compile=compiling, quality=seconds + compiling)
    return dict(version=label(package), bias=found.bias, noise=found.noise, ess=found.ess) | rates | times


# --- each library: a function of the turn ----------------------------------------------------------------------------


def _ours(model: Model, start, seed: int, length: int, kernel: Any, times: int = 1) -> Callable[[int], Drawn]:
    def call(turn: int) -> Drawn:
        key = noise.key(seed + 100 + turn)
        out = sample(key, kernel, model.target, start, draws=times * length, tune="auto")
        return Drawn(jax.block_until_ready(out.draws), float(np.asarray(out.info.n_grad).sum()))

    return call


def _nuts(model: Model, start, seed: int, length: int) -> Callable[[int], Drawn]:
    return _ours(model, start, seed, length, NUTS(0.1))


def _mams(model: Model, start, seed: int, length: int) -> Callable[[int], Drawn]:
    return _ours(model, start, seed, length, MAMS(0.1), 4)


def _blackjax(model: Model, start, seed: int, length: int) -> Callable[[int], Drawn]:
    import blackjax

    density = model.target.log_density
    adaptation = blackjax.window_adaptation(blackjax.nuts, density)

    @jax.jit
    def chains(key, start):
        def one(key, position):
            k_warm, k_run = jax.random.split(key)
            (state, parameters), _ = adaptation.run(k_warm, position, num_steps=WARMUP)
            step = blackjax.nuts(density, **parameters).step

            def move(state, key):
                state, info = step(key, state)
                return state, (state.position, info.num_integration_steps)

            return jax.lax.scan(move, state, jax.random.split(k_run, length))[1]

        return jax.vmap(one)(jax.random.split(key, CHAINS), start)

    def call(turn: int) -> Drawn:
        draws, steps = jax.block_until_ready(chains(jax.random.key(seed + 100 + turn), start))
        return Drawn(draws, float(np.asarray(steps).sum()))

    return call


def _numpyro(model: Model, start, seed: int, length: int) -> Callable[[int], Drawn]:
    from numpyro.infer import MCMC
    from numpyro.infer import NUTS as Theirs

    kernel = Theirs(potential_fn=lambda u: -model.target.log_density(u))
    how: dict[str, Any] = dict(num_chains=CHAINS, chain_method="vectorized", progress_bar=False)
    mcmc = MCMC(kernel, num_warmup=WARMUP, num_samples=length, **how)

    def call(turn: int) -> Drawn:
        mcmc.run(jax.random.PRNGKey(seed + 100 + turn), init_params=start, extra_fields=("num_steps",))
        draws = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
        return Drawn(draws, float(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum()))

    return call


def _nutpie(model: Model, start, seed: int, length: int) -> Callable[[int], Drawn]:
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    value_and_grad = jax.jit(jax.value_and_grad(model.target.log_density))

    def logp(u):
        value, grad = value_and_grad(np.asarray(u, np.float32))
        return float(value), np.asarray(grad, np.float64)

    compiled = from_pyfunc(
        model.d,
        lambda: logp,
        lambda *_: lambda u: {"u": np.asarray(u, np.float64)},
        [np.dtype(np.float64)],
        [(model.d,)],
        ["u"],
        make_initial_point_fn=lambda seed: np.asarray(start[0], np.float64),
    )

    def call(turn: int) -> Drawn:
        how: dict[str, Any] = dict(chains=CHAINS, cores=2, seed=seed + 100 + turn, progress_bar=False)
        trace = nutpie.sample(compiled, draws=length, tune=WARMUP, save_warmup=False, **how)
        return Drawn(trace.posterior["u"].values, float(trace.sample_stats["n_steps"].values.sum()))

    return call


METHODS = {
    "langevin NUTS": _nuts,
    "langevin MAMS": _mams,
    "blackjax": _blackjax,
    "numpyro": _numpyro,
    "nutpie": _nutpie,
}
