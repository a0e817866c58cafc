"""Critically-damped Langevin: its moments against their ODE, its samplers with the exact score, its loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.diffusion import exact
from langevin.diffusion.cld import CLD, HSM, SSCS, VelocityScore, log_prob_bound, tail
from langevin.diffusion.likelihood import log_prob
from langevin.diffusion.ode import ProbabilityFlow
from langevin.diffusion.sample import EulerMaruyama, generate

MEANS = jnp.array([[-1.0, 0.5], [1.0, -0.3], [0.5, 1.0]])
STD, WEIGHTS = jnp.array([0.3, 0.2, 0.4]), jnp.array([0.5, 0.3, 0.2])


def integrated(process, t, a, c):
    """Mean matrix and covariance by the moment equations, Runge-Kutta in float64."""
    beta, mass = float(process.beta), float(process.mass)
    friction = 2 * np.sqrt(mass)
    F = beta * np.array([[0, 1 / mass], [-1, -friction / mass]])
    noise = np.array([[0, 0], [0, 2 * friction * beta]])
    field = lambda s: np.concatenate([F @ s[:2], F @ s[2:] + s[2:] @ F.T + noise])
    state, steps = np.concatenate([np.eye(2), np.diag([a, c])]), 4000
    h = t / steps
    for _ in range(steps):
        k1 = field(state)
        k2 = field(state + h / 2 * k1)
        k3 = field(state + h / 2 * k2)
        k4 = field(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state[:2], state[2:]


@pytest.mark.parametrize("process", [CLD(), CLD(beta=2.0, mass=0.6, gamma=0.2)])
@pytest.mark.parametrize(("a", "c"), [(0.0, 0.0), (0.0, 0.01), (0.7, 0.05)])
@pytest.mark.parametrize("t", [1e-3, 0.05, 0.3, 1.0])
def test_the_closed_form_solves_the_moment_equations(process, a, c, t):
    mean, covariance = integrated(process, t, a, c)
    with jax.enable_x64(True):
        found = [np.asarray(u) for u in process.covariance(np.float64(t), a, c)]
        moved = np.asarray(process.mean(np.eye(2), np.float64(t)))
    np.testing.assert_allclose(moved, mean, atol=1e-6)
    np.testing.assert_allclose(found[:3], [covariance[0, 0], covariance[0, 1], covariance[1, 1]], rtol=2e-6)
    # in single precision too, and the factor, where the usual form has lost all its digits at small t
    xx, xv, vv, determinant = (float(u) for u in process.covariance(jnp.float32(t), a, c))
    np.testing.assert_allclose([xx, xv, vv], [covariance[0, 0], covariance[0, 1], covariance[1, 1]], rtol=1e-5)
    # RK4 leaves the determinant at small t with fewer digits: it is a difference there
    assert determinant == pytest.approx(np.linalg.det(covariance), rel=2e-4 if t > 1e-2 else 5e-2)
    L = np.asarray(process.factor(jnp.float32(t), a, c))
    np.testing.assert_allclose([L[0] ** 2, L[0] * L[1], L[1] ** 2 + L[2] ** 2], [xx, xv, vv], rtol=1e-4)


def test_the_tail_is_smooth_across_its_switch():
    y = np.array([1e-3, 0.5, 0.999, 1.001, 3.0])
    np.testing.assert_allclose(tail(jnp.asarray(y)), np.expm1(y) - y - y**2 / 2, rtol=2e-4)


def test_it_comes_to_rest_at_its_prior():
    xx, xv, vv, _ = CLD(beta=10.0).covariance(1.0, 0.5, 0.01)
    np.testing.assert_allclose([xx, xv, vv], [1.0, 0.0, 0.25], atol=1e-4)


def test_the_exact_score_is_the_gradient():
    score = exact.DampedScore(CLD(), MEANS, STD, WEIGHTS)
    u, t = jnp.array([[0.3, -0.2], [0.5, 0.1]]), jnp.asarray(0.2)
    np.testing.assert_allclose(score(u, t)[1], jax.grad(score.log_density)(u, t)[1], rtol=1e-3, atol=1e-4)
    assert (score(u, t)[0] == 0).all()


@pytest.mark.parametrize(
    "sampler",
    [
        SSCS(200, denoise=False),
        EulerMaruyama(400, "quadratic", denoise=False),
        ProbabilityFlow(1e-4, 1e-4, denoise=False),
    ],
    ids=["sscs", "em", "flow"],
)
def test_samplers_reach_the_mixture(sampler, key):
    k_run, k_truth = jax.random.split(key)
    process = CLD(beta=6.0, cut=1e-4)
    score = exact.DampedScore(process, MEANS, STD, WEIGHTS)
    n = 4000
    u = generate(k_run, sampler, process, score, (2, 2), n=n)
    truth = exact.MixtureScore(None, MEANS, STD, WEIGHTS).exact(k_truth, 100_000)
    features = lambda x: jnp.concatenate([x, x**2, x[:, :1] * x[:, 1:], jnp.cos(2 * x)], axis=1)
    a, b = features(u[:, 0]), features(truth)
    z = (jnp.abs(jnp.mean(a, axis=0) - jnp.mean(b, axis=0)) - 0.02 * jnp.std(b, axis=0)) / (
        jnp.std(b, axis=0) / jnp.sqrt(n)
    )
    assert float(jnp.max(z)) < 5, z
    # the velocities end where they began
    truth = float(process.covariance(1e-4, 0.0, 0.01)[2])
    assert float(jnp.var(u[:, 1])) == pytest.approx(truth, rel=0.15)


def test_the_splitting_is_exact_at_rest(key):
    """With the score of the law at rest nothing is left for Euler: that law is kept, whatever the steps."""
    process = CLD()
    u = generate(key, SSCS(2, "uniform", denoise=False), process, at_rest, (2, 2), n=20_000)
    se = np.sqrt(2 / 40_000)
    assert abs(float(jnp.var(u[:, 0])) - 1) < 5 * se
    assert abs(float(jnp.var(u[:, 1])) / 0.25 - 1) < 5 * se
    assert abs(float(jnp.mean(u[:, 0] * u[:, 1]))) < 5 * 0.5 / np.sqrt(40_000)


def at_rest(u, t):
    return jnp.stack([jnp.zeros_like(u[0]), -u[1] / 0.25])


def test_splitting_beats_euler_at_equal_steps(key):
    """On N(0, ½²) at 12 steps, by the variance."""
    k_one, k_two = jax.random.split(key)
    process = CLD()
    score = exact.DampedScore(process, jnp.zeros((1, 2)), jnp.array([0.5]), jnp.ones(1))
    off = lambda k, s: abs(float(jnp.var(generate(k, s, process, score, (2, 2), n=8000)[:, 0])) - 0.25)
    assert 2 * off(k_one, SSCS(12)) < off(k_two, EulerMaruyama(12, "quadratic"))


def best(v, u, t):
    """What a perfect network says of N(0, v) data: ε̂_v."""
    process, x, w = CLD(), u[:2], u[2:]
    xx, xv, _, determinant = process.covariance(t, v, process.gamma * process.mass)
    last = process.factor(t, 0.0, process.gamma * process.mass)[2]
    return -last * (xv * x - xx * w) / determinant


def best_mixed(v, u, t):
    process = CLD()
    vv = process.covariance(t, 0.36, process.gamma * process.mass)[2]
    last = process.factor(t, 0.0, process.gamma * process.mass)[2]
    return best(v, u, t) - last * u[2:] / vv


@pytest.mark.parametrize("mixed", [False, True])
def test_hybrid_score_matching_is_least_at_the_truth(mixed, key):
    k_x, *keys = jax.random.split(key, 4)
    x = jnp.sqrt(0.7) * jax.random.normal(k_x, (40_000, 2))
    loss = HSM(CLD(), best_mixed if mixed else best, mixed, 0.6)
    slope = jax.jit(lambda key, v: jax.jvp(lambda v: loss(key, v, x), (v,), (1.0,))[1])
    z = [float(jnp.mean(g) / (jnp.std(g) / jnp.sqrt(g.size))) for g in map(slope, keys, (0.7, 0.5, 1.0))]
    assert abs(z[0]) < 5
    assert z[1] < -5
    assert z[2] > 5


def test_a_perfect_network_gives_the_exact_score():
    process = CLD()
    u, t = jnp.array([[0.3, -0.2], [0.5, 0.1]]), jnp.asarray(0.2)
    truth = exact.DampedScore(process, jnp.zeros((1, 2)), jnp.sqrt(jnp.array([0.7])), jnp.ones(1))(u, t)
    for program, mixed in ((best, False), (best_mixed, True)):
        found = VelocityScore(process, program, jnp.asarray(0.7), mixed, 0.6)(u, t)
        np.testing.assert_allclose(found, truth, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_the_likelihood_of_positions_and_velocities(key):
    """Of (x, v) it is exact for a Gaussian; of x alone it is a bound, and tight, for v is nearly independent."""
    process = CLD(beta=8.0, cut=1e-4)
    score = exact.DampedScore(process, jnp.zeros((1, 2)), jnp.array([0.7]), jnp.ones(1))
    k_x, k_v, k_bound = jax.random.split(key, 3)
    x, v = 0.7 * jax.random.normal(k_x, (5, 2)), 0.1 * jax.random.normal(k_v, (5, 2))
    u = jnp.stack([x, v], axis=1)
    truth = jax.vmap(lambda u: score.log_density(u, jnp.asarray(process.cut)))(u)
    np.testing.assert_allclose(log_prob(None, process, score, u, rtol=1e-6, atol=1e-6).value, truth, atol=2e-3)
    x = 0.7 * jax.random.normal(jax.random.key(1), (200, 2))
    bound = log_prob_bound(k_bound, process, score, x).value
    marginal = jax.scipy.stats.norm.logpdf(x, 0, 0.7).sum(1)
    gap = np.asarray(bound - marginal)
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(200) + 0.02


def test_positions_alone_are_refused():
    with pytest.raises(ValueError, match="positions and velocities"):
        generate(jax.random.key(0), SSCS(5), CLD(), at_rest, (3,), n=2)
