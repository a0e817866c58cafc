"""Objectives: coefficients give the gradients of autodiff, estimators have the means they claim, bounds are ordered."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from vi.checks import POSITION, Bowl, check_gradient, check_same_mean, gradients, params_of, z_of

from langevin import vi
from langevin.core.record import record
from langevin.core.target import Derived
from langevin.nets.bnn import NormalPrior
from langevin.targets.bayes import Bayes
from langevin.vi.families.full_rank import factored
from langevin.vi.objectives.base import Terms, renyi
from langevin.vi.objectives.stein_elbo import scores
from langevin.vi.variational import Variational

FAMILY, MIXED = vi.MeanField(0.4), vi.Mixture(vi.MeanField(0.4), components=2, apart=0.3)


def power(s):
    """(1/s) log Σ share w^s."""
    return lambda log_w, share: jax.nn.logsumexp(s * log_w, b=share) / s


def mean(log_w, share):
    return jnp.sum(share * log_w)


VALUES: dict[str, tuple[Any, Any]] = {
    "elbo": (vi.ELBO(draws=3, analytic=False), mean),
    "renyi": (vi.Renyi(0.4, draws=4), power(0.6)),
    "renyi-1": (vi.Renyi(1.0, draws=4), mean),
    "renyi-2": (vi.Renyi(2.0, draws=4), power(-1.0)),
    "iwae": (vi.IWAE(draws=4, estimator="reparameterization"), power(1.0)),
    "chi": (vi.Chi(2.0, draws=4, estimator="reparameterization"), lambda log_w, share: -power(2.0)(log_w, share)),
}


@pytest.mark.parametrize("name", VALUES)
def test_coefficients_are_the_gradient(name, key):
    objective, value = VALUES[name]
    check_gradient(objective, FAMILY, key, value)


@pytest.mark.parametrize("name", ["elbo", "renyi"])
def test_coefficients_of_a_mixture(name, key):
    objective, value = VALUES[name]
    check_gradient(objective, MIXED, key, value)


# --- estimators ----------------------------------------------------------------------------------------------


def aim(objective, family=FAMILY):
    return Variational(Bowl(), family, objective)


UNBIASED = {
    "iwae-dreg": (vi.IWAE(draws=5), vi.IWAE(draws=5, estimator="reparameterization")),
    "renyi-dreg": (vi.Renyi(0.3, draws=5, estimator="dreg"), vi.Renyi(0.3, draws=5)),
    "chi-dreg": (vi.Chi(1.5, draws=5), vi.Chi(1.5, draws=5, estimator="reparameterization")),
    "elbo-stl": (vi.ELBO(draws=1, estimator="stl"), vi.ELBO(draws=1, analytic=False)),
    "elbo-analytic": (vi.ELBO(draws=1), vi.ELBO(draws=1, analytic=False)),
}


@pytest.mark.parametrize("name", UNBIASED)
def test_estimators_have_the_mean_of_the_total_derivative(name, key):
    k_params, k_draw = jax.random.split(key)
    a, b = UNBIASED[name]
    check_same_mean(aim(a), aim(b), params_of(FAMILY, k_params), k_draw)


def test_sticking_the_landing_is_biased_for_several_draws(key):
    k_params, k_draw = jax.random.split(key)
    params = params_of(FAMILY, k_params)
    with pytest.raises(AssertionError):
        check_same_mean(
            aim(vi.IWAE(draws=5, estimator="stl")),
            aim(vi.IWAE(draws=5, estimator="reparameterization")),
            params,
            k_draw,
        )


def test_sticking_the_landing_has_no_noise_at_the_optimum(key):
    """Where q is p, each gradient is zero; the total derivative's is not."""
    family = vi.MeanField(0.4)
    params = params_of(family, key)
    q = vi.Approximation(family, params)
    found = {
        e: gradients(Variational(q, family, vi.ELBO(estimator=e, analytic=False)), params, jax.random.key(0), 50)
        for e in ("stl", "reparameterization")
    }
    assert np.abs(found["stl"]).max() < 1e-4
    assert np.abs(found["reparameterization"]).max() > 0.1


def test_dreg_has_less_noise_near_the_optimum(key):
    k_params, k_a, k_b = jax.random.split(key, 3)
    q = vi.Approximation(FAMILY, params_of(FAMILY, k_params))
    near = jax.tree.map(lambda u: u + 0.05, q.params)

    def noise(estimator, key):
        return float(gradients(Variational(q, FAMILY, vi.IWAE(20, estimator=estimator)), near, key, 400).var(0).sum())

    assert noise("dreg", k_a) < 0.1 * noise("reparameterization", k_b)


