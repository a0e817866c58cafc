"""Objectives of latent variable models on probabilistic PCA, where log p(x), posterior and divergences are known.

Every objective is one compiled program: values (draw, row) and gradients (draw, θ φ ψ) from fresh keys at a position.
q is the exact posterior at EXACT, and wider and elsewhere at OFF.
"""

import itertools
import math
import zlib
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from vi.checks import z_of

from langevin import vae, vi
from langevin.core import noise
from langevin.core.record import replace
from langevin.evidence.annealing import dais
from langevin.evidence.weights import log_mean_exp
from langevin.samplers.ensemble_sgld import EnsembleSGLD
from langevin.samplers.hmc import HMC
from langevin.vae.autoencoder import posteriors_of
from langevin.vae.objectives.annealed import LEARNABLE
from langevin.vae.objectives.expected_target import sliced_discrepancy
from langevin.vae.objectives.langevin import without_each
from langevin.vae.objectives.stein_entropy import stein_score
from langevin.vae.objectives.weighted import Weighted
from langevin.vae.ppca import LinearEncoder

N, ROWS, LATENT = 4096, 8, 2
THETA, PHI, PSI = slice(0, 19), slice(19, 35), slice(35, None)  # of a raveled gradient


def ppca():
    """Columns of W are orthogonal, so the exact posterior has independent coordinates."""
    rng = np.random.default_rng(5)
    weight = np.linalg.qr(rng.normal(size=(6, LATENT)))[0] * [1.5, 0.8]
    return vae.PPCA(jnp.asarray(weight, jnp.float32), jnp.asarray(rng.normal(size=6), jnp.float32), 0.7)


KNOWN = ppca()
MODEL, _THETA = KNOWN.as_latent()
X = KNOWN.sample(jax.random.key(1), ROWS)[1]
LOG_P = np.asarray(KNOWN.log_prob(X), np.float64)


def encoder():
    mean, covariance = (np.asarray(u) for u in KNOWN.posterior(jnp.concatenate([jnp.zeros((1, 6)), jnp.eye(6)])))
    net = LinearEncoder(
        jnp.asarray((mean[1:] - mean[:1]).T), jnp.asarray(mean[0]), 0.5 * jnp.log(jnp.diag(jnp.asarray(covariance)))
    )
    phi, program = eqx.partition(net, eqx.is_inexact_array)
    return vae.Encoder(program), phi


ENCODER, _PHI = encoder()
EXACT = {"decoder": _THETA, "encoder": _PHI}
OFF = {
    "decoder": _THETA,
    "encoder": eqx.tree_at(
        lambda u: (u.weight, u.bias, u.log_scale),
        _PHI,
        (0.8 * _PHI.weight, _PHI.bias + jnp.array([0.1, -0.2]), _PHI.log_scale + jnp.array([0.3, 0.15])),
    ),
}


def posteriors(position):
    return posteriors_of(MODEL, ENCODER, position, X)


def divergences(position):
    """log p(x), KL(q ‖ p) and KL(p ‖ q) of every row, in closed form."""
    model, q = vae.PPCA.of(position["decoder"]), posteriors(position).q
    mean, covariance = model.posterior(X)
    precision, variance, apart = jnp.linalg.inv(covariance), q.scale**2, q.mean - mean
    log_det, log_q = jnp.linalg.slogdet(covariance)[1], jnp.sum(jnp.log(variance), axis=1)
    ours = variance @ jnp.diag(precision) + jnp.sum(apart @ precision * apart, axis=1) + log_det - log_q
    theirs = jnp.sum((jnp.diag(covariance)[None] + apart**2) / variance, axis=1) + log_q - log_det
    return model.log_prob(X), 0.5 * (ours - LATENT), 0.5 * (theirs - LATENT)


def combined(position, log_p=0.0, ours=0.0, theirs=0.0):
    """The gradient of log_p · log p(x) + ours · KL(q ‖ p) + theirs · KL(p ‖ q), the mean over rows, in θ and φ."""
    return _combined(position, jnp.array([log_p, ours, theirs]))


@jax.jit
def _combined(position, weights):
    value = lambda position: jnp.mean(weights @ jnp.stack(divergences(position)))
    return ravel_pytree(jax.grad(value)(position))[0]


