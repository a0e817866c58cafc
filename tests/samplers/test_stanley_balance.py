"""Detailed balance of STANLEY and its ancestors, and what is said of bad input."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import only
from stanley_laws import coupled, normal, quiet

from langevin.baselines.noise_scaled import NoiseScaled
from langevin.core import noise
from langevin.core.kernel import replace
from langevin.core.target import Density
from langevin.dynamics.mass import DenseMetric
from langevin.dynamics.metrics.truncated import Truncated
from langevin.samplers import amala
from langevin.samplers.amala import AMALA
from langevin.samplers.mala import MALA
from langevin.samplers.stanley import Stanley
from langevin.samplers.tmala import TMALA
from langevin.targets.bayes import Bayes

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


@pytest.mark.parametrize("name", only(("stanley", "tmala"), EXACT))
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