# --- mini-batches --------------------------------------------------------------------------------------------------


def log_likelihood(position, data):
    x, y = data
    return -0.5 * (y - jnp.tanh(x @ position["w"]) @ position["b"]) ** 2


@pytest.fixture(scope="module")
def bayes():
    k_x, k_y = jax.random.split(jax.random.key(3))
    data = jax.random.normal(k_x, (12, 3)), jax.random.normal(k_y, (12,))
    return Bayes(NormalPrior(jax.tree.map(lambda u: jnp.asarray(0.8), POSITION)), log_likelihood, data)


SCALED = {
    "elbo": vi.ELBO(),
    "elbo, not analytic": vi.ELBO(analytic=False),
    "elbo, 3 draws": vi.ELBO(draws=3),
    "bb-alpha": vi.BlackBoxAlpha(0.5, draws=3),
}


@pytest.mark.parametrize("name", SCALED)
def test_batches_are_scaled_to_all_data(name, bayes, key):
    """With one key for the draws, the mean over all batches of 4 is the value and the gradient on all 12."""
    k_params, k_noise = jax.random.split(key)
    params = params_of(FAMILY, k_params)
    aim = Variational(bayes, FAMILY, SCALED[name])
    with jax.debug_key_reuse(False):
        evaluate = jax.jit(lambda rows: aim.evaluate((k_noise, rows), params))
        whole = evaluate(bayes.data)
        parts = [evaluate(jax.tree.map(lambda u, i=i: u[4 * i : 4 * i + 4], bayes.data)) for i in range(3)]
    np.testing.assert_allclose(np.mean([p.log_density for p in parts]), whole.log_density, rtol=1e-4)
    flat = lambda found: np.asarray(ravel_pytree(found.grad)[0])
    np.testing.assert_allclose(np.mean([flat(p) for p in parts], axis=0), flat(whole), rtol=1e-3, atol=1e-3)


def test_closed_forms_do_not_change_the_value(bayes, key):
    k_params, k_a, k_b = jax.random.split(key, 3)
    params = params_of(FAMILY, k_params)

    def values(objective, key):
        one = lambda key: Variational(bayes, FAMILY, objective).evaluate((key, bayes.data), params).log_density
        return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(key, 4000)), np.float64)

    a, b = values(vi.ELBO(), k_a), values(vi.ELBO(analytic=False), k_b)
    assert abs((a.mean() - b.mean()) / np.sqrt(a.var() / 4000 + b.var() / 4000)) < 5
    check_same_mean(Fixed(bayes, vi.ELBO()), Fixed(bayes, vi.ELBO(analytic=False)), params, jax.random.key(1))


@record
class Silent(Derived):
    """A target that has a prior of its own, and a likelihood it does not tell."""

    target: Any

    @property
    def log_prior(self):
        return self.target.log_prior

    def prior(self, position):
        return self.target.prior(position)

    def evaluate(self, batch, position):
        return self.target.evaluate(batch, position)


def test_the_likelihood_alone_is_the_target_without_its_prior(bayes, key):
    """Where a target tells no likelihood of its own, its estimate less its prior is the same number."""
    k_params, k_noise = jax.random.split(key)
    params = params_of(FAMILY, k_params)
    with jax.debug_key_reuse(False):
        a, b = (
            Variational(target, FAMILY).evaluate((k_noise, bayes.data), params) for target in (bayes, Silent(bayes))
        )
    np.testing.assert_allclose(a.log_density, b.log_density, rtol=1e-5)
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-4), a.grad, b.grad)


def test_the_mean_of_a_normal_prior_is_that_of_draws(bayes, key):
    k_params, k_draw = jax.random.split(key)
    params = params_of(FAMILY, k_params)
    draws = jax.vmap(FAMILY.sample, (0, None))(jax.random.split(k_draw, 4000), params)
    exact = bayes.log_prior.expected(FAMILY.mean(params), FAMILY.variance(params))
    assert abs(z_of(jax.jit(jax.vmap(bayes.prior))(draws), exact)) < 5


@record
class Fixed:
    """The objective on all data, as a target without any."""

    target: Any
    objective: Any

    def evaluate(self, batch, params):
        return Variational(self.target, FAMILY, self.objective).evaluate((batch[0], self.target.data), params)


