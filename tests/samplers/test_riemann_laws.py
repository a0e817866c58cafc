"""Stationary distributions of adaptive samplers in one dimension, and of frozen metrics."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geometries import normal, quiet
from scipy.special import ndtr

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.target import Density
from langevin.dynamics.metrics.position import Position, Squares
from langevin.dynamics.metrics.windowed import Windowed
from langevin.samplers.monge import Monge
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.shampoo import Shampoo

EDGES = np.concatenate([[-np.inf], np.linspace(-4, 4, 81), [np.inf]])
P = np.diff(ndtr(EDGES))


# --- laws in one dimension: the notes' tables, small --------------------------------------------------------------


def tv(key, kernel, target=None, *, steps=6000, chains=2048, shape=(1,)):
    """Total variation to N(0, 1) in bins of 0.1, after a burn-in of a fifth; about 0.004 is noise."""
    target = Density(normal) if target is None else target
    k_start, k_init, k_run = jax.random.split(key, 3)
    states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (chains, *shape)))
    run = advance(k_run, kernel, target, states, length=steps // 20, thin=20, layout="vmap")
    x = np.asarray(run.kept)[:, steps // 100 :].ravel()
    counts = np.bincount(np.clip(np.floor(10 * x + 40).astype(int) + 1, 0, 81), minlength=82)
    return 0.5 * np.abs(counts / counts.sum() - P).sum()


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("make", "low", "high"),
    [
        (partial(PSGLD, 0.05, correction="none"), 0.10, 0.13),
        (partial(PSGLD, 0.05), 0.0, 0.015),
        (partial(PSGLD, 0.01, floor=0.3), 0.0, 0.02),
        (partial(PSGLD, 0.01, floor=0.3, correction="hk2"), 0.0, 0.025),
        slow(partial(PSGLD, 2e-3, floor=0.3, correction="exact"), 0.0, 0.012),
        slow(partial(PSGLD, 2e-3, floor=0.3, correction="hutchinson"), 0.0, 0.012),
        slow(partial(PSGLD, 2e-3, floor=0.3, correction="rfd"), 0.0, 0.012),
        slow(partial(PSGLD, 2e-3, floor=0.3, correction="fixman"), 0.0, 0.012),
        slow(partial(PSGLD, 2e-3, floor=0.1, form="li", correction="none"), 0.25, 0.29),
        (partial(Monge, 2e-3, correction="none"), 0.23, 0.26),
        (partial(Monge, 2e-3), 0.0, 0.012),
        slow(partial(Monge, 2e-3, correction="pec"), 0.0, 0.012),
        slow(partial(Riemannian, 2e-3, metric=Position(Squares(1.0)), correction="none"), 0.16, 0.19),
        (partial(Riemannian, 2e-3, metric=Position(Squares(1.0))), 0.0, 0.012),
        slow(partial(Riemannian, 2e-3, metric=Position(Squares(1.0)), correction="pec"), 0.0, 0.012),
    ],
)
def test_total_variation_on_the_normal(make, low, high, key):
    assert low <= tv(key, quiet(make)) <= high


def test_explicit_gamma_is_stiff_where_pec_is_not(key):
    """λ = 0.1 at h = 0.01: explicit Γ leaves a total variation of 0.137, pec 0.028."""
    k_exact, k_pec = jax.random.split(key)
    assert 0.11 < tv(k_exact, PSGLD(0.01, floor=0.1, correction="exact")) < 0.16
    assert tv(k_pec, PSGLD(0.01, floor=0.1)) < 0.036


def test_shampoo_on_a_matrix_of_one(key):
    k_none, k_fixman = jax.random.split(key)
    bare = quiet(partial(Shampoo, 1e-3, correction="none"))
    assert 0.28 < tv(k_none, bare, shape=(1, 1)) < 0.31
    assert tv(k_fixman, Shampoo(1e-3), shape=(1, 1)) < 0.016


class Noisy(Density):
    """N(0, 1) with gradient noise of standard deviation 1, new at every draw: a mini-batch without data."""

    stochastic = True

    def draw(self, key, feed, *, fraction=1.0):
        return jax.random.normal(key, (1,)), feed

    def evaluate(self, batch, position):
        exact = super().evaluate((), position)
        return exact._replace(grad=exact.grad + batch)


jax.tree_util.register_pytree_node(Noisy, lambda t: ((), (t.fn,)), lambda aux, _: Noisy(*aux))


def test_metric_and_drift_from_one_batch_are_biased_and_from_two_are_not(key):
    """λ = 0.3, noise 1 (notes §5): predicted 0.276 same batch, 0.120 split without Γ, 0 split with hk2."""
    target, kernel = Noisy(normal), partial(PSGLD, 2e-3, floor=0.3)
    k_same, k_split, k_both, k_held = jax.random.split(key, 4)
    assert 0.26 < tv(k_same, quiet(partial(kernel, correction="none")), target) < 0.29
    assert 0.105 < tv(k_split, quiet(partial(kernel, correction="none", metric_batch=1.0)), target) < 0.135
    assert tv(k_both, kernel(), target) < 0.014
    assert tv(k_held, kernel(correction="pec", metric_batch=1.0), target) < 0.014


def test_pec_with_a_constant_metric_is_of_second_order(key):
    """Trapezoidal prediction: the variance is off by −0.49 a², a = h D |H|, where Euler's is by +a/2."""
    a, chains = 0.4, 1 << 16
    k_start, k_init, k_run = jax.random.split(key, 3)
    slow = Riemannian(a, metric=Position(Constant()), correction="pec")
    target = Density(normal)
    states = begin_all(k_init, slow, target, jax.random.normal(k_start, (chains, 1)))
    run = advance(k_run, slow, target, states, length=20, thin=2, layout="vmap")
    x = np.asarray(run.kept)[:, 10:, 0]
    ratio, error = (x**2).mean(), (x**2).mean(1).std() / np.sqrt(chains)
    want = _pec_variance(a)
    assert abs(want - 1 + 0.49 * a**2) < 0.03
    assert abs(ratio - want) / error < 5


