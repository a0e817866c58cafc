"""Kernels with momentum under mini-batch noise: adaptive friction, SGHMC's noise estimate, SGRHMC's metric."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from noisy import Noisy
from quick import first

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.run import run
from langevin.core.target import Density
from langevin.dynamics.mass import DenseMetric, DiagonalMetric, LowRankMetric
from langevin.samplers.adaptive_friction import AdaptiveFriction
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.sgrhmc import SGRHMC
from langevin.samplers.underdamped import Underdamped
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Banana, Gaussian
from langevin.tune.gradient_noise import gradient_noise, variance

CHAINS = 16_384


def standard(x):
    return -0.5 * jnp.sum(x**2)


def squares(key, kernel, target, *, steps, d=1):
    """x² from exact N(0, 1) starts after a burn-in of `steps`, one average for every chain: mean and standard error."""
    k_start, k_init, k_run = jax.random.split(key, 3)
    states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (CHAINS, d)))
    run = advance(k_run, kernel, target, states, length=40, thin=steps // 20, layout="vmap")
    assert np.all(run.info.ok)
    each = (np.asarray(run.kept, np.float64)[:, 20:] ** 2).mean((1, 2))
    return each.mean(), each.std() / np.sqrt(CHAINS)


def extrapolated(key, kernel, target, *, steps):
    """E x² at h → 0 by Richardson of order 1, with its standard error."""
    k_whole, k_half = jax.random.split(key)
    whole, whole_se = squares(k_whole, kernel, target, steps=steps)
    finer = replace(kernel, step_size=float(kernel.step_size) / 2)
    half, half_se = squares(k_half, finer, target, steps=2 * steps)
    return 2 * half - whole, np.hypot(2 * half_se, whole_se)


@pytest.mark.parametrize(("slope", "h"), first(1, [(1.0, 0.06), (3.0, 0.02)]))
def test_friction_and_kick_may_share_one_noisy_gradient(slope, h, key):
    """ĝ = g + s n in C(ĝ) and in the kick: only heat O(h) is left, none as h → 0."""
    kernel = AdaptiveFriction(step_size=h, friction=2.0, floor=0.3)
    value, se = extrapolated(key, kernel, Noisy(Density(standard), jnp.zeros(1), slope), steps=int(10 / h))
    assert se < 0.02
    assert abs(value - 1) / se < 5


@pytest.mark.parametrize("tuned", [False, True])
def test_the_noise_estimate_takes_the_heat_away(tuned, key):
    """Batches of 4 of 100 on a Gaussian posterior: with B̂ the variance is that of exact gradients, else 1.6 times."""
    data = jnp.asarray(np.random.default_rng(0).standard_normal(100), jnp.float32)
    target = Bayes(prior, location, data, batch=4)
    kernel, precision = SGHMC(step_size=0.01, friction=20.0), 101.0
    mean = float(data.sum()) / precision
    k_start, k_init, k_tune, k_run = jax.random.split(key, 4)
    start = mean + jax.random.normal(k_start, (CHAINS, 1)) / np.sqrt(precision)
    states = begin_all(k_init, kernel, target, start)
    if tuned:
        kernel, states = gradient_noise(k_tune, kernel, target, states, batches=8)
        expected = 0.01 * 100**2 * float(jnp.var(data)) / 4 / 2
        assert abs(float(kernel.noise_estimate[0]) / expected - 1) < 5 * np.sqrt(2 / (8 * CHAINS))
    run = advance(k_run, kernel, target, states, length=40, thin=10, layout="vmap")
    each = ((np.asarray(run.kept, np.float64)[:, 20:, 0] - mean) ** 2).mean(1)
    # the stationary variance of the scheme itself on exact gradients, from its linear recursion
    h, C = 0.01, 20.0
    kick = np.array([0.0, 1.0]) - np.array([0.0, h * C]) - np.array([h * precision, 0.0])
    move = np.stack([np.array([1.0, 0.0]) + h * kick, kick])
    noise = 2 * C * h * np.array([[h * h, h], [h, 1.0]])
    exact = np.linalg.solve(np.eye(4) - np.kron(move, move), noise.ravel())[0]
    z = (each.mean() - exact) / (each.std() / np.sqrt(CHAINS))
    assert abs(z) < 5 if tuned else z > 50, f"z = {z:.1f}, variance × {each.mean() / exact:.3f}"


def prior(x):
    return -0.5 * jnp.sum(x**2)


def location(x, data):
    return -0.5 * (data - x[0]) ** 2


def test_the_noise_estimate_may_differ_by_coordinate(key):
    """V̂ of known noise by z-score, in a tree and with a kernel that has nowhere to put it refused."""
    target = Noisy(Density(standard), jnp.zeros(3), slope=2.0)
    k_init, k_measure, k_tune, k_step = jax.random.split(key, 4)
    states = begin_all(k_init, SGHMC(), target, jnp.zeros((64, 3)))
    V = np.asarray(variance(k_measure, target, states, 64))
    assert np.all(np.abs(V / 4 - 1) < 5 * np.sqrt(2 / 64**2))
    with pytest.raises(TypeError, match="no noise_estimate"):
        gradient_noise(k_tune, SGLD(), target, states)
    # more noise than friction allows for: nothing is injected, and nothing is NaN
    state, _ = SGHMC(friction=1.0, noise_estimate=jnp.full(3, 2.0)).step(k_step, _one(states), target)
    assert np.all(np.isfinite(state.position))


def _one(states):
    return states._replace(
        **{name: jax.tree.map(lambda u: u[0], getattr(states, name)) for name in ("position", "aux", "eval")}
    )


@pytest.mark.parametrize("correction", ["exact", "hutchinson", "rfd"])
def test_sgrhmc_finds_gamma(correction, key):
    """On a banana, whose Hessian is not diagonal, the mean of Γ̂ is ∂_i S_i by autodiff."""
    target, kernel = Banana(d=4, curvature=0.5), SGRHMC(floor=0.7, correction=correction)
    position = jnp.array([0.3, -1.0, 1.2, 0.4])
    root = lambda x: (jax.grad(target.log_density)(x) ** 2 + 0.49) ** -0.25
    gamma = jnp.diagonal(jax.jacfwd(root)(position))
    k_init, k_probe = jax.random.split(key)
    state = kernel.init(k_init, position, target)
    S, each, *_ = jax.vmap(lambda k: kernel.metric(k, state, target))(jax.random.split(k_probe, 20_000))
    np.testing.assert_allclose(S[0], root(position), rtol=1e-5)
    each = np.asarray(each, np.float64)
    # rounding of a difference of 10⁻³ in single precision
    error = np.hypot(each.std(0) / np.sqrt(len(each)), 2e-4)
    assert np.all(np.abs(each.mean(0) - gamma) / error < 5)


@pytest.mark.slow
def test_sgrhmc_takes_its_metric_from_a_batch_of_its_own(key):
    """With gradient noise larger than the gradient the law is N(0, 1) as h → 0; from the drift's batch it is not."""

    class Shared(SGRHMC):
        def metric(self, key, state, target):
            _, gamma, looks, n_data = super().metric(key, state, target)
            return (state.eval.grad**2 + self.floor**2) ** -0.25, gamma, looks, n_data

    jax.tree_util.register_pytree_node(
        Shared, lambda k: ((k.step_size,), None), lambda _, c: Shared(step_size=c[0], floor=0.3, metric_batch=1.0)
    )
    target = Noisy(Density(standard), jnp.zeros(1), slope=2.0)
    k_own, k_shared = jax.random.split(key)
    own, own_se = extrapolated(k_own, SGRHMC(step_size=0.06, floor=0.3, metric_batch=1.0), target, steps=200)
    assert abs(own - 1) / own_se < 5
    shared, shared_se = extrapolated(k_shared, Shared(step_size=0.06, floor=0.3, metric_batch=1.0), target, steps=200)
    assert abs(shared - 1) / shared_se > 10