@jax.jit
def evaluate(objective, position, keys):
    """Values (draw, row), and flat gradients of their means over rows."""

    def one(key):
        def value(position):
            found = objective.values(key, posteriors(position), position["objective"])
            return jnp.mean(found), found

        grad, found = jax.grad(value, has_aux=True)(position)
        return found, ravel_pytree(grad)[0]

    return jax.vmap(one)(keys)


def at(place, objective):
    """A position with what the objective learns away from where that begins, as far as weights have a variance."""
    flat, back = ravel_pytree(objective.init(noise.key(0), MODEL))
    apart = 0.05 if isinstance(objective, vae.ReverseNets) else 0.1
    psi = back(flat + apart * jax.random.normal(jax.random.key(1), flat.shape))
    if "log_mass" in psi:
        psi["log_mass"] = psi["log_mass"] + 0.5
    return place | {"objective": psi}


def keys_of(name, n=N):
    return jax.random.split(noise.key(zlib.crc32(name.encode())), n)


def sample(name, objective, place, n=N):
    """Values and gradients of an objective in float64."""
    found = evaluate(objective, at(place, objective), keys_of(name, n))
    return tuple(np.asarray(u, np.float64) for u in found)


@cache
def off(name):
    return sample(name, ALL[name], OFF, FEWER.get(name, N))


@cache
def exact(name):
    return sample(name, ALL[name], EXACT, FEWER.get(name, N))


def same_mean(a, b):
    """z-scores of the difference of two means, per coordinate."""
    error = np.sqrt(a.var(0, ddof=1) / len(a) + b.var(0, ddof=1) / len(b))
    return (a.mean(0) - b.mean(0)) / np.maximum(error, 1e-9)


# values are log w of one draw, with E w = p(x)
WEIGHTS = {
    "elbo": Weighted(vi.ELBO(analytic=False)),
    "annealed": vae.Annealed(3, draws=1, step_size=0.4, gamma=0.5),
    "annealed, ladder": vae.Annealed(2, draws=1, step_size=0.4, gamma=0.5, ladder=jnp.array([0.0, 0.2, 1.0])),
    "annealed, learned": vae.Annealed(3, draws=1, step_size=0.4, gamma=0.5, learn=LEARNABLE),
    "annealed, backward": vae.Annealed(3, draws=1, step_size=0.4, gamma=0.5, backward=4),
    "langevin": vae.AnnealedLangevin(3, step_size=0.05),
    "langevin, learned": vae.AnnealedLangevin(3, step_size=0.05, learn=("log_step",)),
    "metropolis": vae.AnnealedLangevin(3, step_size=0.2, metropolis=True, learn=("log_step",)),
    "hamiltonian": vae.Hamiltonian(3, step_size=0.15, cold=0.7),
    "hamiltonian, not tempered": vae.Hamiltonian(2, step_size=0.2, cold=1.0),
    "reverse": vae.ReverseNets(2, leapfrogs=2, step_size=0.15, width=6),
}
LONG = HMC(step_size=0.2, n_leapfrog=5, jitter=0.2)
OTHERS = {
    "metropolis, 3 draws": vae.AnnealedLangevin(3, 3, step_size=0.2, metropolis=True, learn=("log_step",)),
    "elbo, analytic": Weighted(vi.ELBO()),
    "elbo, stl": Weighted(vi.ELBO(estimator="stl")),
    "iwae": Weighted(vi.IWAE(4, estimator="reparameterization")),
    "iwae, dreg": Weighted(vi.IWAE(4)),
    "iwae, stl": Weighted(vi.IWAE(4, estimator="stl")),
    "renyi": Weighted(vi.Renyi(0.5, 4)),
    "renyi, dreg": Weighted(vi.Renyi(0.5, 4, estimator="dreg")),
    "iwae of 8": Weighted(vi.IWAE(8, estimator="reparameterization")),
    "beta": vae.BetaELBO(1.5),
    "thermodynamic": vae.Thermodynamic(3, draws=500, first=0.2),
    "sumo": vae.SUMO(2, levels=2),
    "contrastive": vae.Contrastive(LONG, steps=8),
    "hoffman": vae.Hoffman(LONG, steps=8),
    "amortized": vae.AmortizedMCMC(LONG, steps=8),
    "contrastive-0": vae.Contrastive(steps=0, draws=3),
    "hoffman-0": vae.Hoffman(steps=0),
    "amortized-0": vae.AmortizedMCMC(steps=0, draws=2),
}
ALL = WEIGHTS | OTHERS
FEWER = {"thermodynamic": 256}  # keys, where one has many draws
BOUNDS = [*WEIGHTS, "elbo, analytic", "elbo, stl", "iwae", "iwae, dreg", "renyi", "beta", "thermodynamic"]


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_below_the_evidence(name):
    values = off(name)[0]
    assert z_of(values.mean(1), LOG_P.mean()) < 4
    assert z_of(values, LOG_P).max() < 4


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_have_the_evidence_as_their_mean(name):
    assert abs(z_of(np.exp(off(name)[0] - LOG_P).mean(1), 1.0)) < 5