def test_black_box_alpha_is_the_elbo_near_zero(bayes, key):
    k_params, k_noise = jax.random.split(key)
    params = params_of(FAMILY, k_params)
    with jax.debug_key_reuse(False):
        near = Variational(bayes, FAMILY, vi.BlackBoxAlpha(1e-3, draws=50)).evaluate((k_noise, bayes.data), params)
        elbo = Variational(bayes, FAMILY, vi.ELBO(draws=50)).evaluate((k_noise, bayes.data), params)
    np.testing.assert_allclose(near.log_density, elbo.log_density, rtol=2e-3)
    a, b = ravel_pytree(near.grad)[0], ravel_pytree(elbo.grad)[0]
    np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02 * float(jnp.abs(b).max()))


def test_black_box_alpha_one_is_the_predictive_density(key):
    """One coordinate θ ~ N(μ, σ²), y | θ ~ N(θ, 1): E p(y | θ) = N(y; μ, 1 + σ²)."""
    y = jnp.array([0.5, -1.0, 2.0])
    target = Bayes(NormalPrior(jnp.asarray(2.0)), gaussian, y)
    family = vi.MeanField(0.7)
    params = family.init(jax.random.key(0), jnp.asarray(0.3))
    aim = Variational(target, family, vi.BlackBoxAlpha(1.0, draws=4000))
    found = jax.vmap(lambda key: aim.evaluate((key, y), params).log_density)(jax.random.split(key, 20))
    predictive = jax.scipy.stats.norm.logpdf(y, 0.3, jnp.sqrt(1 + 0.7**2)).sum()
    kl = 0.5 * ((0.7**2 + 0.3**2) / 4 - 1 + np.log(4 / 0.7**2))
    assert abs(z_of(found, predictive - kl)) < 5


def gaussian(theta, y):
    return -0.5 * (y - theta) ** 2 - 0.5 * jnp.log(2 * jnp.pi)


# --- known values --------------------------------------------------------------------------------------------


def test_bounds_of_known_gaussians(key):
    """p = N(0, 1), q = N(m, s²): ELBO and the χ bound have closed forms; log Z = 0 is between; IWAE rises to it."""
    p, family = (
        vi.Approximation(vi.MeanField(), vi.MeanField(1.0).init(jax.random.key(0), jnp.zeros(()))),
        vi.MeanField(),
    )
    m, s = 0.6, 1.3
    params = vi.MeanField(s).init(jax.random.key(0), jnp.asarray(m))

    def values(objective, n):
        one = lambda key: Variational(p, family, objective).evaluate((key, ()), params).log_density
        return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.clone(key), n)), np.float64)

    elbo = np.log(s) + 0.5 - 0.5 * (s**2 + m**2)
    assert abs(z_of(values(vi.ELBO(analytic=False), 4000), elbo)) < 5
    # E_q w² = ∫ p²/q, a Gaussian integral with precision 2 − 1/s²
    precision = 2 - 1 / s**2
    square = np.log(s) - 0.5 * np.log(precision) + 0.5 * m**2 / s**2 * (1 + 1 / (s**2 * precision))
    chi = values(vi.Chi(2.0, draws=2000), 40)
    assert abs(z_of(-chi, 0.5 * square)) < 5
    few, many = values(vi.IWAE(2), 4000), values(vi.IWAE(50), 4000)
    assert elbo < few.mean() < many.mean() < 0 < 0.5 * square


def test_inclusive_gradient_is_zero_at_the_moments(key):
    """Where q has the moments of p, the mean gradient of KL(p ‖ q) is zero; elsewhere it points to them."""
    p, family = vi.FullRank(), vi.MeanField()
    low = jnp.array([[0.8, 0.0], [0.5, 0.6]])
    target = vi.Approximation(p, factored(jnp.zeros(2), low @ low.T))
    scales = jnp.sqrt(jnp.sum(low**2, axis=1))
    at = lambda spread: family.init(jax.random.key(0), jnp.zeros(2))._replace(log_scale=jnp.log(spread * scales))
    aim = Variational(target, family, vi.InclusiveKL(draws=2000))
    k_at, k_wide = jax.random.split(key)
    assert np.abs(z_of(gradients(aim, at(1.0), k_at, 100), 0.0)).max() < 5
    assert (z_of(gradients(aim, at(1.2), k_wide, 100), 0.0)[2:] < -5).all()


def test_inclusive_coefficients(key):
    """Score and doubly reparameterized gradients of the same weights agree in the mean, up to self-normalization."""
    a, b = (aim(vi.InclusiveKL(draws=3000, estimator=e)) for e in ("reparameterization", "dreg"))
    k_params, k_draw = jax.random.split(key)
    check_same_mean(a, b, params_of(FAMILY, k_params, apart=0.05), k_draw, n=60)


