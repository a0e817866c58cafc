"""Motion at constant speed: the exact kick, its energy and its corners; refreshment; the order of the energy error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, dimension, glide, kick, refreshed, uniform
from langevin.dynamics.mass import DiagonalMetric, IdentityMetric, LowRankMetric
from langevin.samplers.mclmc import MCLMC
from langevin.targets.zoo import Gaussian


def truth(u, force, time):
    """The kick in float64: cosh and sinh as they stand, for δ that do not overflow; u is made a unit vector first."""
    u, force = np.asarray(u, np.float64), np.asarray(force, np.float64)
    u = u / np.linalg.norm(u)
    norm = np.linalg.norm(force)
    e, delta, c = force / norm, time * norm / (u.size - 1), u @ force / norm
    total = np.cosh(delta) + c * np.sinh(delta)
    return (u + (np.sinh(delta) + c * (np.cosh(delta) - 1)) * e) / total, (u.size - 1) * np.log(total)


def pair(d, seed=0):
    """A unit velocity and a force of norm √d, in float32."""
    rng = np.random.default_rng(seed)
    u, force = rng.normal(size=(2, d))
    return jnp.asarray(u / np.linalg.norm(u), jnp.float32), jnp.asarray(force, jnp.float32)


def test_speed_is_kept_over_many_kicks(key):
    """10⁴ kicks of random force and time: |u| is 1 to 10⁻⁶."""

    def one(u, x):
        force, time = x
        u, _ = kick(u, force, time)
        return u, jnp.abs(jnp.linalg.norm(u) - 1)

    k_force, k_time, k_start = jax.random.split(key, 3)
    forces = 30 * jax.random.normal(k_force, (10_000, 20))
    times = jax.random.normal(k_time, (10_000,))
    _, off = jax.lax.scan(one, uniform(k_start, jnp.zeros(20)), (forces, times))
    assert float(off.max()) < 1e-6


@pytest.mark.parametrize("d", [2, 3, 50])
@pytest.mark.parametrize("time", [1e-3, 0.1, 1.0, 10.0, -1e-3, -0.1, -1.0, -10.0])
def test_kick_is_the_flow(d, time):
    """Velocity and ΔK agree with float64, forwards and backwards in time."""
    for seed in range(5):
        u, force = pair(d, seed)
        new, gain = kick(u, force, time)
        expected, energy = truth(u, force, time)
        np.testing.assert_allclose(new, expected, atol=2e-6)
        np.testing.assert_allclose(gain, energy, rtol=1e-5, atol=1e-6 * d)


def test_kick_solves_its_equation():
    """u̇ = (I − u uᵀ)F/(d − 1) and K̇ = u·F, by differences in float64 of the reference that kick agrees with."""
    u, force = (np.asarray(v, np.float64) for v in pair(5))
    u, h = u / np.linalg.norm(u), 1e-5
    (ahead, gain), (behind, loss) = truth(u, force, h), truth(u, force, -h)
    np.testing.assert_allclose((ahead - behind) / (2 * h), (force - u * (u @ force)) / 4, atol=1e-8)
    np.testing.assert_allclose((gain - loss) / (2 * h), u @ force, rtol=1e-8)


def test_energy_is_conserved_in_the_limit(key):
    """ΔK − Δ log p of a step falls as ε³: it is the energy of this flow and of no other."""
    target = Gaussian(np.zeros(6), np.linspace(0.5, 2.0, 6))
    k_position, k_velocity = jax.random.split(key)
    evaluate = lambda position: target.evaluate((), position)

    def error(x, k, h):
        return glide(INTEGRATORS["verlet"], evaluate, IdentityMetric(), Point(x, uniform(k, x), evaluate(x)), h, 1.0)[1]

    x, k = target.exact(k_position, 256), jax.random.split(k_velocity, 256)
    errors = [np.std(jax.vmap(error, (0, 0, None))(x, jax.random.clone(k), jnp.float32(h))) for h in (0.4, 0.2)]
    assert 2.8 < np.log2(errors[0] / errors[1]) < 3.2


def test_no_force_is_no_kick():
    u, _ = pair(7)
    for force, time in ((jnp.zeros(7), 2.0), (jnp.ones(7), 0.0)):
        new, gain = kick(u, force, jnp.float32(time))
        np.testing.assert_allclose(new, u, atol=2e-7)
        assert float(gain) == 0.0


@pytest.mark.parametrize("delta", [1e-3, 0.1, 0.6, 3.0, 8.0])
def test_velocity_against_the_force(delta):
    """Exactly antiparallel nothing turns it, and ΔK = −(d − 1) δ."""
    d = 4
    force = jnp.array([0.0, -2.0, 0.0, 0.0])
    u = jnp.array([0.0, 1.0, 0.0, 0.0])
    new, gain = kick(u, force, delta * (d - 1) / 2.0)
    np.testing.assert_allclose(new, u, atol=1e-6)
    np.testing.assert_allclose(gain, -(d - 1) * delta, rtol=1e-5)


@pytest.mark.parametrize("angle", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("delta", [1e-3, 0.1, 0.6, 3.0, 8.0, 20.0])
def test_velocity_nearly_against_the_force(angle, delta):
    """A small angle is stretched by e^δ and not lost in rounding: 1 + cos would have lost one of 10⁻⁴."""
    d = 4
    u = jnp.asarray([np.sin(angle), np.cos(angle), 0.0, 0.0], jnp.float32)
    force = jnp.array([0.0, -2.0, 0.0, 0.0])
    time = delta * (d - 1) / 2.0
    new, gain = kick(u, force, time)
    expected, energy = truth(u, force, time)
    np.testing.assert_allclose(new, expected, atol=1e-5)
    np.testing.assert_allclose(gain, energy, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("force", [1e-25, 1e5, 1e15])
def test_extreme_forces_stay_finite(force):
    """However large δ is, u turns to the force, and ΔK is that of (d − 1)(δ + log p)."""
    u, direction = pair(5)
    new, gain = kick(u, force * direction, 1.0)
    assert np.all(np.isfinite(new))
    norm = float(jnp.linalg.norm(direction))
    if force > 1:
        np.testing.assert_allclose(new, direction / norm, atol=1e-6)
        np.testing.assert_allclose(gain, force * norm, rtol=1e-4)


@pytest.mark.parametrize("time", [0.01, 0.7, 3.0])
def test_time_runs_back(time):
    u, force = pair(10)
    there, gain = kick(u, force, time)
    back, loss = kick(there, force, -time)
    np.testing.assert_allclose(back, u, atol=2e-6)
    np.testing.assert_allclose(gain + loss, 0.0, atol=1e-4)


def test_a_million_dimensions():
    """ΔK of a typical kick, (d − 1) log Z with log Z ~ 10⁻³, to what is far below √(d v) = 22 at v = 5·10⁻⁴."""
    d = 10**6
    u, force = pair(d)
    for time in (1.0, 100.0, -100.0):
        new, gain = kick(u, force, time)
        expected, energy = truth(u, force, time)
        assert abs(float(jnp.linalg.norm(new)) - 1) < 1e-6
        np.testing.assert_allclose(new, expected, atol=1e-8)
        assert abs(float(gain) - energy) < 0.01


@pytest.mark.parametrize("part", [0.01, 0.3, 2.0])
def test_refreshment_forgets_over_its_length(part, key):
    """E[u·u'] = e^{−t/L} at d = 1000, and the rest is isotropic."""
    k_start, k_new = jax.random.split(key)
    u = uniform(k_start, jnp.zeros(1000))
    new = jax.vmap(lambda k: refreshed(k, u, 3.0 * part, 3.0))(jax.random.split(k_new, 1000))
    overlap = np.asarray(new @ u, np.float64)
    assert np.abs(np.linalg.norm(new, axis=1) - 1).max() < 1e-6
    # |u + νz| is its mean up to O(1/d), relative
    mean, error = np.exp(-part), overlap.std() / np.sqrt(overlap.size)
    assert abs(overlap.mean() - mean) < 5 * error + mean / 1000
    rest = np.asarray(new, np.float64) - np.outer(overlap, np.asarray(u))
    z = rest.sum(0)[:5] / np.sqrt((rest**2).sum(0)[:5])
    assert np.abs(z).max() < 5


def test_what_is_at_rest_and_hardly_pushed_stays_finite():
    """The published SMILE sets velocities to 0, and its step size may fall until a kick is lost in rounding."""
    u, gain = kick(jnp.zeros(50), jnp.ones(50), 1e-9)
    assert not u.any()
    assert abs(gain) < 1e-12
    u, _ = kick(jnp.zeros(50), jnp.ones(50), 1e-3)
    np.testing.assert_allclose(u, 50**-0.5, rtol=1e-5)


def test_uniform_has_no_direction(key):
    u = np.asarray(
        jax.vmap(lambda k: uniform(k, {"a": jnp.zeros(2), "b": jnp.zeros((1, 1))}))(jax.random.split(key, 10_000))
    )
    assert np.all(np.abs(u.mean(0)) * np.sqrt(3 * 10_000) < 5)
    # Var of u_i² on the sphere in three dimensions is 4/45
    assert np.all(np.abs((u**2).mean(0) - 1 / 3) / np.sqrt(4 / 45 / 10_000) < 5)


def test_one_dimension_is_refused():
    with pytest.raises(ValueError, match="two dimensions"):
        dimension(jnp.zeros(1))


# --- the energy error of a step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ["verlet", "mclachlan"])
def test_energy_variance_goes_as_the_sixth_power(integrator, key):
    """Var[ΔE] ∝ ε⁶ from exact draws of 100 unequal scales: the slope in log ε is 6 ± 0.3."""
    target = Gaussian.conditioned(100, 25.0)
    steps = {"verlet": (0.5, 0.7, 1.0, 1.4), "mclachlan": (0.7, 1.0, 1.4, 2.0)}[integrator]
    k_start, k_init, k_run = jax.random.split(key, 3)
    start = target.exact(k_start, 1000)
    states = begin_all(k_init, MCLMC(), target, start)
    logs = []
    for h, k in zip(steps, jax.random.split(k_run, len(steps)), strict=True):
        info = advance(k, MCLMC(h, 10.0, integrator=integrator), target, states, length=10).info
        logs.append(np.log(np.asarray(info.energy_error, np.float64).var()))
    slope = np.polyfit(np.log(steps), logs, 1)[0]
    assert abs(slope - 6) < 0.3, slope


# --- S = D (I + U (Λ − I) Uᵀ) --------------------------------------------------------------------------------------

POSITION = {"a": jnp.zeros(3), "b": jnp.zeros((2, 1))}


def spiked():
    """A spiked metric over POSITION, and S as a matrix in float64."""
    rng = np.random.default_rng(1)
    scale = rng.uniform(0.3, 3.0, 5)
    vectors, _ = np.linalg.qr(rng.normal(size=(5, 2)))
    stretch = np.array([4.0, 0.5])
    S = scale[:, None] * (np.eye(5) + vectors @ np.diag(stretch - 1) @ vectors.T)
    f32 = lambda u: jnp.asarray(u, jnp.float32)
    tree = {"a": f32(scale[:3]), "b": f32(scale[3:])[:, None]}
    return LowRankMetric(tree, f32(vectors), f32(stretch)), S


def matrix(linear):
    """The matrix of a linear map of trees like POSITION."""
    flat, unravel = ravel_pytree(POSITION)
    return np.asarray(jax.vmap(lambda e: ravel_pytree(linear(unravel(e)))[0])(jnp.eye(flat.size))).T


def test_spiked_is_its_matrix():
    metric, S = spiked()
    np.testing.assert_allclose(matrix(metric.root), S, atol=1e-5)
    np.testing.assert_allclose(matrix(metric.pull), S.T, atol=1e-5)
    np.testing.assert_allclose(matrix(metric.velocity), S @ S.T, atol=5e-5)


def test_spiked_momentum_has_its_covariance(key):
    metric, S = spiked()
    n = 1 << 14
    p = jax.vmap(lambda k: metric.momentum(k, POSITION))(jax.random.split(key, n))
    flat = np.concatenate([np.asarray(u).reshape(n, -1) for u in jax.tree.leaves(p)], axis=1)
    mass = np.linalg.inv(S @ S.T)
    error = np.sqrt((mass**2 + np.outer(np.diag(mass), np.diag(mass))) / n)
    assert np.all(np.abs(np.cov(flat, rowvar=False) - mass) / error < 5)
    assert np.all(np.abs(flat.mean(0)) / np.sqrt(np.diag(mass) / n) < 5)


def test_a_metric_is_a_change_of_coordinates(key):
    """MCLMC on θ with S is MCLMC on φ without: the same path, step for step."""
    variance = jnp.linspace(0.5, 4.0, 6)
    plain, scaled = Gaussian(np.zeros(6), np.ones(6)), Gaussian(np.zeros(6), np.asarray(variance))
    phi = jnp.linspace(-1.0, 1.0, 6)[None]
    k_init, k_run = jax.random.split(key)
    ends = []
    for target, start, metric in (
        (plain, phi, IdentityMetric()),
        (scaled, phi * jnp.sqrt(variance)[None], DiagonalMetric(variance)),
    ):
        kernel = MCLMC(0.7, 2.0, metric=metric)
        states = begin_all(jax.random.clone(k_init), kernel, target, start)
        ends.append(advance(jax.random.clone(k_run), kernel, target, states, length=20))
    np.testing.assert_allclose(ends[0].kept * jnp.sqrt(variance)[None, None], ends[1].kept, atol=2e-4)
    np.testing.assert_allclose(ends[0].info.energy_error, ends[1].info.energy_error, atol=1e-4)