@pytest.mark.parametrize("name", ["elbo", "elbo, stl", "iwae", "sumo"])
def test_bounds_are_the_evidence_where_q_is_the_posterior(name):
    np.testing.assert_allclose(exact(name)[0], np.tile(LOG_P, (N, 1)), atol=5e-4)


@jax.jit
def values_of(objective, position, keys):
    return jax.vmap(lambda key: objective.values(key, posteriors(position), position["objective"]))(keys)


def one_value(objective, key, place=OFF):
    """Of a key, for an objective that learns nothing."""
    return values_of(objective, place | {"objective": ()}, key[None])[0]


@pytest.mark.parametrize("cls", [vae.Annealed, vae.AnnealedLangevin, vae.Hamiltonian])
def test_a_bound_without_steps_is_that_of_importance_weights(cls, key):
    """The same draws give the same numbers; the Hamiltonian bound takes the first half of its key for them."""
    objective, drawn = cls(0, draws=5), jax.random.clone(key)
    assert objective.init(noise.key(0), MODEL) == ()
    drawn = jax.random.split(drawn)[0] if cls is vae.Hamiltonian else drawn
    np.testing.assert_allclose(one_value(objective, key), one_value(Weighted(vi.IWAE(5)), drawn), rtol=1e-6)
    np.testing.assert_allclose(one_value(objective, noise.key(1), EXACT), LOG_P, atol=5e-4)


MORE = {
    "hamiltonian, 8 draws": vae.Hamiltonian(3, 8, step_size=0.15, cold=0.7),
    "annealed, 6": vae.Annealed(6, draws=1, step_size=0.3, gamma=0.5),
    "annealed, 24": vae.Annealed(24, draws=1, step_size=0.3, gamma=0.5),
    "langevin, 12": vae.AnnealedLangevin(12, step_size=0.05),
    "metropolis, 12": vae.AnnealedLangevin(12, step_size=0.2, metropolis=True, learn=("log_step",)),
}
RISING = [
    ("elbo", "iwae", "iwae of 8"),
    ("hamiltonian", "hamiltonian, 8 draws"),
    ("elbo", "annealed, 6", "annealed, 24"),
    ("elbo", "langevin", "langevin, 12"),
    ("elbo", "metropolis", "metropolis, 12"),
]


@pytest.mark.parametrize("names", RISING, ids=lambda u: u[-1])
def test_bounds_rise_with_draws_and_rungs(names):
    """By more than the noise, and to no more than the evidence."""
    found = []
    for name in names:
        if name in MORE:
            values = np.asarray(values_of(MORE[name], at(OFF, MORE[name]), keys_of(name, 2048)), np.float64)
        else:
            values = off(name)[0]
        found.append(values.mean(1))
    for low, high in itertools.pairwise(found):
        assert same_mean(high, low) > 5
    assert z_of(found[-1], LOG_P.mean()) < 4


@pytest.mark.parametrize("cls", [vae.Hamiltonian, vae.ReverseNets])
def test_leapfrog_steps_keep_the_energy(cls, key):
    """Where q is the posterior, log w is log p(x) less the error of the energy, of third order for a step or two."""
    errors = []
    for step_size in (0.2, 0.1):
        objective = cls(2, step_size=step_size, **({"cold": 1.0} if cls is vae.Hamiltonian else {}))
        place = EXACT | {"objective": objective.init(noise.key(0), MODEL)}
        values = values_of(objective, place, jax.random.split(jax.random.clone(key), 200))
        errors.append(np.abs(np.asarray(values) - LOG_P).mean())
    assert 6 < errors[0] / errors[1] < 10


