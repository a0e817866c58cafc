"""Samplers and likelihoods of diffusions with the exact score; guidance, energies, the U-Net."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import FORMED, PROCESSES, label_or_none, name
from quick import first

from langevin.core.record import record
from langevin.diffusion import exact, guidance, likelihood
from langevin.diffusion.annealed import level_of, move
from langevin.diffusion.denoiser import Denoiser
from langevin.diffusion.loss import dequantised, quantised, ready
from langevin.diffusion.ode import DPMSolver, Heun, ProbabilityFlow
from langevin.diffusion.sample import EulerMaruyama, PredictorCorrector, generate
from langevin.diffusion.sde import EDM, VE, VP, SubVP
from langevin.nets import convolution
from langevin.nets.unet import UNet
from langevin.samplers.hmc import HMC
from langevin.samplers.mala import MALA
from langevin.samplers.sgld import SGLD

# --- samplers, with the exact score -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flow_truth():
    """x at the data by the flow on a very fine grid, from fixed noise."""
    found = {}
    for process in (VP(), EDM(high=10.0)):
        start = process.prior(jax.random.key(7), (64, 2))
        score = exact.ring(process, std=0.5)
        fine = generate(jax.random.key(0), Heun(1000, "rho", denoise=False), process, score, (2,), start=start)
        found[name(process)] = (process, score, start, fine)
    return found


@pytest.mark.parametrize("which", first(1, ["VP", "EDM"]))
@pytest.mark.parametrize(
    ("sampler", "order"),
    [(Heun, 2), (DPMSolver, 2), (lambda n, spacing, **k: EulerMaruyama(n, spacing, stochasticity=0.0, **k), 1)],
    ids=["heun", "dpm", "euler"],
)
def test_solvers_of_the_flow_have_their_order(sampler, order, which, flow_truth, key):
    process, score, start, fine = flow_truth[which]
    spacing = "snr" if sampler is DPMSolver else "rho"
    gaps = []
    for steps in (32, 64):
        x = generate(jax.random.clone(key), sampler(steps, spacing, denoise=False), process, score, (2,), start=start)
        gaps.append(float(jnp.sqrt(jnp.mean((x - fine) ** 2))))
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(order, abs=0.35)
    assert gaps[1] < {1: 0.2, 2: 0.03}[order]


def test_the_reverse_sde_has_strong_order_one(key):
    """One Brownian path at 64, 128 and 1024 steps: additive noise, so order 1."""
    process = VP()
    score = exact.ring(process, std=0.5)
    start = process.prior(jax.random.key(3), (256, 2))
    of = lambda n: generate(
        jax.random.clone(key), EulerMaruyama(n, denoise=False, increments=1024), process, score, (2,), start=start
    )
    fine, *coarse = of(1024), of(32), of(64)
    gaps = [float(jnp.sqrt(jnp.mean((x - fine) ** 2))) for x in coarse]
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(1.0, abs=0.35)
    apart = generate(key, EulerMaruyama(64, denoise=False), process, score, (2,), start=start)
    assert gaps[1] < 0.3 * float(jnp.sqrt(jnp.mean((apart - fine) ** 2)))


SAMPLERS = {
    "em": EulerMaruyama(150),
    "em_warm": EulerMaruyama(150, stochasticity=1.5, denoise=False),
    "pc": PredictorCorrector(100),
    "pc_first": PredictorCorrector(100, order="corrector", corrector=HMC(0.3, n_leapfrog=2)),
    "heun": Heun(40),
    "heun_churn": Heun(60, churn=20.0),
    "dpm": DPMSolver(60),
    "flow": ProbabilityFlow(1e-4, 1e-4),
}


@pytest.mark.parametrize(
    ("which", "process"),
    first(
        len(SAMPLERS),
        [(w, VP()) for w in SAMPLERS] + [(w, p) for w in ("em", "pc", "heun", "dpm") for p in PROCESSES[1:]],
    ),
    ids=lambda v: v if isinstance(v, str) else name(v),
)
def test_samplers_reach_the_mixture(which, process, key):
    """Means, second moments and shares of an uneven mixture, by z-scores, with room for the bias of the steps."""
    k_run, k_truth = jax.random.split(key)
    means = jnp.array([[-1.0, 0.5], [1.0, -0.3], [0.5, 1.0]])
    score = exact.MixtureScore(process, means, jnp.array([0.3, 0.2, 0.4]), jnp.array([0.5, 0.3, 0.2]))
    n = 4000
    x = generate(k_run, SAMPLERS[which], process, score, (2,), n=n)
    truth = score.exact(k_truth, 100_000)
    features = lambda x: jnp.concatenate([x, x**2, x[:, :1] * x[:, 1:], jnp.cos(2 * x)], axis=1)
    a, b = features(x), features(truth)
    bias = 0.02 * jnp.std(b, axis=0)
    z = (jnp.abs(jnp.mean(a, axis=0) - jnp.mean(b, axis=0)) - bias) / (jnp.std(b, axis=0) / jnp.sqrt(n))
    assert float(jnp.max(z)) < 5, z


def test_the_corrector_repairs_a_rough_score(key):
    """An error of the score adds up along a predictor; a corrector forgets it, at equal looks too."""
    k_truth, k_alone, k_both = jax.random.split(key, 3)
    process = VP()
    true = exact.ring(process, std=0.3)
    score = exact.Rough(true, 0.3)
    truth = true.exact(k_truth, 50_000)
    alone = generate(k_alone, EulerMaruyama(60), process, score, (2,), n=4000)
    both = generate(k_both, PredictorCorrector(20, corrector=SGLD(0.3), inner=2), process, score, (2,), n=4000)
    assert 1.5 * sliced(both, truth) < sliced(alone, truth)


def sliced(a, b):
    """Sliced Wasserstein distance of order 2, over directions of the plane."""
    angle, level = np.linspace(0, np.pi, 40, endpoint=False), np.linspace(0.005, 0.995, 200)
    turned = lambda x: np.quantile(np.asarray(x) @ np.stack([np.cos(angle), np.sin(angle)]), level, axis=0)
    return float(np.sqrt(np.mean((turned(a) - turned(b)) ** 2)))


def test_a_metropolis_corrector_keeps_the_law_where_langevin_does_not(key):
    """At one level of N(0, s²), in units of s: SGLD has variance 1/(1 − h/2), MALA 1."""
    k_start, *keys = jax.random.split(key, 3)
    process, t = VP(), jnp.asarray(0.3)
    s = process.marginal(t)[1]
    score = exact.MixtureScore(process, jnp.zeros((1, 2)), jnp.zeros(1), jnp.ones(1))
    start = s * jax.random.normal(k_start, (4000, 2))
    level = level_of(score, t, s)
    words = [jax.random.key_data(jax.random.split(k, 4000)) for k in keys]
    wrap = lambda w: jax.random.wrap_key_data(w, impl=jax.random.key_impl(key))
    of = lambda kernel, words: jax.vmap(lambda w, x: move(wrap(w), kernel, level, x, 30))(words, start) / s
    exact_law, hot = of(MALA(0.5), words[0]), of(SGLD(0.5), words[1])
    se = np.sqrt(2 / 8000)
    assert abs(float(jnp.var(exact_law)) - 1) < 5 * se
    assert abs(float(jnp.var(hot)) - 1 / 0.75) < 5 * se / 0.75


# --- likelihood -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "process",
    [
        VP(last=30.0),
        VE(high=500.0),
        pytest.param(SubVP(last=30.0), marks=pytest.mark.slow),
        pytest.param(EDM(high=500.0), marks=pytest.mark.slow),
    ],
    ids=name,
)
def test_log_prob_of_a_gaussian(process, key):
    k_x, k_probe = jax.random.split(key)
    score = exact.MixtureScore(process, jnp.zeros((1, 3)), jnp.array([0.7]), jnp.ones(1))
    x = score.exact(k_x, 6)
    truth = jax.vmap(lambda x: score.log_density(x, jnp.asarray(process.cut)))(x)
    found = likelihood.log_prob(None, process, score, x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.value, truth, atol=1e-4)
    assert (found.stderr == 0).all()
    if isinstance(process, VP):
        # ∇s of an isotropic Gaussian is a multiple of I, which signs measure without error
        signs = likelihood.log_prob(k_probe, process, score, x, divergence="hutchinson", probes=2)
        np.testing.assert_allclose(signs.value, truth, atol=1e-3)


@pytest.mark.slow
def test_hutchinson_is_within_its_errors(key):
    process = VP()
    score = exact.ring(process, std=0.5)
    k_x, k_probe = jax.random.split(key)
    x = score.exact(k_x, 40)
    truth = likelihood.log_prob(None, process, score, x).value
    found = likelihood.log_prob(k_probe, process, score, x, divergence="hutchinson", probes=64)
    z = np.asarray((found.value - truth) / jnp.maximum(found.stderr, 1e-3))
    assert np.abs(z).max() < 5
    assert 0.6 < z.std() < 1.5


def test_bits_of_noise_are_all_the_bits():
    """A uniform density on [−1, 1] has log p = −d ln 2, and 256 grey values cost 8 bits each."""
    assert likelihood.bits_per_dim(-5 * np.log(2), 5, dequantised_levels=256) == pytest.approx(8.0)


def test_dequantised_images_fall_in_their_bins(key):
    grey = np.arange(16) / 15
    x = np.asarray(dequantised(key, ready(grey[:, None, None, None]), levels=16)).reshape(-1)
    np.testing.assert_allclose(quantised(x, 16), 2 * grey - 1, atol=1e-6)
    assert (np.floor(0.5 * (x + 1) * 16) == np.arange(16)).all()


# --- guidance, energies, the U-Net ------------------------------------------------------------------------------------


def two_classes(args, x, t, label):
    """log p(y | x_t) of a mixture of two: the share of each component."""
    process, means, std = args
    m, s = process.marginal(t)
    square = jnp.sum((x[None] - m * means) ** 2, axis=1) / ((m * std) ** 2 + s**2)
    return jax.nn.log_softmax(-0.5 * square)[label]


@record
class ByLabel:
    """A conditional score of two Gaussians at ±(1, 0); label 2 means none."""

    process: object

    def log_density(self, x, t, label):
        m, s = self.process.marginal(t)
        means = jnp.array([[1.0, 0.0], [-1.0, 0.0]])
        each = -0.5 * jnp.sum((x[None] - m * means) ** 2, axis=1) / ((m * 0.6) ** 2 + s**2)
        return jnp.where(label == 2, jax.nn.logsumexp(each), each[jnp.minimum(label, 1)])

    def __call__(self, x, t, label):
        return jax.grad(self.log_density)(x, t, label)


def test_guidance_with_weight_one_is_the_conditional_law(key):
    process = VP()
    means, std = jnp.array([[1.0, 0.0], [-1.0, 0.0]]), jnp.array([0.6, 0.6])
    free = exact.MixtureScore(process, means, std, jnp.full(2, 0.5))
    by_classifier = guidance.Classifier(free, two_classes, (process, means, std[0]))
    by_itself = guidance.ClassifierFree(ByLabel(process), null=2)
    x, t = jnp.array([0.4, -0.7]), jnp.asarray(0.3)
    for label in (0, 1):
        truth = ByLabel(process)(x, t, label)
        np.testing.assert_allclose(by_classifier(x, t, label), truth, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(by_itself(x, t, label), truth, rtol=1e-4, atol=1e-5)
        for guided in (by_classifier, by_itself, guidance.ClassifierFree(ByLabel(process), 2, 3.0)):
            slope = jax.grad(guided.log_density)(x, t, label)
            np.testing.assert_allclose(guided(x, t, label), slope, rtol=1e-4, atol=1e-5)
    labels = jnp.arange(2000) % 2
    drawn = generate(key, DPMSolver(20), process, by_itself, (2,), n=2000, condition=(labels,))
    off = jnp.mean(jnp.where(labels == 0, 1.0, -1.0) * drawn[:, 0])
    assert abs(float(off) - 1) < 5 * 0.6 / np.sqrt(2000) + 0.02


def test_an_energy_is_sampled_with_a_metropolis_corrector(key):
    process = VP()
    score = Denoiser(process, FORMED["VP", "energy"], jnp.asarray(0.25), "energy")
    x, t = jnp.array([0.4, -0.7]), jnp.asarray(0.3)
    np.testing.assert_allclose(score(x, t), jax.grad(score.log_density)(x, t), rtol=1e-4)
    sampler = PredictorCorrector(25, corrector=MALA(0.3), inner=3)
    drawn = generate(key, sampler, process, score, (2,), n=4000)
    assert abs(float(jnp.var(drawn)) / 0.25 - 1) < 5 * np.sqrt(2 / 8000) + 0.02


def test_a_network_that_is_no_energy_has_no_density():
    with pytest.raises(TypeError, match="learn an 'energy'"):
        Denoiser(VP(), label_or_none, None).log_density(jnp.ones(2), jnp.asarray(0.5))


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (1, 1)])
def test_convolutions_are_products_of_patches(size, stride, key):
    k_x, k_w = jax.random.split(key)
    x, w = jax.random.normal(k_x, (3, 7, 8)), jax.random.normal(k_w, (5, 3, size, size))
    np.testing.assert_allclose(
        convolution.by_patches(x, w, stride), convolution.by_convolution(x, w, stride), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("side", "classes"), [pytest.param(8, None, marks=pytest.mark.slow), (7, 3)])
def test_the_unet_keeps_the_shape_and_hears_time_and_label(side, classes, key):
    k_net, k_x, k_head = jax.random.split(key, 3)
    net = UNet(1, k_net, (8, 16), classes=classes)
    x = jax.random.normal(k_x, (1, side, side))
    call = eqx.filter_jit(lambda net, x, *args: net(x, *args))
    half, later = jnp.asarray(0.5), jnp.asarray(0.6)  # numbers of Python would each be a program
    assert (call(net, x, half) == 0).all()  # it begins at nothing
    stirred = lambda u: u + 0.1 * jax.random.normal(jax.random.clone(k_head), u.shape)
    net = jax.tree.map(lambda u: stirred(u) if eqx.is_inexact_array(u) else u, net)
    y = call(net, x, half)
    assert y.shape == x.shape
    assert float(jnp.abs(call(net, x, later) - y).max()) > 1e-4
    if classes:
        assert float(jnp.abs(call(net, x, half, jnp.asarray(1)) - y).max()) > 1e-4
        np.testing.assert_allclose(call(net, x, half, jnp.asarray(classes)), y, atol=1e-5)
