"""Steps that are undone, and the form its authors publish."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from noisy_gaussian import published

from langevin.baselines.published_smile import PublishedSMILE, Quantiles, Running, _gamma_quantile
from langevin.core import noise
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.target import Density
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, glide
from langevin.dynamics.mass import IdentityMetric
from langevin.samplers.smile import SMILE
from langevin.targets.noisy import Noisy
from langevin.targets.zoo import Gaussian
from langevin.tune.probing import Probing
from langevin.tune.whiten import whiten

# --- resets ---------------------------------------------------------------------------------------------------------


def walled(x):
    """A standard normal with a wall: beyond radius 5 there is nothing to evaluate."""
    return jnp.where(jnp.sum(x**2) < 25.0, -0.5 * jnp.sum(x**2), jnp.nan)


def every_step(key, kernel, target, position, steps):
    """The states of many chains before every step and after, and the Infos; (chain, step)."""
    k_init, k_run = jax.random.split(key)
    words, wrap = noise.words(jax.random.split(k_run, (len(position), steps)))

    def step(state, word):
        new, info = kernel.step(wrap(word), state, target)
        return new, (state, new, info)

    @jax.jit
    @jax.vmap
    def chain(key, position, words):
        return jax.lax.scan(step, kernel.init(key, position, target), words)[1]

    return chain(jax.random.split(k_init, len(position)), position, words)


def undone_together(target, before, after, info):
    """Wherever a step was undone all went back, and the velocity is uniform; which those are."""
    undone = np.asarray(info.acceptance) == 0
    assert undone.sum() > 50
    pick = lambda part: jax.tree.map(lambda u: np.asarray(u)[undone], part)
    for a, b in ((before.position, after.position), (before.eval, after.eval)):
        jax.tree.map(np.testing.assert_array_equal, pick(a), pick(b))
    u, old = pick(after.aux), pick(before.aux)
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1.0, atol=1e-6)
    # cosines of independent directions have variance 1/d
    cosine = np.sum(u * old, axis=1)
    z = lambda x, variance: np.mean(x) / np.sqrt(variance / len(x))
    assert np.all(np.abs(cosine) < 0.999999)
    assert abs(z(cosine, 1 / u.shape[1])) < 5
    place = pick(before.position)
    assert abs(z(np.sum(u * place, axis=1) / np.linalg.norm(place, axis=1), 1 / u.shape[1])) < 5
    # every state has the evaluation of its own position
    value, grad = jax.jit(jax.vmap(jax.vmap(jax.value_and_grad(target.log_density))))(after.position)
    assert np.all(np.isfinite(value))
    np.testing.assert_allclose(after.eval.log_density, value, rtol=1e-5)
    np.testing.assert_allclose(after.eval.grad, grad, rtol=1e-5)
    assert np.all(np.asarray(info.ok))
    return undone


def test_a_step_over_the_wall_is_undone(key):
    d = 12
    target, kernel = Density(walled), SMILE(4.0, length=3.0)
    undone = undone_together(target, *every_step(key, kernel, target, jnp.full((64, d), 0.5), 40))
    assert 0 < undone.mean() < 0.5


def test_a_fall_is_undone(key):
    """No step falls by more than is allowed, and those that would are undone."""
    target, kernel = Gaussian(np.zeros(12), np.ones(12)), SMILE(2.0, length=3.0, max_drop=3.0)
    before, after, info = every_step(key, kernel, target, jnp.full((64, 12), 0.5), 40)
    undone_together(target, before, after, info)
    assert np.max(np.asarray(before.eval.log_density - after.eval.log_density)) <= 3.0


@pytest.mark.parametrize("reason", ["wall", "energy"])
def test_a_probe_that_fails_is_undone(reason, key):
    """As in a step of SMILE, whatever failed; and ε is four fifths of what it was, and bounded by that."""
    d, h = 12, 6.0
    target = Density(walled) if reason == "wall" else Gaussian(np.zeros(d), np.ones(d))
    variance = 1.0 if reason == "wall" else 1e-3
    probing = Probing(SMILE(h, length=30.0), jnp.ones(d), jnp.eye(d, 2), 0.5, variance, 1e6)
    before, after, info = every_step(key, probing, target, jnp.full((256, d), 0.5), 8)
    undone = undone_together(target, before, after, info)
    probed = np.asarray(before.count) % 4 == 0
    assert undone[probed].sum() > 50
    np.testing.assert_array_equal(np.asarray(info.n_grad), 1 + probed)
    if reason == "energy":
        assert not undone[~probed].any()
        kept = np.abs(np.asarray(info.energy_error))[probed & ~undone]
        assert np.all(kept < 20 * np.sqrt(variance * d))
    was, now = before.memory[1], after.memory[1]
    used = np.minimum(np.asarray(was.step_size), np.asarray(was.most))[undone]
    np.testing.assert_allclose(np.asarray(now.step_size)[undone], 0.8 * used, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(now.most)[undone], 0.8 * used, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(now.undone - was.undone), undone)


@pytest.mark.slow
def test_whiten_survives_a_wall(key):
    """Chains that begin with steps over the wall end with finite ε on this side of it."""
    d = 12
    target = Noisy(Density(walled), jnp.full(d, 3.0))
    log = []
    k_init, k_tune = jax.random.split(key)
    states = begin_all(k_init, SMILE(50.0), target, jnp.full((32, d), 0.5))
    tuned, states = whiten(
        k_tune, SMILE(50.0), target, states, steps=1500, rank=2, share=1 / 9, prior=0.0, watch=log.append
    )
    assert log[0]["reset_rate"].max() > 0
    assert np.all(np.sum(np.asarray(states.position) ** 2, axis=1) < 25)
    assert np.all(np.isfinite(states.eval.grad))
    assert np.all(np.isfinite(tuned.kernel.step_size))
    assert 0.05 < np.median(tuned.kernel.step_size) < 5


# --- as published ---------------------------------------------------------------------------------------------------


def test_published_warns_once(untold):
    with pytest.warns(UserWarning, match=r"no distribution that is known.*take SMILE") as told:
        kernel = PublishedSMILE()
    assert len(told) == 1
    replace(kernel, step_size=0.2)  # a warning would be an error
    assert kernel.law().kind == "wrong"
    assert SMILE().law().kind == "order"


@pytest.mark.parametrize(("shape", "sign"), [("exponential", -1), ("|N(2, 1)|", 1)])
def test_published_step_size_never_settles(shape, sign, key):
    """Energy errors of one law that does not depend on ε: log ε goes on, as far in the second 4000 steps as before."""
    n, kernel = 4000, published()
    draw = {"exponential": jax.random.exponential, "|N(2, 1)|": lambda k, s: jnp.abs(2 + jax.random.normal(k, s))}[
        shape
    ]
    one, zero = jnp.ones(()), jnp.zeros(())
    start = Running(jnp.float32(1e-2), zero, zero, one, jnp.ones(3), jnp.ones(3))

    def step(past, error):
        quantile = lambda p: _gamma_quantile(p, past.mean, past.deviation)
        new = kernel._adapt(past, error, quantile, past.time >= 10, jnp.zeros(3))
        return new, jnp.log(new.step_size)

    # of several chains, as one wanders
    errors = jax.vmap(lambda k: draw(k, (2 * n,)))(jax.random.split(key, 16))
    log = np.asarray(jax.jit(jax.vmap(lambda e: jax.lax.scan(step, start, e)[1]))(errors), np.float64)
    first, second = log[:, n - 1] - np.log(1e-2), log[:, -1] - log[:, n - 1]
    assert np.all(sign * first > 1)
    assert np.all(sign * second > 1)
    assert abs(np.mean(second - first)) < 5 * np.std(second - first) / 4


def test_published_reset_keeps_the_gradient_of_the_refused_point(key):
    """Its fault, as documented: the position goes back, u is 0, the evaluation stays where it was refused."""
    d = 12
    target = Gaussian(np.zeros(d), np.linspace(0.5, 2.0, d))
    kernel = published(step_size=0.5, tuner=Quantiles(reset=0.7, share=0.0, scaled=False))
    before, after, info = every_step(key, kernel, target, jax.random.normal(jax.random.key(3), (32, d)), 60)
    undone = np.asarray(info.acceptance) == 0
    assert undone.sum() > 50
    pick = lambda part: jax.tree.map(lambda u: jnp.asarray(np.asarray(u)[undone]), part)
    was, now = pick(before), pick(after)
    np.testing.assert_array_equal(was.position, now.position)
    np.testing.assert_array_equal(now.aux, 0.0)
    evaluate = lambda position: target.evaluate((), position)

    def refused(state):
        point = Point(state.position, state.aux, state.eval)
        return glide(INTEGRATORS["mclachlan"], evaluate, IdentityMetric(), point, state.memory.step_size, 1.0)[0]

    end = jax.jit(jax.vmap(refused))(was)
    np.testing.assert_allclose(now.eval.grad, end.eval.grad, rtol=1e-4, atol=1e-5)
    here = jax.vmap(jax.grad(target.log_density))(now.position)
    assert np.all(np.linalg.norm(np.asarray(now.eval.grad - here), axis=1) > 1e-3)
    # what is not undone is where it says
    fine = ~undone
    np.testing.assert_allclose(
        np.asarray(after.eval.grad)[fine],
        -np.asarray(after.position)[fine] / np.linspace(0.5, 2.0, d),
        rtol=1e-3,
        atol=1e-4,
    )
    np.testing.assert_allclose(np.linalg.norm(np.asarray(after.aux)[fine], axis=1), 1.0, atol=1e-5)