def test_beta_one_is_the_elbo(key):
    again = lambda beta: one_value(vae.BetaELBO(beta, draws=3), jax.random.clone(key))
    np.testing.assert_allclose(again(1.0), one_value(Weighted(vi.ELBO(3)), key), rtol=1e-6)
    np.testing.assert_allclose(again(1.0) - again(1.5), 0.5 * posteriors(OFF).divergence(), rtol=1e-4)


def test_what_is_learned_begins_as_it_was_given():
    objective = vae.Annealed(4, step_size=0.3, gamma=0.8, learn=LEARNABLE)
    begun, now = objective.begin(), objective.annealing(objective.init(noise.key(0), MODEL))
    np.testing.assert_allclose(begun.beta, [0.25, 0.5, 0.75, 1.0])
    for name in ("beta", "step_size", "gamma", "mass"):
        np.testing.assert_allclose(getattr(now, name), getattr(begun, name), rtol=1e-5)
    some = vae.Annealed(4, step_size=0.3, learn=("rises",))
    assert some.annealing(some.init(noise.key(0), MODEL)).step_size == some.step_size


# --- gradients -------------------------------------------------------------------------------------------------------

ELBO_GRADIENT = dict(log_p=1.0, ours=-1.0)


@pytest.mark.parametrize("name", ["elbo", "elbo, analytic", "elbo, stl"])
def test_the_gradient_of_the_elbo(name):
    assert np.abs(z_of(off(name)[1], combined(OFF, **ELBO_GRADIENT))).max() < 5


@pytest.mark.parametrize("name", ["iwae", "renyi"])
def test_doubly_reparameterized_gradients(name):
    """One mean, in θ and in φ, and less noise in φ."""
    plain, dreg = off(name)[1], off(f"{name}, dreg")[1]
    assert np.abs(same_mean(plain, dreg)).max() < 5
    assert dreg[:, PHI].var(0).sum() < 0.8 * plain[:, PHI].var(0).sum()


def test_sticking_the_landing_is_biased_for_several_draws():
    """In φ; θ has the total derivative."""
    z = np.abs(same_mean(off("iwae, stl")[1], off("iwae")[1]))
    assert z[THETA].max() < 5
    assert z[PHI].max() > 10


def direction(gradient, part):
    """The unit vector along a part of a gradient, zero in the others."""
    along = np.zeros(len(gradient), np.float32)
    along[part] = gradient[part] / np.linalg.norm(gradient[part])
    return along


def slope_of(value, h):
    """A central difference at 0."""
    return (np.asarray(value(h), np.float64) - np.asarray(value(-h), np.float64)) / (2 * h)


SMOOTH = ["annealed, learned", "annealed, backward", "langevin, learned", "hamiltonian", "reverse", "beta"]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_slopes_of_the_values(name):
    """Against central differences with the same keys, along the gradient's own direction in θ, in φ and in ψ."""
    objective, keys = ALL[name], keys_of(name)
    place = at(OFF, objective)
    flat, back = ravel_pytree(place)
    gradient = off(name)[1].mean(0)
    for part in (THETA, PHI, PSI)[: 2 + (len(flat) > PSI.start)]:
        along = direction(gradient, part)
        run = lambda place: evaluate(objective, place, jax.random.clone(keys))[0]
        slope = slope_of(lambda h, along=along: run(back(flat + h * along)), 0.02).mean()
        np.testing.assert_allclose(gradient @ along, slope, rtol=0.02)


