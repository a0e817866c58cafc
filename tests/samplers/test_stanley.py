"""STANLEY, its corrections and its relatives: laws that are known, detailed balance, and what they say."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import stanley_law

from langevin.baselines.noise_scaled import NoiseScaled
from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.kernel import replace
from langevin.core.run import begin_all
from langevin.core.target import Density
from langevin.dynamics.mass import DenseMetric
from langevin.dynamics.metrics.truncated import Truncated
from langevin.samplers import amala
from langevin.samplers.amala import AMALA
from langevin.samplers.mala import MALA
from langevin.samplers.stanley import Stanley
from langevin.samplers.tmala import TMALA
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Gaussian
from langevin.tune.dual_averaging import dual_averaging
from langevin.tune.window import window


def quiet(make):
    """A kernel that warns of its law, made in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def normal(x):
    return -0.5 * jnp.sum(x**2)


def coupled(x):
    """Not Gaussian, every coordinate coupled to every other."""
    return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4) - 0.3 * jnp.sum(jnp.sin(x)) ** 2 + 0.2 * x[0] * x[1] * x[2]


def quartic(x):
    return -0.25 * jnp.sum(x**4)


def drawn(key, kernel, target, start, steps, thin=25):
    """Draws (chain, draw, …) of the second half of 2·steps and their weights."""
    k_init, k_run = jax.random.split(key)
    states = begin_all(k_init, kernel, target, start)
    run = advance(k_run, kernel, target, states, length=2 * steps // thin, thin=thin, layout="vmap")
    assert np.all(run.info.ok)
    half = steps // thin
    x, w = np.asarray(run.kept, np.float64)[:, half:], np.exp(np.asarray(run.info.log_weight, np.float64)[:, half:])
    return stanley_law.Draws(x, w, float(np.mean(run.info.acceptance)))


# --- known laws (notes §1.8) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (partial(Stanley, correction="none"), 1.786),
        (Stanley, 1.0),
        (partial(Stanley, correction="weights"), 1.0),
        (partial(Stanley, correction="hk2", form="smooth"), 1.0),
        (partial(Stanley, correction="pec", form="smooth"), 1.0),
        (partial(Stanley, correction="exact", form="smooth"), 1.0),
        (partial(NoiseScaled, per="chain"), 0.587),
        pytest.param(partial(NoiseScaled, per="chain", variant="toy"), 1.018, marks=pytest.mark.slow),
    ],
)
def test_second_moment_on_the_normal(make, want, key):
    """τ = ½: e^f/γ as published, e^f corrected; 0.02 is allowed for the bias of the step, and 5 standard errors."""
    kernel = quiet(partial(make, 0.01, threshold=0.5))
    k_start, k_run = jax.random.split(key)
    draws = drawn(k_run, kernel, Density(normal), jax.random.normal(k_start, (4096, 1)), 2500)
    mean, error = draws.mean(draws.x[..., 0] ** 2)
    assert error < 0.012
    assert abs(mean - want) < 0.02 + 5 * error
    if kernel.law().kind == "wrong":
        assert stanley_law.predicted(kernel)[0] == pytest.approx(want, abs=1e-3), "by quadrature of the law it names"


@pytest.mark.parametrize(("correction", "low", "high"), [("none", 0.7, 1.4), ("metropolis", 0, 0.04), ("hk2", 0, 0.04)])
def test_covariance_with_one_step_a_coordinate(correction, low, high, key):
    """The end-point noise carries Γ for a diagonal D; nothing corrected misses by all of the covariance."""
    kernel = quiet(partial(Stanley, 0.02, threshold=0.4, form="smooth", per="coordinate", correction=correction))
    target = Gaussian(np.zeros(2), stanley_law.COVARIANCE)
    k_start, k_run = jax.random.split(key)
    draws = drawn(k_run, kernel, target, target.exact(k_start, 8192), 2000)
    found, error = draws.mean(draws.x[..., :, None] * draws.x[..., None, :])
    size = np.linalg.norm(stanley_law.COVARIANCE)
    assert np.linalg.norm(error) / size < 0.03
    assert low <= np.linalg.norm(found - stanley_law.COVARIANCE) / size <= high


