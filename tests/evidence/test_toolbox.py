"""The classical evidence toolbox against closed forms: every estimate within its own error, every bound on its side."""

import importlib.util
import math
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_regression import (
    BASE,
    COV,
    LOG_2PI,
    LOG_Z,
    MEAN,
    MOVES,
    NEAR,
    TARGET,
    D,
    N,
    Y,
    log_prior,
    off,
    regression,
)

from langevin.core import noise
from langevin.core.kernel import PerChain, spread
from langevin.core.record import record
from langevin.core.target import Density
from langevin.evidence import (
    AIS,
    HAIS,
    SUMO,
    Bridge,
    Harmonic,
    Importance,
    Nested,
    Reverse,
    SteppingStone,
    Thermodynamic,
)
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.base import Normal, draw, log_ratios
from langevin.evidence.sampling.importance import draw_lengths, tail
from langevin.evidence.sampling.laplace import approximate
from langevin.evidence.sampling.thermo import discretization_error, integrate, jackknife, sum_stones
from langevin.samplers.hmc import HMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.thin import Thin
from langevin.targets.zoo import Gaussian

# --- importance -------------------------------------------------------------------------------------------------------


def test_importance(key):
    base = Normal(jnp.asarray(MEAN, float), 1.5 * np.sqrt(np.diag(COV)).astype(np.float32))
    found = Importance(particles=2000)(key, TARGET, base)
    assert abs(off(found)) < 5
    assert found.guarantee == "unbiased-Z"
    assert float(found.lower) == float(found.log_z)
    assert float(found.upper) == math.inf
    assert float(found.stderr) < 0.1
    assert float(found.n_data) == 2000 * N


def test_importance_is_differentiable(key):
    """∂/∂a of the bound for e^{a} N(0, 1) is 1, and the bound is exact where base and target agree."""
    value = lambda a: Importance(particles=8)(key, Density(scaled, (a,)), BASE).log_z
    bound, slope = jax.jit(jax.value_and_grad(value))(jnp.asarray(2.0))
    np.testing.assert_allclose([bound, slope], [2.0, 1.0], rtol=1e-5)


def scaled(x, a):
    return a + log_prior(x)


def test_sumo_cuts_its_series_as_it_says():
    """T ≥ j exactly where u ≤ P(T ≥ j), so each term is divided by its own chance."""
    u = (np.arange(400_000) + 0.5) / 400_000
    j = np.arange(1, 120)
    assert np.all(draw_lengths(u)[None] >= 1)
    seen = (draw_lengths(u)[None] >= j[:, None]).mean(1)
    np.testing.assert_allclose(seen, tail(j), atol=2e-5)


def test_sumo_is_unbiased_where_the_bound_is_not(key):
    """The mean of one-particle bounds is off by the KL divergence; SUMO that begins with them is not off at all."""
    k_sumo, k_bound = jax.random.split(key)
    target, base = Gaussian(np.zeros(2), np.ones(2)), Normal(jnp.zeros(2), 1.3)
    found = SUMO(draws=6000, first=1)(k_sumo, target, base)
    assert abs(off(found, 0.0)) < 5
    assert found.guarantee == "none"
    bound = np.asarray(log_ratios(target, base, draw(k_bound, base, 6000)))
    assert abs(bound.mean()) > 5 * float(found.stderr), "else the test could not see the bias"


# --- the integral -----------------------------------------------------------------------------------------------------

RULES = ("trapezoid", "corrected")


def power_path(rng, beta, particles, draws, scale=0.2):
    """u at exact draws of the path from N(0, 1) to e^{−x²/2 scale²}: (rung, particle, draw), and log Z."""
    x = rng.normal(size=(len(beta), particles, draws)) / np.sqrt(1 - beta + beta / scale**2)[:, None, None]
    u = -0.5 * x**2 / scale**2 + 0.5 * x**2 + 0.5 * LOG_2PI
    return u, math.log(scale) + 0.5 * LOG_2PI


