"""Likelihoods, probabilistic PCA, networks, posteriors as targets, and training of latent variable models."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats
from vi.checks import z_of

from langevin import vae, vi
from langevin.core import noise
from langevin.core.record import replace
from langevin.core.run import run
from langevin.evidence import DAIS, Importance
from langevin.evidence.base import Normal
from langevin.nets.train import train
from langevin.samplers.optimize import Optimize
from langevin.samplers.sgld import SGLD
from langevin.targets.sum import Sum
from langevin.vae.autoencoder import posteriors_of
from langevin.vae.chains import USUAL, move
from langevin.vae.nets import output_shape
from langevin.vae.ppca import LinearEncoder

# --- likelihoods -----------------------------------------------------------------------------------------------------

# likelihood, an output of two entries, and the values that an entry can take
FINITE = {
    "bernoulli": (vae.Bernoulli(), jnp.array([0.7, -2.0]), [0, 1]),
    "categorical": (vae.Categorical(3), jnp.array([[0.3, -1.0, 0.5], [2.0, 0.0, 0.1]]), [0, 1, 2]),
    "logistic": (vae.DiscretizedLogistic(5), jnp.array([[0.4, 0.05], [-2.0, -0.5]]), [0, 0.25, 0.5, 0.75, 1]),
    "logistic, far": (vae.DiscretizedLogistic(4), jnp.array([[1.4, -3.0], [-1.0, 0.0]]), [0, 1 / 3, 2 / 3, 1]),
    "logistic, flat": (vae.DiscretizedLogistic(3), jnp.array([[0.5, 0.5], [4.0, -6.0]]), [0, 0.5, 1]),
}


@pytest.mark.parametrize("name", FINITE)
def test_likelihoods_of_finitely_many_values(name, key):
    """All values have mass 1 together; draws have these shares, and the mean that `mean` says."""
    likelihood, output, entries = FINITE[name]
    values = jnp.asarray(list(itertools.product(entries, repeat=2)), jnp.float32)
    share = np.exp(np.asarray(jax.vmap(lambda x: likelihood.log_prob(output, x))(values), np.float64))
    np.testing.assert_allclose(share.sum(), 1.0, rtol=1e-5)
    draws = np.asarray(jax.jit(jax.vmap(lambda k: likelihood.sample(k, output)))(jax.random.split(key, 20_000)))
    found = np.isclose(draws[:, None], np.asarray(values)[None]).all(-1)
    assert found.any(1).all()
    z = np.where(share * len(draws) > 20, z_of(found, share), 0.0)
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(likelihood.mean(output), share @ np.asarray(values), atol=1e-5)


def test_grey_values_have_mass_one_together():
    likelihood, values = vae.DiscretizedLogistic(), jnp.arange(256.0)[:, None] / 255
    both = jax.jit(jax.vmap(jax.value_and_grad(likelihood.log_prob), (None, 0)))
    for mean, log_scale in ((0.5, -1.0), (0.01, -4.0), (1.3, -2.0), (0.502, -7.0)):
        log_p, slope = both(jnp.array([[mean], [log_scale]]), values)
        np.testing.assert_allclose(np.exp(np.asarray(log_p, np.float64)).sum(), 1.0, rtol=2e-4)
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("known", [False, True])
def test_the_gaussian_likelihood(known, key):
    mean, scale = np.array([[0.3, -1.0]]), np.array([[0.5, 3.0]])
    likelihood = vae.Gaussian(jnp.asarray(scale)) if known else vae.Gaussian()
    output = jnp.asarray(mean if known else np.stack([mean, np.log(scale)]), jnp.float32)
    x = jnp.array([[0.1, 0.4]])
    np.testing.assert_allclose(likelihood.log_prob(output, x), stats.norm.logpdf(x, mean, scale).sum(), rtol=1e-6)
    np.testing.assert_allclose(likelihood.mean(output), mean, rtol=1e-6)
    draws = np.asarray(jax.vmap(lambda k: likelihood.sample(k, output))(jax.random.split(key, 4000)))
    assert np.abs(z_of(draws, mean)).max() < 5
    assert np.abs(z_of((draws - mean) ** 2, scale**2)).max() < 5


def test_shares_of_bits_count_as_both():
    """x = 0.3 has 0.3 of the log probability of 1 and 0.7 of that of 0."""
    likelihood, output = vae.Bernoulli(), jnp.array([0.8])
    one, none = (likelihood.log_prob(output, jnp.array([x])) for x in (1.0, 0.0))
    np.testing.assert_allclose(likelihood.log_prob(output, jnp.array([0.3])), 0.3 * one + 0.7 * none, rtol=1e-6)


# --- probabilistic PCA -----------------------------------------------------------------------------------------------


def ppca(orthogonal=False):
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(5, 2))
    weight = np.linalg.qr(weight)[0] * [2.0, 1.0] if orthogonal else weight
    return vae.PPCA(jnp.asarray(weight, jnp.float32), jnp.asarray(rng.normal(size=5), jnp.float32), 0.6)


KNOWN = ppca()
Z, X = KNOWN.sample(jax.random.key(2), 4)


def covariance(model):
    W = np.asarray(model.weight, np.float64)
    return W @ W.T + float(model.scale) ** 2 * np.eye(len(W))


def test_the_density_is_that_of_a_dense_normal():
    expected = stats.multivariate_normal.logpdf(np.asarray(X, np.float64), KNOWN.bias, covariance(KNOWN))
    np.testing.assert_allclose(KNOWN.log_prob(X), expected, rtol=1e-5)


def test_draws_have_the_moments_of_the_model(key):
    z, x = (np.asarray(u, np.float64) for u in KNOWN.sample(key, 20_000))
    apart = x - np.asarray(KNOWN.bias)
    assert np.abs(z_of(x, KNOWN.bias)).max() < 5
    assert np.abs(z_of(apart[:, :, None] * apart[:, None], covariance(KNOWN))).max() < 5
    assert np.abs(z_of(apart[:, :, None] * z[:, None], np.asarray(KNOWN.weight))).max() < 5


def test_the_posterior_is_that_of_bayes_on_a_grid():
    """Prior times likelihood as a target: its integral is p(x), its moments are those of the posterior."""
    model, theta = KNOWN.as_latent()
    axis = np.linspace(-5, 5, 401)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    target = model.posterior(theta, X[0])
    log_p = np.asarray(jax.jit(jax.vmap(target.log_density))(jnp.asarray(grid, jnp.float32)), np.float64)
    share = np.exp(log_p) * (axis[1] - axis[0]) ** 2
    np.testing.assert_allclose(np.log(share.sum()), KNOWN.log_prob(X)[0], rtol=1e-5)
    share = share / share.sum()
    mean, spread = (np.asarray(u) for u in KNOWN.posterior(X))
    np.testing.assert_allclose(share @ grid, mean[0], atol=1e-4)
    np.testing.assert_allclose((share[:, None] * (grid - mean[0])).T @ (grid - mean[0]), spread, atol=1e-4)
    np.testing.assert_allclose(target.prior(jnp.ones(2)), stats.norm.logpdf(np.ones(2)).sum(), rtol=1e-6)


METHODS = [Importance(4000), DAIS(ladder=20, step_size=0.1, particles=1000)]


@pytest.mark.parametrize("method", METHODS, ids=lambda u: type(u).__name__)
def test_the_evidence_of_a_posterior_is_the_density_of_the_example(method, key):
    model, theta = KNOWN.as_latent()
    mean, spread = KNOWN.posterior(X)
    base = Normal(mean[0] + 0.1, 1.3 * jnp.sqrt(jnp.diag(spread)))
    found = method(key, model.posterior(theta, X[0]), base)
    assert abs(float(found.log_z) - float(KNOWN.log_prob(X)[0])) < 5 * float(found.stderr)
    assert float(found.stderr) < 0.05


def test_the_fit_is_the_maximum(key):
    """The gradient of the likelihood is zero there in W, b and σ, and not beside it; a rotation is no other model."""
    x = KNOWN.sample(key, 500)[1]
    fit = vae.PPCA.fit(x, 2)
    mean = lambda theta: jnp.mean(vae.PPCA.of(theta).log_prob(x))
    theta = fit.as_latent()[1]
    grads = [jnp.abs(u).max() for u in jax.tree.leaves(jax.jit(jax.grad(mean))(theta))]
    assert max(grads) < 1e-3
    off = jax.jit(jax.grad(mean))(KNOWN.as_latent()[1])
    assert min(float(jnp.abs(u).max()) for u in jax.tree.leaves(off)) > 1e-2
    np.testing.assert_allclose(vae.PPCA.of(theta).scale, fit.scale, rtol=1e-6)
    inner = np.asarray(fit.weight.T @ fit.weight)
    assert abs(inner[0, 1]) < 1e-3 * inner[1, 1]
    turn = jnp.array([[math.cos(1.0), -math.sin(1.0)], [math.sin(1.0), math.cos(1.0)]])
    turned = vae.PPCA(fit.weight @ turn, fit.bias, fit.scale)
    assert fit.angle(turned) < 1e-6
    np.testing.assert_allclose(turned.log_prob(x), fit.log_prob(x), rtol=1e-4)
    assert fit.angle(KNOWN) < 0.3


def test_angles_of_known_planes():
    plane = lambda *columns: vae.PPCA(jnp.eye(4)[:, jnp.array(columns)], jnp.zeros(4))
    np.testing.assert_allclose(plane(0, 1).angle(plane(0, 2)), math.pi / 2, rtol=1e-6)
    small = vae.PPCA(jnp.eye(4)[:, :2].at[2, 1].set(0.1), jnp.zeros(4))
    np.testing.assert_allclose(plane(0, 1).angle(small), math.atan(0.1), rtol=1e-5)


def test_fits_that_cannot_be():
    with pytest.raises(ValueError, match="latent is 5; it must be from 1 to 4"):
        vae.PPCA.fit(X, 5)
    with pytest.raises(ValueError, match="missing or infinite"):
        vae.PPCA.fit(X.at[0, 0].set(jnp.nan), 2)


# --- models and networks ---------------------------------------------------------------------------------------------

LIKELIHOODS = {
    "bernoulli": vae.Bernoulli(),
    "gaussian": vae.Gaussian(),
    "gaussian, known": vae.Gaussian(0.5),
    "categorical": vae.Categorical(3),
    "logistic": vae.DiscretizedLogistic(8),
}
IMAGE = (2, 7, 9)


def build(how, likelihood, condition=0):
    if how == "dense":
        return vae.dense(noise.key(0), IMAGE, latent=3, hidden=(6, 5), likelihood=likelihood, condition=condition)
    return vae.convolutional(noise.key(0), IMAGE, latent=3, channels=(4, 5), likelihood=likelihood, condition=condition)


@pytest.mark.parametrize("condition", [0, 2])
@pytest.mark.parametrize("how", ["dense", "convolutional"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_shapes_of_networks(name, how, condition):
    """Images of an odd size, each likelihood, with and without a condition: shapes alone, so nothing is compiled."""
    likelihood = LIKELIHOODS[name]
    model, encoder, nets = eqx.filter_eval_shape(lambda: build(how, likelihood, condition))
    model = replace(model, likelihood=likelihood)
    c = jnp.zeros((4, 2))[:, :condition]
    rows = (jnp.zeros((4, *IMAGE)), c) if condition else jnp.zeros((4, *IMAGE))

    def everything(weights):
        key, more = jax.random.split(noise.key(1))
        place = posteriors_of(model, encoder, weights, rows)
        z = place.draw(key, 6)
        one = (z[0, 0], c[0]) if condition else (z[0, 0],)
        many = (c,) if condition else ()
        found = model.generate(more, weights["decoder"], 4, *many)
        return place.q.mean, place.q.scale, model.decode(weights["decoder"], *one), place.log_weight(z), found

    mean, scale, output, log_w, found = (u.shape for u in jax.eval_shape(everything, nets))
    assert mean == scale == (4, 3)
    assert output == output_shape(likelihood, IMAGE)
    assert log_w == (4, 6)
    assert found == (4, *IMAGE)


def test_weights_begin_uniform_by_the_inputs_of_a_layer():
    nets = vae.dense(noise.key(4), (40,), latent=30, hidden=(50,))
    for net in (nets.weights["decoder"].net, nets.weights["encoder"].net):
        for layer in net.layers:
            far = 1 / math.sqrt(layer.weight.shape[0])
            for u in (layer.weight, layer.bias):
                assert 0.8 * far < float(jnp.abs(u).max()) <= far
            assert abs(z_of(np.ravel(layer.weight) ** 2, far**2 / 3)) < 5


def test_the_mean_image_is_where_the_decoder_begins():
    mean = np.linspace(0.0, 1.0, 6).reshape(2, 3)
    nets = vae.dense(noise.key(0), (2, 3), latent=2, hidden=(4,), mean=mean)
    bias = nets.weights["decoder"].net.layers[-1].bias
    np.testing.assert_allclose(jax.nn.sigmoid(bias), np.clip(mean.ravel(), 1e-3, 1 - 1e-3), rtol=1e-4)
    with pytest.raises(ValueError, match="`mean` is for Bernoulli; the likelihood is Gaussian"):
        vae.dense(noise.key(0), (2,), mean=np.ones(2), likelihood=vae.Gaussian())


def test_classes_of_a_convolution_stay_at_their_pixel():
    """The bias of the last convolution is a number for every channel and class, the same at all pixels."""
    nets = build("convolutional", vae.Categorical(3))
    last = lambda u: (u.layers[-1].weight, u.layers[-1].bias)
    theta = nets.weights["decoder"]
    theta = eqx.tree_at(last, theta, (jnp.zeros_like(last(theta)[0]), jnp.arange(6.0)))
    output = jax.jit(nets.model.decode)(theta, jnp.ones(3))
    np.testing.assert_array_equal(output, np.broadcast_to(np.arange(6.0).reshape(2, 1, 1, 3), (*IMAGE, 3)))


def test_convolutions_need_images():
    with pytest.raises(ValueError, match=r"it must be \(channel, height, width\)"):
        vae.convolutional(noise.key(0), (28, 28))
    with pytest.raises(ValueError, match="z needs 1 number or more"):
        vae.LatentModel(None, vae.Bernoulli(), 0)


class Told(eqx.Module):
    """A decoder that gives its condition back."""

    gain: jax.Array

    def __call__(self, z, c):
        return self.gain * c + jnp.sum(z) * 0


def test_conditions_reach_the_network_of_their_row(key):
    theta, program = eqx.partition(Told(jnp.ones(())), eqx.is_inexact_array)
    model = vae.LatentModel(program, vae.Gaussian(0.5), 2)
    c = jnp.arange(6.0).reshape(3, 2)
    generate = jax.jit(lambda key, mean: model.generate(key, theta, 3, c, mean=mean), static_argnums=1)
    np.testing.assert_array_equal(generate(key, True), c)
    assert 0 < float(jnp.abs(generate(jax.random.clone(key), False) - c).max()) < 3
    found = jax.jit(jax.vmap(model.log_likelihood, (None, 0, 0)))(theta, jnp.zeros((3, 2)), (c + 0.5, c))
    np.testing.assert_allclose(found, np.full(3, 2 * stats.norm.logpdf(0.5, 0, 0.5)), rtol=1e-6)


# --- training --------------------------------------------------------------------------------------------------------

ROWS = ppca(orthogonal=True).sample(jax.random.key(5), 200)[1]


def linear():
    """PPCA as a model to learn, begun away from the maximum."""
    start = vae.PPCA(0.3 * jnp.eye(5)[:, :2], jnp.zeros(5), 1.5)
    model, theta = start.as_latent()
    net = LinearEncoder(jnp.zeros((2, 5)), jnp.zeros(2), jnp.zeros(2))
    phi, program = eqx.partition(net, eqx.is_inexact_array)
    return model, vae.Encoder(program), {"decoder": theta, "encoder": phi}


MODEL, ENCODER, START = linear()


def aim(objective, data=ROWS, **how):
    return vae.Autoencoder(MODEL, ENCODER, objective, data, **how)


def stacked(start, n=2):
    return jax.tree.map(lambda u: jnp.broadcast_to(u, (n, *u.shape)), start)


def test_training_finds_the_maximum_of_the_likelihood(key):
    """The ELBO's maximum is PPCA's, for the encoder holds the exact posterior; two runs side by side."""
    target, start = aim(vi.ELBO(4), batch=50), stacked(START | {"objective": ()})
    found = train(key, target, start, steps=600, rate=3e-2, decay=0.98)
    best = vae.PPCA.fit(ROWS, 2)
    limit = float(best.log_prob(ROWS).mean())
    notes = np.asarray(found.notes)
    assert notes.shape == (2, 60)
    assert (notes[:, 0] < limit - 1.0).all()
    assert (np.abs(notes[:, -20:].mean(1) - limit) < 0.5).all()
    assert not np.array_equal(notes[0], notes[1])
    for i in range(2):
        model = vae.PPCA.of(found.of(i)["decoder"])
        assert limit - 0.05 < float(model.log_prob(ROWS).mean()) <= limit + 1e-4
        assert model.angle(best) < 0.1
        _, covariance = model.posterior(ROWS)
        scales = np.exp(np.asarray(found.of(i)["encoder"].log_scale))
        np.testing.assert_allclose(scales, np.sqrt(np.diag(covariance)), rtol=0.15)


@pytest.fixture(scope="module")
def adam():
    return optax.adam(1e-2)


def test_runs_of_the_loop_learn_what_the_objective_learns(key, adam):
    """Decoder, encoder and ψ move, in two chains with noise of their own; the bound rises."""
    k_init, k_run = jax.random.split(key)
    target = aim(vae.Annealed(2, draws=1, step_size=0.2, learn=("log_step",)), batch=50)
    start = START | {"objective": target.init(k_init)}
    out = run(k_run, Optimize(adam), target, stacked(start), draws=100, chunk=100)
    end = out.states.position
    for before, after in zip(jax.tree.leaves(start), jax.tree.leaves(end), strict=True):
        assert np.isfinite(after).all()
        assert np.abs(np.asarray(after) - np.asarray(before)).max() > 1e-3
    assert not np.allclose(end["decoder"].weight[0], end["decoder"].weight[1], atol=1e-5)
    values = np.asarray(out.info.log_density)
    assert (values[:, -20:].mean(1) - values[:, :5].mean(1)).min() > 0.5


def test_parts_of_a_batch_are_rows_of_it_with_noise_of_their_own(key):
    target = aim(vi.ELBO(), batch=20)
    k_start, k_draw, k_noise = jax.random.split(key, 3)
    batch, _ = target.draw(k_draw, target.start(k_start))
    parts = target.parts((k_noise, batch[1]), 4)
    assert [len(rows) for _, rows in parts] == [5] * 4
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in parts]), batch[1])
    evaluate = jax.jit(lambda batch: target.evaluate(batch, START | {"objective": ()}))
    assert [int(evaluate(part).n_data) for part in parts] == [5] * 4
    values = [np.asarray(evaluate(part).log_density) for part in target.parts(batch, 4)]
    assert len(set(map(float, values))) == 4


def test_the_density_of_all_examples_is_always_the_same(key):
    """And its value is that of the objective's mean over all rows, within the noise of a draw a row."""
    target, position = aim(vi.ELBO(200), batch=None), START | {"objective": ()}
    density = jax.jit(target.log_density)
    assert density(position) == density(position)
    q = vae.PPCA.of(START["decoder"])
    mean, covariance = q.posterior(ROWS)
    gap = 0.5 * (jnp.trace(jnp.linalg.inv(covariance)) + jnp.linalg.slogdet(covariance)[1] - 2)
    exact = q.log_prob(ROWS) - gap - 0.5 * jnp.sum(mean @ jnp.linalg.inv(covariance) * mean, axis=1)
    np.testing.assert_allclose(density(position), exact.mean(), atol=0.05)
    both = Sum((target, target), (1.0, 0.5))
    np.testing.assert_allclose(jax.jit(both.log_density)(position), 1.5 * density(position), rtol=1e-5)


