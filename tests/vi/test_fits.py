"""IVON, SWAG, SVGD and ensembles: their updates written down once more, and Gaussians whose answer is known."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from vi.checks import LIMIT, z_of
from vi.test_vi_fit import CENTER, COVARIANCE, START, TARGET

import langevin as lv
from langevin import vi
from langevin.core.begin import begin_all
from langevin.core.kernel import innermost
from langevin.core.record import replace
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.optimize import Adam
from langevin.vi.ivon import NaturalStep, scale_of
from langevin.vi.svgd import prior_score, stein_direction
from langevin.vi.swag import moments

# --- IVON --------------------------------------------------------------------------------------------------------


def test_ivon_is_its_algorithm():
    """Two steps by hand, each of two samples."""
    alpha, ess, delta, h0, b1, b2 = 0.1, 50.0, 0.02, 0.3, 0.9, 0.95
    optimizer = vi.ivon(alpha, ess, weight_decay=delta, hess_init=h0, b1=b1, b2=b2)
    m = jnp.array([0.5, -1.0])
    state = optimizer.init(m)
    own_m, h, g = np.array([0.5, -1.0]), np.full(2, h0), np.zeros(2)
    key = jax.random.key(0)
    for t in (1, 2):
        grads, steins = [], []
        for _ in range(2):
            key, k = jax.random.split(key)
            theta, state = vi.sample_parameters(k, m, state)
            grad = jnp.sin(theta) + theta
            state = vi.accumulate_gradients(grad, state)
            grads.append(np.asarray(grad))
            steins.append(np.asarray(grad) * (np.asarray(theta) - own_m) * ess * (h + delta))
        updates, state = optimizer.update(None, state, m)
        m = m + updates
        g = b1 * g + (1 - b1) * np.mean(grads, axis=0)
        stein = np.mean(steins, axis=0)
        h = b2 * h + (1 - b2) * stein + 0.5 * (1 - b2) ** 2 * (h - stein) ** 2 / (h + delta)
        own_m = own_m - alpha * (h0 + delta) * (g / (1 - b1**t) + delta * own_m) / (h + delta)
    np.testing.assert_allclose(m, own_m, rtol=1e-4)
    np.testing.assert_allclose(state.curvature, h, rtol=1e-4)
    np.testing.assert_allclose(scale_of(state), 1 / np.sqrt(ess * (h + delta)), rtol=1e-4)


def test_samples_have_the_scale_of_q():
    optimizer = vi.ivon(0.1, 40.0, weight_decay=0.1, hess_init=0.4)
    m = jnp.array([1.0, 2.0])
    state = optimizer.init(m)
    draws = jax.vmap(lambda k: vi.sample_parameters(k, m, state)[0])(jax.random.split(jax.random.key(1), 4000))
    assert np.abs(z_of((np.asarray(draws) - np.asarray(m)) ** 2, 1 / (40 * 0.5))).max() < LIMIT


def test_ivon_meets_the_optimum_of_a_gaussian():
    """Means, and variances conditional on the other coordinates: of each fit within 5 %."""
    how = vi.IVON(rate=0.02, steps=4000, samples=8)
    kernel, _ = how(lv.key(0), vi.Independent(), TARGET, START)
    params = innermost(kernel).params
    precision = np.diag(np.linalg.inv(COVARIANCE))
    assert np.abs((np.asarray(params.mean) - CENTER) * np.sqrt(precision)).max() < 0.1
    np.testing.assert_allclose(np.exp(np.asarray(params.log_scale)) * np.sqrt(precision), 1.0, atol=0.05)


def test_ivon_takes_weight_decay_from_the_prior():
    x = jnp.linspace(-1, 1, 20)[:, None]
    model = bnn(partial(MLP, (1, 3, 1)), (x, x[:, 0]), prior=0.5)
    step = NaturalStep(0.1, 10, 0.9, 0.999, samples=1)
    states = begin_all(lv.key(0), step, model.target, model.starts(lv.key(1), 2))
    for leaf in jax.tree.leaves(states.memory.decay["net"]):
        np.testing.assert_allclose(leaf, 4.0 / 20, rtol=1e-5)


def test_ivon_refuses():
    with pytest.raises(ValueError, match="ivon: ess is 0"):
        vi.ivon(0.1, 0)
    with pytest.raises(ValueError, match=r"ivon: b2 is 1\.5"):
        vi.ivon(0.1, 10, b2=1.5)
    optimizer = vi.ivon(0.1, 10.0)
    with pytest.raises(ValueError, match="needs the parameters"):
        optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)))
    with pytest.raises(TypeError, match=r"must be Independent\(MeanField\(\)\)"):
        vi.IVON()(lv.key(0), vi.Independent(vi.FullRank()), TARGET, START)


# --- SWAG --------------------------------------------------------------------------------------------------------


def test_swag_moments():
    iterates = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    q = moments(jnp.asarray(iterates), 5, 2.0)
    np.testing.assert_allclose(q.mean, iterates.mean(0), rtol=1e-5)
    np.testing.assert_allclose(np.exp(2 * q.log_scale), 2.0 * 0.5 * iterates.var(0), rtol=1e-4)
    deviations = iterates[-5:] - iterates.mean(0)
    expected = 2.0 * 0.5 * deviations.T @ deviations / 4
    F = np.asarray(q.factor * jnp.exp(q.log_scale)[None])
    np.testing.assert_allclose(F.T @ F, expected, rtol=1e-4, atol=1e-6)


def test_swag_is_a_tuner():
    how = vi.SWAG(rate=0.05, iterates=10, rank=4, spacing=3)
    posterior = lv.sample(lv.key(0), vi.Independent(), TARGET, START, draws=3000, tune=how)
    q = vi.approximation(posterior, 0)
    draws = np.asarray(posterior.draws)[0]
    assert np.abs(z_of(draws, q.params.mean)).max() < LIMIT
    with pytest.raises(ValueError, match="rank is 9 of 8 iterates"):
        vi.SWAG(iterates=8, rank=9)


# --- ensembles ---------------------------------------------------------------------------------------------------


def test_an_ensemble_is_its_positions():
    posterior = lv.sample(lv.key(0), vi.Independent(), TARGET, START + 0.5, draws=3, tune=vi.Ensemble())
    np.testing.assert_array_equal(np.asarray(posterior.draws), 0.5)


# --- particles ---------------------------------------------------------------------------------------------------


def test_stein_direction_is_its_sum(key):
    k_x, k_s = jax.random.split(key)
    x, score = jax.random.normal(k_x, (6, 2)), jax.random.normal(k_s, (6, 2))
    square = np.asarray(((x[:, None] - x[None]) ** 2).sum(-1))
    width = np.median(square[np.triu_indices(6, 1)]) / (2 * np.log(7))
    kernel = lambda a, b: jnp.exp(-jnp.sum((a - b) ** 2) / (2 * width))
    one = lambda i: sum(kernel(x[j], x[i]) * score[j] + jax.grad(kernel)(x[j], x[i]) for j in range(6)) / 6
    np.testing.assert_allclose(stein_direction(x, score), jnp.stack([one(i) for i in range(6)]), rtol=1e-4, atol=1e-5)


def test_svgd_covers_a_gaussian():
    """60 particles: means, and spreads a little too narrow."""
    start = 2 * jax.random.normal(jax.random.key(0), (60, 3))
    posterior = lv.sample(lv.key(1), vi.SVGD(Adam(0.05), group=60), TARGET, start, draws=1, warmup=1500)
    draws = np.asarray(posterior.draws)[:, 0]
    sd = np.sqrt(np.diag(COVARIANCE))
    assert np.abs((draws.mean(0) - CENTER) / sd).max() < 0.05
    assert (draws.std(0) / sd > 0.8).all()
    assert (draws.std(0) / sd < 1.05).all()


def test_the_prior_score_is_that_of_a_gaussian(key):
    k_draws, k_out = jax.random.split(key)
    draws = jax.random.normal(k_draws, (40, 5)) * jnp.arange(1.0, 6.0)[None] + 1.0
    out = jax.random.normal(k_out, (3, 5))
    apart = np.asarray(draws - draws.mean(0)[None])
    covariance = apart.T @ apart / 40 + (0.05 * (apart**2).mean() + 1e-8) * np.eye(5)
    expected = -(np.asarray(out) - np.asarray(draws).mean(0)) @ np.linalg.inv(covariance)
    np.testing.assert_allclose(prior_score(out, draws, 0.05), expected, rtol=2e-3, atol=1e-4)


def test_function_particles_fit_data_and_spread_elsewhere():
    x = jnp.concatenate([jnp.linspace(-1, -0.4, 15), jnp.linspace(0.4, 1, 15)])[:, None]
    model = bnn(partial(MLP, (1, 20, 1), activation=jnp.tanh), (x, x[:, 0] ** 2), noise=0.05)
    functions = model.starts(lv.key(5), 200)
    kernel = vi.FunctionSVGD(functions, group=10)
    start = model.starts(lv.key(0), 10)
    posterior = lv.sample(lv.key(1), kernel, model.target, start, draws=1, warmup=1000)
    says = np.asarray(posterior.predict(model.predict, jnp.array([[-0.7], [0.7], [4.0]]))["mean"])[:, 0]
    np.testing.assert_allclose(says[:, :2].mean(0), 0.49, atol=0.05)
    assert says[:, 2].std() > 3 * says[:, :2].std(axis=0).max()
    with pytest.raises(TypeError, match="needs a target with"):
        lv.sample(lv.key(1), kernel, TARGET, jnp.zeros((10, 3)), draws=1)
    with pytest.raises(ValueError, match="group is 1"):
        vi.SVGD(group=1)


def test_functions_count_a_batch_as_all_data():
    """The likelihood's part of the direction is N/|B| times that of the batch: linear in N, and there."""
    x = jnp.linspace(-1, 1, 4)[:, None]
    model = bnn(partial(MLP, (1, 5, 1), activation=jnp.tanh), (x, x[:, 0] ** 2), noise=0.5)
    kernel = vi.FunctionSVGD(model.starts(lv.key(0), 30), group=4)
    at, batch = model.starts(lv.key(1), 4), model.target.data
    repeated = lambda n: replace(model.target, data=jax.tree.map(lambda u: jnp.concatenate([u] * n), model.target.data))
    ways = [ravel_pytree(kernel.direction(at, at, batch, repeated(n)))[0] for n in (1, 2, 3)]
    np.testing.assert_allclose(ways[2] - ways[1], ways[1] - ways[0], rtol=1e-3, atol=1e-4)
    assert jnp.linalg.norm(ways[1] - ways[0]) > 0.1
