"""From fresh networks to a posterior: the Fisher metric, settling, and the two plans."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core import noise
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain
from langevin.core.record import replace
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.hmc import HMC
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.sgld import SGLD
from langevin.targets.bayes import Bayes
from langevin.tune.fisher import fisher, scale
from langevin.tune.mile_warmup import mile_warmup
from langevin.tune.plan import PLANS
from langevin.tune.whiten import whiten

TAU = jnp.asarray([2.0, 0.5, 1.0, 1.0, 1.0, 1.0])


def prior(w):
    return -0.5 * jnp.sum((w / TAU) ** 2)


def likelihood(w, data):
    x, y = data
    return -0.5 * ((y - x @ w) / 0.1) ** 2


@pytest.fixture(scope="module")
def regression():
    """A linear model whose residuals have the deviation it assumes: its Fisher matrix is that of the scores."""
    k_x, k_y = jax.random.split(noise.key(5))
    x = jax.random.normal(k_x, (4000, 6)) * jnp.asarray([[3.0, 1.0, 1.0, 0.3, 0.1, 0.03]])
    y = x @ jnp.ones(6) + 0.1 * jax.random.normal(k_y, (4000,))
    return Bayes(prior, likelihood, (x, y), 100)


@pytest.fixture(scope="module")
def network():
    k_x, k_y = jax.random.split(noise.key(6))
    x = jax.random.normal(k_x, (200, 3))
    y = jnp.sin(2 * x[:, 0]) + 0.1 * jax.random.normal(k_y, (200,))
    return bnn(partial(MLP, (3, 8, 2)), (x, y), kind="heteroscedastic")


@pytest.mark.parametrize("batch", [None, 100])
def test_fisher_is_that_of_the_data(regression, key, batch):
    """S Sᵀ = D (I + F/κ)⁻¹ D along the spikes, F from all data."""
    target = replace(regression, batch=batch)
    k_init, k_fisher = jax.random.split(key)
    kernel = MCLMC(0.1)
    states = begin_all(k_init, kernel, target, jnp.ones((2, 6)))
    tuned, _ = fisher(k_fisher, kernel, target, states, rank=5, examples=4000, damping=50.0)
    x = np.asarray(target.data[0], np.float64)
    F = np.diag(TAU) @ (x.T @ x / 0.01) @ np.diag(TAU)
    values, vectors = np.linalg.eigh(F)
    for chain in range(2):
        metric = jax.tree.map(lambda u, i=chain: u[i], tuned.kernel.metric)
        np.testing.assert_allclose(metric.scale, TAU, rtol=1e-5)
        found = 50.0 * (1 / np.asarray(metric.stretch, np.float64) ** 2 - 1)
        np.testing.assert_allclose(np.sort(found), values[1:], rtol=0.22)  # 5 standard errors, √(8/4000) each
        overlap = np.abs(np.asarray(metric.vectors).T @ vectors[:, 1:])
        np.testing.assert_allclose(np.sort(overlap.max(0)), 1.0, atol=0.02)


def test_the_scale_of_the_prior_is_exact(regression):
    np.testing.assert_allclose(scale(regression, jnp.zeros(6)), TAU, rtol=1e-6)


def test_fisher_keeps_what_a_chain_has_tuned(regression, key):
    k_init, k_fisher, k_again = jax.random.split(key, 3)
    states = begin_all(k_init, HMC(0.1), regression, jnp.ones((3, 6)))
    each = PerChain(jax.tree.map(lambda u: jnp.broadcast_to(u, (3,)), replace(HMC(0.1), step_size=0.3)))
    tuned, _ = fisher(k_fisher, each, regression, states, rank=3, examples=64)
    tuned, after = fisher(k_again, tuned, regression, states, rank=3, examples=64)
    np.testing.assert_allclose(tuned.kernel.step_size, 0.3)
    assert tuned.kernel.metric.vectors.shape == (3, 6, 3)
    assert after is states


@pytest.mark.slow
def test_settling_follows_the_energy_error_asked_for(network, key):
    """A hundredth of the energy variance means 100^(1/6) = 2.15 shorter steps; starts and lengths are the same."""
    k_start, k_ascent, k_init, k_tune = jax.random.split(key, 4)
    kernel = MCLMC(0.02, length=6.0, integrator="verlet")
    trained = replace(PLANS["mile"], ascent=600).trained(k_ascent, network.target, network.starts(k_start, 8))
    states = begin_all(k_init, kernel, network.target, trained)
    steps = []
    for v in (0.1, 0.001):
        k = jax.random.clone(k_tune)
        tuned, after = mile_warmup(k, kernel, network.target, states, rounds=2, steps=300, variance=(v, v), rank=8)
        steps.append(np.asarray(tuned.kernel.step_size))
        assert steps[-1].shape == (8,)
        assert np.isfinite(np.asarray(after.eval.log_density)).all()
    ratio = np.exp(np.mean(np.log(steps[0] / steps[1])))
    assert 1.7 < ratio < 2.7


def test_every_round_has_keys_of_its_own(network, key, monkeypatch):
    """Else every metric would be made of the same examples."""
    seen = []

    def told(key, kernel, target, states, *_, **__):
        seen.append(tuple(np.asarray(jax.random.key_data(key)).tolist()))
        return kernel, states

    monkeypatch.setattr(sys.modules["langevin.tune.mile_warmup"], "fisher", told)
    monkeypatch.setattr(sys.modules["langevin.tune.mile_warmup"], "_sought", told)
    k_begin, k_start, k_tune = jax.random.split(key, 3)
    states = begin_all(k_begin, MCLMC(0.02), network.target, network.starts(k_start, 2))
    mile_warmup(k_tune, MCLMC(0.02), network.target, states, rounds=3)
    assert len(set(seen)) == len(seen) == 6


@pytest.mark.parametrize("name", ["mile", pytest.param("smile", marks=pytest.mark.slow)])
def test_plans_learn_what_the_data_say(network, key, name):
    """Chains end at the noise of the data, their predictions at the curve."""
    k_start, k_fit = jax.random.split(key)
    short = {
        "mile": dict(tune=partial(mile_warmup, rounds=4, steps=100)),
        "smile": dict(tune=partial(whiten, steps=1000, rounds=4), batch=100),
    }
    plan = replace(PLANS[name], ascent=600, draws=40, thin=10, **short[name])
    posterior = plan(k_fit, network.target, network.starts(k_start, 4))
    assert np.asarray(posterior.info.ok).all()
    x = jnp.stack([jnp.linspace(-1.5, 1.5, 31), jnp.zeros(31), jnp.zeros(31)], 1)
    said = posterior.predict(network.predict, x)
    mean, deviation = said["mean"].reshape(-1, 31), said["std"].reshape(-1, 31)
    assert np.sqrt(np.mean((mean.mean(0) - np.sin(2 * x[:, 0])) ** 2)) < 0.12
    assert 0.07 < np.median(deviation) < 0.2


def test_bad_input_is_one_sentence(network, key):
    k_init, k_settle, k_fisher = jax.random.split(key, 3)
    states = begin_all(k_init, MCLMC(0.1), network.target, network.starts(noise.key(0), 2))
    with pytest.raises(ValueError, match="mile_warmup: 0 rounds"):
        mile_warmup(k_settle, MCLMC(0.1), network.target, states, rounds=0)
    with pytest.raises(TypeError, match="SGLD has no field 'metric'"):
        fisher(k_fisher, SGLD(0.1), network.target, states)


def test_batches_of_few_rows_are_even():
    x = np.zeros((81, 2), np.float32)
    target = bnn(partial(MLP, (2, 1)), (x, x[:, 0])).target
    assert PLANS["smile"].sampling(target).batch == 80
    assert PLANS["mile"].sampling(target).batch is None