def test_sgrhmc_without_gamma_says_so_once(untold):
    with pytest.warns(UserWarning, match="not p"):
        kernel = SGRHMC(correction="none")
    kernel = replace(kernel, step_size=0.1)
    assert kernel.law().kind == "wrong"
    assert jax.tree.map(lambda u: u, kernel).correction == "none"
    with pytest.raises(ValueError, match="correction is 'some'"):
        SGRHMC(correction="some")


D = 3
ROOT = np.random.default_rng(0).standard_normal((D, D)) + 2 * np.eye(D)
TURN = np.linalg.qr(np.random.default_rng(1).standard_normal((D, 1)))[0].astype(np.float32)
METRICS = {
    "diagonal": DiagonalMetric(jnp.asarray([0.25, 4.0, 9.0])),
    "dense": DenseMetric(jnp.asarray(ROOT @ ROOT.T, jnp.float32)),
    "low rank": LowRankMetric(jnp.asarray([0.5, 2.0, 3.0]), jnp.asarray(TURN), jnp.asarray([0.2])),
}


@pytest.mark.parametrize("metric", first(1, ["dense", "diagonal", "low rank"]))
@pytest.mark.parametrize("kernel", [SGHMC(0.1, friction=2.0), Underdamped(0.3, friction=2.0)], ids=["sghmc", "split"])
def test_a_mass_matrix_is_a_change_of_coordinates(kernel, metric, key):
    """With M⁻¹ = S Sᵀ a chain on p(θ) is S times the plain chain on p(S φ), for the same noise."""
    metric = METRICS[metric]
    S = jax.vmap(metric.root)(jnp.eye(D)).T
    target = Gaussian(np.asarray([1.0, 0.0, -1.0]), np.asarray([1.0, 2.0, 0.5]))
    pulled = Density(lambda phi: target.log_density(S @ phi))
    phi = jnp.linspace(-1.0, 1.0, 4 * D).reshape(4, D)
    go = lambda kernel, target, start: run(jax.random.clone(key), kernel, target, start, draws=20).kept
    with_mass = go(replace(kernel, metric=metric), target, phi @ S.T)
    np.testing.assert_allclose(with_mass, go(kernel, pulled, phi) @ S.T, rtol=2e-3, atol=2e-4)
