"""Differentiable annealing: exact expectations against the paper's numbers, weights, gradients, learning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab import oracle
from langevin_lab.experiments._regression import Linear
from oracle_regression import BASE, KNOWN, D, N, bayes, z

from langevin.core.record import replace
from langevin.data import regression
from langevin.evidence import DAIS
from langevin.evidence.annealing.dais import Annealing, bound, log_weights
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.annealing.learn_bound import constrain, learn_bound, unconstrain
from langevin.evidence.annealing.reversible import Reversible
from langevin.evidence.base import Normal
from langevin.evidence.weights import relative_error

# --- the oracle -------------------------------------------------------------------------------------------------------


def test_the_papers_data_are_kept():
    X, y = regression.load()
    assert X.shape == (10_000, 10)
    assert abs(oracle.Regression(X, y).log_z - regression.LOG_Z) < 1e-9


def test_gaps_of_the_paper_to_four_digits():
    """γ = 0; c = 1/8, 1/6, 1/4, 1/3, 3/8, 1/2."""
    known = oracle.Regression(*regression.load())
    powers = [1 / 8, 1 / 6, 1 / 4, 1 / 3, 3 / 8, 1 / 2]
    given = {
        10: [168.8] * 6,
        1000: [4.423, 6.323, 12.92, 26.36, 37.69, 111.6],
        100_000: [0.1518, 0.3199, 1.446, 6.283, 12.88, 111.5],
    }
    for K, gaps in given.items():
        np.testing.assert_allclose(oracle.gaps(known, K, powers), gaps, rtol=4e-4)
    np.testing.assert_allclose(oracle.gaps(known, 1000, [1 / 4], gamma=0.9), [3.350], rtol=4e-4)


def test_gaps_with_minibatches_to_four_digits():
    """The last column: DAIS with |g|² of two batches, and the work at the beginnings of steps."""
    known = oracle.Regression(*regression.load())
    for c, K, given in ((1 / 4, 100, (7998, 667.9, 70.43)), (1 / 2, 1000, (2428, None, None))):
        found = oracle.expected(known, *oracle.published(known, K, c), batch=100)
        np.testing.assert_allclose(-found.kinetic, given[0], rtol=2e-4)
        if given[1]:
            np.testing.assert_allclose((-found.two_batch, -found.left), given[1:], rtol=2e-4)


def test_two_ways_to_the_same_moments():
    """Scalar recursions along eigenvectors and matrices give one gap, for any γ."""
    for gamma in (0.0, 0.7):
        found = oracle.expected(KNOWN, *oracle.published(KNOWN, 50, 0.25), gamma=gamma)
        np.testing.assert_allclose(-found.kinetic, oracle.gaps(KNOWN, 50, [0.25], gamma), rtol=1e-9)


# --- annealing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_dais_meets_its_expectation(key, gamma):
    beta, eta = oracle.published(KNOWN, 40, 0.25)
    how = Annealing(jnp.asarray(beta, jnp.float32), jnp.asarray(eta, jnp.float32), gamma)
    log_w = jax.jit(lambda k: log_weights(k, bayes(KNOWN), BASE, how, particles=2048))(key)
    assert abs(z(log_w, KNOWN.log_z + oracle.expected(KNOWN, beta, eta, gamma=gamma).kinetic)) < 5


def test_dais_is_unbiased_for_any_steps(key):
    """E w = Z with a mass, a ladder and steps that are far from good."""
    how = Annealing(power_ladder(4)[1:], 0.15, 0.9, jnp.array([0.1, 1.0, 4.0]))
    base = Normal(jnp.asarray(KNOWN.mode, jnp.float32), 0.4)
    log_w = jax.jit(lambda k: log_weights(k, bayes(KNOWN), base, how, particles=4096))(key)
    assert abs(z(np.exp(np.asarray(log_w, np.float64) - KNOWN.log_z), 1.0)) < 5
    assert float(jnp.mean(log_w)) < KNOWN.log_z - 5 * float(relative_error(log_w))


def test_a_surrogate_drives_and_the_weight_stays_valid(key):
    half = replace(bayes(KNOWN), data=jax.tree.map(lambda u: u[:100], bayes(KNOWN).data))
    how = Annealing(power_ladder(12)[1:], 0.1, 0.5)
    base = Normal(jnp.asarray(KNOWN.mode, jnp.float32), 0.3)
    run = lambda k: log_weights(k, bayes(KNOWN), base, how, particles=4096, surrogate=half)
    assert abs(z(np.exp(np.asarray(jax.jit(run)(key), np.float64) - KNOWN.log_z), 1.0)) < 5


def test_the_bound_is_differentiable_in_everything(key):
    """Against finite differences: ladder, steps, γ, mass, base and the model's own parameter; checkpoints agree."""
    with jax.enable_x64(True):
        how = Annealing(0.98 * power_ladder(6)[1:], jnp.full(6, 0.15), 0.6, jnp.ones(D))
        point = dict(how=how, base=BASE, log_variance=0.1)
        point = jax.tree.map(lambda u: jnp.asarray(np.asarray(u), jnp.float64), point)

        def value(point, memory):
            target = bayes(KNOWN, log_variance=point["log_variance"])
            return bound(jax.random.clone(key), target, point["base"], point["how"], particles=2, memory=memory)

        both = jax.jit(jax.value_and_grad(value), static_argnums=1)
        _, grad = both(point, "scan")
        for g, h in zip(*map(jax.tree.leaves, (grad, both(point, "checkpoint")[1])), strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-9, atol=1e-9)
            assert np.any(np.asarray(g) != 0)
        for name in point:
            step = {k: jax.tree.map(lambda g: (k == name) * 1e-6 * g / jnp.max(jnp.abs(g)), v) for k, v in grad.items()}
            there, back = jax.tree.map(jnp.add, point, step), jax.tree.map(jnp.subtract, point, step)
            slope = 2 * sum(jax.tree.leaves(jax.tree.map(lambda g, s: jnp.sum(g * s), grad, step)))
            np.testing.assert_allclose(both(there, "scan")[0] - both(back, "scan")[0], slope, rtol=1e-4)


