"""Laplace approximations: exact on linear models, Gauss–Newton of every likelihood, tangents, evidence, refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from vi.checks import LIMIT, z_of

import langevin as lv
from langevin import vi
from langevin.core.kernel import innermost
from langevin.core.record import record, replace
from langevin.nets.bnn import NormalPrior, bnn
from langevin.nets.likelihood import Likelihood, Network
from langevin.nets.mlp import MLP
from langevin.targets.bayes import Bayes
from langevin.vi import curvature
from langevin.vi.laplace import inverse_root
from langevin.vi.marginal import best_scale

NOISE = 0.5


@record
class Linear:
    """y (n, 2) = x W + noise, with its outputs told apart."""

    def outputs(self, position, data):
        return data[0] @ position["w"]

    def given(self, out, data):
        return jnp.sum(-0.5 * ((data[1] - out) / NOISE) ** 2 - jnp.log(NOISE) - 0.5 * jnp.log(2 * jnp.pi), axis=1)

    def root(self, out, data):
        return jnp.broadcast_to(jnp.eye(2) / NOISE, (len(out), 2, 2))

    def __call__(self, position, data):
        return self.given(self.outputs(position, data), data)


def linear(position, data):
    return Linear()(position, data)


def regression(likelihood, scale=1.2):
    random = np.random.default_rng(0)
    x = random.standard_normal((30, 3)).astype(np.float32)
    y = (x @ random.standard_normal((3, 2)) + NOISE * random.standard_normal((30, 2))).astype(np.float32)
    return Bayes(NormalPrior({"w": jnp.asarray(scale)}), likelihood, (jnp.asarray(x), jnp.asarray(y)))


def exact(target, scale=1.2):
    """Mean and covariance of vec W, row by row, and log Z."""
    x, y = (np.asarray(u, np.float64) for u in target.data)
    design = np.kron(x, np.eye(2))
    precision = design.T @ design / NOISE**2 + np.eye(6) / scale**2
    mean = np.linalg.solve(precision, design.T @ y.reshape(-1)) / NOISE**2
    marginal = NOISE**2 * np.eye(60) + scale**2 * design @ design.T
    flat = y.reshape(-1)
    log_z = -0.5 * (flat @ np.linalg.solve(marginal, flat) + np.linalg.slogdet(2 * np.pi * marginal)[1])
    return mean, np.linalg.inv(precision), log_z


def fitted(how, target, start):
    kernel, _ = how(lv.key(0), vi.Independent(), target, start)
    return vi.Approximation(innermost(kernel).family, jax.tree.map(lambda u: u[0], innermost(kernel).params))


def covariance_of(q):
    flat, unravel = ravel_pytree(q.family.mean(q.params))
    return np.linalg.inv(-np.asarray(jax.hessian(lambda v: q.log_density(unravel(v)))(flat), np.float64))


@pytest.mark.parametrize("structure", ["full", "kronecker"])
def test_exact_on_linear_regression(structure):
    """With isotropic noise the curvature XᵀX ⊗ I is a Kronecker product, so both are exact."""
    target = regression(Linear())
    q = fitted(vi.Laplace(structure, newton=2), target, {"w": jnp.zeros((1, 3, 2))})
    mean, covariance, log_z = exact(target)
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((np.ravel(q.family.mean(q.params)["w"]) - mean) / sd).max() < 1e-3
    np.testing.assert_allclose(covariance_of(q) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=2e-3)
    np.testing.assert_allclose(vi.laplace_evidence(target, q), log_z, rtol=1e-4)


def test_diagonal_has_the_conditional_variances():
    target = regression(linear)  # a plain function: the Hessian itself
    q = fitted(vi.Laplace("diagonal", newton=2), target, {"w": jnp.zeros((1, 3, 2))})
    precision = np.linalg.inv(exact(target)[1])
    np.testing.assert_allclose(np.ravel(q.family.variance(q.params)["w"]), 1 / np.diag(precision), rtol=1e-3)


KINDS = {"gaussian": 1, "heteroscedastic": 2, "categorical": 3, "poisson": 1}


def drawn_y(kind, out, key):
    if kind == "categorical":
        return jax.random.categorical(key, out).astype(jnp.float32)
    if kind == "poisson":
        return jnp.asarray(np.random.default_rng(0).poisson(np.exp(out[:, 0])), jnp.float32)
    std = jnp.exp(out[:, 1]) if kind == "gaussian" else jax.nn.softplus(out[:, 1]) + 1e-3
    return out[:, 0] + std * jax.random.normal(key, (len(out),))


@pytest.mark.parametrize("kind", KINDS)
def test_root_is_that_of_the_fisher_information(kind, key):
    """E[s sᵀ] of the score s of outputs, over y drawn from the likelihood."""
    k_out, k_y = jax.random.split(key)
    likelihood = Likelihood(Network((), kind=kind))
    one = jax.random.normal(k_out, (1, KINDS[kind] + (kind == "gaussian"))) * 0.7
    out = jnp.broadcast_to(one, (20_000, one.shape[1]))
    y = drawn_y(kind, out, k_y)
    scores = jax.jit(jax.grad(lambda out: jnp.sum(likelihood.given(out, (None, y)))))(out)
    root = np.asarray(likelihood.root(one, (None, y[:1]))[0])
    outer = np.asarray(scores)[:, :, None] * np.asarray(scores)[:, None]
    z, null = z_of(outer, root @ root.T), np.abs(outer).max(axis=0) < 1e-6
    assert np.abs(np.where(null, 0, z)).max() < LIMIT


def test_outputs_and_given_are_the_likelihood(key):
    x, y = jnp.linspace(-1, 1, 12)[:, None], jnp.sin(jnp.linspace(-3, 3, 12))
    for kind, n in {"gaussian": 1, "heteroscedastic": 2, "negative_binomial": 2}.items():
        target = bnn(partial(MLP, (1, 4, n)), (x, jnp.round(jnp.abs(y) * 5)), kind=kind)
        likelihood, position = target.target.log_likelihood, target.position
        data = target.target.data
        given = likelihood.given(likelihood.outputs(position, data), data)
        np.testing.assert_allclose(given, likelihood(position, data), rtol=1e-5)
        k = likelihood.outputs(position, data).shape[1]
        assert likelihood.root(likelihood.outputs(position, data), data).shape == (12, k, k)


@pytest.fixture(scope="module")
def net():
    x = jnp.linspace(-1, 1, 20)[:, None]
    return bnn(partial(MLP, (1, 5, 1), activation=jnp.tanh), (x, jnp.sin(3 * x[:, 0])))


def test_last_layer_leaves_the_others(net):
    start = net.starts(lv.key(0), 2)
    how = vi.Laplace("full", part=("net.layers.1.*",))
    kernel, _ = how(lv.key(1), vi.Independent(), net.target, start)
    posterior = lv.sample(lv.key(2), kernel, net.target, start, draws=500)
    draws = posterior.draws["net"].layers
    assert np.ptp(draws[0].weight, axis=1).max() == 0.0
    one = jax.tree.map(lambda u: u[0], start)
    whole = fitted(vi.Laplace("full"), net.target, jax.tree.map(lambda u: u[:1], start))
    precision = np.linalg.inv(covariance_of(whole))
    names = lv.core.tree.names(one)
    sizes = [u.size for u in jax.tree.leaves(one)]
    mine = np.repeat([name.startswith("net.layers.1.") for name in names], sizes)
    covariance = np.linalg.inv(precision[np.ix_(mine, mine)])
    flat = np.concatenate([np.asarray(u)[0].reshape(500, -1) for u in jax.tree.leaves(draws[1])], axis=1)
    apart = flat - np.concatenate([np.ravel(u[0]) for u in jax.tree.leaves(start["net"].layers[1])])
    assert np.abs(z_of(apart[:, :, None] * apart[:, None], covariance)).max() < LIMIT


def test_linearized_draws_predict_by_the_tangent(net, key):
    start = net.starts(lv.key(0), 2)
    posterior = lv.sample(key, vi.Independent(linearized=True), net.target, start, draws=2000, tune=vi.Laplace("full"))
    x = jnp.array([[-0.7], [0.2], [2.0]])
    says = np.asarray(vi.linearized(posterior).predict(net.predict, x)["mean"])[1]
    q = vi.approximation(posterior, 1)
    flat, unravel = ravel_pytree(q.family.mean(q.params))
    outputs = lambda v: net.predict(unravel(v), x)["mean"]
    jacobian = np.asarray(jax.jacobian(outputs)(flat), np.float64)
    assert np.abs(z_of(says, outputs(flat))).max() < LIMIT
    apart = says - np.asarray(outputs(flat))
    expected = jacobian @ covariance_of(q) @ jacobian.T
    assert np.abs(z_of(apart[:, :, None] * apart[:, None], expected)).max() < LIMIT


def test_the_scale_of_largest_evidence():
    random = np.random.default_rng(3)
    root = random.standard_normal((5, 4))
    G, m = root @ root.T * 4, 0.4 * random.standard_normal(5)
    found = float(best_scale(jnp.asarray(np.linalg.eigvalsh(G), jnp.float32), jnp.asarray((m**2).sum(), jnp.float32)))
    c = np.exp(np.linspace(-4, 4, 2001))
    log_z = [-0.5 * (m**2).sum() / v**2 - 5 * np.log(v) - 0.5 * np.linalg.slogdet(G + np.eye(5) / v**2)[1] for v in c]
    assert abs(np.log(found / c[np.argmax(log_z)])) < 0.03


@record
class Learned:
    """A model linear in w, with log σ beside it; the noise is told apart as nets' likelihoods do."""

    learns_noise = True

    def scale_noise(self, position, factor):
        return {**position, "log_noise": position["log_noise"] + jnp.log(factor)}

    def outputs(self, position, data):
        mean = data[0] @ position["w"]
        return jnp.stack([mean, jnp.broadcast_to(position["log_noise"], mean.shape)], axis=1)

    def given(self, out, data):
        return -0.5 * ((data[1] - out[:, 0]) / jnp.exp(out[:, 1])) ** 2 - out[:, 1] - 0.5 * jnp.log(2 * jnp.pi)

    def root(self, out, data):
        return jax.vmap(jnp.diag)(jnp.stack([jnp.exp(-out[:, 1]), jnp.full(len(out), 2**0.5)], axis=1))

    def __call__(self, position, data):
        return self.given(self.outputs(position, data), data)