def test_a_decoder_held_in_the_forces(key):
    """The value stays, and the slope of φ and ψ. θ has that of a bound whose chains a θ drives that does not move."""
    whole = vae.Annealed(3, draws=2, step_size=0.4, gamma=0.5, learn=("log_step",))
    place, keys = at(OFF, whole), keys_of("held", 512)
    found = {}
    for how in ("full", "block"):
        values, gradients = evaluate(replace(whole, gradient=how), place, jax.random.clone(keys))
        found[how] = np.asarray(values), np.asarray(gradients, np.float64).mean(0)
    full, block = (found[how][1] for how in ("full", "block"))
    np.testing.assert_allclose(found["block"][0], found["full"][0], rtol=1e-5)
    np.testing.assert_allclose(block[PHI], full[PHI], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(block[PSI], full[PSI], rtol=1e-3, atol=1e-4)
    flat, back = ravel_pytree(place["decoder"])
    along = direction(block[THETA], THETA)
    annealing = whole.annealing(place["objective"])

    @jax.jit
    def driven(theta):
        there = posteriors(place)._replace(theta=back(theta))

        def one(target, base, row, key):
            drive = MODEL.posterior(place["decoder"], row)
            return dais.log_weights(key, target, base, annealing, particles=2, surrogate=drive)

        run = lambda key: log_mean_exp(there.each(one, X, jax.random.split(key, ROWS)), axis=1)
        return jnp.mean(jax.vmap(run)(jax.random.clone(keys)), axis=1)

    slope = slope_of(lambda h: driven(flat + h * along), 0.02).mean()
    np.testing.assert_allclose(block[THETA] @ along, slope, rtol=0.02)
    assert abs(full[THETA] @ along - block[THETA] @ along) > 0.05 * abs(full[THETA] @ along)


@pytest.mark.parametrize("name", ["metropolis", "metropolis, 3 draws"])
def test_the_gradient_through_decisions(name):
    """A Metropolis test has a score: the mean gradient is the slope of the mean value, not the mean of its slopes."""
    objective, gradients = ALL[name], off(name)[1]
    flat, back = ravel_pytree(at(OFF, objective))
    keys = keys_of("decisions", 2**14)
    for part in (THETA, PHI, PSI):
        along = direction(gradients.mean(0), part)
        run = lambda place: values_of(objective, place, jax.random.clone(keys))
        slopes = slope_of(lambda h, along=along: run(back(flat + h * along)), 0.05).mean(1)
        assert abs(same_mean(gradients @ along, slopes)) < 5


def test_the_control_variate_of_several_chains_takes_noise_away():
    """One chain has none: its score is multiplied by a whole log p(x)."""
    one, three = (off(name)[1].var(0).sum() for name in ("metropolis", "metropolis, 3 draws"))
    assert three < 0.1 * one


def test_control_variates_of_decisions_leave_the_chain_out(key):
    """The bound where a weight is replaced by the geometric mean of the others."""
    log_w = np.asarray(jax.random.normal(key, (3, 4)), np.float64)
    found = without_each(jnp.asarray(log_w, jnp.float32))
    for i in range(4):
        other = np.delete(log_w, i, axis=1)
        expected = np.log((np.exp(other).sum(1) + np.exp(other.mean(1))) / 4)
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-5, atol=1e-6)
    assert not np.any(without_each(jnp.ones((3, 1))))


# --- estimates that are no weights ------------------------------------------------------------------------------------


def test_roulette_has_the_mean_of_all_its_draws():
    """Two draws doubled twice: the bound of eight, and its gradient."""
    for mine, theirs in zip(off("sumo"), off("iwae of 8"), strict=True):
        assert np.abs(same_mean(mine, theirs)).max() < 5
    assert same_mean(off("sumo")[0].mean(1), off("elbo")[0].mean(1)) > 5


def test_roulettes_of_any_tail_have_one_mean():
    objective = vae.SUMO(1, levels=2, tail=0.25)
    values = np.asarray(values_of(objective, OFF | {"objective": ()}, keys_of("tail", 4 * N)), np.float64)
    assert abs(same_mean(values.mean(1), off("iwae")[0].mean(1))) < 5


def thermodynamic(position, beta):
    """Σ (β_k − β_{k−1}) E log w under q^{1−β_{k−1}} p^{β_{k−1}}, all of them Gaussian; the mean over rows."""
    model, q = vae.PPCA.of(position["decoder"]), posteriors(position).q
    mean, covariance = model.posterior(X)
    theirs, log_p = jnp.linalg.inv(covariance), model.log_prob(X)

    def one(b, mean, at, scale, log_p):
        ours = jnp.diag(1 / scale**2)
        spread = jnp.linalg.inv((1 - b) * ours + b * theirs)
        centre = spread @ ((1 - b) * ours @ at + b * theirs @ mean)
        # twice −E log N(z; u, A⁻¹), without log 2π
        square = lambda u, a: jnp.trace(a @ spread) + (centre - u) @ a @ (centre - u) - jnp.linalg.slogdet(a)[1]
        return log_p - 0.5 * (square(mean, theirs) - square(at, ours))

    found = jax.vmap(jax.vmap(one, (None, 0, 0, 0, 0)), (0, None, None, None, None))(
        beta[:-1], mean, q.mean, q.scale, log_p
    )
    return jnp.diff(beta) @ jnp.mean(found, axis=1)


