"""Mini-batch noise at constant speed: its temperatures, its completion, `whiten`, resets, and what was published.

Gaussians are those of `langevin reproduce smile-gaussian`, run shorter. Noise and scale are estimated wherever
`whiten` appears.
"""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import smile_gaussian as gaussians

from langevin.baselines.published_smile import PublishedSMILE, Quantiles, Running, _gamma_quantile
from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.kernel import PerChain, replace
from langevin.core.run import begin_all
from langevin.core.target import Density
from langevin.core.types import Eval
from langevin.diagnostics.virial_temperature import virial_temperature
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, force_of, glide
from langevin.dynamics.mass import DiagonalMetric, IdentityMetric, LowRankMetric
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.smile import SMILE, cooled
from langevin.targets.bayes import Bayes
from langevin.targets.noisy import Noisy
from langevin.targets.zoo import Gaussian
from langevin.tune.probing import Probing
from langevin.tune.whiten import whiten

together = pytest.mark.xdist_group("whiten")  # one compiled program
D, R = gaussians.D, gaussians.ANISOTROPIC


# --- temperatures of a Gaussian -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cool", [False, True])
def test_kicks_heat_as_predicted_or_not_at_all(cool, key):
    """T(1) = ½ coth ½ = 1.082 within 1 %, and 1 within 1 % when kicks are cooled; that is four standard errors."""
    target, step = gaussians.seen_through(50.0), gaussians.kick_of(1.0, 50.0 * D)
    each = gaussians.plain(key, SMILE(step, length=jnp.inf, cool=cool), target, 64, 3500).mean(1)
    assert each.std() < 0.0025 * np.sqrt(64)
    assert abs(each.mean() / (1.0 if cool else gaussians.heated(1.0)) - 1) < 0.01


def test_cooling_takes_back_what_its_formula_says():
    """f δ = 2 artanh(δ/2), and a series below; a kick too large to be cooled is as one of 1.9."""
    direction = np.zeros(50, np.float32)
    direction[3] = 49.0
    for delta in (1e-4, 5e-3, 0.02, 0.3, 1.0, 1.8):
        expected = 2 * np.arctanh(delta / 2) / delta
        np.testing.assert_allclose(cooled(jnp.float32(delta), jnp.asarray(direction)), expected, rtol=1e-5)
    np.testing.assert_allclose(cooled(jnp.float32(5.0), jnp.asarray(direction)), 2 * np.arctanh(0.95) / 1.9, rtol=1e-4)


def test_noise_that_is_not_isotropic_gives_temperatures(key):
    """Slope 1 ± 0.1 of T_i on V_i/mean V, at any ε."""
    v = gaussians.anisotropic()
    for delta, k in zip((0.25, 0.5), jax.random.split(key), strict=True):
        kernel = SMILE(gaussians.kick_of(delta, v.sum()), length=jnp.inf)
        slope, error = gaussians.sloped(gaussians.plain(k, kernel, gaussians.seen_through(v), 32, 2000), v / v.mean())
        assert error < 0.02
        assert abs(slope - 1) < 0.1


@together
def test_whitened_noise_gives_one_temperature(key):
    """Slope 0 ± 0.1 with V estimated, and the mean is 1."""
    v = gaussians.anisotropic()
    each = gaussians.whitened(key, gaussians.seen_through(v), 8, 32, 1500, 2000)
    slope, error = gaussians.sloped(each, v / v.mean())
    assert error < 0.02
    assert abs(slope) < 0.1
    mean, error = gaussians.averaged(each.mean(1))
    assert error < 0.01
    assert abs(mean - 1) < 0.05


@pytest.mark.parametrize(("r", "delta"), [(100.0, 0.2), (1000.0, 0.3)])
def test_direction_is_forgotten_by_noise(r, delta, key):
    """E[u·u'] = exp(−ε/L_noise): L within 3 %."""
    step = gaussians.kick_of(delta, r * D)
    L, error = gaussians.forgotten(key, gaussians.seen_through(r), step, 32, 300)
    expected = 2 * (D - 1) / (step * r)
    assert error / expected < 0.003
    assert abs(L / expected - 1) < 0.03