def test_rules_of_integration_on_exact_draws():
    """On a coarse ladder the trapezoid is off and its correction is not; stepping stones are right on any."""
    rng, beta = np.random.default_rng(3), np.asarray(power_ladder(12, 3.0), np.float64)
    values = []
    for _ in range(40):
        u, log_z = power_path(rng, beta, 10, 400)
        values.append([integrate(beta, u, rule=rule) for rule in RULES] + [sum_stones(beta, u)])
    values = np.asarray(values)
    z = (values.mean(0) - log_z) / (values.std(0, ddof=1) / np.sqrt(40))
    assert abs(z[0]) > 5
    assert abs(z[2]) < 5
    error = np.abs(values.mean(0) - log_z)
    assert error[1] < 0.1 * error[0]


@pytest.mark.parametrize("rungs", [4, 6, 12, 30])
def test_the_error_of_a_rule_is_told(rungs):
    """With so many draws that nothing else is left: no more off than five times what is said, nor said of nothing."""
    beta = np.asarray(power_ladder(rungs, 3.0), np.float64)
    u, log_z = power_path(np.random.default_rng(5), beta, 10, 20_000)
    for rule in RULES:
        value, told = integrate(beta, u, rule=rule), np.hypot(discretization_error(beta, u, rule), 0.003)
        assert abs(value - log_z) < 5 * told
        assert told < 20 * max(abs(value - log_z), 0.01)


def test_the_jackknife_knows_chains_that_remember():
    """Draws that are the same all along a chain count once: the error said is the spread of many estimates."""
    rng, beta = np.random.default_rng(4), np.asarray(power_ladder(12, 3.0), np.float64)
    again = lambda: jackknife(partial(sum_stones, beta), np.repeat(power_path(rng, beta, 40, 1)[0], 5, axis=2))
    found = np.asarray([again() for _ in range(60)])
    ratio = found[:, 0].std(ddof=1) / found[:, 1].mean()
    assert 0.6 < ratio < 1.5  # ± 5 standard errors of a standard deviation


@pytest.mark.parametrize("method", [Thermodynamic, SteppingStone], ids=["thermo", "stepping"])
def test_thermo_and_stepping(method, key):
    found = method(ladder=16, particles=32, draws=50, warmup=30)(key, TARGET, BASE)
    assert abs(off(found)) < 5
    assert float(found.stderr) < 0.3
    assert found.guarantee == "consistent"
    assert float(found.lower) == -math.inf


# --- from posterior draws ---------------------------------------------------------------------------------------------


def correlated(key, rho, chains=4, draws=1000):
    """A chain whose every draw is exact and which remembers ρ of the one before."""
    z = np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=(chains, draws, D))
    for i in range(1, draws):
        z[:, i] = rho * z[:, i - 1] + math.sqrt(1 - rho**2) * z[:, i]
    return jnp.asarray(MEAN + z @ np.linalg.cholesky(COV).T, float)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_bridge(rho, key):
    k_draws, k_bridge = jax.random.split(key)
    found = Bridge()(k_bridge, TARGET, BASE, correlated(k_draws, rho))
    assert abs(off(found)) < 5
    assert 0 < float(found.stderr) < 0.05
    assert found.guarantee == "consistent"
    assert (float(found.ess) < 400) == (rho > 0), "draws that remember count for less"


def test_bridge_error_is_the_error(key):
    """Many bridges from chains that remember, with a proposal too narrow: their spread is what each says of itself."""
    keys = jax.random.split(key, 60)
    again = lambda k, k_draws: Bridge(proposal=NEAR)(k, TARGET, BASE, correlated(k_draws, 0.9, draws=400))
    z = np.asarray([off(again(*jax.random.split(k))) for k in keys])
    assert abs(z.mean()) < 5 / math.sqrt(60)
    assert 0.6 < z.std(ddof=1) < 1.5  # ± 5 standard errors of a standard deviation


def test_bridge_takes_trees(key):
    k_a, k_b, k_bridge = jax.random.split(key, 3)
    draws = {"a": noise.normal(k_a, (2, 200, 2)), "b": noise.normal(k_b, (2, 200))}
    like = {"a": jnp.zeros(2), "b": jnp.zeros(())}
    found = Bridge()(k_bridge, Normal(like), Normal(like), draws)
    assert abs(off(found, 0.0)) < 5


def test_laplace_is_exact_on_a_gaussian():
    found = approximate(TARGET, jnp.full(D, 3.0))
    np.testing.assert_allclose(found.log_z, LOG_Z, atol=1e-3)
    assert math.isnan(float(found.stderr))
    assert found.guarantee == "none"


