"""Priors of networks: densities against their own draws and SciPy's, samplers against weighted draws of the prior."""

import copy
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fits import Regressor, rows
from jax.flatten_util import ravel_pytree
from quick import only
from scipy import integrate, stats

import langevin as lv
from langevin import vi
from langevin.core import tree
from langevin.core.record import record, replace
from langevin.nets.bnn import bnn
from langevin.nets.priors import (
    PRIORS,
    GatedPrior,
    HierarchicalPrior,
    HorseshoePrior,
    LaplacePrior,
    NormalPrior,
    RegularizedHorseshoePrior,
    SpikeAndSlabPrior,
    SquaredExponential,
    StudentTPrior,
    distance_to_gp,
    fit_to_gp,
    prior_of,
)
from langevin.nets.priors.half_cauchy import log_gamma_of, log_half_cauchy, logit_uniform, of_half_cauchy
from langevin.nets.priors.layout import Layout
from langevin.nets.priors.prior import PerWeight
from langevin.tune.fisher import precision

random = np.random.default_rng(0)
X = random.normal(size=(6, 2)).astype(np.float32)
Y = np.sin(2 * X[:, 0]).astype(np.float32)
LEVELS = np.array([0.02, 0.2, 0.5, 0.8, 0.98])
SETTINGS = dict(PRIORS) | {
    "half_cauchy": HierarchicalPrior(1.0, 0.5, hyper="half_cauchy"),
    "by_unit": HorseshoePrior("fan_in", group="unit"),
    "by_weight": RegularizedHorseshoePrior(group="weight", df=2),
}
CENTERED = [name for name, prior in SETTINGS.items() if not prior.adds]
ADDING = [name for name, prior in SETTINGS.items() if prior.adds]


def model(prior, **options):
    return bnn(partial(lv.MLP, (2, 3, 1), activation=jnp.tanh), (X, Y), prior=prior, **dict(noise=0.5) | options)


def check_law(values, law):
    """As many values below each of a law's quantiles as there should be."""
    values = np.asarray(values, np.float64).ravel()
    below = (values[:, None] < law.ppf(LEVELS)).mean(0)
    z = (below - LEVELS) / np.sqrt(LEVELS * (1 - LEVELS) / len(values))
    assert np.abs(z).max() < 5, z


# --- scales as functions of normals -------------------------------------------------------------------------------


def test_scales_have_the_laws_they_are_named_for(key):
    z = jax.random.normal(key, (4, 20_000))
    check_law(jnp.exp(log_half_cauchy(z[0])), stats.halfcauchy)
    check_law(jnp.exp(log_gamma_of(z[:2])), stats.gamma(2))
    check_law(logit_uniform(z[3]), stats.logistic)


def test_half_cauchy_far_out():
    """By SciPy in float64; the gradient is finite, positive and symmetric, at 0 too."""
    z = np.array([-9.0, -4.0, -1.0, 0.0, 0.5, 3.0, 9.0])
    exact = np.where(z < 0, 1, -1) * np.log(np.tan(np.pi / 2 * stats.norm.cdf(-np.abs(z))))
    np.testing.assert_allclose(log_half_cauchy(jnp.asarray(z)), exact, rtol=2e-5, atol=1e-6)
    slope = np.asarray(jax.vmap(jax.grad(log_half_cauchy))(jnp.asarray(z)))
    numeric = lambda u: stats.halfcauchy.ppf(stats.norm.cdf(u + 1e-4)) / stats.halfcauchy.ppf(stats.norm.cdf(u - 1e-4))
    np.testing.assert_allclose(slope[2:5], np.log(numeric(z[2:5])) / 2e-4, rtol=1e-3)
    assert (slope > 0).all()
    np.testing.assert_allclose(slope[0], slope[-1], rtol=1e-5)
    np.testing.assert_allclose(of_half_cauchy(jnp.exp(log_half_cauchy(jnp.asarray(z[2:5])))), z[2:5], atol=1e-4)


