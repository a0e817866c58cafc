"""Annealing by Langevin steps, unadjusted and with a Metropolis test, from a normal to a Gaussian whose Z is known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from vi.checks import z_of

from langevin.core.record import record
from langevin.core.target import Exact
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.annealing.langevin import log_weight
from langevin.evidence.base import Normal
from langevin.targets.path import Geometric

BASE = Normal(jnp.zeros(2), jnp.array([1.5, 1.2]))
LOG_Z = 1.7


@record
class Known(Exact):
    """A correlated Gaussian times e^LOG_Z; NaN to the right of `edge`."""

    mean: jax.Array
    low: jax.Array
    edge: float = 1e9

    def log_density(self, z):
        u = jax.scipy.linalg.solve_triangular(self.low, z - self.mean, lower=True)
        value = LOG_Z - 0.5 * jnp.sum(u**2) - jnp.sum(jnp.log(jnp.diag(self.low))) - math.log(2 * math.pi)
        return jnp.where(z[0] > self.edge, jnp.nan, value)


TARGET = Known(jnp.array([0.5, -0.4]), jnp.array([[0.8, 0.0], [0.5, 0.6]]))


def weigh(key, target, step_size, *, rungs=4, n=20_000, metropolis=False):
    """(log w, score, acceptance) of n chains."""
    k_start, k_run = jax.random.split(key)
    return _weigh(k_run, target, BASE.exact(k_start, n), power_ladder(rungs, 1.5)[1:], step_size, metropolis)


def _one(key, target, start, beta, step_size, metropolis):
    return log_weight(key, Geometric(BASE, target), beta, step_size, start, metropolis=metropolis)


@jax.jit(static_argnums=5)
def _weigh(key, target, starts, beta, step_size, metropolis):
    keys = jax.random.split(key, len(starts))
    return jax.vmap(_one, (0, None, 0, None, None, None))(keys, target, starts, beta, step_size, metropolis)


STEPS = jnp.array([0.3, 0.2, 0.1, 0.05])


@pytest.mark.parametrize("step_size", [0.1, STEPS], ids=["one", "each"])
@pytest.mark.parametrize("metropolis", [False, True])
def test_weights_have_the_evidence_as_their_mean(metropolis, step_size, key):
    log_w, score, accepted = (
        np.asarray(u, np.float64) for u in weigh(key, TARGET, jnp.asarray(step_size), metropolis=metropolis)
    )
    assert abs(z_of(np.exp(log_w - LOG_Z), 1.0)) < 5
    assert z_of(log_w, LOG_Z) < -5
    if metropolis:
        assert set(np.unique(4 * accepted)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert 0.7 < accepted.mean() < 1
        assert (score[accepted < 1] < 0).all()
    else:
        assert (accepted == 1).all()
        assert not score.any()


@pytest.mark.parametrize("metropolis", [False, True])
def test_more_rungs_are_closer(metropolis, key):
    k_few, k_many = jax.random.split(key)
    few = weigh(k_few, TARGET, jnp.asarray(0.1), rungs=2, metropolis=metropolis)[0]
    many = weigh(k_many, TARGET, jnp.asarray(0.1), rungs=20, metropolis=metropolis)[0]
    assert float(many.mean()) > float(few.mean()) + 0.1


def test_the_metropolis_test_leaves_the_path_as_it_is(key):
    """With β = 1 throughout, a target that is the base, and long steps: chains keep its moments; weights are 1."""
    k_start, k_run = jax.random.split(key)
    start = BASE.exact(k_start, 20_000)
    beta = jnp.ones(6)
    log_w, _, accepted = _weigh(k_run, BASE, start, beta, jnp.asarray(0.8), True)
    np.testing.assert_allclose(log_w, 0.0, atol=1e-4)
    assert 0.3 < float(accepted.mean()) < 0.95


def test_nan_is_refused_and_not_spread(key):
    """Chains keep to where the log density is a number; the evidence is that of this region."""
    edge = 1.5
    target = Known(TARGET.mean, TARGET.low, edge)
    k_start, k_run = jax.random.split(key)
    start = BASE.exact(k_start, 40_000)
    start = start[start[:, 0] < edge][:20_000]
    beta = power_ladder(4, 1.5)[1:]
    log_w, score, accepted = _weigh(k_run, target, start, beta, jnp.asarray(0.1), True)
    assert np.isfinite(log_w).all()
    assert np.isfinite(score).all()
    free = _weigh(jax.random.clone(k_run), TARGET, start, beta, jnp.asarray(0.1), True)[2]
    assert float(accepted.mean()) < float(free.mean())
    # the base is cut at the edge too
    inside = stats.norm.cdf(edge, 0.5, 0.8) / stats.norm.cdf(edge, 0.0, 1.5)
    assert abs(z_of(np.exp(np.asarray(log_w, np.float64) - LOG_Z), inside)) < 5


def test_the_score_is_that_of_the_decisions(key):
    """E of the gradient of the score is zero: it is a score."""
    k_start, k_run = jax.random.split(key)
    start = BASE.exact(k_start, 20_000)
    beta = power_ladder(3, 1.0)[1:]

    @jax.jit
    def slopes(keys):
        score = lambda step, key, z: _one(key, TARGET, z, beta, step, True)[1]
        return jax.vmap(jax.grad(score), (None, 0, 0))(jnp.full(3, 0.4), keys, start)

    found = slopes(jax.random.split(k_run, len(start)))
    assert np.abs(z_of(found, 0.0)).max() < 5
    assert (np.asarray(found).std(0) > 0.01).all()