def test_thermodynamic_values_and_gradients_are_those_of_exact_expectations():
    """500 draws: their bias is far below the noise of 256 repeats."""
    objective = OTHERS["thermodynamic"]
    beta = jnp.array([0.0, 0.2, math.sqrt(0.2), 1.0])
    np.testing.assert_allclose(objective.ladder(), beta, rtol=1e-6)
    value, gradient = jax.jit(jax.value_and_grad(thermodynamic))(OFF, beta)
    values, gradients = off("thermodynamic")
    assert abs(z_of(values.mean(1), value)) < 5
    assert np.abs(z_of(gradients, ravel_pytree(gradient)[0])).max() < 5


def test_one_part_of_the_thermodynamic_integral_is_the_elbo(key):
    one, elbo = vae.Thermodynamic(1, draws=7), Weighted(vi.ELBO(7, analytic=False))
    np.testing.assert_allclose(one_value(one, key), one_value(elbo, jax.random.clone(key)), rtol=1e-5)


# --- chains ----------------------------------------------------------------------------------------------------------


def check_chain_gradients(found, place, theta, **phi):
    """θ has the gradient of log p(x), or of the ELBO; φ that of these divergences."""
    assert np.abs(z_of(found[:, THETA], combined(place, **theta)[THETA])).max() < 5
    assert np.abs(z_of(found[:, PHI], combined(place, **phi)[PHI])).max() < 5


LEARNED = {"contrastive": dict(ours=-1.0, theirs=-1.0), "hoffman": dict(ours=-1.0), "amortized": dict(theirs=-1.0)}


@pytest.mark.parametrize("place", ["exact", "off"])
@pytest.mark.parametrize("name", LEARNED)
def test_long_chains_learn_from_the_posterior(name, place):
    """θ goes up log p(x); φ down KL(q ‖ p) (Hoffman), KL(p ‖ q) (the student), or their sum (contrastive)."""
    where = {"exact": EXACT, "off": OFF}[place]
    check_chain_gradients(globals()[place](name)[1], where, dict(log_p=1.0), **LEARNED[name])


@pytest.mark.parametrize("name", LEARNED)
def test_chains_of_no_steps(name):
    """z_T is the encoder's draw: θ has the ELBO's gradient, the student nothing to learn, nor has the contrast."""
    phi = dict(ours=-1.0) if name == "hoffman" else {}
    check_chain_gradients(off(f"{name}-0")[1], OFF, ELBO_GRADIENT, **phi)


def test_values_of_objectives_with_chains():
    """The ELBO of the encoder, or minus the contrast: zero where q is exact, minus both divergences for long chains."""
    _, ours, theirs = (np.asarray(u, np.float64) for u in divergences(OFF))
    for name in ("hoffman", "amortized"):
        assert np.abs(z_of(off(name)[0], LOG_P - ours)).max() < 5
    assert np.abs(z_of(off("contrastive")[0], -ours - theirs)).max() < 5
    np.testing.assert_allclose(exact("contrastive")[0], 0.0, atol=2e-4)
    np.testing.assert_allclose(off("contrastive-0")[0], 0.0, atol=2e-4)


def test_learned_step_sizes_and_widths():
    """From a start too wide: larger steps climb log p, and the start narrows; φ has the ELBO's gradient."""
    objective = vae.ExpectedTarget(2, leapfrogs=2, draws=24, step_size=0.1)
    psi = objective.init(noise.key(0), MODEL)
    found = {}
    for inflation in (0.6, -0.6):
        place = EXACT | {"objective": psi | {"log_inflation": jnp.full(LATENT, inflation)}}
        values, gradients = evaluate(objective, place, keys_of("expected", 256))
        found[inflation] = np.asarray(gradients, np.float64)
        np.testing.assert_allclose(values.mean(0), LOG_P, atol=0.2)
    for inflation, gradients in found.items():
        # log_inflation, then log_step (step, latent)
        assert (np.sign(inflation) * z_of(gradients[:, PSI][:, :LATENT], 0.0) < -5).all()
        assert (np.sign(inflation) * z_of(gradients[:, PSI][:, LATENT:], 0.0) > 5).all()
        assert np.abs(z_of(gradients[:, PHI], combined(EXACT, ours=-1.0)[PHI])).max() < 5
    still = np.asarray(evaluate(objective, EXACT | {"objective": psi}, keys_of("still", 256))[1], np.float64)
    assert np.abs(z_of(still[:, THETA], combined(EXACT, log_p=1.0)[THETA])).max() < 5
    # the density, whose slope in log_inflation is near −1, moves the steps alone
    assert np.abs(still[:, PSI][:, :LATENT].mean(0)).max() < 0.4