@pytest.mark.parametrize("structure", ["full", "kronecker", "diagonal"])
def test_the_noise_of_largest_evidence(structure):
    """Orthogonal inputs, 20 rows and 8 weights: the exact optimum of log p(y | σ) at the fitted weights' curvature."""
    random = np.random.default_rng(1)
    x = np.linalg.qr(random.standard_normal((20, 8)))[0] * 4.0
    y = x @ random.standard_normal(8) + 0.5 * random.standard_normal(20)
    scales = {"w": jnp.asarray(3.0), "log_noise": jnp.asarray(10.0)}
    target = Bayes(NormalPrior(scales), Learned(), (jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)))
    w = np.linalg.solve(x.T @ x, x.T @ y)
    square = np.sum((y - x @ w) ** 2)
    at = {"w": jnp.asarray(w, jnp.float32)[None], "log_noise": jnp.asarray([0.5 * np.log(square / 20)], jnp.float32)}
    q = fitted(vi.Laplace(structure, noise="evidence"), target, at)
    sigma = np.exp(np.linspace(-3, 1, 4001))
    log_z = [
        -0.5 * square / s**2 - 20 * np.log(s) - 0.5 * np.log(s) ** 2 / 100 - 4 * np.log1p(9.0 * 16.0 / s**2)
        for s in sigma
    ]
    found = float(q.family.mean(q.params)["log_noise"])
    assert abs(found - np.log(sigma[np.argmax(log_z)])) < 0.011
    assert abs(found - 0.5 * np.log(square / 12)) < 0.05  # σ² = residuals/(n − γ)


