"""Diffusion processes: marginals, losses with networks in closed form, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import FORMED, PROCESSES, label_or_none, name

from langevin.diffusion import exact, likelihood
from langevin.diffusion.denoiser import FORMS, Denoiser, convert, denoised
from langevin.diffusion.loss import DSM, ready, stratified
from langevin.diffusion.ode import Heun
from langevin.diffusion.sample import EulerMaruyama, PredictorCorrector, generate
from langevin.diffusion.sde import VE, VP
from langevin.diffusion.times import SPACINGS, times
from langevin.samplers.mala import MALA

# --- forward ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("process", PROCESSES, ids=name)
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_marginals_are_those_of_the_sde(process, share):
    """Euler-Maruyama on 2·10⁴ and 4·10⁴ steps, its moments exact for a linear drift; extrapolated to step 0."""
    last = share * float(process.end)

    def simulated(steps):
        t = jnp.asarray(np.arange(steps) * last / steps, jnp.float32)
        dt = last / steps
        grown = 1 + dt * np.asarray(process.drift(jnp.ones(()), t), np.float64)
        added = dt * np.asarray(process.diffusion(t), np.float64) ** 2
        mean, variance = 1.0, 0.0
        for a, b in zip(grown, added, strict=True):
            mean, variance = a * mean, a**2 * variance + b
        return np.array([mean, variance])

    mean, variance = 2 * simulated(40_000) - simulated(20_000)
    m, s = process.marginal(jnp.asarray(last))
    assert float(m) == pytest.approx(mean, rel=1e-4)
    assert float(s) ** 2 == pytest.approx(variance, rel=1e-4)


@pytest.mark.parametrize("process", PROCESSES, ids=name)
def test_ratio_and_time_are_inverse_and_times_end_at_the_data(process):
    t = jnp.linspace(process.cut, process.end, 7)
    np.testing.assert_allclose(process.time(process.ratio(t)), t, rtol=2e-5)
    for spacing in SPACINGS:
        grid = np.asarray(times(process, 12, spacing))
        assert grid.shape == (13,)
        assert grid[0] == pytest.approx(float(process.end))
        assert grid[-1] == pytest.approx(float(process.cut))
        assert (np.diff(grid) < 0).all()


def test_the_exploding_variance_starts_at_nothing():
    """σ(t)² − low², not σ(t)²: at `cut` the second would be a hundred times too large."""
    process = VE()
    assert float(process.marginal(jnp.asarray(0.0))[1]) == 0.0
    assert float(process.marginal(jnp.asarray(1e-5))[1]) == pytest.approx(0.01 * np.sqrt(2e-5 * np.log(5000)), rel=1e-3)


def test_forms_convert_into_one_another(key):
    k_x, k_e = jax.random.split(key)
    data, e = jax.random.normal(k_x, (5,)), jax.random.normal(k_e, (5,))
    m, s = VP().marginal(jnp.asarray(0.4))
    x = m * data + s * e
    true = dict(score=-e / s, noise=e, data=data, velocity=m * e - s * data)
    for given in FORMS:
        for wanted in FORMS:
            np.testing.assert_allclose(
                convert(true[given], x, (m, s), given, wanted), true[wanted], rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("process", PROCESSES, ids=name)
def test_the_mixture_score_is_the_gradient_and_denoises(process):
    score = exact.ring(process, std=0.3)
    x, t = jnp.array([0.7, 1.9]), jnp.asarray(0.3)
    np.testing.assert_allclose(score(x, t), jax.grad(score.log_density)(x, t), rtol=1e-4, atol=1e-5)
    # E[x₀ | x_t] by weights of many x₀
    x0 = np.asarray(score.exact(jax.random.key(0), 200_000), np.float64)
    m, s = (float(u) for u in process.marginal(t))
    weight = np.exp(-0.5 * ((np.asarray(x) - m * x0) ** 2).sum(1) / s**2)
    truth = (weight[:, None] * x0).sum(0) / weight.sum()
    np.testing.assert_allclose(denoised(process, score, x, t), truth, atol=0.02)


# --- losses: a Gaussian has its network in closed form ----------------------------------------------------------------


def dsm(process, form, weighting="sample"):
    return DSM(process, FORMED[name(process), form], form, weighting)


@pytest.mark.parametrize("process", PROCESSES, ids=name)
def test_all_parameterisations_have_one_loss(process, key):
    """The same network said in six ways: the same numbers."""
    k_x, k_loss = jax.random.split(key)
    x = jax.random.normal(k_x, (64, 3))
    forms = (*FORMS, "edm", "energy")
    value = lambda key, v: [dsm(process, form)(jax.random.clone(key), v, x) for form in forms]
    first, *others = jax.jit(value)(k_loss, jnp.asarray(0.7))
    for other in others:
        np.testing.assert_allclose(other, first, rtol=2e-2, atol=2e-3 * float(jnp.mean(first)))


@pytest.mark.parametrize("weighting", ["sample", "likelihood", "edm"])
@pytest.mark.parametrize("process", PROCESSES, ids=name)
def test_the_loss_is_least_at_the_truth(process, weighting, key):
    """Its gradient in v has mean 0 at the variance of the data, and the right sign on either side."""
    k_x, *keys = jax.random.split(key, 4)
    x = jnp.sqrt(0.7) * jax.random.normal(k_x, (50_000, 2))
    slope = jax.jit(lambda key, v: jax.jvp(lambda v: dsm(process, "noise", weighting)(key, v, x), (v,), (1.0,))[1])
    z = [float(jnp.mean(g) / (jnp.std(g) / jnp.sqrt(g.size))) for g in map(slope, keys, (0.7, 0.5, 1.0))]
    assert abs(z[0]) < 5
    assert z[1] < -5
    assert z[2] > 5


def test_the_likelihood_weighting_bounds_the_divergence(key):
    """d/2 (loss of a wrong network − of the right one) = ½ ∫ g² E|s_θ − s|² dt, here by quadrature."""
    process, v, wrong = VP(), 0.7, 1.4
    k_x, k_loss = jax.random.split(key)
    x = jnp.sqrt(v) * jax.random.normal(k_x, (200_000, 2))
    loss = jax.jit(dsm(process, "score", "likelihood"))
    gap = loss(jax.random.clone(k_loss), wrong, x) - loss(k_loss, v, x)
    t = np.linspace(1e-5, 1, 100_001)
    m, s = (np.asarray(u, np.float64) for u in process.marginal(jnp.asarray(t)))
    beta = np.asarray(process.beta(t))
    a, b = m**2 * v + s**2, m**2 * wrong + s**2
    truth = 0.5 * np.trapezoid(beta * 2 * a * (1 / a - 1 / b) ** 2, t)
    z = (float(jnp.mean(gap)) - truth) / float(jnp.std(gap) / jnp.sqrt(gap.size))
    assert abs(z) < 5
    assert float(jnp.std(gap) / jnp.sqrt(gap.size)) < 0.03 * truth


def test_times_are_stratified(key):
    u = np.sort(np.asarray(stratified(key, 64)))
    assert (np.floor(u * 64) == np.arange(64)).all()


def test_a_share_of_labels_is_dropped(key):
    """The net says 1 without a label and 0 with one, so the loss is |1 − ε|² or ε²."""
    loss = DSM(VP(), label_or_none, "noise", drop=0.25, null=3)
    x = jnp.zeros((20_000, 1))
    rows = (x, jnp.zeros(20_000, jnp.int32))
    gap = loss(jax.random.clone(key), jnp.asarray(1e3), rows)
    share = float(jnp.mean(gap > 100))
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 20_000)


# --- bad input --------------------------------------------------------------------------------------------------------


def refusals():
    process, score = VP(), exact.ring(VP())
    rough = exact.Rough(score)
    nan = np.full((2, 1, 2, 2), 0.5)
    nan[1, 0, 0, 0] = np.nan
    run = lambda sampler, **how: generate(jax.random.key(0), sampler, process, rough, (2,), **how)
    return {
        "image 1 has pixels that are not finite": lambda: ready(nan),
        "outside": lambda: ready(np.full((1, 1, 2, 2), 7.0)),
        "pass (n, channel": lambda: ready(np.zeros((2, 2))),
        "steps is 0": lambda: EulerMaruyama(0),
        "spacing is 'cubic'": lambda: Heun(5, "cubic"),
        "order is 'both'": lambda: PredictorCorrector(5, order="both"),
        "parameterisation is 'x'": lambda: Denoiser(process, label_or_none, None, "x"),
        "weighting is 'much'": lambda: DSM(process, label_or_none, weighting="much"),
        "where noise is left": lambda: run(Heun(5), n=1, grid=[1.0, 0.5, 0.1]),
        "sort them": lambda: run(Heun(5), n=1, grid=[0.001, 0.5, 1.0]),
        "begin there": lambda: run(Heun(5), n=1, grid=[0.5, 0.001]),
        "n is 0": lambda: run(Heun(5), n=0),
        "this score has none": lambda: run(PredictorCorrector(5, corrector=MALA()), n=1),
        "is no kernel": lambda: run(PredictorCorrector(5, corrector="sgld"), n=1),
        "low must be below": lambda: VE(2.0, 1.0),
        "no multiple": lambda: EulerMaruyama(7, increments=16),
        "divergence is 'some'": lambda: likelihood.log_prob(None, process, score, jnp.ones((1, 2)), divergence="some"),
        "row 0 has values": lambda: likelihood.log_prob(None, process, score, jnp.full((1, 2), jnp.nan)),
        "Diffrax has no solver": lambda: likelihood.log_prob(None, process, score, jnp.ones((1, 2)), solver="Good"),
    }


@pytest.mark.parametrize("sentence", list(refusals()))
def test_bad_input_is_refused_in_a_sentence(sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        refusals()[sentence]()
    assert sentence in str(caught.value)
    assert str(caught.value).count("\n") == 0
