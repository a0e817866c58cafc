"""Evidence: sequential Monte Carlo, the pieces that methods share, and what is said of bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab import oracle
from oracle_regression import BASE, BATCH, KNOWN, D, bayes, z

import langevin as lv
from langevin.evidence import DAIS, SMC, Midpoint
from langevin.evidence.annealing.ladder import power_ladder, sigmoid_ladder, to_ladder
from langevin.evidence.base import Normal, draw_starts
from langevin.evidence.mode import find_mode
from langevin.evidence.sampling.smc import _resample
from langevin.evidence.weights import add, check_weights, log_mean_exp, relative_error, summarize
from langevin.targets.zoo import Banana, Gaussian

# --- sequential Monte Carlo -------------------------------------------------------------------------------------------


def test_smc_finds_log_z(key):
    k_one, k_two, k_three = jax.random.split(key, 3)
    found = SMC(particles=1024)(k_one, Banana(), Normal(jnp.zeros(2), 5.0))
    assert abs(float(found.log_z)) < 5 * float(found.stderr) < 0.5
    assert found.guarantee == "consistent"
    fixed = SMC(particles=1024, ladder=8, kernel=lv.HMC(0.5, n_leapfrog=4))(k_two, Banana(), Normal(jnp.zeros(2), 5.0))
    assert abs(float(fixed.log_z)) < 5 * float(fixed.stderr)
    assert fixed.guarantee == "unbiased-Z"
    half = SMC(particles=1024, ladder=8)(k_three, Banana(), Normal(jnp.zeros(2), 5.0))
    assert half.guarantee == "consistent"  # the particles set their kernel


def test_resampling_goes_by_weight(key):
    """Systematic: every particle as often as its weight says, to within one; islands keep to themselves."""
    weight = np.random.default_rng(0).gamma(1.0, size=(2, 50))
    log_z, kept = _resample(key, jnp.log(jnp.asarray(weight)).reshape(-1), jnp.arange(100), islands=2, moves=1)
    counts = np.bincount(np.asarray(kept), minlength=100).reshape(2, 50)
    assert np.abs(counts - 50 * weight / weight.sum(1, keepdims=True)).max() < 1 + 1e-3
    np.testing.assert_allclose(log_z, np.log(weight.mean(1)), rtol=1e-4)


# --- pieces and words -------------------------------------------------------------------------------------------------


def test_weights():
    log_w = jnp.log(jnp.array([1.0, 2.0, 3.0, 6.0])) - 1000.0
    assert abs(float(log_mean_exp(log_w)) - (np.log(3.0) - 1000)) < 1e-3
    np.testing.assert_allclose(float(relative_error(log_w)), np.std([1, 2, 3, 6], ddof=1) / 2 / 3, rtol=1e-3)
    found = summarize(log_w)
    np.testing.assert_allclose(float(found.ess), 144 / 50, rtol=1e-3)
    assert found.lower == found.log_z


def test_sums_keep_their_digits():
    step = lambda total, _: (add(total, jnp.float32(0.1)), None)
    (total, _), _ = jax.lax.scan(step, (jnp.float32(1e5), jnp.float32(0)), length=100_000)
    assert abs(float(total) - 110_000) < 0.02


def test_local_sees_the_mode_and_the_curvature():
    mixed = oracle.Regression(KNOWN.X @ np.array([[1, 0.8, 0.6], [0, 1, 0.7], [0, 0, 1]]), KNOWN.y)
    seen = find_mode(bayes(mixed), BASE, jnp.ones(D))
    np.testing.assert_allclose(seen.position, mixed.mode, atol=2e-3)
    np.testing.assert_allclose(seen.curvature, np.diag(mixed.precision), rtol=1e-3)
    scale = np.sqrt(np.diag(mixed.precision))
    top = np.linalg.eigvalsh(mixed.precision / np.outer(scale, scale))[-1]
    assert top > 1.5
    np.testing.assert_allclose(float(seen.top), top, rtol=0.01)


def test_a_base_has_its_moments(key):
    base = Normal({"a": jnp.array([1.0, 2.0]), "b": jnp.zeros((2, 2))}, {"a": 2.0, "b": jnp.full((2, 2), 0.5)})
    x = base.exact(key, 4000)
    assert abs(z(x["a"][:, 1], 2.0)) < 5
    assert abs(z(x["b"][:, 1, 0] ** 2, 0.25)) < 5
    log_q = Gaussian(jnp.array([1.0, 2.0, 0, 0, 0, 0]), jnp.array([4.0, 4, 0.25, 0.25, 0.25, 0.25])).log_density
    one = jax.tree.map(lambda u: u[0], x)
    np.testing.assert_allclose(base.log_density(one), log_q(jnp.concatenate([one["a"], one["b"].ravel()])), rtol=1e-5)


def test_ladders():
    np.testing.assert_allclose(power_ladder(4), [0, 1 / 16, 1 / 4, 9 / 16, 1])
    curve = np.asarray(sigmoid_ladder(10))
    assert curve[0] == 0
    assert curve[-1] == 1
    np.testing.assert_allclose(curve + curve[::-1], 1, atol=1e-6)
    assert len(to_ladder(7)) == 8


class Flat:
    def log_density(self, position):
        return 0.0


def nowhere(position):
    return -jnp.inf * jnp.ones(())


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda k: to_ladder([0, 0.5, 0.4, 1]), "must rise; its entries 1 and 2 are 0.5 and 0.4"),
        (lambda k: to_ladder([0.1, 1.0]), "begins with 0 and ends with 1"),
        (lambda k: to_ladder(0), "one step or more"),
        (lambda k: draw_starts(k, BASE, lv.Density(nowhere), 8), "is -inf at each of the first 8 draws"),
        (lambda k: DAIS()(k, bayes(KNOWN, BATCH), BASE), "dais needs exact densities.*mini-batches"),
        (lambda k: SMC()(k, bayes(KNOWN, BATCH), BASE), "smc needs exact densities.*mini-batches"),
        (lambda k: SMC(particles=100)(k, bayes(KNOWN), BASE), "take a multiple of 256"),
        (lambda k: SMC(kernel=lv.SGLD(0.1))(k, bayes(KNOWN), BASE), "stationary distribution of SGLD is"),
        (lambda k: check_weights(jnp.array([-jnp.inf, -jnp.inf])), "every weight is zero"),
        (lambda k: check_weights(jnp.array([0.0, jnp.nan])), "1 of 2 log weights are NaN"),
        (lambda k: Midpoint(control="all")(k, bayes(KNOWN, BATCH), BASE), "control is 'all'"),
    ],
)
def test_bad_input_gets_one_sentence(key, bad, words):
    with pytest.raises(ValueError, match=words):
        bad(key)


def test_an_improper_base_is_refused(key):
    with pytest.raises(TypeError, match="improper prior has none"):
        DAIS()(key, bayes(KNOWN), Flat())