@pytest.mark.parametrize(("correction", "want"), [("none", None), ("metropolis", 1.0), ("weights", 1.0)])
def test_a_model_trained_with_chains_takes_their_bias_in(correction, want, key):
    """The fixed point of e^{−ax²/2} on N(0, 1): 1.955 as published, 1 corrected. Standard error about 0.01."""
    kernel = quiet(partial(Stanley, 0.01, threshold=0.3, correction=correction))
    want = stanley_law.fixed_point(0.3) if want is None else want
    assert correction != "none" or want == pytest.approx(1.955, abs=1e-3)
    path = stanley_law.learnt(key, kernel, 400, 4096)
    assert path[200:].mean() == pytest.approx(want, abs=0.05)


@pytest.mark.parametrize(
    ("per", "correction", "want"),
    [
        ("pixel", "none", 3),
        ("pixel", "metropolis", None),
        pytest.param("chain", "none", 6, marks=pytest.mark.slow),
    ],
)
def test_a_step_shared_by_n_coordinates(per, correction, want, key):
    """E|x|²/d on N(0, I₆) as 2 pixels of 3 channels: (n + 1)/n for n that share a step, as τ → 0."""
    threshold = 0.5
    kernel = quiet(partial(Stanley, 0.02, threshold=threshold, per=per, correction=correction))
    k_start, k_run = jax.random.split(key)
    draws = drawn(k_run, kernel, Density(normal), jax.random.normal(k_start, (2048, 3, 2, 1)), 1500)
    mean, error = draws.mean((draws.x**2).mean((-1, -2, -3)))
    want = 1.0 if want is None else stanley_law.radial(want, threshold)
    assert abs(mean - want) < 0.015 + 5 * error
    assert error < 0.01


def test_a_step_held_long_is_plain_langevin_and_one_held_shortly_is_not(key):
    """The printed loop, τ = ½: e^f/γ while K steps are short, e^f (bias O(h)) where they are long."""
    ends = {}
    for every in (4, 400):
        kernel = quiet(partial(Stanley, 0.04, threshold=0.5, every=every, correction="none"))
        start = jax.random.normal(noise.key(1), (4096, 1))
        draws = drawn(jax.random.clone(key), kernel, Density(normal), start, 1200, thin=400)
        ends[every] = draws.mean(draws.x[..., 0] ** 2)[0]
    assert 1.5 < ends[4] < 1.85
    assert 0.95 < ends[400] < 1.1