def test_dais_finds_its_steps(key):
    found = DAIS(ladder=200, particles=64)(key, bayes(KNOWN), BASE)
    assert abs(float(found.log_z) - KNOWN.log_z) < 4 * float(found.stderr)
    assert found.guarantee == "unbiased-Z"
    assert found.n_grad >= 200 * 64
    assert found.n_data >= 200 * 64 * N


def test_numbers_without_bounds_are_the_same_numbers():
    how = Annealing(power_ladder(6)[1:], jnp.linspace(0.1, 0.3, 6), 0.7, jnp.array([0.5, 1.0, 2.0]))
    again, base = constrain(unconstrain(how, Normal(jnp.ones(D), 0.4)))
    for name in ("beta", "step_size", "gamma", "mass"):
        np.testing.assert_allclose(getattr(again, name), getattr(how, name), rtol=1e-5)
    np.testing.assert_allclose(base.scale, 0.4, rtol=1e-5)


def tempered_noise(target, log_variance):
    return replace(target, log_likelihood=Linear(log_variance))


def test_the_bound_is_learned(key):
    """Ladder, steps, γ and base climb, and with them log σ² to where the evidence is greatest; what is held stays."""
    k_climb, k_before, k_after = jax.random.split(key, 3)
    how, begin = Annealing(power_ladder(6)[1:], 0.1, 0.5), jnp.asarray(-0.7)
    base = Normal(jnp.asarray(KNOWN.mode, jnp.float32) + 0.2, 0.5)
    options = dict(steps=300, rate=0.02, model=tempered_noise, parameters=begin)
    found = learn_bound(k_climb, bayes(KNOWN), base, how, **options)
    weigh = jax.jit(lambda k, s, q, a: log_weights(k, bayes(KNOWN, log_variance=s), q, a, particles=512))
    before, after = weigh(k_before, begin, base, how), weigh(k_after, found.model, found.base, found.annealing)
    sigma = float(np.exp(0.5 * found.model))
    truth = oracle.Regression(KNOWN.X, KNOWN.y, sigma=sigma).log_z
    assert float(jnp.mean(after)) > truth - 1  # 0.2 to 0.55 below it, from key to key
    assert float(jnp.mean(before)) < truth - 20
    best = max(
        np.linspace(-0.5, 0.5, 101), key=lambda s: oracle.Regression(KNOWN.X, KNOWN.y, sigma=np.exp(s / 2)).log_z
    )
    assert abs(float(found.model) - best) < 0.1
    assert found.annealing.mass.shape == (D,)
    np.testing.assert_array_equal(found.annealing.mass, 1.0)
    assert float(found.annealing.beta[-1]) == 1.0
    with pytest.raises(ValueError, match="no part 'speed'; there are rises"):
        learn_bound(k_climb, bayes(KNOWN), base, how, parts=("speed",))


def test_learning_keeps_what_memory_it_is_told(key):
    """The same climb, by a scan and in integers."""
    base, annealing = Normal(jnp.zeros(3)), Annealing(power_ladder(8)[1:], 0.1)
    how = dict(steps=5, parts=("log_step",), particles=2)
    runs = [
        learn_bound(jax.random.clone(key), bayes(KNOWN), base, annealing, memory=memory, **how)
        for memory in ("scan", Reversible(fraction=(9, 10)))
    ]
    np.testing.assert_allclose(runs[0].trace, runs[1].trace, rtol=1e-5)
    with pytest.raises(ValueError, match="fraction"):
        learn_bound(key, bayes(KNOWN), base, annealing, memory="reversible", **how)
