"""Energies by maximum likelihood: the gradient, and the chains behind it."""

import math
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from energies import DATA, Shift, looked, quadratic, z_score

from langevin.energy.chains import Around, Uniform, following, moved, opened, shadow
from langevin.energy.energy import Energy
from langevin.energy.likelihood import EnergyLikelihood
from langevin.nets.train import train
from langevin.samplers.mala import MALA
from langevin.samplers.sgld import SGLD
from langevin.samplers.stanley import Stanley


class Walled(eqx.Module):
    """f = −a x²/2, and no number beyond 1."""

    a: jax.Array

    def __call__(self, x):
        return -0.5 * self.a * jnp.sum(x**2) + jnp.where(jnp.sum(x) > 1, jnp.nan, 0.0)


SQUARE = float(np.mean(DATA**2))


def gradients(key, target, weights, n=400):
    """n gradients of the only weight, each from a fresh stream."""

    def one(key):
        k_start, k_look = jax.random.split(key)
        found, _ = looked(k_look, target, target.start(k_start), weights)
        return jax.tree.leaves(found.grad)[0]

    return np.asarray(jax.vmap(one)(jax.random.split(key, n)), np.float64).reshape(n)


# --- the gradient -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_gradient_is_that_of_the_likelihood(temperature, key):
    """Chains begin at the model, exactly, and an exact kernel keeps them there: E x² = T/a."""
    energy = quadratic(temperature=temperature)
    base = Around(0.0, math.sqrt(temperature / 2), shape=(1,))
    target = EnergyLikelihood(energy, MALA(step_size=0.1), DATA, base, steps=3, chains=32, batch=32, start_at="noise")
    found = gradients(key, target, energy.weights)
    assert abs(z_score(found, -0.5 * SQUARE + 0.5 * temperature / 2)) < 5


def test_the_gaussian_factor_is_part_of_the_model(key):
    """log p = −a x²/2 − x²/2σ²: variance 1/(a + 1/σ²)."""
    energy = quadratic(1.0, scale=0.5)
    base = Around(0.0, math.sqrt(1 / 5), shape=(1,))
    target = EnergyLikelihood(energy, MALA(step_size=0.05), DATA, base, steps=3, chains=32, batch=32, start_at="noise")
    assert abs(z_score(gradients(key, target, energy.weights), -0.5 * SQUARE + 0.1)) < 5


def test_weights_of_a_kernel_are_taken(key):
    energy = quadratic()
    target = EnergyLikelihood(energy, Shift(), DATA, Uniform(shape=(1,)), steps=2, chains=8, batch=8, start_at="noise")
    k_start, k_look = jax.random.split(key)
    feed = target.start(k_start)
    found, after = looked(jax.random.clone(k_look), target, feed, energy.weights)
    k_rows, _, k_begin, _, _ = jax.random.split(k_look, 5)
    rows, _ = target.take(k_rows, feed.rows)
    at, *_ = target._begin(k_begin, feed.buffer, rows)
    end = np.asarray(at)[:, 0] + 2
    weight = np.exp(end) / np.exp(end).sum()
    expected = -0.5 * float(jnp.mean(rows**2)) + 0.5 * np.sum(weight * end**2)
    np.testing.assert_allclose(jax.tree.leaves(found.grad)[0], expected, rtol=1e-4)
    np.testing.assert_allclose(after.note.energy_chain, np.sum(weight * end**2), rtol=1e-4)


