"""Trained latent variable models: log p(x), brackets, refinement, gaps, sampled decoders, few labels."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import langevin as lv
from langevin import vae as lvae
from langevin.core.files import StoreError
from langevin.evidence import AIS, DAIS, HAIS
from langevin.nets.train import train
from langevin.samplers.hmc import HMC
from langevin.vae.model import Encoder
from langevin.vae.ppca import LinearEncoder
from langevin.vae.refine import fit_each
from langevin.vae.sampled import with_weights
from langevin.vae.semi_supervised import SemiSupervised
from langevin.vi import ELBO, IWAE

SIZE, LATENT, ROWS = 5, 2, 12


@pytest.fixture(scope="module")
def exact():
    """A model whose posterior is diagonal, its rows, and the VAE whose encoder is the posterior, or off by `by`."""
    weight = jnp.linalg.qr(jax.random.normal(jax.random.key(1), (SIZE, LATENT)))[0] * jnp.array([[2.0, 1.0]])
    true = lvae.PPCA(weight, jnp.arange(SIZE) / 4, 0.6)
    x = true.sample(jax.random.key(2), 200)[1]
    return true, x


def encoded(true, by: float = 0.0, wide: float = 1.0):
    model, theta = true.as_latent()
    inner = true.weight.T @ true.weight + true.scale**2 * jnp.eye(LATENT)
    project = jnp.linalg.solve(inner, true.weight.T)
    scale = true.scale * jnp.sqrt(jnp.diag(jnp.linalg.inv(inner))) * wide
    net = LinearEncoder(project, by - project @ true.bias, jnp.log(scale))
    phi, program = eqx.partition(net, eqx.is_inexact_array)
    return lvae.VAE(model, Encoder(program), {"decoder": theta, "encoder": phi, "objective": ()})


METHODS = [
    (AIS(ladder=60, particles=20), "prior"),
    (AIS(ladder=60, particles=20, kernel=HMC(step_size=0.2, n_leapfrog=3)), "encoder"),
    (HAIS(ladder=120, particles=20), "prior"),
    (DAIS(ladder=60, particles=20, step_size=0.1), "encoder"),
    (lvae.Importance(400), "encoder"),
]


@pytest.mark.parametrize(("method", "base"), METHODS, ids=lambda v: v if isinstance(v, str) else type(v).__name__)
def test_log_likelihood_is_that_of_the_model(exact, key, method, base):
    true, x = exact
    found = lvae.log_likelihood(key, encoded(true, 0.2, 1.3), x[:ROWS], method, base=base)
    ratio = np.exp(found.values - np.asarray(true.log_prob(x[:ROWS]), np.float64))  # its mean is 1: p(x) is unbiased
    assert abs(ratio.mean() - 1) < 5 * ratio.std(ddof=1) / np.sqrt(ROWS) + 1e-9
    assert abs(ratio.mean() - 1) < 0.3
    assert found.values.shape == found.errors.shape == (ROWS,)
    assert np.all(found.ess <= 400 + 1e-6)


def test_with_the_exact_posterior_every_weight_is_p(exact, key):
    true, x = exact
    found = lvae.log_likelihood(key, encoded(true), x[:ROWS], lvae.Importance(8), base="encoder")
    np.testing.assert_allclose(found.values, true.log_prob(x[:ROWS]), atol=2e-4)
    assert found.errors.max() < 1e-3


def test_a_bracket_closes_as_the_ladder_grows(exact, key):
    true, _ = exact
    short, long = (
        lvae.bracket(jax.random.clone(key), encoded(true), 12, AIS(ladder=n, particles=10)).gap for n in (8, 200)
    )
    assert -0.1 < long < 0.3 < short


def test_what_is_done_is_kept(exact, key, tmp_path, monkeypatch):
    true, x = exact
    vae, method = encoded(true, 0.2), lvae.Importance(16)
    clone = jax.random.clone
    whole = lvae.log_likelihood(clone(key), vae, x[:10], method, block=4)
    kept = lvae.log_likelihood(clone(key), vae, x[:10], method, block=4, store=tmp_path)
    (tmp_path / "block-8.json").unlink()
    again = lvae.log_likelihood(clone(key), vae, x[:10], method, block=4, store=tmp_path)
    np.testing.assert_array_equal(whole.values, kept.values)
    np.testing.assert_array_equal(whole.values, again.values)
    with pytest.raises(StoreError, match="holds other examples, weights or settings"):
        lvae.log_likelihood(clone(key), vae, x[1:11], method, block=4, store=tmp_path)


def test_refined_draws_are_of_the_posterior(exact, key):
    true, x = exact
    n = 400
    moved = lvae.refine(key, encoded(true, 0.8, 0.5), x[:3], kernel=HMC(0.6, n_leapfrog=4), steps=60, draws=n)
    mean, covariance = true.posterior(x[:3])
    deviation = np.sqrt(np.diag(covariance))
    z = (np.asarray(moved.z).mean(axis=1) - np.asarray(mean)) / deviation[None] * np.sqrt(n)
    spread = np.asarray(moved.z).std(axis=1) / deviation[None]
    assert np.abs(z).max() < 5
    assert np.abs(spread**2 - 1).max() < 5 * np.sqrt(2 / n)
    assert bool(moved.fine.all())
    assert 0.6 < float(moved.acceptance.mean()) <= 1


def test_gaps_are_split(exact, key):
    true, x = exact
    vae = encoded(true, 0.3, 1.4)
    mean, scale = fit_each(key, vae, x[:6])
    at, covariance = true.posterior(x[:6])
    deviation = np.sqrt(np.diag(covariance))
    assert np.abs(mean - at).max() < 0.1 * deviation.max()
    assert np.abs(scale / deviation[None] - 1).max() < 0.1
    found = lvae.gaps(jax.random.key(4), vae, x[:6], method=AIS(ladder=100, particles=20))
    divergence = 0.5 * (0.3**2 / deviation**2 + 1.4**2 - 1).sum() - 2 * np.log(1.4)  # KL(q ‖ posterior)
    assert np.abs(found.approximation).max() < 0.4
    assert abs(found.amortization.mean() - divergence) < 0.15 * divergence
    assert set(found.summary) == {"log_p", "approximation", "amortization"}
    assert found.plot() is not None


def test_a_sampled_decoder(exact, key):
    true, x = exact
    vae = encoded(true)
    target = lvae.DecoderPosterior(vae, x, objective=ELBO(), batch=None, scale=10.0)
    position = jax.tree.map(lambda u: u[0], target.begin(1))
    # with the exact posterior as the encoder the ELBO is log p(x), so the density is known
    wanted = float(jnp.sum(true.log_prob(x))) + float(target.prior(position))
    values = [float(target.value(k, x, position)) for k in jax.random.split(key, 40)]
    assert abs(np.mean(values) - wanted) < 5 * np.std(values, ddof=1) / np.sqrt(40)
    found = lv.sample(jax.random.key(5), lv.SGLD(step_size=1e-5), target, target.begin(2), draws=4)
    draws = jax.tree.map(lambda u: u.reshape(-1, *u.shape[2:]), found.draws)
    mixed = lvae.mixture(jax.random.key(6), vae, draws, x[:5], lvae.Importance(200), base="encoder")
    single = [
        lvae.PPCA.of(with_weights(vae, jax.tree.map(lambda u, i=i: jnp.asarray(u[i]), draws)).weights["decoder"])
        for i in range(8)
    ]
    exactly = np.logaddexp.reduce([np.asarray(m.log_prob(x[:5])) for m in single], axis=0) - np.log(8)
    np.testing.assert_allclose(mixed, exactly, atol=0.02)


def test_a_moving_encoder_is_a_coordinate(exact):
    true, x = exact
    target = lvae.DecoderPosterior(encoded(true), x, objective=ELBO(), encoder="moves")
    assert set(target.begin(3)) == {"decoder", "encoder"}


def test_few_labels_teach_the_rest(key):
    k_label, k_x, k_net, k_classifier, k_train = jax.random.split(key, 5)
    label = np.asarray(jax.random.bernoulli(k_label, 0.5, (400,))).astype(int)
    x = np.where(label[:, None] == 1, 1.5, -1.5) + np.asarray(jax.random.normal(k_x, (400, 4)))
    seen = np.where(np.arange(400) < 8, label, -1)
    nets = lvae.dense(k_net, (4,), latent=1, hidden=(8,), likelihood=lvae.Gaussian(1.0), condition=2)
    weights, program = eqx.partition(lv.MLP((4, 8, 2), k_classifier), eqx.is_inexact_array)
    target = SemiSupervised(nets.model, nets.encoder, program, ELBO(), (x, seen), classes=2, batch=50)
    start = nets.weights | {"classifier": weights, "objective": ()}
    found = train(k_train, target, jax.tree.map(lambda u: u[None], start), steps=600, clip=1e3, rate=1e-2).of(0)
    assert (np.argmax(target.logits(found, x), axis=1) == label).mean() > 0.95


def test_the_unlabelled_bound_is_below_the_sum_over_classes(key):
    nets = lvae.dense(key, (3,), latent=1, hidden=(4,), likelihood=lvae.Gaussian(1.0), condition=2)
    weights, program = eqx.partition(lv.MLP((3, 2), jax.random.key(1)), eqx.is_inexact_array)
    x = np.ones((1, 3), np.float32)
    position = nets.weights | {"classifier": weights, "objective": ()}

    def value(label, key):
        target = SemiSupervised(
            nets.model, nets.encoder, program, IWAE(200), (x, np.array([0])), classes=2, weight=0.0, batch=None
        )
        return float(target.values(key, (x, jnp.array([label])), position)[0])

    k = jax.random.key(2)
    both, none = [value(y, jax.random.clone(k)) for y in (0, 1)], value(-1, jax.random.clone(k))
    score = np.asarray(jax.nn.softmax(eqx.combine(weights, program)(x[0])))
    assert none == pytest.approx(float(score @ (np.array(both) - np.log(score))), abs=1e-3)
    assert none < np.logaddexp(*both)


def test_a_vae_is_used(key):
    x = (np.asarray(jax.random.uniform(key, (60, 6))) < 0.4).astype(np.float32)
    nets = lvae.dense(jax.random.key(1), (6,), latent=2, hidden=(8,))
    found = lvae.fit(jax.random.key(2), nets, x, steps=200, batch=20, rate=1e-2)
    assert found.trace[-3:].mean() > found.trace[:3].mean()
    assert found.generate(jax.random.key(3), 4).shape == found.reconstruct(x[:4]).shape == (4, 6)
    assert found.walk(x[0], x[1], 5).shape == (5, 6)
    bound, tighter = (found.bound(jax.random.key(4), x, how, repeats=20).mean() for how in (None, IWAE(50)))
    assert bound < tighter


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda key, vae, x: lvae.log_likelihood(key, vae, x.at[3, 0].set(jnp.nan)), "1 of 12 examples have missing"),
        (lambda key, vae, x: lvae.log_likelihood(key, vae, 0 * x), "every value of `data` is zero"),
        (lambda key, vae, x: lvae.log_likelihood(key, vae, x, base="posterior"), "base is 'posterior'"),
        (lambda key, vae, x: lvae.log_likelihood(key, vae, x, IWAE(5)), "take AIS, HAIS, DAIS or Importance"),
        (lambda key, vae, x: lvae.log_likelihood(key, vae, x, AIS(kernel=lv.SGLD())), "would not be valid"),
        (lambda key, vae, x: lvae.bracket(key, vae, 3, DAIS(ladder=5)), "bounds from above need AIS or HAIS"),
        (lambda key, vae, x: lvae.refine(key, vae, x, steps=-1), "steps must be 0 or more"),
        (lambda key, vae, x: lvae.dense(key, (4,), latent=0), "latent is 0"),
        (lambda key, vae, x: lvae.DecoderPosterior(vae, x, batch=None, encoder="free"), "must be 'held' or 'moves'"),
    ],
)
def test_wrong_arguments_are_one_sentence(exact, key, call, words):
    true, x = exact
    with pytest.raises((ValueError, TypeError), match=words):
        call(key, encoded(true), x[:ROWS])


def test_a_decoder_that_says_nan_is_one_sentence(exact, key):
    true, x = exact
    vae = encoded(true)
    broken = with_weights(vae, {"decoder": jax.tree.map(lambda u: u * jnp.nan, vae.weights["decoder"])})
    with pytest.raises(FloatingPointError, match="weights of 12 of 12 examples are NaN"):
        lvae.log_likelihood(key, broken, x[:ROWS], lvae.Importance(4), base="encoder")
    nets = lvae.dense(jax.random.key(2), (SIZE,), latent=2, hidden=(4,), likelihood=lvae.Gaussian(1e-25))
    with pytest.raises((FloatingPointError, ValueError), match="finite"):
        lvae.fit(jax.random.key(1), nets, x, steps=20, batch=10)


@pytest.mark.parametrize(
    ("labels", "words"), [([-1, -1], "no example has a label"), ([0, 7], "must be 0 to 1, or -1 for none")]
)
def test_labels_are_checked(key, labels, words):
    nets = lvae.dense(key, (3,), latent=1, hidden=(4,), condition=2)
    with pytest.raises(ValueError, match=words):
        SemiSupervised(
            nets.model, nets.encoder, None, ELBO(), (np.ones((2, 3)), np.array(labels)), classes=2, batch=None
        )