def test_learned_steps_leave_the_posterior_as_it_is(key):
    """Long ones, many of them refused."""
    objective = vae.ExpectedTarget(3, leapfrogs=2, draws=4000)
    psi = {"log_step": jnp.full((3, LATENT), 0.5), "log_inflation": jnp.zeros(LATENT)}
    (z, _), _, accepted = jax.jit(lambda key: objective.run(key, posteriors(EXACT), psi))(key)
    mean, covariance = KNOWN.posterior(X)
    apart = (np.asarray(z, np.float64) - np.asarray(mean)[:, None]).reshape(-1, LATENT)
    assert np.abs(z_of(apart, 0.0)).max() < 5
    assert np.abs(z_of(apart[:, :, None] * apart[:, None], covariance)).max() < 5
    assert 0.1 < float(accepted.min()) < float(accepted.max()) < 0.9


def test_the_sliced_discrepancy_knows_a_width(key):
    """Zero in the mean for exact draws of a correlated Gaussian, positive for wider and for narrower ones."""
    low = jnp.array([[1.0, 0.0], [0.6, 0.5]])
    z = jax.random.normal(key, (1500, 20, LATENT)) @ low.T
    precision = jnp.linalg.inv(low @ low.T)
    discrepancy = jax.jit(jax.vmap(lambda z: sliced_discrepancy(z, -z @ precision)))
    assert abs(z_of(discrepancy(z), 0.0)) < 5
    assert z_of(discrepancy(1.3 * z), 0.0) > 5
    assert z_of(discrepancy(0.75 * z), 0.0) > 5


def test_scores_from_draws(key):
    z = jax.random.normal(key, (600, 2)) * jnp.array([[1.0, 0.5]])
    found, score = stein_score(z, 0.1), -z / jnp.array([[1.0, 0.25]])
    assert np.corrcoef(np.ravel(found), np.ravel(score))[0, 1] > 0.9
    assert 0.6 < float(jnp.vdot(found, score) / jnp.vdot(score, score)) < 1.2


def test_the_estimated_entropy_stands_for_the_known_one():
    """Without steps the gradient is the ELBO's, up to the ridge; its value is the ELBO."""
    objective = vae.SteinEntropy(0, draws=48, ridge=0.03)
    values, gradients = sample("stein", objective, OFF, 128)
    _, ours, _ = divergences(OFF)
    assert np.abs(z_of(values, LOG_P - np.asarray(ours))).max() < 5
    expected = np.asarray(combined(OFF, **ELBO_GRADIENT), np.float64)
    assert np.abs(z_of(gradients, expected)[THETA]).max() < 5
    mean = gradients.mean(0)[PHI]
    assert np.corrcoef(mean, expected[PHI])[0, 1] > 0.9
    # narrow draws are widened: the entropy counts
    narrow = OFF | {"encoder": eqx.tree_at(lambda u: u.log_scale, OFF["encoder"], _PHI.log_scale - 1.0)}
    assert (z_of(sample("narrow", objective, narrow, 128)[1][:, PHI][:, -LATENT:], 0.0) > 5).all()