def test_regularized_horseshoe_is_its_definition(key):
    """λ̃ and c² of the paper, written down once more."""
    m = model(RegularizedHorseshoePrior(1.5, shrinkage=0.3, slab=2.0, group="weight"))
    at = jax.tree.map(lambda u: u[0], m.prior_draws(key, 1))
    name, extra = "layers.0.weight", at["prior"]
    tau, local = (np.exp(np.asarray(log_half_cauchy(extra[k][name]), np.float64)) for k in ("global", "local"))
    tau, c2 = 0.3 * tau, 4.0 * 2 / np.exp(np.asarray(log_gamma_of(extra["slab"][name]), np.float64))
    shrunk = np.sqrt(c2 * local**2 / (c2 + tau**2 * local**2))
    expected = 1.5 * tau * shrunk * np.asarray(at["net"].layers[0].weight)
    np.testing.assert_allclose(m.weights(at).layers[0].weight, expected, rtol=1e-4)
    many = m.prior_draws(jax.random.clone(key), 20_000)["prior"]["slab"][name]
    check_law(8.0 / jnp.exp(log_gamma_of(many.T)), stats.invgamma(2, scale=8.0))


def test_gates_are_bernoulli_where_they_are_hard(key):
    m = model(GatedPrior(2.0, spike=0.1, share=0.3, relaxation=1e-3))
    draws = m.prior_draws(key, 20_000)
    scale = np.asarray(jax.vmap(m.weights)(draws).layers[0].weight / draws["net"].layers[0].weight)
    on = np.abs(scale - 2.0) < 0.01
    assert (on | (np.abs(scale - 0.2) < 0.01)).mean() > 0.995
    assert np.abs((on[:, :, 0].mean(0) - 0.3) / np.sqrt(0.21 / 20_000)).max() < 5


def test_groups_share_a_scale():
    """Of a matrix (in, out) inputs are rows; where the net's first axis counts units they are columns."""
    flat = Layout(("w",), ((4, 3),))
    assert flat.groups("input") == {"w": (4, 1)}
    assert flat.groups("unit") == {"w": (1, 3)}
    assert flat.groups("weight") == {"w": (4, 3)}
    other = flat._replace(output_axis=0)
    assert (other.groups("input"), other.groups("unit")) == ({"w": (1, 3)}, {"w": (4, 1)})
    assert Layout(("k",), ((8, 3, 5, 5),)).groups("unit") == {"k": (8, 1, 1, 1)}


# --- densities ------------------------------------------------------------------------------------------------------

ONE = {
    "laplace": (LaplacePrior(0.7), stats.laplace(0, 0.7)),
    "student_t": (StudentTPrior(0.7, df=3.0), stats.t(3, 0, 0.7)),
}


@pytest.mark.parametrize("name", ONE)
def test_weights_have_scipys_density_and_law(name, key):
    prior, law = ONE[name]
    w = jnp.linspace(-4, 4, 41)
    np.testing.assert_allclose(prior.log_prob(w, jnp.asarray(0.7)), law.logpdf(np.asarray(w)), rtol=1e-4, atol=1e-5)
    m = model(prior)
    check_law(m.prior_draws(key, 8000)["net"].layers[0].weight, law)


class Flat(LaplacePrior):
    """Wrong: its density is not normalized."""

    def log_prob(self, w, s):
        return -jnp.abs(w) / s


@pytest.mark.parametrize("prior", [LaplacePrior(0.7), StudentTPrior(0.7), SpikeAndSlabPrior(0.7, 0.1, 0.3)], ids=repr)
def test_densities_are_normalized(prior):
    assert mass(prior) == pytest.approx(1, abs=2e-3)


def mass(prior):
    w = jnp.concatenate([-jnp.logspace(3, -5, 4000), jnp.logspace(-5, 3, 4000)])
    return float(integrate.trapezoid(np.exp(np.asarray(prior.log_prob(w, jnp.asarray(0.7)))), np.asarray(w)))


def test_a_density_that_is_not_normalized_is_seen():
    assert mass(Flat(0.7)) > 1.3


