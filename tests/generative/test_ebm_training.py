"""Losses of energies without chains, training, and the watchdog."""

import math
import os
import warnings
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from energies import DATA, Shift, looked, quadratic, z_score

from langevin.core.record import record, replace, static
from langevin.core.run import run
from langevin.core.target import Density
from langevin.core.types import Progress
from langevin.energy.chains import Around, Uniform, note_of
from langevin.energy.cooperative import Cooperative
from langevin.energy.energy import Energy, integrable
from langevin.energy.likelihood import EnergyLikelihood
from langevin.energy.losses import NCE, CrossEntropy, EnergyDiscrepancy, Joint
from langevin.energy.watch import Watchdog
from langevin.nets.mlp import MLP
from langevin.nets.train import starts, train
from langevin.samplers.mala import MALA
from langevin.samplers.optimize import Optimize
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.ema import EMA
from langevin.targets.loss import Loss
from langevin.targets.sum import Sum
from langevin.targets.zoo import Gaussian

# --- losses without chains --------------------------------------------------------------------------------------------


def test_noise_contrast_is_stationary_at_the_truth_and_its_constant_is_the_normaliser(key):
    energy = quadratic(1.0)
    loss = NCE(energy, Gaussian(np.zeros(1), np.array([4.0])), ratio=3)
    data = jax.random.normal(jax.random.key(3), (200_000, 1))
    truth = energy.weights, jnp.float32(0.5 * math.log(2 * math.pi))
    target = Loss(loss, data, batch=512, order="replacement")

    def one(key):
        found, _ = looked(key, target, (), truth)
        return jnp.stack([jax.tree.leaves(found.grad[0])[0], found.grad[1]])

    found = np.asarray(jax.vmap(one)(jax.random.split(key, 300)))
    assert abs(z_score(found[:, 0], 0.0)) < 5
    assert abs(z_score(found[:, 1], 0.0)) < 5
    off = jax.grad(lambda c: jnp.mean(loss(jax.random.key(1), (energy.weights, c), data[:5000])))(truth[1] + 0.3)
    assert float(off) > 0.01  # a constant too large is to fall


def test_energy_discrepancy_is_least_at_the_truth(key):
    data = jax.random.normal(jax.random.key(4), (4096, 1))
    loss = EnergyDiscrepancy(quadratic(1.0), scale=1.0, stabiliser=0.0, contrasts=256)
    slope = lambda a: float(jax.grad(lambda w: jnp.mean(loss(jax.random.clone(key), w, data)))(quadratic(a).weights).a)
    assert slope(0.8) < 0 < slope(1.25)


def test_the_stabiliser_bounds_the_loss_from_below(key):
    loss = EnergyDiscrepancy(quadratic(50.0), stabiliser=1.0, contrasts=8)
    values = loss(key, quadratic(50.0).weights, jnp.zeros((16, 1)))
    assert np.all(np.asarray(values) >= math.log(1 / 8) - 1e-5)


@pytest.mark.slow
def test_a_joint_energy_is_the_sum_of_its_parts(key):
    net = MLP((2, 8, 3), jax.random.key(0), jax.nn.silu)
    x, y = jax.random.normal(jax.random.key(1), (64, 2)), jnp.arange(64) % 3
    energy = Energy.of(Joint(net), (2,), scale=2.0)
    weights = energy.weights
    rest = eqx.partition(Joint(net), eqx.is_inexact_array)[1]
    likelihood = EnergyLikelihood(energy, SGLD(step_size=0.01), x, Around(), steps=2, chains=16, batch=16, buffer=32)
    labels = Loss(Labelled(rest), (x, y), batch=16)
    both = Sum((likelihood, labels), (1.0, 0.5))
    k_start, k_look = jax.random.split(key)
    feed = both.start(k_start)
    # without fusion emitters, which the tests do without, XLA compiles this sum for six minutes
    flag = "xla_cpu_use_fusion_emitters"
    options = {flag: True} if flag in os.environ.get("XLA_FLAGS", "") else None
    whole = jax.jit(lambda *given: both.estimate(*given), compiler_options=options)
    found, _ = whole(jax.random.clone(k_look), feed, weights)
    keys = jax.random.split(k_look, 2)
    parts = [looked(k, t, f, weights)[0] for k, t, f in zip(keys, (likelihood, labels), feed, strict=True)]
    expected = jax.tree.map(lambda a, b: a + 0.5 * b, parts[0].grad, parts[1].grad)
    for got, want in zip(jax.tree.leaves(found.grad), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)
    assert int(found.n_data) == 32


@record
class Labelled:
    """Cross entropy of the net inside a joint energy."""

    rest: object = static()

    def __call__(self, key, weights, rows):
        joint = eqx.combine(weights, self.rest)
        inner, rest = eqx.partition(joint.net, eqx.is_inexact_array)
        return CrossEntropy(rest)(key, inner, rows)


def test_a_generator_learns_where_chains_end(key):
    """With a chain that moves by one, g is pulled by one: the gradient of −|g − (g + 1)|²/2 is 1."""
    energy = quadratic(1.0)
    generator = MLP((2, 1), jax.random.key(2))
    weights, rest = eqx.partition(generator, eqx.is_inexact_array)
    target = Cooperative(energy, rest, Shift(), DATA, latent=2, steps=1, batch=32)
    found, feed = looked(key, target, target.start(jax.random.key(0)), (energy.weights, weights))
    np.testing.assert_allclose(found.grad[1].layers[0].bias, 1.0, rtol=1e-4)
    assert float(feed.note.ok) == 1
    start = jax.tree.map(lambda u: jnp.asarray(u)[None], (energy.weights, weights))
    trained = train(jax.random.key(5), target, start, steps=100, thin=10)
    assert np.isfinite(np.asarray(trained.notes.energy_data)).all()