def log_gamma(x):
    """The density of log of a Gamma(50, 1) variable, times 49!."""
    return 50.0 * x["a"] - jnp.exp(x["a"])


def test_laplace_off_a_gaussian_and_on_trees():
    """Stirling's formula: off by 1/(12·50)."""
    found = approximate(Density(log_gamma), {"a": jnp.asarray(1.0)})
    np.testing.assert_allclose(float(found.log_z) - math.lgamma(50), -1 / 600, atol=1e-4)


def test_harmonic_warns_and_is_far_off(key, untold):
    k_draws, k_none = jax.random.split(key)
    draws = correlated(k_draws, 0.0)
    with pytest.warns(UserWarning, match="variance of the harmonic mean is infinite"):
        found = Harmonic()(k_none, TARGET, BASE, draws)
    assert LOG_Z + 0.5 < float(found.log_z) < LOG_Z + 10
    assert float(found.stderr) == math.inf
    assert found.guarantee == "none"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        within = Harmonic()(None, TARGET, NEAR, draws)  # once is enough
    assert abs(float(within.log_z) - LOG_Z) < 0.1, "a law within the posterior has a finite variance"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("blackjax") is None, reason="BlackJAX is not installed")
def test_nested(key):
    # BlackJAX's own loops trip the reuse checker and promote ranks
    with jax.debug_key_reuse(False), jax.numpy_rank_promotion("allow"):
        found = Nested(live=200)(key, TARGET, BASE)
    assert abs(off(found)) < 4
    assert float(found.stderr) < 0.3
    assert found.guarantee == "consistent"


# --- words ------------------------------------------------------------------------------------------------------------


@record
class Remembering(HMC):
    """A kernel with numbers of its own, as adapters have."""

    def init(self, key, position, target):
        return super().init(key, position, target)._replace(memory=jnp.zeros(()))


def improper(x):
    return -jnp.sum(x**2)


def saddle(x):
    return x[0] ** 2 - x[1] ** 2


ANY = noise.key(0)
WRONG = {
    "an inexact kernel": (lambda: AIS(kernel=SGLD())(ANY, TARGET, BASE), "stationary distribution of SGLD is p"),
    "another temperature": (lambda: AIS(kernel=HMC(temperature=0.5))(ANY, TARGET, BASE), "T = 0.5"),
    "the same, inside": (lambda: AIS(kernel=Thin(HMC(temperature=0.5)))(ANY, TARGET, BASE), "T = 0.5"),
    "a kernel for each chain": (lambda: AIS(kernel=PerChain(spread(MOVES, 3)))(ANY, TARGET, BASE), "single chains"),
    "a kernel with memory": (lambda: AIS(kernel=Remembering())(ANY, TARGET, BASE), "makes stale"),
    "mini-batches": (lambda: AIS()(ANY, regression(Y, 4), BASE), "mini-batches"),
    "mini-batches, down": (lambda: Reverse()(ANY, regression(Y, 4), BASE, jnp.zeros((2, D))), "mini-batches"),
    "mini-batches, rungs": (lambda: SteppingStone()(ANY, regression(Y, 4), BASE), "mini-batches"),
    "a base without draws": (lambda: HAIS()(ANY, TARGET, Density(improper)), "no `exact"),
    "no particles": (lambda: AIS(particles=0)(ANY, TARGET, BASE), "0 particles"),
    "an unknown rule": (lambda: Thermodynamic(rule="simpson")(ANY, TARGET, BASE), "'simpson'"),
    "one draw of sumo": (lambda: SUMO(draws=1)(ANY, TARGET, BASE), "two draws"),
    "few draws": (lambda: Bridge()(ANY, TARGET, BASE, jnp.zeros((4, 5, D))), "8 or more"),
    "fewer than numbers": (lambda: Bridge()(ANY, TARGET, BASE, jnp.zeros((1, 10, D))), "cannot fit a Gaussian"),
    "a saddle": (lambda: approximate(Density(saddle), jnp.zeros(2)), "1 of 2 directions do not curve down"),
    "a large Hessian": (lambda: approximate(TARGET, jnp.zeros(3000)), "3000 parameters"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_gets_a_sentence(what):
    call, words = WRONG[what]
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_nested_without_blackjax_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "blackjax", None)
    with pytest.raises(ImportError, match=r"langevin\[blackjax\]"):
        Nested()(ANY, TARGET, BASE)