def test_noise_by_evidence_with_the_prior_and_a_part(net):
    """σ is held where the last layer alone is fitted, and is scaled all the same."""
    start = net.starts(lv.key(0), 2)
    how = vi.Laplace("diagonal", part=("net.layers.1.*",), prior="evidence", noise="evidence")
    q = fitted(how, net.target, start)
    found = float(q.family.mean(q.params)["log_noise"])
    given = float(start["log_noise"][0])
    position = jax.tree.map(lambda u: u[0], start)
    assert found > given  # nothing is fitted yet: the net's residuals are wider
    density = lambda at: float(net.target.log_density({**position, "log_noise": jnp.asarray(at)}))
    assert density(found) > density(given)
    likelihood = replace(net.target.log_likelihood, network=replace(net.target.log_likelihood.network, noise=0.1))
    with pytest.raises(TypeError, match="needs a likelihood with one σ that is learned"):
        vi.Laplace(noise="evidence")(lv.key(0), vi.Independent(), replace(net.target, log_likelihood=likelihood), start)


def test_inverse_root(key):
    a = jax.random.normal(key, (4, 4))
    precision = a @ a.T + 4 * jnp.eye(4)
    low = inverse_root(precision)
    np.testing.assert_allclose(low @ low.T @ precision, jnp.eye(4), atol=1e-5)
    np.testing.assert_array_equal(low, jnp.tril(low))