# --- training ---------------------------------------------------------------------------------------------------------


def test_training_goes_on_from_where_it_stopped(key, tmp_path):
    """The buffer is in the state: 40 steps in a folder, stopped at 20, are 40 steps."""
    energy = quadratic(1.5)
    how = dict(steps=2, chains=8, batch=8, buffer=32)
    target = EnergyLikelihood(energy, MALA(step_size=0.1), DATA, Around(shape=(1,)), **how)
    kernel = EMA(Optimize(optax.adam(0.05)), 0.9)
    start = jax.tree.map(lambda u: u[None], energy.weights)
    go = lambda draws, **more: run(
        jax.random.clone(key), kernel, target, start, draws=draws, chunk=10, collect=note_of, **more
    )
    whole = go(40)
    go(20, store=tmp_path / "a")
    parts = go(40, store=tmp_path / "a")
    np.testing.assert_array_equal(np.asarray(whole.kept.energy_chain), parts.kept.load().energy_chain)
    np.testing.assert_array_equal(whole.states.feed.buffer.position, parts.states.feed.buffer.position)


def cliff(x):
    """Climbs gently, and is no number beyond 3."""
    return jnp.where(x[0] < 3, x[0], jnp.nan)


def test_the_watchdog_undoes_what_went_wrong_and_stops_in_the_end(key):
    dog = Watchdog(patience=2)
    climb = Optimize(optax.sgd(0.1))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = run(key, climb, Density(cliff), jnp.zeros((1, 1)), draws=100, chunk=10, callbacks=[dog])
    assert dog.undone == 2
    words = [str(w.message) for w in told]
    assert ["go back" in w for w in words] == [True, True, False]
    assert "stopped" in words[2]
    assert np.isfinite(np.asarray(found.states.position)).all()
    assert np.isfinite(np.asarray(dog.good.position)).all()
    assert found.kept.shape[1] < 100


def test_training_that_is_stopped_gives_what_was_well(key):
    """Weights that no longer have a value: fit gives those before."""
    target = Loss(steep, np.zeros((4, 1), np.float32), order="replacement")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = train(key, target, jnp.ones((1,)), steps=2000, rate=1.5e-3, thin=2, callbacks=[Watchdog(1e9)])
    assert float(trained.run.states.position[0]) < 1.6
    assert np.isfinite(np.asarray(trained.run.states.eval.log_density)).all()


def steep(key, position, rows):
    """Climbs to where it has no value."""
    return -position + jnp.where(position > 1.6, jnp.nan, 0.0) + 0 * rows[:, 0]


def test_a_run_that_goes_well_is_left_alone(key):
    dog = Watchdog()
    found = run(key, Optimize(optax.sgd(0.01)), Density(cliff), jnp.zeros((1, 1)), draws=20, chunk=10, callbacks=[dog])
    assert dog.undone == 0
    assert found.kept.shape[1] == 20


def test_energies_that_part_are_undone(key):
    dog = Watchdog(limit=0.5, patience=1)
    with pytest.warns(UserWarning, match="Watchdog"):
        run(key, Optimize(optax.sgd(0.1)), Density(cliff), jnp.zeros((1, 1)), draws=100, chunk=4, callbacks=[dog])
    assert dog.undone == 1
    assert float(dog.good.position[0, 0]) < 0.8


def test_the_limit_of_the_watchdog_is_in_nats():
    """A gap of ½ in f is 50 nats at T = 0.01."""
    info, states = SimpleNamespace(log_density=np.full((1, 10), 0.5)), {"weight": np.ones(3)}
    for temperature, fine in ((1.0, True), (0.01, False)):
        energy = replace(quadratic(), temperature=temperature)
        target = EnergyLikelihood(energy, SGLD(0.1), DATA, Uniform(shape=(1,)), chains=8, batch=8, start_at="noise")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = Watchdog(limit=10.0)(Progress(1, None, target, states, None, info))
        assert found.stop != fine


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_in_one_sentence(key):
    energy, kernel, base = quadratic(), SGLD(step_size=0.1), Around(shape=(1,))
    with pytest.raises(ValueError, match="it must give one number"):
        Energy.of(MLP((2, 3), jax.random.key(0)), (2,))
    for how, words in [
        (dict(start_at="middle"), "start_at is 'middle'"),
        (dict(buffer=10), "a buffer of 10 does not hold 128 chains"),
        (dict(steps=0), "chains must move"),
        (dict(start_at="data", batch=8), "128 chains begin at 8 examples"),
        (dict(entropy=0.3), "set `through` too"),
    ]:
        with pytest.raises(ValueError, match=words):
            EnergyLikelihood(energy, kernel, DATA, base, **how)
    with pytest.raises(ValueError, match="too few"):
        train(key, None, None, steps=5)
    with pytest.raises(ValueError, match="give one of each"):
        Sum((energy,), (1.0, 2.0))


def test_an_energy_without_an_integral_is_refused(key):
    k_flat, k_fine = jax.random.split(key)
    flat = Energy.of(MLP((2, 16, 1), jax.random.key(1)), (2,))
    with pytest.raises(ValueError, match="e\\^f has no integral"):
        integrable(k_flat, flat, 3.0)
    integrable(k_fine, Energy.of(MLP((2, 16, 1), jax.random.key(1)), (2,), scale=3.0), 3.0)


def test_the_words_state_the_temperature():
    assert "T = 0.25" in quadratic(temperature=0.25).words
    assert "N(0, 3²)" in quadratic(scale=3.0).words


def test_starts_are_different_nets(key):
    weights, _ = starts(lambda k: MLP((2, 4, 1), k), key, 3)
    first = weights.layers[0].weight
    assert first.shape == (3, 2, 4)
    assert not np.allclose(first[0], first[1])