def test_bits_are_drawn_anew(key):
    x = jnp.array([[0.0, 0.25, 1.0]])
    draws = np.asarray(jax.vmap(vae.binarize, (0, None))(jax.random.split(key, 4000), x))
    assert set(np.unique(draws)) == {0.0, 1.0}
    assert np.abs(z_of(draws, x)[0, 1]) < 5
    assert (draws[:, 0, 0] == 0).all()
    assert (draws[:, 0, 2] == 1).all()


def spoil(key, x):
    """Noise so large that the bound must fall."""
    return x + 100.0 * jax.random.normal(key, x.shape)


def test_batches_are_corrupted_before_the_bound(key):
    plain, corrupted = (aim(vi.ELBO(), batch=None, corrupt=how) for how in (None, spoil))
    value = lambda target: float(jax.jit(target.log_density)(START | {"objective": ()}))
    assert value(corrupted) < 10 * value(plain)


def test_chains_that_break_are_back_at_their_start(key):
    """A row of NaN breaks its own chains alone."""
    k_draw, k_move = jax.random.split(key)
    place = posteriors_of(MODEL, ENCODER, START, ROWS[:3].at[1].set(jnp.nan))
    q = Normal(jnp.zeros((3, 2)), jnp.ones((3, 2)))
    start = place._replace(q=q).draw(k_draw, 4)
    moved = jax.jit(lambda z: move(k_move, place._replace(q=q), SGLD(step_size=0.01), 5, z))(start)
    np.testing.assert_array_equal(moved.fine.all(1), [True, False, True])
    np.testing.assert_array_equal(moved.z[1], start[1])
    assert np.isfinite(moved.z).all()
    assert not np.allclose(moved.z[0], start[0])