def test_one_parameter_is_learned_and_published_stanley_learns_another(key):
    """The fixed point of §1.8: 1 with chains that are right, twice it with those that are not."""
    found = {}
    for name in ("metropolis", "none"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel = Stanley(step_size=0.2, threshold=0.3, correction=name)
        energy = quadratic(1.5)
        how = dict(steps=10, chains=256, batch=256, buffer=256, restart=0.0)
        target = EnergyLikelihood(energy, kernel, DATA, Around(0.0, 1.0, shape=(1,)), **how)
        start = jax.tree.map(lambda u: jnp.broadcast_to(u, (4,)), energy.weights)
        trained = train(jax.random.clone(key), target, start, steps=600, rate=0.02, decay=0.99)
        found[name] = float(np.mean(jax.tree.leaves(trained.weights)[0]))
    assert abs(found["metropolis"] * SQUARE - 1) < 0.05
    assert found["none"] * SQUARE > 1.7


@pytest.mark.slow
def test_improved_divergence_sees_the_last_step(key):
    energy = quadratic(2.0)
    h = 0.05
    how = dict(steps=1, chains=16, batch=16, start_at="data")
    plain = EnergyLikelihood(energy, SGLD(step_size=h), DATA, Around(shape=(1,)), **how)
    more = EnergyLikelihood(energy, SGLD(step_size=h), DATA, Around(shape=(1,)), through=1.0, **how)
    k_start, k_look = jax.random.split(key)
    feed = plain.start(k_start)
    first, _ = looked(jax.random.clone(k_look), plain, feed, energy.weights)
    second, _ = looked(jax.random.clone(k_look), more, feed, energy.weights)
    rows, _ = plain.take(jax.random.split(k_look, 5)[0], feed.rows)
    x = np.asarray(rows)[:, 0].astype(np.float64)
    end = x * (1 - h * 2.0)  # −½·2·end² as the weight moves the end by −h x
    expected = np.mean(-2.0 * end * (-h * x))
    got = jax.tree.leaves(second.grad)[0] - jax.tree.leaves(first.grad)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-3)


def test_the_entropy_term_pushes_ends_apart(key):
    """One buffer point at 0, x = end: d/da log|x (1 − h a)| = −h/(1 − h a)."""
    energy, h = quadratic(2.0), 0.05
    how = dict(steps=1, chains=16, batch=16, start_at="data", through=1e-6)
    base = Around(0.0, 0.0, shape=(1,))
    targets = [EnergyLikelihood(energy, SGLD(step_size=h), DATA, base, entropy=e, **how) for e in (0.0, 1.0)]
    k_start, k_look = jax.random.split(key)
    feed = targets[0].start(k_start)
    a, b = (jax.tree.leaves(looked(jax.random.clone(k_look), t, feed, energy.weights)[0].grad)[0] for t in targets)
    np.testing.assert_allclose(b - a, -h / (1 - 2 * h), rtol=1e-3)


# --- chains -----------------------------------------------------------------------------------------------------------


def test_slots_are_all_different_and_all_visited(key):
    place, seen = opened(key, Around(shape=(1,)), 20).place, []
    for _ in range(4):
        slot, place = following(place, 5, 20)
        seen += slot.tolist()
    assert sorted(seen) == list(range(20))
    again, place = following(place, 5, 20)
    assert int(place.epoch) == 1
    assert again.tolist() != seen[:5]


def test_persistent_chains_are_written_back_where_they_were(key):
    energy = quadratic()
    how = dict(steps=3, chains=4, batch=4, buffer=12, restart=0.0)
    target = EnergyLikelihood(energy, Shift(), DATA, Around(shape=(1,)), **how)
    k_start, *keys = jax.random.split(key, 4)
    feed = before = target.start(k_start)
    for k in keys:
        _, feed = looked(k, target, feed, energy.weights)
    np.testing.assert_allclose(feed.buffer.position, before.buffer.position + 3, rtol=1e-5)
    np.testing.assert_array_equal(feed.buffer.age, 1)
    assert float(feed.note.n_grad) == 3 * 4 * (1 + 3)


def test_replayed_chains_are_written_over_the_oldest(key):
    energy = quadratic()
    how = dict(steps=1, chains=4, batch=4, buffer=12, restart=0.0, start_at="replay")
    target = EnergyLikelihood(energy, Shift(100.0), DATA, Around(shape=(1,)), **how)
    k_start, k_one, k_two = jax.random.split(key, 3)
    _, feed = looked(k_one, target, target.start(k_start), energy.weights)
    np.testing.assert_array_equal(np.asarray(feed.buffer.position)[:, 0] > 50, np.arange(12) < 4)
    _, feed = looked(k_two, target, feed, energy.weights)
    np.testing.assert_array_equal(np.asarray(feed.buffer.position)[:, 0] > 50, np.arange(12) < 8)