def test_a_held_step_is_found_anew_at_its_turn(key):
    kernel = quiet(partial(Stanley, 0.05, threshold=0.5, every=3, correction="none"))
    k_init, *keys = jax.random.split(key, 9)
    state, used, there = kernel.init(k_init, jnp.array([1.0, -2.0]), Density(normal)), [], []
    for k in keys:
        used.append(float(state.memory[1]))
        there.append(float(jnp.linalg.norm(state.position)))
        state, info = kernel.step(k, state, Density(normal))
        assert int(info.n_grad) == 1
    want = [0.5 / max(0.5, there[3 * (i // 3)]) for i in range(8)]
    np.testing.assert_allclose(used, want, rtol=1e-5)


# --- detailed balance -------------------------------------------------------------------------------------------------


def forced(monkeypatch, kernel, target, xi):
    """The energy error of a step of `kernel` whose noise is xi(x, y): what it says of a proposal from x to y."""
    held = []
    monkeypatch.setattr(noise, "like", lambda key, x, kind="normal": held[-1] if jnp.ndim(x) else jnp.zeros(()))

    def error(x, y):
        held.append(xi(x, y))
        state = kernel.init(jax.random.key(0), x, target)
        return kernel.step(jax.random.key(1), state, target)[1].energy_error

    return jax.jit(jax.vmap(error))


@pytest.mark.parametrize("form", ["max", "smooth"])
@pytest.mark.parametrize("T", [1.0, 0.6])
def test_detailed_balance_on_a_grid(form, T, monkeypatch):
    """π(x) P(x, y) is symmetric and π P = π for the kernel as a matrix; P from its own acceptance."""
    h, tau, grid = 0.3, 0.5, np.linspace(-5, 5, 201)
    kernel = Stanley(h, temperature=T, threshold=tau, form=form)
    f, g = -0.25 * grid**4 + 0.5 * grid**2 + 0.3 * grid, -(grid**3) + grid + 0.3
    D = tau / np.maximum(tau, np.abs(g)) if form == "max" else tau / np.sqrt(tau**2 + g**2)
    mean, var = grid + h * D * g, 2 * T * h * D
    z = (grid[None] - mean[:, None]) / np.sqrt(var[:, None])
    q = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi * var[:, None]) * (grid[1] - grid[0])
    xs, ys = (u.reshape(-1, 1) for u in np.meshgrid(grid, grid, indexing="ij"))
    table = jnp.asarray(z, jnp.float32)
    place = lambda u: jnp.round((u[0] + 5) * 20).astype(int)
    error = forced(monkeypatch, kernel, Density(double_well), lambda x, y: table[place(x), place(y)][None])
    delta = np.asarray(error(jnp.asarray(xs, jnp.float32), jnp.asarray(ys, jnp.float32)), np.float64)
    P = q * np.exp(np.minimum(0, -delta.reshape(201, 201)))
    pi = np.exp(f / T)
    pi /= pi.sum()
    flow = pi[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=2e-3, atol=1e-9)
    off = P - np.diag(np.diag(P))
    stays = 1 - off.sum(1)
    assert stays.min() > -1e-3, "the grid must hold the proposals"
    np.testing.assert_allclose(pi @ off + pi * stays, pi, atol=1e-7)


def double_well(x):
    return jnp.sum(-0.25 * x**4 + 0.5 * x**2 + 0.3 * x)


COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 0.6, -0.2], [0.0, -0.2, 0.8]])
EXACT = {
    "stanley": Stanley(0.2, temperature=0.7, threshold=0.8),
    "stanley-smooth": Stanley(0.2, temperature=0.7, threshold=0.8, form="smooth"),
    "stanley-coordinate": Stanley(0.2, temperature=0.7, threshold=0.4, per="coordinate"),
    "amala": AMALA(0.2, temperature=0.7, drift=1.3, bound=0.6, floor=0.3),
    "tmala": TMALA(0.2, temperature=0.7, bound=0.6, metric=DenseMetric(jnp.asarray(COVARIANCE, jnp.float32))),
}


def proposal(name, g):
    """Mean of the move and its covariance, as the papers write them, in float64 and dense."""
    h, T = 0.2, 0.7
    length = np.linalg.norm(g)
    if name == "amala":
        D = 0.6 * g / np.maximum(0.6, np.abs(g))
        return 1.3 * h * D, 2 * T * h * (0.3 * np.eye(3) + np.outer(D, D))
    if name == "tmala":
        return h * COVARIANCE @ (0.6 * g / max(0.6, length)), 2 * T * h * COVARIANCE
    if name == "stanley-coordinate":
        D = 0.4 / np.maximum(0.4, np.abs(g))
    else:
        D = np.full(3, 0.8 / max(0.8, length) if name == "stanley" else 0.8 / np.hypot(0.8, length))
    return h * D * g, 2 * T * h * np.diag(D)