def test_direction_is_forgotten_over_the_length_asked_for(key):
    """Without noise in the gradients all of it is c: E[u·u'] = exp(−ε/L) within 3 %."""
    k_begin, k_run = jax.random.split(key)
    kernel, target = SMILE(0.2, length=5.0), Gaussian(np.zeros(D), np.full(D, 1e6))
    states = begin_all(k_begin, kernel, target, jnp.zeros((32, D)))
    u = advance(k_run, kernel, target, states, length=200, collect=gaussians.velocity).kept
    measured = -0.2 / np.log(np.asarray(jnp.sum(u[:, 1:] * u[:, :-1], axis=2), np.float64).mean())
    assert abs(measured / 5.0 - 1) < 0.03


# --- completion -----------------------------------------------------------------------------------------------------


def orthonormal(d, k, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0]


def modelled(gradient_noise, spikes, U):
    """R as the kernel takes it."""
    off = np.eye(len(U)) - U @ U.T
    return off @ np.diag(gradient_noise) @ off + U @ np.diag(spikes) @ U.T


def dense(metric, d):
    """S as a matrix, from its columns."""
    return np.asarray(jax.vmap(metric.root)(jnp.eye(d)), np.float64).T


@pytest.mark.parametrize("by", ["level", "length"])
@pytest.mark.parametrize("which", ["identity", "diagonal", "spiked"])
def test_noise_is_completed_to_isotropic(which, by, key):
    """Sᵀn/T + c has covariance v I, entry by entry; n the noise of a gradient in θ."""
    d, T, h, n = 6, 0.7, 0.3, 40_000
    g, scale = np.linspace(0.5, 4.0, d), np.linspace(0.5, 2.0, d)
    U = orthonormal(d, 2)
    spikes = np.array([0.3, 3.5]) if which == "spiked" else np.zeros(0)
    metric = {
        "identity": IdentityMetric(),
        "diagonal": DiagonalMetric(jnp.asarray(scale**2, jnp.float32)),
        "spiked": LowRankMetric(jnp.asarray(scale, jnp.float32), jnp.asarray(U, jnp.float32), jnp.array([0.4, 0.8])),
    }[which]
    how = dict(level=6.0, length=jnp.inf) if by == "level" else dict(level=1.0, length=2.0)
    kernel = SMILE(h, metric=metric, gradient_noise=jnp.asarray(g, jnp.float32), **how)
    if which == "spiked":
        kernel = replace(kernel, spikes=jnp.asarray(spikes, jnp.float32))
    v = 6.0 / T**2 if by == "level" else 2 * (d - 1) / (h * 2.0)
    assert v > 4.0 / T**2
    R = modelled(g, spikes, U if which == "spiked" else np.zeros((d, 0)))
    root = np.linalg.cholesky(np.linalg.inv(dense(metric, d)).T @ R @ np.linalg.inv(dense(metric, d)))

    def one(key):
        k_grad, k_fill = jax.random.split(key)
        grad = jnp.asarray(root, jnp.float32) @ jax.random.normal(k_grad, (d,))
        return force_of(metric, Eval(0.0, grad, 1), T) + kernel.completion(k_fill, jnp.zeros(d), h, T)

    force = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(key, n)), np.float64)
    z = (force.T @ force / n - v * np.eye(d)) / (v * np.sqrt((1 + np.eye(d)) / n))
    assert np.abs(z).max() < 5
    assert np.abs(force.mean(0) / np.sqrt(v / n)).max() < 5


def test_what_is_stronger_than_the_level_is_left_as_it_is(key):
    """Nothing is added where noise is above v, and nothing is NaN."""
    kernel = SMILE(1.0, length=jnp.inf, gradient_noise=jnp.array([1.0, 9.0, 4.0]), level=4.0)
    c = np.asarray(jax.vmap(lambda k: kernel.completion(k, jnp.zeros(3), 1.0, 1.0))(jax.random.split(key, 4000)))
    assert np.all(c[:, 1:] == 0)
    assert abs(np.mean(c[:, 0] ** 2) - 3.0) < 5 * 3.0 * np.sqrt(2 / 4000)