def test_langevin_steps_before_the_entropy(key):
    """Chains have the moments of the recursion z ← z + h s² (μ − z)/v + √(2h) s ξ; every step has a gradient."""
    objective = vae.SteinEntropy(3, draws=4000, step_size=0.3)
    psi, place = objective.init(noise.key(0), MODEL), posteriors(OFF)
    k_start, k_run = jax.random.split(key)
    chain = jax.jit(lambda start: objective.chain(k_run, place, start, psi))
    ends = np.asarray(chain(place.draw(k_start, 4000)), np.float64)
    mean, covariance = (np.asarray(u, np.float64) for u in KNOWN.posterior(X))
    scale2, v = np.asarray(place.q.scale, np.float64) ** 2, np.diag(covariance)
    at, spread = np.asarray(place.q.mean, np.float64), scale2
    for _ in range(3):
        keep = 1 - 0.3 * scale2 / v
        at, spread = mean + keep * (at - mean), keep**2 * spread + 0.6 * scale2
    apart = (ends - at[:, None]).transpose(1, 0, 2)
    assert np.abs(z_of(apart, 0.0)).max() < 5
    assert np.abs(z_of(apart**2, spread)).max() < 5
    gradients = sample("steps", vae.SteinEntropy(3, draws=16), OFF, 128)[1]
    assert np.isfinite(gradients).all()
    assert (gradients[:, PSI].std(0) > 0).all()


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED = [
    (vae.Annealed, dict(steps=-1), "Annealed: -1 steps"),
    (vae.Annealed, dict(draws=0), "Annealed: 10 steps and 0 draws"),
    (vae.Annealed, dict(learn=("rises", "eta")), "no part 'eta' to learn"),
    (vae.Annealed, dict(gradient="start"), "must be 'full' or 'block'"),
    (vae.Annealed, dict(steps=3, ladder=[0.0, 0.5, 1.0]), "the ladder has 3 entries, but 3 steps need 4"),
    (vae.Annealed, dict(steps=2, ladder=[0.0, 0.0, 1.0]), "the ladder must rise"),
    (vae.AnnealedLangevin, dict(steps=-1), "AnnealedLangevin: -1 steps"),
    (vae.AnnealedLangevin, dict(draws=0), "0 draws"),
    (vae.AnnealedLangevin, dict(learn=("rises",)), r"it must be \(\) or \('log_step',\)"),
    (vae.Hamiltonian, dict(steps=-1), "Hamiltonian: -1 steps"),
    (vae.Hamiltonian, dict(draws=0), "0 draws"),
    (vae.Hamiltonian, dict(cold=1.1), "cold must be at most 1"),
    (vae.Hamiltonian, dict(cold=0.0), "cold is 0.0; it must be positive"),
    (vae.Hamiltonian, dict(step_size=0.6), "below longest, 0.5"),
    (vae.ReverseNets, dict(steps=0), "steps 0, leapfrogs 1"),
    (vae.ReverseNets, dict(width=0), "width 0; each must be 1 or more"),
    (vae.Thermodynamic, dict(parts=0), "Thermodynamic: 0 parts"),
    (vae.Thermodynamic, dict(draws=1), "draws 2 or more"),
    (vae.Thermodynamic, dict(first=1.0), "it must be below 1"),
    (vae.SUMO, dict(levels=0), "0 levels"),
    (vae.SUMO, dict(draws=0), "SUMO: 0 draws"),
    (vae.Contrastive, dict(draws=1), "the control variate needs 2 or more"),
    (vae.Contrastive, dict(steps=-1), "Contrastive: -1 steps"),
    (vae.Hoffman, dict(steps=-1), "Hoffman: -1 steps"),
    (vae.AmortizedMCMC, dict(draws=0), "AmortizedMCMC: 10 steps and 0 draws"),
    (vae.ExpectedTarget, dict(draws=1), "draws must be 2 or more"),
    (vae.ExpectedTarget, dict(leapfrogs=0), "leapfrogs 1 or more"),
    (vae.SteinEntropy, dict(draws=2), "a score needs 3 draws or more"),
    (vae.BetaELBO, dict(draws=0), "BetaELBO: draws is 0"),
    (vae.BetaELBO, dict(beta=-1.0), "beta is -1.0; it must be zero or more"),
]


@pytest.mark.parametrize(("cls", "fields", "words"), REFUSED, ids=lambda u: getattr(u, "__name__", None))
def test_settings_out_of_range(cls, fields, words):
    with pytest.raises(ValueError, match=words):
        cls(**fields)


def test_kernels_that_move_several_chains_are_refused():
    with pytest.raises(ValueError, match="does not move single chains"):
        vae.Hoffman(EnsembleSGLD())


@pytest.mark.parametrize("objective", [vi.Chi(), vi.InclusiveKL()], ids=lambda u: type(u).__name__)
def test_objectives_that_are_no_lower_bound_are_refused(objective):
    with pytest.raises(TypeError, match="no lower bound"):
        Weighted(objective)
