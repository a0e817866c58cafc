"""Annealed importance sampling against closed forms: weights are unbiased, bounds are on their side."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_regression import (
    BASE,
    LOG_Z,
    MOVES,
    NEAR,
    POSTERIOR,
    TARGET,
    N,
    X,
    log_likelihood,
    log_prior,
    off,
    regression,
    truth,
    unbiased,
)

from langevin.core import noise
from langevin.core.kernel import Wrapper, replace
from langevin.core.record import record
from langevin.core.target import Density
from langevin.core.types import Law
from langevin.evidence import (
    AIS,
    BDMC,
    HAIS,
    Reverse,
)
from langevin.evidence.annealing import ais as annealing
from langevin.evidence.annealing.ais import anneal
from langevin.evidence.annealing.bdmc import bracket_simulated
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.base import Normal, draw
from langevin.samplers.ghmc import GHMC
from langevin.samplers.hmc import HMC
from langevin.targets.path import Geometric
from langevin.targets.zoo import Banana, Gaussian

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