# --- whiten ---------------------------------------------------------------------------------------------------------

SMALL, MEAN = 40, 11.0
SPIKES = np.array([1.0, 0.6, 0.4])


def spiky():
    """Noise of mean 11, the strongest of three directions about eight times that."""
    W = orthonormal(SMALL, 3, seed=1)
    base = MEAN / (1 + 12 * SPIKES.sum() / SMALL)
    f32 = lambda u: jnp.asarray(u, jnp.float32)
    exact = Gaussian(np.zeros(SMALL), np.ones(SMALL))
    V = base * (np.eye(SMALL) + 12 * W @ np.diag(SPIKES) @ W.T)
    sd = np.full(SMALL, np.sqrt(base))
    return Noisy(exact, f32(sd), f32(W), f32(np.sqrt(12 * base * SPIKES))), V, W


def tuned_on(key, target, kernel=None, *, rank=8, chains=32, steps=1500, d=SMALL, mean=MEAN, **how):
    k_start, k_init, k_tune = jax.random.split(key, 3)
    kernel = SMILE(0.1) if kernel is None else kernel
    states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (chains, d)))
    return whiten(k_tune, kernel, target, states, steps=steps, rank=rank, share=1 / mean, prior=0.0, **how)


@together
def test_one_fixed_point_from_afar(key):
    """ε from 10⁻⁴ and from 10⁻¹ is the same within 20 %, by the median over chains."""
    found = []
    for first, k in zip((1e-4, 1e-1), jax.random.split(key), strict=True):
        log = []
        tuned_on(k, gaussians.seen_through(gaussians.anisotropic()), SMILE(first), d=D, mean=R, watch=log.append)
        assert all(np.all(told["reset_rate"] < 0.02) for told in log)
        found.append(np.median(log[-1]["step_size"]))
    assert max(found) / min(found) < 1.2


def total_noise(kernel, i, V):
    """SᵀVS + Cov c over v of a chain's kernel, for the true V."""
    one = jax.tree.map(lambda u: u[i], kernel)
    S, U = dense(one.metric, len(V)), np.asarray(one.metric.vectors, np.float64)
    v = max(float(one.level), 2 * (len(V) - 1) / (float(one.step_size) * float(one.length)))
    missing = lambda has: np.maximum(v - np.asarray(has, np.float64), 0.0)
    return (S.T @ V @ S + modelled(missing(one.gradient_noise), missing(one.spikes), U)) / v


@pytest.fixture(scope="module")
def followed():
    """A target with spikes, V, W, and the kernel and states of `whiten` with rank enough."""
    target, V, W = spiky()
    return target, V, W, *tuned_on(noise.key(11, impl="hash"), target, rank=8, chains=64, steps=2500)


@pytest.mark.xdist_group("spiky")
def test_spikes_that_are_followed_have_the_temperature_of_the_rest(followed, key):
    """T along every spike is 1 ± 0.1, four standard errors."""
    target, _, W, tuned, states = followed
    mean, error = gaussians.averaged(gaussians.temperatures(key, tuned, target, states, 8000, W))
    assert error.max() < 0.025
    assert np.abs(mean - 1).max() < 0.1


@pytest.mark.xdist_group("spiky")
def test_noise_found_and_filled_up_is_isotropic(followed):
    """The true SᵀVS and c of a chain's kernel together are v on the average over what it follows, and over the rest.

    Within 5 %: a round has 250 batches, and 1/λ of an estimated λ is too large by 2/250.
    """
    _, V, _, tuned, _ = followed
    each = []
    for i in range(64):
        total, U = total_noise(tuned.kernel, i, V), np.asarray(tuned.kernel.metric.vectors[i], np.float64)
        on = np.trace(U.T @ total @ U)
        each.append([on / 8, (np.trace(total) - on) / (SMALL - 8)])
    mean, error = gaussians.averaged(np.array(each))
    assert error.max() < 0.005
    assert np.abs(mean - 1).max() < 0.05


