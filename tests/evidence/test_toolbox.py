"""The classical evidence toolbox against closed forms: every estimate within its own error, every bound on its side."""

import importlib.util
import math
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core import noise
from langevin.core.kernel import PerChain, Wrapper, replace, spread
from langevin.core.record import record
from langevin.core.target import Density
from langevin.core.types import Law
from langevin.evidence import (
    AIS,
    BDMC,
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
from langevin.evidence.annealing import ais as annealing
from langevin.evidence.annealing.ais import anneal
from langevin.evidence.annealing.bdmc import bracket_simulated
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.base import Normal, draw, log_ratios
from langevin.evidence.sampling.importance import draw_lengths, tail
from langevin.evidence.sampling.laplace import approximate
from langevin.evidence.sampling.thermo import discretization_error, integrate, jackknife, sum_stones
from langevin.samplers.ghmc import GHMC
from langevin.samplers.hmc import HMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.thin import Thin
from langevin.targets.bayes import Bayes
from langevin.targets.path import Geometric
from langevin.targets.zoo import Banana, Gaussian

LOG_2PI = math.log(2 * math.pi)

# --- Bayesian linear regression in three parameters, noise 1, prior N(0, I) -------------------------------------------

N, D = 40, 3
X = 0.5 * np.random.default_rng(1).normal(size=(N, D))
BASE = Normal(jnp.zeros(D))


def log_prior(theta):
    return jnp.sum(-0.5 * theta**2 - 0.5 * LOG_2PI)


def log_likelihood(theta, data):
    return -0.5 * (data["y"] - data["x"] @ theta) ** 2 - 0.5 * LOG_2PI


def regression(y, batch=None):
    return Bayes(log_prior, log_likelihood, {"x": jnp.asarray(X, float), "y": jnp.asarray(y, float)}, batch)


def truth(y):
    """log Z, mean and covariance of the posterior."""
    y, precision = np.asarray(y, np.float64), np.eye(D) + X.T @ X
    mean = np.linalg.solve(precision, X.T @ y)
    log_z = -0.5 * (N * LOG_2PI + np.linalg.slogdet(precision)[1] + y @ y - mean @ X.T @ y)
    return float(log_z), mean, np.linalg.inv(precision)


Y = X @ np.array([1.0, -2.0, 0.5]) + np.random.default_rng(2).normal(size=N)
TARGET = regression(Y)
LOG_Z, MEAN, COV = truth(Y)
POSTERIOR = Gaussian(MEAN, COV)
NEAR = Normal(jnp.asarray(MEAN, float), 0.2)  # within the posterior, whose scales are 0.25 to 0.35
MOVES = HMC(step_size=0.25, n_leapfrog=3, jitter=0.5)


def off(found, log_z=LOG_Z):
    return (float(found.log_z) - log_z) / float(found.stderr)


def unbiased(log_w):
    """The z-score of mean e^W = 1, on the scale where it holds."""
    w = np.exp(np.asarray(log_w, np.float64))
    return (w.mean() - 1) / (w.std(ddof=1) / np.sqrt(len(w)))


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


# --- annealing --------------------------------------------------------------------------------------------------------


@record
class Liar(Wrapper):
    """HMC without its accept-reject step that says it is exact."""

    kernel: HMC

    def step(self, key, state, target):
        from langevin.core.kernel import report
        from langevin.dynamics.integrators import INTEGRATORS, Phase, integrate

        start = Phase(state.position, noise.like(key, state.position), state.eval)
        evaluate = lambda position: target.evaluate(((), target.target.data), position)
        end = integrate(INTEGRATORS["verlet"], evaluate, lambda p: p, start, self.kernel.step_size, 3)
        new = state._replace(position=end.position, eval=end.eval, count=state.count + 1)
        return new, report(new, n_grad=3)

    def law(self):
        return Law("exact", 0.0, None, "so it says")


PATH, COARSE = Geometric(BASE, TARGET), power_ladder(20)


@pytest.mark.parametrize("kernel", [MOVES, GHMC(step_size=0.35, gamma=0.7)], ids=["hmc", "ghmc"])
def test_annealing_weights_are_unbiased_on_a_coarse_ladder(kernel, key):
    k_start, k_climb = jax.random.split(key)
    log_w, n_grad = anneal(k_climb, kernel, PATH, draw(k_start, BASE, 20_000), COARSE)
    log_w = log_w - LOG_Z
    assert abs(unbiased(log_w)) < 5
    # coarse enough for weights to differ, so that their order and the law of the kernel matter; and it moves
    assert -2 < log_w.mean() < -0.3
    assert n_grad == 20_000 * 20 * (4 if kernel is MOVES else 2)


def test_a_kernel_that_lies_about_its_law_is_seen(key):
    k_start, k_climb = jax.random.split(key)
    log_w, _ = anneal(k_climb, Liar(HMC(step_size=0.4)), PATH, draw(k_start, BASE, 20_000), COARSE)
    assert abs(unbiased(log_w - LOG_Z)) > 10


def test_weights_do_not_depend_on_how_rungs_are_cut_into_chunks(key, monkeypatch):
    k_start, k_climb = jax.random.split(key)
    start = draw(k_start, BASE, 200)
    whole, _ = anneal(jax.random.clone(k_climb), MOVES, PATH, start, power_ladder(100))
    monkeypatch.setattr(annealing, "CHUNK", 64)
    cut, _ = anneal(k_climb, MOVES, PATH, start, power_ladder(100))
    np.testing.assert_allclose(cut, whole, atol=1e-3)


def test_reverse_weights_are_unbiased_for_one_over_z(key):
    k_start, k_down = jax.random.split(key)
    found = Reverse(ladder=COARSE, kernel=MOVES)(k_down, TARGET, BASE, draw(k_start, POSTERIOR, 20_000))
    assert abs(off(found)) < 5
    assert found.guarantee == "upper"
    assert float(found.upper) == float(found.log_z)
    assert float(found.lower) == -math.inf


def test_chains_of_one_draw_are_not_counted_as_many(key):
    """200 chains that hardly move, from 200 draws and from 8: the error is that of the draws, √25 times larger."""
    k_start, k_many, k_few = jax.random.split(key, 3)
    draws, how = draw(k_start, POSTERIOR, 200), dict(kernel=replace(MOVES, step_size=1e-4), particles=200)
    many = Reverse(ladder=8, **how)(k_many, TARGET, NEAR, draws)
    few = Reverse(ladder=8, **how)(k_few, TARGET, NEAR, draws[:8])
    assert float(few.stderr) > 2 * float(many.stderr)


def test_ais_with_a_pilot(key):
    found = AIS(ladder=200)(key, TARGET, BASE)
    assert abs(off(found)) < 5
    assert float(found.stderr) < 0.1
    assert found.guarantee == "unbiased-Z"


@pytest.mark.slow
def test_hais_on_a_banana(key):
    """Step sizes, sought for by a pilot, suit base and target, whose scales differ."""
    found = HAIS(ladder=200)(key, Banana(), Normal(jnp.zeros(2), 5.0))
    assert abs(off(found, 0.0)) < 5
    assert float(found.stderr) < 0.2


def far_down(theta, data):
    """The regression, less 2²²: a number of which float32 knows halves."""
    return log_prior(theta) + jnp.sum(log_likelihood(theta, data)) - 2.0**22


def test_digits_survive_in_float32(key):
    """Every value of log p̃ is rounded to a half; the sum of 500 weights, and so Z, is not."""
    target = Density(far_down, (TARGET.data,))
    found = AIS(ladder=500, kernel=HMC(step_size=0.2, n_leapfrog=2, jitter=0.5))(key, target, BASE)
    assert np.asarray(found.log_z).dtype == np.float64
    assert float(found.stderr) < 0.1
    assert abs(off(found, LOG_Z - 2.0**22)) < 5


# --- both ways --------------------------------------------------------------------------------------------------------


def observed(key, theta):
    return regression(jnp.asarray(X, float) @ theta + noise.normal(key, (N,)))


def test_bdmc_brackets(key):
    """On data of the model's own: below from below, above from above, and they meet on a fine ladder."""
    k_data, k_coarse, k_fine = jax.random.split(key, 3)
    found = bracket_simulated(k_data, BASE, observed, BDMC(ladder=60, kernel=MOVES))
    assert found.guarantee == "unbiased-Z"
    assert float(found.lower) == float(found.log_z)
    assert float(found.upper) > float(found.lower) - 5 * float(found.stderr)
    draws = draw(noise.key(5), POSTERIOR, 50)
    coarse = BDMC(ladder=2, kernel=MOVES)(k_coarse, TARGET, BASE, draws)
    fine = BDMC(ladder=60, kernel=MOVES)(k_fine, TARGET, BASE, draws)
    assert float(coarse.lower) < LOG_Z < float(coarse.upper)
    gap = lambda found: float(found.upper) - float(found.lower)
    assert abs(gap(fine)) < gap(coarse)
    assert abs(off(fine)) < 5
    assert abs(float(fine.upper) - LOG_Z) < 5 * float(fine.stderr)


def test_simulated_data_has_theta_star_as_a_draw(key):
    """The bounds bracket the closed form of the data that was simulated."""
    kept = []

    def simulate(k, theta):
        kept.append(observed(k, theta))
        return kept[0]

    found = bracket_simulated(key, BASE, simulate, BDMC(ladder=60, kernel=MOVES))
    log_z = truth(kept[0].data["y"])[0]
    assert abs(off(found, log_z)) < 5
    assert float(found.upper) > log_z - 1


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


# --- GHMC (its law is tested in test_kernels.py) ----------------------------------------------------------------------


def test_ghmc_turns_around_when_rejected(key):
    target, kernel = Gaussian(np.zeros(2), np.ones(2)), GHMC(step_size=50.0, gamma=1 - 1e-6)
    k_init, k_step = jax.random.split(key)
    state = jax.jit(kernel.init)(k_init, jnp.ones(2), target)
    new, info = jax.jit(kernel.step)(k_step, state, target)
    assert float(info.acceptance) < 1e-6
    np.testing.assert_array_equal(new.position, state.position)
    np.testing.assert_allclose(new.aux, -state.aux, atol=0.01)


def test_ghmc_needs_gamma_below_one():
    with pytest.raises(ValueError, match="below 1"):
        GHMC(gamma=1.0)