def test_inclusive_estimators_have_one_mean_with_few_draws(key):
    """The doubly reparameterized one has w̄ − w̄² where the score has w̄: with three draws that is another gradient."""
    a, b = (aim(vi.InclusiveKL(draws=3, estimator=e)) for e in ("reparameterization", "dreg"))
    k_params, k_draw = jax.random.split(key)
    check_same_mean(a, b, params_of(FAMILY, k_params), k_draw)


def test_stein_keeps_the_entropy(key):
    """At a q much narrower than p the gradient widens it: the entropy's share is larger than that of log p."""
    narrow = vi.MeanField(0.05)
    found = gradients(aim(vi.SteinELBO(), narrow), narrow.init(key, POSITION), key, 200)
    assert (z_of(found, 0.0)[8:] > 5).all()


def test_scores_from_draws(key):
    """Stein's estimate of ∇log q at draws of a Gaussian points where the score does."""
    x = jax.random.normal(key, (200, 2)) * jnp.array([[1.0, 0.5]])
    found, exact = scores(x, 0.1), -x / jnp.array([[1.0, 0.25]])
    assert np.corrcoef(np.ravel(found), np.ravel(exact))[0, 1] > 0.9
    assert 0.6 < float(jnp.vdot(found, exact) / jnp.vdot(exact, exact)) < 1.2


# --- what is refused -----------------------------------------------------------------------------------------


def test_settings_out_of_range():
    with pytest.raises(ValueError, match="alpha is -1"):
        vi.Renyi(-1.0)
    with pytest.raises(ValueError, match="order is 1"):
        vi.Chi(1.0)
    with pytest.raises(ValueError, match="draws is 0"):
        vi.ELBO(draws=0)
    with pytest.raises(ValueError, match="estimator is 'dragon'"):
        vi.IWAE(estimator="dragon")
    with pytest.raises(ValueError, match="0 < alpha"):
        vi.BlackBoxAlpha(1.5)
    with pytest.raises(ValueError, match="its gradient is a score"):
        vi.InclusiveKL(estimator="stl")
    with pytest.raises(ValueError, match="3 or more"):
        vi.SteinELBO(draws=2)


def test_families_unfit_for_an_objective():
    with pytest.raises(TypeError, match="IWAE needs a family with a density"):
        aim(vi.IWAE(), vi.Implicit())
    with pytest.raises(ValueError, match="no density of its own"):
        aim(vi.IWAE(), vi.SemiImplicit())
    with pytest.raises(TypeError, match="must be an instance"):
        aim(vi.ELBO(), vi.MeanField)
    with pytest.raises(TypeError, match="BlackBoxAlpha needs a target with prior, likelihood, data and n"):
        aim(vi.BlackBoxAlpha())


# --- mutants -------------------------------------------------------------------------------------------------


@record
class Unweighted(vi.Renyi):
    """All draws count alike in the gradient."""

    def terms(self, log_w, share):
        found = renyi(log_w, share, self.alpha, self.estimator)
        return Terms(found.value, jnp.exp(share), jnp.exp(share))


@record
class HalfDreg(vi.IWAE):
    """w̄ for w̄² in the doubly reparameterized gradient."""

    def terms(self, log_w, share):
        found = renyi(log_w, share, 0.0, "reparameterization")
        return Terms(found.value, found.target, found.density)


@record
class NoEntropy(vi.ELBO):
    """log q is left out of the gradient."""

    def terms(self, log_w, share):
        found = vi.ELBO.terms(self, log_w, share)
        return Terms(found.value, found.target, jnp.zeros_like(found.density))


@record
class Upwards(vi.Chi):
    """The upper bound is maximized."""

    def terms(self, log_w, share):
        found = vi.Chi.terms(self, log_w, share)
        return Terms(found.value, -found.target, -found.density)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("renyi", Unweighted(0.4, draws=4)),
        ("elbo", NoEntropy(draws=3, analytic=False)),
        ("chi", Upwards(2.0, draws=4, estimator="reparameterization")),
    ],
    ids=lambda u: type(u).__name__,
)
def test_mutants_of_values_are_caught(name, mutant, key):
    with pytest.raises(AssertionError):
        check_gradient(mutant, FAMILY, key, VALUES[name][1])


def test_mutant_of_dreg_is_caught(key):
    k_params, k_draw = jax.random.split(key)
    right = aim(vi.IWAE(draws=5, estimator="reparameterization"))
    with pytest.raises(AssertionError):
        check_same_mean(aim(HalfDreg(draws=5)), right, params_of(FAMILY, k_params), k_draw)