@pytest.mark.xdist_group("spiky")
def test_temperature_is_one_along_what_is_followed_and_more_where_noise_is_left_as_it_is(followed, key):
    """By the virial theorem, which is not told the law. Directions are sorted by noise found from 250 batches, 9 % in
    error, so each is within 20 %, and their mean within four standard errors or 4 %."""
    target, _, _, tuned, states = followed
    k_right, k_wrong = jax.random.split(key)
    found = virial_temperature(k_right, tuned, target, states, draws=150, thin=10)
    assert found.stderr.max() < 0.1
    assert np.abs(found.temperature - 1).max() < 0.2
    assert abs(found.temperature.mean() - 1) < 0.04 + 4 * np.sqrt(np.mean(found.stderr**2) / 8)
    bare = replace(tuned.kernel, gradient_noise=0 * tuned.kernel.gradient_noise, spikes=0 * tuned.kernel.spikes)
    left = PerChain(replace(bare, metric=replace(bare.metric, stretch=jnp.ones_like(bare.metric.stretch))))
    assert virial_temperature(k_wrong, left, target, states, draws=100, thin=10).temperature.max() > 2


def test_the_virial_temperature_needs_a_tuned_kernel(key):
    with pytest.raises(TypeError, match="`fisher` tuned: a LowRankMetric"):
        virial_temperature(key, SMILE(0.1), None, None)


@pytest.mark.slow
@pytest.mark.xdist_group("spiky")
def test_spikes_that_are_not_followed_are_hot(key):
    """Rank 1 of three: T is above 2 along the hottest."""
    target, V, W = spiky()
    k_tune, k_run = jax.random.split(key)
    tuned, states = tuned_on(k_tune, target, rank=1)
    assert gaussians.temperatures(k_run, tuned, target, states, 2000, W).mean(0).max() > 2
    assert np.linalg.eigvalsh(total_noise(tuned.kernel, 0, V))[-1] > 1.5


def log_prior(position):
    return -0.5 * jnp.sum(position["w"] ** 2) - 2.0 * jnp.sum(position["idle"] ** 2)


def log_likelihood(position, data):
    return -0.5 * (data["y"] - data["x"] @ position["w"]) ** 2


