"""LDVI: zero is DAIS, any network is unbiased, the gain is a ratio of densities, and learning it raises the bound."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from langevin.core import noise
from langevin.core.target import Density
from langevin.evidence.annealing.dais import Annealing, log_weight, log_weights
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.annealing.ldvi import LDVI, Score
from langevin.evidence.annealing.learn_bound import learn_bound
from langevin.evidence.base import Normal
from langevin.targets.path import Geometric
from langevin.targets.zoo import Gaussian, logistic

TARGET = Gaussian(np.array([0.5, -0.3]), np.array([[1.0, 0.4], [0.4, 0.6]]))
BASE = Normal(jnp.zeros(2), 1.1)
MASS = jnp.array([0.5, 2.0])


def random_score(base, size, *, seed=2, width=8):
    """A network that is not zero."""
    k_begin, k_leave = jax.random.split(noise.key(seed, impl="hash"))
    score = Score.begin(k_begin, base, width=width)
    return dataclasses.replace(score, leave=size * noise.normal(k_leave, score.leave.shape))


def z(x, truth):
    x = np.asarray(x, np.float64)
    return (x.mean() - truth) / (x.std() / np.sqrt(len(x)))


@partial(jax.jit, static_argnames=("particles", "memory"))
def weights(key, target, base, annealing, score, *, particles, memory="scan"):
    return log_weights(key, target, base, annealing, particles=particles, memory=memory, backward=score)


def log_tree(x):
    return -0.5 * jnp.sum((x["a"] - 1) ** 2) - 0.25 * jnp.sum(x["b"] ** 4)


@pytest.mark.parametrize("memory", ["scan", pytest.param("checkpoint", marks=pytest.mark.slow)])
def test_a_zero_network_is_dais(key, memory):
    """On a position of two leaves, with a mass of its own for each number."""
    like = {"a": jnp.zeros(2), "b": jnp.ones((1, 2))}
    base = Normal(like, {"a": 0.7, "b": 1.2})
    how = Annealing(power_ladder(5)[1:], 0.3, 0.7, {"a": MASS, "b": jnp.full((1, 2), 0.8)})
    zero = Score.begin(noise.key(1, impl="hash"), base)
    run = lambda score: weights(jax.random.clone(key), Density(log_tree), base, how, score, particles=16, memory=memory)
    np.testing.assert_allclose(run(zero), run(None), rtol=1e-6, atol=1e-6)
    assert np.max(np.abs(run(random_score(base, 0.3)) - run(None))) > 0.1


@pytest.mark.parametrize("gamma", [0.0, 0.6, 0.95])
def test_any_network_is_unbiased(key, gamma):
    how = Annealing(power_ladder(3)[1:], 0.6, gamma, MASS)
    log_w = weights(key, TARGET, BASE, how, random_score(BASE, 0.12), particles=100_000)
    assert abs(z(np.exp(np.asarray(log_w, np.float64)), 1.0)) < 5
    assert float(jnp.mean(log_w)) < -5 * float(jnp.std(log_w)) / np.sqrt(len(log_w))


def test_the_gain_is_a_ratio_of_normal_densities(key):
    """log N(v̂; γ v + (1 − γ²) √M s, (1 − γ²) M) − log N(v̂; γ v, (1 − γ²) M), summed over steps."""
    k_theta, k_v, k_moved = jax.random.split(key, 3)
    theta, v, moved = (noise.normal(k, (7, 2)) for k in (k_theta, k_v, k_moved))
    score, beta, gamma = random_score(BASE, 0.5), power_ladder(7)[1:], 0.6
    shift = (1 - gamma**2) * jnp.sqrt(MASS)[None] * score(beta, theta, v / jnp.sqrt(MASS)[None])
    law = lambda mean: norm.logpdf(moved, mean, np.sqrt((1 - gamma**2) * MASS)[None]).sum()
    wanted = law(gamma * v + shift) - law(gamma * v)
    np.testing.assert_allclose(score.gain(gamma, MASS, beta, theta, v, moved), wanted, rtol=1e-4)


def test_the_network_sees_beta_position_and_velocity():
    """In units of the base: a position that moves with it looks the same."""
    score = random_score(BASE, 0.5)
    beta, theta, u = jnp.array([0.3]), jnp.array([[0.4, -1.0]]), jnp.array([[0.2, 0.9]])
    here = score(beta, theta, u)
    for other in ((beta + 0.1, theta, u), (beta, theta + 0.1, u), (beta, theta, u + 0.1)):
        assert np.max(np.abs(score(*other) - here)) > 1e-3
    moved = dataclasses.replace(score, centre=score.centre + 3.0, spread=2 * score.spread)
    np.testing.assert_allclose(moved(beta, 2 * theta + 3.0, u), here, rtol=1e-5)


def test_the_gradient_of_the_network_is_that_of_differences(key):
    """By scan and by checkpoints, in double precision."""
    with jax.enable_x64(True):
        path, start = Geometric(BASE, TARGET), jnp.array([0.3, -0.8])
        how = Annealing(power_ladder(7)[1:], 0.3, 0.7, MASS)  # checkpoints after 2, 4 and 6: one step is left
        score = jax.tree.map(lambda u: jnp.asarray(u, jnp.float64), random_score(BASE, 0.3, width=4))

        def value(score, memory):
            return log_weight(jax.random.clone(key), path, how, start, memory=memory, backward=score)

        grads = [jax.jit(jax.grad(value), static_argnums=1)(score, memory) for memory in ("scan", "checkpoint")]
        for a, b in zip(*map(jax.tree.leaves, grads), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        assert not np.any(grads[0].centre)
        step = jax.tree.map(lambda g: 1e-5 * g, grads[0])
        there, back = (jax.jit(value, static_argnums=1)(jax.tree.map(op, score, step), "scan")
                       for op in (jnp.add, jnp.subtract))  # fmt: skip
        slope = sum(jnp.sum(g * g) for g in jax.tree.leaves(grads[0]))
        np.testing.assert_allclose((there - back) / 2e-5, slope, rtol=1e-5)


def log_far(x):
    """Peaked as e^{−12|x − 3|} far from the base; log Z = log(π/64)."""
    return -3 * jnp.sum(jnp.logaddexp(4 * (x - 3), -4 * (x - 3)))


@pytest.mark.slow
def test_learning_the_network_raises_the_bound(key):
    """Where few rungs lag behind; ladder and steps are learned before, and the same chains weighed with and without."""
    k_rest, k_score, k_learn, k_weigh = jax.random.split(key, 4)
    target, base = Density(log_far), Normal(jnp.zeros(1))
    options = dict(steps=150, rate=2e-2, particles=1, draws=64)
    rest = learn_bound(
        k_rest, target, base, Annealing(power_ladder(4)[1:], 0.3, 0.5), parts=("rises", "log_step"), **options
    )
    score = Score.begin(k_score, rest.base, width=16)
    found = learn_bound(k_learn, target, rest.base, rest.annealing, parts=(), backward=score, **options)
    for a, b in zip(*map(jax.tree.leaves, (found.annealing, rest.annealing)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    weigh = lambda score: weights(jax.random.clone(k_weigh), target, rest.base, rest.annealing, score, particles=10_000)
    without, there = weigh(None), weigh(found.backward)
    assert z(there - without, 0.0) > 30
    assert float(jnp.mean(there - without)) > 1.5
    assert float(jnp.mean(there)) < np.log(np.pi / 64)


def test_ldvi_is_evidence(key):
    found = LDVI(ladder=3, steps=20, chains=8, width=4, particles=512)(key, TARGET, BASE)
    assert abs(float(found.log_z)) < 5 * float(found.stderr)
    assert found.guarantee == "unbiased-Z"
    assert float(found.lower) == float(found.log_z)
    assert found.n_grad >= 3 * (512 + 20 * 8)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        (dict(target=logistic(jax.random.key(0), 20, 2, batch=5)), ValueError, r"mini-batches.*such as midpoint"),
        (dict(base=TARGET), TypeError, r"base is Gaussian.*Normal\(mean, scale\)"),
        (dict(steps=0), ValueError, "steps is 0"),
        (dict(parts=("speed",)), ValueError, "no part 'speed'"),
    ],
)
def test_bad_input_gets_one_sentence(key, how, kind, words):
    how = dict(how)
    target, base = how.pop("target", TARGET), how.pop("base", BASE)
    with pytest.raises(kind, match=words):
        LDVI(step_size=0.1, ladder=2, **how)(key, target, base)


def test_integers_have_no_backward_network(key):
    how, score = Annealing(power_ladder(3)[1:], 0.1), random_score(BASE, 0.1)
    with pytest.raises(ValueError, match=r"sees every state.*checkpoint"):
        log_weights(key, TARGET, BASE, how, particles=2, memory="reversible", backward=score)