def test_spike_and_slab_is_a_mixture(key):
    prior = SpikeAndSlabPrior(0.7, spike=0.1, share=0.3)
    w = np.linspace(-2, 2, 21)
    parts = [0.3 * stats.norm.pdf(w, 0, 0.7), 0.7 * stats.norm.pdf(w, 0, 0.07)]
    np.testing.assert_allclose(
        prior.log_prob(jnp.asarray(w), jnp.asarray(0.7)), np.log(sum(parts)), rtol=1e-4, atol=1e-5
    )
    weighed = (parts[0] / 0.7**2 + parts[1] / 0.07**2) / sum(parts)
    np.testing.assert_allclose(prior.curvature(jnp.asarray(w), jnp.asarray(0.7)), weighed, rtol=1e-4)
    drawn = np.asarray(model(prior).prior_draws(key, 8000)["net"].layers[0].weight).ravel()
    share = (np.abs(drawn) > 0.3).mean()
    expected = 2 * (0.3 * stats.norm.sf(0.3 / 0.7) + 0.7 * stats.norm.sf(0.3 / 0.07))
    assert abs(share - expected) < 5 * np.sqrt(expected / len(drawn))


@pytest.mark.parametrize("name", only(["regularized_horseshoe"], SETTINGS))
def test_a_draw_is_a_position(name, key):
    """The same tree, with a density, and a position is found for weights that are given."""
    m = model(SETTINGS[name], noise=None)
    draws = m.prior_draws(key, 3)
    one = jax.tree.map(lambda u: u[0], draws)
    assert jax.tree.structure(one) == jax.tree.structure(m.position)
    assert [u.shape for u in jax.tree.leaves(one)] == [u.shape for u in jax.tree.leaves(m.position)]
    assert ("prior" in one) == SETTINGS[name].adds
    value, grad = jax.value_and_grad(m.target.log_density)(one)
    assert np.isfinite(value)
    assert bool(tree.finite(grad))
    net = lv.MLP((2, 3, 1), jax.random.key(4))
    placed = m.prior.place({"net": net, "log_noise": jnp.zeros(())})
    for found, given in zip(jax.tree.leaves(m.weights(placed)), jax.tree.leaves(net), strict=True):
        np.testing.assert_allclose(found, given, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", only(["fan_in", "student_t"], SETTINGS))
def test_precision_is_that_of_a_normal_or_of_a_scale_mixture(name):
    m = model(SETTINGS[name])
    found = np.asarray(precision(m.target, m.position))
    assert (found > 0).all()
    if not isinstance(m.prior, PerWeight):
        grad = jax.grad(lambda v: m.prior(ravel_pytree(m.position)[1](v)))
        flat = ravel_pytree(m.position)[0]
        np.testing.assert_allclose(found, -jnp.diagonal(jax.jacfwd(grad)(flat)), rtol=1e-5)


def test_student_t_precision_is_the_mean_over_its_scales():
    """E[1/λ² | w] of N(0, λ²) with ν/λ² ~ χ²_ν, by quadrature."""
    prior, v = StudentTPrior(1.0, df=3.0), 3.0
    for w in (0.1, 2.0):
        given = lambda p, w=w: stats.chi2.pdf(p * v, v) * v * np.sqrt(p) * np.exp(-0.5 * p * w**2)
        up = integrate.quad(lambda p, g=given: p * g(p), 0, np.inf)[0]
        exact = up / integrate.quad(given, 0, np.inf)[0]
        assert float(prior.curvature(jnp.asarray(w), jnp.asarray(1.0))) == pytest.approx(exact, rel=1e-4)


# --- closed forms for variational inference -----------------------------------------------------------------------


@pytest.mark.parametrize("prior", [NormalPrior(0.6), pytest.param(HorseshoePrior(0.6), marks=pytest.mark.slow)])
def test_the_mean_of_the_log_prior_is_that_over_draws(prior, key):
    """Value, and through `Variational` the gradient: with one key the two ways differ by the prior's noise alone."""
    m = model(prior)
    k_params, k_draw, k_grad = jax.random.split(key, 3)
    family = vi.MeanField(0.4)
    flat, unravel = ravel_pytree(family.init(k_params, m.position))
    params = unravel(flat + 0.1)
    q = vi.Approximation(family, params)
    exact = m.prior.expected(family.mean(params), family.variance(params))
    values = np.asarray(jax.vmap(m.prior)(q.exact(k_draw, 4000)), np.float64)
    assert abs(values.mean() - exact) < 5 * values.std() / np.sqrt(4000)
    aim = vi.Variational(m.target, family, vi.ELBO())
    assert aim.closed
    assert aim._knows_prior()
    slow = vi.Variational(replace(m.target, log_prior=Opaque(m.prior)), family, vi.ELBO())
    assert not slow._knows_prior()
    with jax.debug_key_reuse(False):
        both = lambda aim: jax.vmap(lambda k: ravel_pytree(aim.evaluate((k, m.target.data), params).grad)[0])
        keys = jax.random.split(k_grad, 2000)
        apart = np.asarray(jax.jit(both(aim))(keys) - jax.jit(both(slow))(keys), np.float64)
    error = np.maximum(apart.std(0) / np.sqrt(2000), 1e-3)
    assert np.abs(apart.mean(0) / error).max() < 5


@record
class Opaque:
    """A prior whose closed form is hidden."""

    prior: object

    def __call__(self, position):
        return self.prior(position)


# --- samplers -------------------------------------------------------------------------------------------------------


def summary(m, position):
    """A few bounded numbers of a position: predictions, and how many weights are large."""
    at = jnp.array([[0.0, 0.0], [1.0, -1.0], [3.0, 0.5]])
    weights = jnp.abs(ravel_pytree(m.weights(position))[0])
    return jnp.concatenate([jnp.tanh(m.predict(position, at)["mean"]), jnp.tanh(weights).mean(keepdims=True)])


@pytest.mark.parametrize("name", only(["student_t"], SETTINGS))
def test_hamiltonian_chains_have_the_moments_of_weighted_prior_draws(name, key):
    """Draws of the prior weighed by the likelihood are the posterior: draws, density, gradient and weights agree."""
    check_posterior(model(SETTINGS[name], noise=1.0), key)


def check_posterior(m, key):
    k_prior, k_run = jax.random.split(key)
    draws = m.prior_draws(k_prior, 20_000)
    log_w = np.asarray(jax.jit(jax.vmap(lambda u: m.target.likelihood(u, m.target.data).sum()))(draws), np.float64)
    seen = np.asarray(jax.jit(jax.vmap(partial(summary, m)))(draws), np.float64)
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    expected = w @ seen
    error = np.sqrt(w**2 @ (seen - expected) ** 2)
    starts = jax.tree.map(lambda u: u[np.random.default_rng(1).choice(20_000, 100, p=w)], draws)
    posterior = lv.sample(k_run, lv.HMC(0.1, n_leapfrog=8), m.target, starts, draws=100, thin=3, chunk=100)
    found = np.asarray(jax.jit(jax.vmap(jax.vmap(partial(summary, m))))(posterior.draws), np.float64).mean(1)
    total = np.sqrt(error**2 + found.var(0, ddof=1) / len(found))
    z = (found.mean(0) - expected) / total
    assert np.abs(z).max() < 5, f"z {z}"
    assert total.max() < 0.05


class Narrow(StudentTPrior):
    """Wrong: its draws are too narrow for its density."""

    def sample_weight(self, key, shape, s):
        return 0.6 * s * jax.random.t(key, self.df, shape)


def test_draws_of_another_law_than_the_density_are_seen(key):
    wrong = record(type("Wrong", (Narrow,), {"__annotations__": {}}))
    with pytest.raises(AssertionError, match="z "):
        check_posterior(model(wrong(), noise=1.0), key)


def test_the_horseshoe_finds_the_weights_that_matter(key):
    """3 of 15 inputs matter: the others are shrunk further than by normals, those that matter less."""
    draw = np.random.default_rng(3)
    x = draw.normal(size=(30, 15)).astype(np.float32)
    truth = np.zeros(15)
    truth[[2, 7, 11]] = 2.0, -1.5, 3.0
    y = (x @ truth + draw.normal(size=30)).astype(np.float32)
    found = {}
    for name, prior in dict(normal=1.0, horseshoe=HorseshoePrior(shrinkage=0.1)).items():
        m = bnn(partial(lv.MLP, (15, 1)), (x, y), prior=prior, noise=1.0)
        k_start, k_run = jax.random.split(jax.random.clone(key))
        posterior = lv.sample(k_run, lv.HMC(0.05, n_leapfrog=20), m.target, m.starts(k_start, 4), draws=150, warmup=100)
        weights = jax.vmap(jax.vmap(m.weights))(posterior.draws).layers[0].weight
        found[name] = np.asarray(weights)[..., 0].reshape(-1, 15)
    size = {name: np.sqrt((w[:, truth == 0] ** 2).mean()) for name, w in found.items()}
    assert size["horseshoe"] < 0.6 * size["normal"]
    there = np.abs(np.median(found["horseshoe"], axis=0))
    assert there[truth != 0].min() > 2 * there[truth == 0].max()
    error = {name: np.abs(w.mean(0) - truth).mean() for name, w in found.items()}
    assert error["horseshoe"] < error["normal"]


# --- a Gaussian process ---------------------------------------------------------------------------------------------


def test_scales_fitted_to_a_gaussian_process_bring_functions_nearer(key):
    x = np.linspace(-2, 2, 40, dtype=np.float32)[:, None]
    held = np.random.default_rng(0).uniform(-2, 2, (30, 1)).astype(np.float32)
    build = partial(lv.MLP, (1, 20, 1), activation=jnp.tanh)
    covariance = SquaredExponential(amplitude=1.5, length=1.0)
    k_fit, k_before, k_after = jax.random.split(key, 3)
    before = bnn(build, (x, x[:, 0]), prior=1.0)
    prior = fit_to_gp(k_fit, before, x, covariance, steps=250, rate=0.05, draws=100, points=5)
    assert set(prior.scale) == {f"layers.{i}.{part}" for i in (0, 1) for part in ("weight", "bias")}
    after = bnn(build, (x, x[:, 0]), prior=prior)
    how = dict(draws=400, points=5, sets=30)
    far, far_error = distance_to_gp(k_before, before, held, covariance, **how)
    near, near_error = distance_to_gp(k_after, after, held, covariance, **how)
    assert far - near > 5 * np.hypot(far_error, near_error)
    assert near < 0.1 * far
    f = jax.vmap(lambda u: after.predict(u, held[:1])["mean"])(after.prior_draws(jax.random.clone(k_fit), 4000))
    assert 1.2 < float(f.std()) < 1.8


# --- estimators and names -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_estimator_with_a_prior_is_saved_and_loaded(tmp_path):
    X, y = rows()
    fitted = Regressor(prior="regularized_horseshoe").fit(X, y)
    assert "prior" in fitted.posterior_.draws
    fitted.save(tmp_path / "fit")
    again = lv.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    own = copy.deepcopy(fitted.set_params(prior=HorseshoePrior(shrinkage=0.3)))
    assert repr(own.get_params()["prior"]) == repr(HorseshoePrior(shrinkage=0.3))
    target, base = own.target(X, y)
    one = jax.tree.map(lambda u: u[0], base.exact(lv.key(0), 2))
    assert np.isfinite(target.log_density(one))
    np.testing.assert_allclose(base.log_density(one), target.prior(one), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: model("wide"), "prior is 'wide'; it must be a number, 'fan_in', a dict of path patterns"),
        (lambda: model(HorseshoePrior), "prior is HorseshoePrior, a class; it must be"),
        (lambda: model(None), "prior is None"),
        (lambda: model(HorseshoePrior({"layers.0.*": 1.0})), "no pattern of `prior` matches the parameter 'layers.1"),
        (lambda: model(LaplacePrior(-1.0)), "standard deviation -1; it must be positive"),
        (lambda: HorseshoePrior(group="layer"), "group is 'layer'; it must be one of input, unit, weight"),
        (lambda: RegularizedHorseshoePrior(df=3), "df is 3; it must be an even number"),
        (lambda: SpikeAndSlabPrior(share=1.5), "share is 1.5; it must be above 0 and below 1"),
        (lambda: HierarchicalPrior(hyper="gamma"), "hyper is 'gamma'"),
        (lambda: HorseshoePrior().sample(lv.key(0)), "it knows no net yet"),
        (lambda: fit_to_gp(lv.key(0), model(1.0), X, SquaredExponential(), points=9), "points is 9, but there are 6"),
        (lambda: Regressor(prior="narrow").fit(*rows()), "prior is 'narrow'; it must be a number"),
    ],
)
def test_mistakes_get_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_prior_says_what_it_is():
    assert "prior: Horseshoe, scale 1, shrinkage 0.1, group input" in repr(model("horseshoe"))
    assert "prior: normal, standard deviation 0.5 to 2" in repr(model({"layers.0.*": 2.0, "*": 0.5}))
    assert prior_of(0.3).scale == pytest.approx(0.3)