def test_sums_run_in_blocks(net, monkeypatch):
    """The same for any number of examples at once, the last block among them."""
    whole = curvature.of_data(net.target, net.position, dense=True)
    monkeypatch.setattr(curvature, "NUMBERS", 2 * 17 * 7)
    np.testing.assert_allclose(curvature.of_data(net.target, net.position, dense=True), whole, rtol=1e-4, atol=1e-4)


def test_refusals(net):
    start = net.starts(lv.key(0), 1)
    with pytest.raises(TypeError, match="'kronecker' needs a likelihood with outputs"):
        vi.Laplace("kronecker")(lv.key(0), vi.Independent(), regression(linear), {"w": jnp.zeros((1, 3, 2))})
    with pytest.raises(ValueError, match="there are diagonal, kronecker, full"):
        vi.Laplace("block")
    with pytest.raises(TypeError, match="the kernel is SGLD"):
        vi.Laplace()(lv.key(0), lv.SGLD(0.1), net.target, start)
    with pytest.raises(ValueError, match="no array matches"):
        vi.Laplace("full", part=("net.layers.9.*",))(lv.key(0), vi.Independent(), net.target, start)
    target = replace(regression(Linear()), log_prior=tied)
    with pytest.raises(ValueError, match="the prior correlates coordinates"):
        vi.Laplace("diagonal")(lv.key(0), vi.Independent(), target, {"w": jnp.zeros((1, 3, 2))})
    target = replace(regression(Linear()), log_prior=rising)
    with pytest.raises(ValueError, match="curvature is not positive in 1 of 1 chains"):
        vi.Laplace("full")(lv.key(0), vi.Independent(), target, {"w": jnp.zeros((1, 3, 2))})


def tied(position):
    return -0.5 * jnp.sum(position["w"]) ** 2


def rising(position):
    return 500.0 * jnp.sum(position["w"] ** 2)


# --- mutants --------------------------------------------------------------------------------------------------------


@record
class Unrooted(Linear):
    """The information in place of its root."""

    def root(self, out, data):
        return jnp.broadcast_to(jnp.eye(2) / NOISE**2, (len(out), 2, 2))


@record
class Halved(Likelihood):
    """Half of the Fisher information."""

    def root(self, out, data):
        return super().root(out, data) * 0.5**0.5


def test_mutants_are_caught(monkeypatch, key):
    monkeypatch.setitem(globals(), "Linear", Unrooted)
    with pytest.raises(AssertionError):
        test_exact_on_linear_regression("full")
    monkeypatch.setitem(globals(), "Likelihood", Halved)
    with pytest.raises(AssertionError):
        test_root_is_that_of_the_fisher_information("heteroscedastic", key)


@pytest.mark.slow
def test_a_basis_turned_the_wrong_way_is_caught(monkeypatch):
    kept = curvature.in_basis
    monkeypatch.setattr(curvature, "in_basis", lambda t, p, bases: kept(t, p, [(a.T, b) for a, b in bases]))
    jax.clear_caches()
    with pytest.raises(AssertionError):
        test_exact_on_linear_regression("kronecker")
    jax.clear_caches()