def test_chains_end_in_the_posterior(key):
    k_draw, k_move = jax.random.split(key)
    place = posteriors_of(MODEL, ENCODER, START, ROWS[:3])
    start = place.draw(k_draw, 3000)
    moved = jax.jit(lambda z: move(k_move, place, USUAL, 12, z))(start)
    mean, covariance = vae.PPCA.of(START["decoder"]).posterior(ROWS[:3])
    apart = np.asarray(moved.z, np.float64) - np.asarray(mean)[:, None]
    for row in apart:
        assert np.abs(z_of(row, 0.0)).max() < 5
        assert np.abs(z_of(row[:, :, None] * row[:, None], covariance)).max() < 5
    assert 0.5 < float(moved.acceptance.mean()) <= 1


# --- what is refused -------------------------------------------------------------------------------------------------


def test_examples_that_are_refused():
    with pytest.raises(ValueError, match="2 of 200 examples have missing or infinite values, first example 3"):
        aim(vi.ELBO(), ROWS.at[3, 0].set(jnp.nan).at[7, 1].set(jnp.inf))
    with pytest.raises(ValueError, match="every value of `data` is zero"):
        aim(vi.ELBO(), jnp.zeros((100, 5)))
    with pytest.raises(ValueError, match="every value of `data` is zero"):
        aim(vi.ELBO(), np.zeros((100, 5), np.uint8))
    with pytest.raises(ValueError, match="no examples"):
        aim(vi.ELBO(), jnp.zeros((0, 5)))
    with pytest.raises(ValueError, match="examples; they must agree"):
        aim(vi.ELBO(), (ROWS, jnp.zeros((3, 2))))
    with pytest.raises(ValueError, match="examples; take 1 to 200"):
        aim(vi.ELBO(), batch=201)


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (vi.SteinELBO(), "the objective is SteinELBO; take ELBO, Renyi or IWAE"),
        (vi.BlackBoxAlpha(0.5), "the objective is BlackBoxAlpha; take"),
        (vae.Annealed, "Annealed"),
        (vi.Chi(), "the objective is Chi, which is no lower bound"),
    ],
    ids=["stein", "alpha", "class", "chi"],
)
def test_objectives_that_are_refused(objective, words):
    with pytest.raises(TypeError, match=words):
        aim(objective)