@pytest.mark.parametrize("name", EXACT)
def test_the_acceptance_is_that_of_the_dense_formula(name, monkeypatch):
    """Δ = log π(x)q(x, y) − log π(y)q(y, x), q by dense linear algebra, for pairs of points in three dimensions."""
    rng, n = np.random.default_rng(0), 50
    xs = rng.normal(size=(n, 3))
    ys = xs + 0.5 * rng.normal(size=(n, 3))
    grad = np.asarray(jax.vmap(jax.grad(coupled))(jnp.asarray(xs, jnp.float32)), np.float64)
    back = np.asarray(jax.vmap(jax.grad(coupled))(jnp.asarray(ys, jnp.float32)), np.float64)
    value = lambda x: np.asarray(jax.vmap(coupled)(jnp.asarray(x, jnp.float32)), np.float64) / 0.7
    want, xi = value(xs) - value(ys), []
    for i in range(n):
        for sign, g, move in ((1, grad[i], ys[i] - xs[i]), (-1, back[i], xs[i] - ys[i])):
            mean, cov = proposal(name, g)
            v = move - mean
            want[i] -= sign * 0.5 * (v @ np.linalg.solve(cov, v) + np.linalg.slogdet(cov)[1])
            if sign > 0:  # the noise that leads there: AMALA's second normal is held at 0
                root = np.sqrt(0.28 * 0.3) * np.eye(3) if name == "amala" else np.linalg.cholesky(cov)
                xi.append(np.linalg.solve(root, v))
    given = jnp.asarray(np.concatenate([xs, np.array(xi)], 1), jnp.float32)
    held = []
    monkeypatch.setattr(noise, "like", lambda key, x, kind="normal": held[-1] if jnp.ndim(x) else jnp.zeros(()))

    def error(row):
        held.append(row[3:])
        state = EXACT[name].init(jax.random.key(0), row[:3], Density(coupled))
        return EXACT[name].step(jax.random.key(1), state, Density(coupled))[1].energy_error

    np.testing.assert_allclose(jax.jit(jax.vmap(error))(given), want, rtol=1e-3, atol=2e-4)


def test_where_nothing_is_cut_they_are_mala(key):
    """A threshold that is never met leaves D = 1: the same draws from the same key, acceptance included."""
    target, start = Density(coupled), jnp.array([0.4, -0.8, 1.1])
    ends = []
    for kernel in (MALA(0.3), TMALA(0.3, bound=1e4), Stanley(0.3, threshold=1e4)):
        state = kernel.init(jax.random.clone(key), start, target)
        step = jax.jit(kernel.step)
        for k in jax.random.split(jax.random.clone(key), 20):
            state, _ = step(k, state, target)
        ends.append(np.asarray(state.position))
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ends[2], ends[0], rtol=1e-3, atol=1e-4)


def test_amala_draws_what_it_scores(key, monkeypatch):
    """Proposals, all of them taken, have the mean ahD and the covariance 2Th(εI + DDᵀ)."""
    monkeypatch.setattr(amala, "metropolis", lambda key, error, new, old: (new, jnp.ones(())))
    kernel, target, x = AMALA(0.1, 0.8, drift=1.5, bound=0.6, floor=0.3), Density(coupled), jnp.array([0.4, -0.8, 0.1])
    k_init, k_step = jax.random.split(key)
    state, n = kernel.init(k_init, x, target), 1 << 15
    ends = jax.jit(jax.vmap(lambda k: kernel.step(k, state, target)[0].position))(jax.random.split(k_step, n))
    moved = np.asarray(ends, np.float64) - np.asarray(x)
    D = np.clip(jax.grad(coupled)(x), -0.6, 0.6)
    cov = 0.16 * (0.3 * np.eye(3) + np.outer(D, D))
    z = (moved.mean(0) - 0.15 * D) / np.sqrt(np.diag(cov) / n)
    assert np.abs(z).max() < 5
    spread = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / n)
    assert np.abs((np.cov(moved.T) - cov) / spread).max() < 5