def test_a_share_of_chains_begins_anew(key):
    energy = quadratic()
    how = dict(steps=1, chains=500, batch=4, buffer=500, restart=0.25)
    target = EnergyLikelihood(energy, Shift(0.0), DATA, Around(5.0, 0.0, shape=(1,)), **how)
    k_start, k_look = jax.random.split(key)
    feed = target.start(k_start)
    aged = feed._replace(buffer=feed.buffer._replace(position=jnp.zeros((500, 1)), age=jnp.full(500, 7, jnp.int32)))
    _, after = looked(k_look, target, aged, energy.weights)
    again = np.asarray(after.buffer.position)[:, 0] == 5
    np.testing.assert_array_equal(np.asarray(after.buffer.age), np.where(again, 1, 8))
    assert abs(again.mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 500)
    np.testing.assert_allclose(after.note.restarted, again.mean(), rtol=1e-5)


def test_contrastive_divergence_begins_at_the_data(key):
    energy = quadratic()
    target = EnergyLikelihood(energy, Shift(0.0), DATA, Around(shape=(1,)), steps=1, chains=8, batch=8, start_at="data")
    found, _ = looked(key, target, target.start(jax.random.key(0)), energy.weights)
    # the weights e^x of Shift are the only difference between chains and data
    assert float(found.log_density) != 0.0
    plain = EnergyLikelihood(
        energy, SGLD(step_size=1e-12), DATA, Around(shape=(1,)), steps=1, chains=8, batch=8, start_at="data"
    )
    value, _ = looked(jax.random.clone(key), plain, plain.start(jax.random.key(0)), energy.weights)
    np.testing.assert_allclose(value.log_density, 0.0, atol=1e-4)


def test_the_shadow_is_the_acceptance_of_the_step_that_was_made(key):
    """Against MALA, which tests the same steps from the same starts."""
    energy, begin = quadratic(3.0), Around(0.0, 1.0, shape=(2000, 1))(jax.random.key(7))
    go = moved(key, SGLD(step_size=0.3), energy, begin, 1)
    alone = moved(jax.random.clone(key), MALA(step_size=0.3), energy, begin, 1)
    test = np.asarray(alone.acceptance)
    told = float(shadow(SGLD(step_size=0.3), go))
    assert 0.5 < told < 0.98
    assert abs(told - test.mean()) < 5 * math.sqrt(2) * test.std() / math.sqrt(2000)


def test_a_lost_chain_has_no_part_and_goes_back(key):
    energy = Energy.of(Walled(jnp.float32(1.0)), (1,))
    how = dict(steps=1, chains=8, batch=8, buffer=8, restart=0.0)
    target = EnergyLikelihood(energy, Shift(0.5), -jnp.abs(DATA), Uniform(0.0, 1.0, shape=(1,)), **how)
    k_start, k_look = jax.random.split(key)
    feed = target.start(k_start)
    found, after = looked(k_look, target, feed, energy.weights)
    assert np.isfinite(jax.tree.leaves(found.grad)[0])
    assert 0 < float(after.note.ok) < 1
    moved_to, was = (np.asarray(u.buffer.position)[:, 0] for u in (after, feed))
    np.testing.assert_allclose(moved_to, np.where(was + 0.5 > 1, was, was + 0.5), rtol=1e-5)


def test_jitter_has_its_size(key):
    target = EnergyLikelihood(
        quadratic(1.0), Shift(0.0), np.zeros((64, 1), np.float32), Around(0.0, 0.0, shape=(1,)), jitter=0.3,
        chains=8, batch=64, steps=1, start_at="noise",
    )  # fmt: skip
    found = gradients(key, target, quadratic(1.0).weights, 200)
    assert abs(z_score(found, -0.5 * 0.09)) < 5