def regression(n, d):
    """Linear regression with unit noise; its data, and the mean of its negative log likelihood in the posterior."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, d)) * np.linspace(0.3, 2.0, d)
    y = x @ rng.standard_normal(d) + rng.standard_normal(n)
    covariance = np.linalg.inv(x.T @ x + np.eye(d))
    left = y - x @ covariance @ x.T @ y
    truth = 0.5 * (left @ left + np.trace(x @ covariance @ x.T))
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.float32)}, truth


@pytest.fixture(scope="module")
def posterior():
    """Regression by a tenth of the data a step: the kernel of `whiten`, a run of it, data and the mean of the loss."""
    d, chains = 10, 32
    data, truth = regression(400, d)
    target = Bayes(log_prior, log_likelihood, data, batch=40)
    k_init, k_tune, k_run = jax.random.split(noise.key(12, impl="hash"), 3)
    kernel = SMILE(1e-3)
    states = begin_all(k_init, kernel, target, {"w": jnp.zeros((chains, d)), "idle": jnp.zeros((chains, 2))})
    tuned, states = whiten(k_tune, kernel, target, states, steps=1500, rank=4)
    assert states.memory == ()
    return tuned, advance(k_run, tuned, target, states, length=400, thin=10), data, truth


@pytest.mark.slow
def test_damping_is_a_stiffer_prior_that_goes_as_far(key):
    """κ times the prior's precision, and L longer by √κ: in units of the prior's scale as long as without."""
    d = 10
    target = Bayes(log_prior, log_likelihood, regression(100, d)[0], batch=40)
    k_init, k_tune = jax.random.split(key)
    states = begin_all(k_init, SMILE(1e-3), target, {"w": jnp.zeros((4, d)), "idle": jnp.zeros((4, 2))})
    how = dict(steps=40, rounds=2, rank=4)
    go = lambda **more: whiten(jax.random.clone(k_tune), SMILE(1e-3), target, states, **how, **more)
    damped, _ = go(damping=9.0)
    plain, _ = go(prior={"w": 9.0, "idle": 36.0}, length=3 * np.sqrt(d + 2))
    np.testing.assert_allclose(damped.kernel.length, plain.kernel.length, rtol=1e-6)
    np.testing.assert_allclose(damped.kernel.metric.scale["idle"], plain.kernel.metric.scale["idle"], rtol=1e-5)
    np.testing.assert_allclose(damped.kernel.step_size, plain.kernel.step_size, rtol=1e-3)
    with pytest.raises(ValueError, match="damping is 0"):
        go(damping=0)


def stderr(each):
    return np.std(each, ddof=1) / np.sqrt(len(each))


@pytest.mark.xdist_group("posterior")
def test_a_posterior_is_stationary_once_tuned(posterior):
    """The likelihood of all data does not drift; its mean is within 0.1 of the truth: 2 % of what T adds, d/2."""
    tuned, out, data, truth = posterior
    assert isinstance(tuned, PerChain)
    assert tuned.kernel.step_size.shape == (32,)
    assert out.states.memory == ()
    assert np.all(np.asarray(out.info.acceptance) == 1)
    w = np.asarray(out.kept["w"], np.float64)
    loss = 0.5 * np.sum((np.asarray(data["y"]) - w @ np.asarray(data["x"]).T) ** 2, axis=2)
    drift = loss[:, 200:].mean(1) - loss[:, :200].mean(1)
    assert abs(drift.mean()) < 5 * stderr(drift)
    each = loss.mean(1)
    assert stderr(each) < 0.04
    assert abs(each.mean() - truth) < 0.1


@pytest.mark.xdist_group("posterior")
def test_weights_the_data_do_not_know_keep_their_prior(posterior):
    _, out, _, _ = posterior
    each = np.mean(np.asarray(out.kept["idle"], np.float64) ** 2, axis=(1, 2))
    assert abs(each.mean() - 0.25) < 5 * stderr(each)


@pytest.mark.xdist_group("posterior")
def test_share_and_prior_are_read_off_the_target(posterior):
    """D is the scale of the prior for weights the data do not know."""
    kernel = posterior[0].kernel
    np.testing.assert_allclose(kernel.metric.scale["idle"], 0.5, rtol=1e-5)
    np.testing.assert_allclose(kernel.level, 10.0, rtol=1e-6)
    np.testing.assert_allclose(kernel.length, np.sqrt(12), rtol=1e-6)


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
    assert undone.sum() > 100
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


# --- what is asked for ----------------------------------------------------------------------------------------------


def one_sentence(told):
    text = str(told.value)
    return "\n" not in text and text.endswith(".") and text.startswith("whiten: ")


def test_what_whiten_needs_to_know_is_asked_for(key):
    target = gaussians.seen_through(R)
    states = begin_all(key, SMILE(), target, jnp.zeros((2, D)))
    ask = partial(whiten, jax.random.key(0), SMILE(), target, states)
    with pytest.raises(ValueError, match=r"does not say what share of the data a batch is; give share=\.$") as told:
        ask()
    assert one_sentence(told)
    with pytest.raises(ValueError, match=r"does not tell its prior apart; give prior= its precision\.") as told:
        ask(share=0.1)
    assert one_sentence(told)
    with pytest.raises(ValueError, match=r"share is 1\.5; a batch is more than none") as told:
        ask(share=1.5)
    assert one_sentence(told)
    with pytest.raises(ValueError, match=r"10 steps in 8 rounds; take at least two steps a round\.$") as told:
        ask(share=0.1, prior=1.0, steps=10)
    assert one_sentence(told)
    for kernel in (MCLMC(0.1, 1.0), published()):
        with pytest.raises(TypeError, match=r"it tunes SMILE, not \w+; pass SMILE\(step_size\)\.") as told:
            whiten(jax.random.key(0), kernel, target, states, share=0.1, prior=1.0)
        assert one_sentence(told)


# --- as published ---------------------------------------------------------------------------------------------------


def published(**how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PublishedSMILE(**how)


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
    assert undone.sum() > 100
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