# --- uses -------------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_the_draw_they_come_with(key):
    kernel = Stanley(0.05, threshold=0.5, correction="weights")
    k_init, k_run = jax.random.split(key)
    states = begin_all(k_init, kernel, Density(coupled), jnp.ones((4, 3)))
    run = advance(k_run, kernel, Density(coupled), states, length=6, thin=3, layout="vmap")
    size = np.linalg.norm(jax.vmap(jax.vmap(jax.grad(coupled)))(run.kept), axis=-1)
    np.testing.assert_allclose(run.info.log_weight, np.log(0.5 / np.maximum(0.5, size)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "kernel", [Stanley(threshold=2.0), AMALA(bound=2.0), TMALA(bound=2.0)], ids=("stanley", "amala", "tmala")
)
def test_dual_averaging_finds_the_step_size(kernel, key):
    target = Gaussian(np.zeros(4), np.array([0.25, 0.5, 1.0, 2.0]))
    k_start, k_init, k_tune, k_run = jax.random.split(key, 4)
    states = begin_all(k_init, kernel, target, target.exact(k_start, 64))
    tuned, states = dual_averaging(k_tune, kernel, target, states, acceptance=0.574)
    run = advance(k_run, tuned, target, states, length=100, layout="vmap")
    assert float(np.mean(run.info.acceptance)) == pytest.approx(0.574, abs=0.06)


def test_the_window_finds_tmalas_covariance(key):
    target = Gaussian(np.zeros(3), np.array([0.04, 1.0, 9.0]))
    k_start, k_init, k_tune = jax.random.split(key, 3)
    states = begin_all(k_init, TMALA(0.01), target, target.exact(k_start, 128))
    tuned, _ = window(k_tune, TMALA(0.01), target, states, acceptance=0.574)
    np.testing.assert_allclose(tuned.metric.variance, [0.04, 1.0, 9.0], rtol=0.25)


def test_a_cut_drift_comes_back_from_where_mala_does_not(key):
    """From |x| = 20 on e^{−x⁴/4}, whose gradient is 8000 there."""
    k_init, k_run = jax.random.split(key)
    ends = {}
    for kernel in (MALA(0.1), TMALA(0.1, bound=5.0), Stanley(0.1, threshold=5.0)):
        states = begin_all(jax.random.clone(k_init), kernel, Density(quartic), jnp.full((64, 1), 20.0))
        run = advance(jax.random.clone(k_run), kernel, Density(quartic), states, length=4, thin=100, layout="vmap")
        ends[type(kernel).__name__] = float(np.abs(run.kept[:, -1]).max())
    assert ends["MALA"] == 20.0
    assert ends["TMALA"] < 3.5


# --- words ------------------------------------------------------------------------------------------------------------


def test_the_law_it_names_is_p_over_gamma_in_any_dimension():
    law = quiet(partial(Stanley, threshold=0.5, temperature=0.5, correction="none")).law()
    x = jnp.array([0.4, -0.8, 1.1])
    D = 0.5 / float(jnp.linalg.norm(jax.grad(coupled)(x)))
    want = float(coupled(x)) / 0.5 - np.log(D)
    assert float(law.density(Density(coupled)).log_density(x)) == pytest.approx(want, rel=1e-5)
    apart = quiet(partial(Stanley, threshold=0.5, per="coordinate", correction="none")).law()
    with pytest.raises(ValueError, match="one dimension and for independent coordinates"):
        apart.density(Density(coupled)).log_density(x)
    scaled = quiet(NoiseScaled).law()
    with pytest.raises(ValueError, match="one dimension and for independent coordinates"):
        scaled.density(Density(coupled)).log_density(x)


@pytest.mark.parametrize(("variant", "power"), [("images", 2), ("toy", 1)])
def test_the_law_of_noise_that_fades(variant, power):
    """On N(0, 1) beyond τ: 2 log(|x|/τ) − ∫ x (|x|/τ)^power dx/T, against the value at 0."""
    law = quiet(partial(NoiseScaled, threshold=0.5, temperature=0.8, variant=variant, per="chain")).law()
    f = law.density(Density(normal)).log_density
    x, t = 1.3, 0.5
    work = t**2 / 2 + (x ** (2 + power) - t ** (2 + power)) / ((2 + power) * t**power)
    want = 2 * np.log(x / t) - work / 0.8
    assert float(f(jnp.array([x])) - f(jnp.zeros(1))) == pytest.approx(want, abs=2e-3)


def test_a_wrong_law_is_said_once(untold):
    with pytest.warns(UserWarning, match=r"p\^\(1/T\)/D, D = τ/max\(τ, \|g\|\) \(in any dimension\).*'metropolis'"):
        Stanley(correction="none")
    Stanley(correction="none", step_size=0.1)  # warnings are errors here: a second one would fail
    with pytest.warns(UserWarning, match="kept for 50 steps, if those are far short of the relaxation time"):
        Stanley(correction="none", every=50)
    with pytest.warns(UserWarning, match="without closed form otherwise.*'hk2'"):
        Stanley(correction="none", per="coordinate")
    with pytest.warns(UserWarning, match="colder on slopes.*take Stanley"):
        NoiseScaled()
    target = Bayes(normal, residuals, jnp.arange(8.0), batch=2)
    with pytest.warns(UserWarning, match="metric and drift from one batch"):
        Stanley(correction="weights").own_batch(target)
    Stanley(), Stanley(correction="weights"), Stanley(correction="hk2"), AMALA(), TMALA()


def residuals(x, data):
    return -0.5 * (data - x[0]) ** 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (partial(Stanley, correction="gamma"), "must be one of .*metropolis.*hk2"),
        (partial(Stanley, correction="auto"), "must be one of"),
        (partial(Stanley, correction="weights", per="coordinate"), "one step size a chain, not one a coordinate"),
        (partial(Stanley, correction="weights", per="pixel"), "take correction='metropolis'"),
        (partial(Stanley, every=5), "every=1 or correction='none'"),
        (partial(Stanley, every=0), "1 or more"),
        (partial(Stanley, form="hard"), "form is 'hard'; it must be one of"),
        (partial(Stanley, per="image"), "per is 'image'; it must be one of"),
        (partial(Stanley, noise="rademacher"), "take noise='normal'"),
        (partial(Stanley, temperature=0.0), "temperature above 0"),
        (partial(Stanley, metric_batch=0.5), "leave metric_batch out"),
        (partial(Stanley, threshold=0.0), "threshold is 0.0; it must be positive"),
        (partial(NoiseScaled, variant="paper"), "'images' or 'toy'"),
        (partial(NoiseScaled, per="row"), "NoiseScaled: per is 'row'"),
        (partial(Truncated, form="hard"), "Truncated: form is 'hard'"),
        (partial(Truncated, window=0), "1 or more"),
        (partial(AMALA, floor=0.0), "floor is 0.0; it must be positive"),
        (partial(TMALA, bound=-1.0), "bound is -1.0; it must be positive"),
        (lambda: Truncated(1.0, per="pixel").geometry((), jnp.zeros(3), jnp.zeros(3)), r"\(channel, height, width\)"),
    ],
)
def test_bad_settings_get_one_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        quiet(make)