class Constant:
    """D = 1 by a metric of position."""

    def __call__(self, position):
        return jax.tree.map(lambda u: jnp.ones(()), position)


jax.tree_util.register_pytree_node(Constant, lambda c: ((), None), lambda *_: Constant())


def _pec_variance(a):
    """Stationary variance of z in (z, y) ← pec on g = −z, D = 1, solved as a linear system."""
    # y' = z − a y + s ξ;  z' = z − (a/2)(y + y') + s ξ
    A = np.array([[1 - a / 2, -a / 2 + a * a / 2], [1.0, -a]])
    b = np.sqrt(2 * a) * np.array([1 - a / 2, 1.0])
    C = np.linalg.solve(np.eye(4) - np.kron(A, A), np.outer(b, b).ravel()).reshape(2, 2)
    return C[0, 0]


# --- frozen metrics ---------------------------------------------------------------------------------------------


def test_a_window_of_delay_takes_the_bias_away(key):
    """Windows of two relaxation times (notes §6.1, λ = 0.1): 0.048 from the window's start, below noise with delay."""
    window = dict(window=1000, form="li", floor=0.1)
    k_now, k_late = jax.random.split(key)
    measure = partial(tv, steps=12000)
    now = Riemannian(2e-3, metric=Windowed(statistic="point", delay=0, **window))
    late = Riemannian(2e-3, metric=Windowed(statistic="point", delay=1, **window))
    assert 0.035 < measure(k_now, now) < 0.065
    assert measure(k_late, late) < 0.012


def test_windowed_statistics_are_those_of_the_window_before_last():
    metric, position = Windowed(1.0, window=3), jnp.zeros(1)
    memory = metric.start(position)
    used = []
    for count in range(13):
        memory = metric.update(memory, jnp.full(1, float(count)), jnp.asarray(count))
        used.append(float(memory[2][0]))
    of = lambda i: np.mean([j**2 for j in range(3 * i + 1, 3 * i + 4)])
    assert used[:3] == [0.0] * 3
    assert used[6] == pytest.approx(of(0))
    assert used[9] == pytest.approx(of(1))
    assert used[12] == pytest.approx(of(2))