@pytest.mark.parametrize("form", ["max", "smooth"])
def test_a_pixel_is_cut_by_its_channels(form):
    g = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2, 4)), jnp.float32)
    metric = Truncated(0.8, form, "pixel")
    size = np.sqrt((np.asarray(g) ** 2).sum(0, keepdims=True))
    D = 0.8 / np.maximum(0.8, size) if form == "max" else 0.8 / np.hypot(0.8, size)
    geometry = metric.geometry((), {"x": g}, {"x": g})
    np.testing.assert_allclose(metric.apply(geometry, {"x": g})["x"], D * np.asarray(g), rtol=1e-5)
    assert float(metric.tilt(geometry)) == pytest.approx(np.log(D).sum(), rel=1e-4)
    whole = replace(metric, per="chain")
    two = {"x": g, "y": jnp.ones(5)}
    length = np.sqrt((np.asarray(g) ** 2).sum() + 5)
    d = 0.8 / length if form == "max" else 0.8 / np.hypot(0.8, length)
    assert float(whole.tilt(whole.geometry((), two, two))) == pytest.approx(np.log(d), rel=1e-4)


def test_gamma_is_a_number_where_the_gradient_vanishes():
    """`exact` differentiates D; at a mode a length has no derivative, its square has."""
    for form in ("max", "smooth"):
        kernel = Stanley(0.01, threshold=0.5, form=form, correction="exact")
        state = kernel.init(jax.random.key(0), jnp.zeros(2), Density(normal))
        new, info = kernel.step(jax.random.key(1), state, Density(normal))
        assert np.isfinite(new.position).all()
        assert int(info.n_grad) == 3
