"""The reversible trajectory: integers come back, the gradient is the scan's, memory is flat, faults are told."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core import noise, tree
from langevin.core.target import Density
from langevin.evidence.annealing import reversible
from langevin.evidence.annealing.dais import Annealing, log_weight, log_weights
from langevin.evidence.annealing.fixed_point import segment, shrink, to_fraction
from langevin.evidence.annealing.reversible import Reversible, number_keys, trajectory
from langevin.evidence.base import Normal
from langevin.targets.path import Geometric

FRACTIONS = [(1, 2), (3, 4), (7, 8), (9, 10), (19, 20), (99, 100), (1, 3), (1, 1)]
NINE = Reversible(fraction=(9, 10))
COARSE = Reversible(bits=16, fraction=(9, 10))


def log_net(z, weight, x, y):
    """Two classes by a network; z are the shifts inside it and its last weights."""
    out = jnp.tanh(x @ weight + z["a"][None]) @ z["b"].reshape(-1)[1:]
    return jnp.sum(jax.nn.log_sigmoid((2 * y - 1) * out)) - 0.1 * tree.dot(z, z)


def log_slope(z, slope):
    return slope * jnp.sum(z)


def weight(key, path, annealing, theta, how):
    """`log_weight` with the scan (how None) or a reversible trajectory of that kind."""
    if how is None:
        return log_weight(key, path, annealing, theta, memory="scan")
    mass = tree.fill(annealing.mass, theta)
    k_start, k_steps = jax.random.split(key)
    v = jax.tree.map(lambda m, e: jnp.sqrt(m) * e, mass, noise.like(k_start, theta))
    end, gained = trajectory(k_steps, path, annealing, mass, theta, v, how)
    return path.target.log_density(end) - path.base.log_density(theta) + gained


def problem(length):
    """(value of (inputs, how), inputs): every number that may be learned, on the position {a: (3,), b: (2, 2)}."""
    k_x, k_w, k_y, k_a, k_b = jax.random.split(noise.key(3, impl="hash"), 5)
    x, y = noise.normal(k_x, (20, 4)), jax.random.bernoulli(k_y, 0.4, (20,)).astype(jnp.int32)
    inputs = dict(
        weight=noise.normal(k_w, (4, 3)),
        scale=jnp.float32(1.1),
        theta={"a": noise.normal(k_a, (3,)), "b": noise.normal(k_b, (2, 2))},
        annealing=Annealing(
            jnp.arange(1, length + 1) / length, jnp.linspace(0.2, 0.1, length), jnp.float32(0.9), jnp.float32(1.3)
        ),
    )

    def value(inputs, how):
        target = Density(log_net, (inputs["weight"], x, y))
        path = Geometric(Normal(tree.zeros_like(inputs["theta"]), inputs["scale"]), target)
        mass = {"a": inputs["annealing"].mass, "b": jnp.full((2, 2), 0.4)}
        annealing = dataclasses.replace(inputs["annealing"], mass=mass)
        return weight(noise.key(5, impl="hash"), path, annealing, inputs["theta"], how)

    return value, inputs


def rungs(length):
    return jnp.ones(length), jnp.full(length, 0.2)


def apart(a, b):
    """|a − b| / |b| of two trees."""
    a, b = (np.concatenate([np.ravel(u).astype(np.float64) for u in jax.tree.leaves(x)]) for x in (a, b))
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def lost(x):
    return all(np.isnan(u).all() for u in jax.tree.leaves(x))


# --- the buffer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), FRACTIONS)
def test_the_buffer_is_undone_bit_by_bit(key, n, d):
    k_w, k_u = jax.random.split(key)
    w = jax.random.randint(k_w, (5000,), -(2**31) + 200, 2**31 - 200).at[:5].set(jnp.asarray([0, -1, 1, d, -d]))
    u = jax.random.bits(k_u, (5000,)) // d
    shorter, fuller = shrink(w, u, n, d)
    back = shrink(shorter, fuller, d, n)
    np.testing.assert_array_equal(back[0], w)
    np.testing.assert_array_equal(back[1], u)
    assert np.max(np.abs(np.asarray(shorter, float) - np.asarray(w, float) * n / d)) < d


@pytest.mark.parametrize(("n", "d"), FRACTIONS[:5])
def test_a_word_holds_a_segment_in_the_worst_case_and_no_step_more(n, d):
    u = 0
    for _ in range(segment(n, d, 32)):
        assert u * d + d - 1 < 2**32
        u = (u * d + d - 1) // n
    assert u * d + d - 1 >= 2**32


def test_the_cut_fits_the_words_and_counts_every_step():
    grid = reversible.Grid(9, 10, None, None, None)
    for length in (1, 16, 173, 174, 401, 1600, 6400):
        size, whole, rest = reversible._cut(grid, jnp.zeros(3), length)
        assert max(size, rest) <= 173
        assert size * whole + rest == length


@pytest.mark.parametrize("impl", ["hash", "threefry", "rbg"])
def test_keys_by_number_are_those_of_split(impl):
    """So the noise is the scan's."""
    of = lambda: jax.random.key(4, impl="rbg") if impl == "rbg" else noise.key(4, impl=impl)
    words, key_of = number_keys(of(), 7)
    made = [jax.random.key_data(key_of(words, jnp.int32(k))) for k in range(7)]
    np.testing.assert_array_equal(jnp.stack(made), jax.random.key_data(jax.random.split(of(), 7)))


# --- the gradient ------------------------------------------------------------------------------------------------


def test_the_gradient_is_the_scans():
    """Over two segments of 173 steps."""
    value, inputs = problem(346)
    there, wanted = jax.jit(jax.value_and_grad(partial(value, how=None)))(inputs)
    here, grads = jax.jit(jax.value_and_grad(partial(value, how=NINE)))(inputs)
    assert abs(here - there) < 1e-5 * abs(there)
    assert apart(grads, wanted) < 1e-5


@pytest.mark.slow
def test_every_cotangent_in_double_precision():
    """Of weights, base, θ, β, η, γ and M, each to ten digits: over a segment of 383 steps and a rest."""
    with jax.enable_x64(True):
        value, inputs = problem(401)
        inputs = jax.tree.map(lambda u: np.asarray(u, np.float64), inputs)
        inputs["annealing"] = dataclasses.replace(inputs["annealing"], gamma=0.9)  # float32's is 2e-8 off 9/10
        wanted = jax.jit(jax.grad(partial(value, how=None)))(inputs)
        grads = jax.jit(jax.grad(partial(value, how=NINE)))(inputs)
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(wanted), strict=True):
        assert apart(a, b) < 1e-10


def test_particles_by_vmap():
    """Values and gradient through `log_weight`, and a particle that is lost loses only its own weight."""
    annealing, base = Annealing(jnp.arange(1, 21) / 20, 0.1), Normal(jnp.zeros(3))
    starts = jnp.linspace(-1.0, 1.0, 12).reshape(4, 3)

    def weights(slope, starts, memory):
        path = Geometric(base, Density(log_slope, (slope,)))
        words, wrap = noise.words(jax.random.split(noise.key(1, impl="hash"), 4))
        one = lambda word, start: log_weight(wrap(word), path, annealing, start, memory=memory)
        log_w = jax.vmap(one)(words, starts)
        return jnp.sum(log_w), log_w

    run = jax.jit(jax.grad(weights, has_aux=True), static_argnames="memory")
    (wanted, there), (grad, here) = (run(0.5, starts, memory=m) for m in ("scan", "reversible"))
    np.testing.assert_allclose(here, there, rtol=1e-5)
    assert apart(grad, wanted) < 1e-5
    _, here = run(0.5, starts.at[2].set(200.0), memory="reversible")
    np.testing.assert_array_equal(np.isnan(here), [False, False, True, False])


def log_quadratic(x, precision):
    return -0.5 * x @ precision @ x


@pytest.mark.parametrize("particles", [pytest.param(16, marks=pytest.mark.slow), 32])
def test_both_passes_round_the_gradient_of_a_quadratic_alike(particles):
    """With 16 or more particles XLA fuses the products of a quadratic form differently where their sum is used."""
    target, base = Density(log_quadratic, (jnp.eye(3) + 0.3,)), Normal(jnp.ones(3))

    def mean(numbers, memory):
        annealing = Annealing(jnp.arange(1, 9) / 8, numbers["step_size"], mass=numbers["mass"])
        how = dict(particles=particles, memory=memory)
        return jnp.mean(log_weights(noise.key(0, impl="hash"), target, base, annealing, **how))

    run = jax.jit(jax.grad(mean), static_argnames="memory")
    numbers = dict(step_size=0.3, mass=1.2)
    assert apart(run(numbers, memory="reversible"), run(numbers, memory="scan")) < 1e-4


def pushed(slope, beta, step_size, how, size=3):
    """log w of a chain that a constant force drives from 0."""
    path = Geometric(Normal(jnp.zeros(size)), Density(log_slope, (slope,)))
    return weight(noise.key(1, impl="hash"), path, Annealing(beta, step_size), jnp.zeros(size), how)


def test_memory_is_a_fraction_of_a_bit_a_coordinate_and_step():
    def temporary(length, how):
        program = jax.jit(jax.grad(partial(pushed, how=how, size=100))).lower(1.0, *rungs(length)).compile()
        return program.memory_analysis().temp_size_in_bytes

    short, long, scanned = temporary(64, NINE), temporary(1024, NINE), temporary(1024, None)
    assert long - short < 960 * 100 * 0.5 / 8  # half a bit, of which 0.15 to 0.3 are buffers; a key would be 0.64
    assert long < scanned / 100


# --- faults ------------------------------------------------------------------------------------------------------


def wrong_noise(step, grid, wanted, given, *rest):
    return step(grid, wanted, (given[0] ^ jnp.uint32(1), *given[1:]), *rest)


def wrong_rounding(step, grid, wanted, given, ct, carry, k):
    """One unit in the last place of one velocity at one step."""
    ((theta, w, u), *others), out = step(grid, wanted, given, ct, carry, k)
    return ((theta, w.at[1].add((k == 11).astype(jnp.int32)), u), *others), out


@pytest.mark.parametrize("fault", [wrong_noise, wrong_rounding])
def test_a_walk_back_that_misses_the_start_has_no_gradient(monkeypatch, fault):
    monkeypatch.setattr(reversible, "step_back", partial(fault, reversible.step_back))
    there, grad = jax.jit(jax.value_and_grad(partial(pushed, how=NINE)))(1.0, *rungs(30))
    assert np.isfinite(there)
    assert np.isnan(grad)


def test_leaving_the_range_is_told():
    """Integers wrap around without a word, and backwards too: the range must be watched."""
    program = jax.jit(jax.value_and_grad(pushed), static_argnames="how")
    run = lambda slope, how: program(slope, *rungs(30), how=how)
    assert lost(run(40.0, NINE))  # θ and w pass 128
    for slope, how in ((1.0, NINE), (40.0, COARSE)):
        here, wanted = run(slope, how), run(slope, None)
        assert apart(here, wanted) < (1e-5 if how is NINE else 1e-3)
    assert lost(run(jnp.nan, NINE))  # NaN is an integer like any other


@pytest.mark.parametrize(
    ("gamma", "how", "words"),
    [
        (0.0, Reversible(), "checkpoint"),
        (0.9, Reversible(fraction=(0, 1)), "checkpoint"),
        (0.9, Reversible(fraction=(10, 9)), "at most 1"),
        (0.999, Reversible(), "near gamma"),
        (0.9, Reversible(bits=31), "1 to 30"),
    ],
)
def test_what_cannot_be_is_refused(key, gamma, how, words):
    path = Geometric(Normal(jnp.zeros(3)), Normal(jnp.ones(3)))
    with pytest.raises(ValueError, match=words):
        weight(key, path, Annealing(jnp.ones(3), 0.1, gamma), jnp.zeros(3), how)


def test_gamma_becomes_a_small_fraction_unless_it_is_traced():
    found = [to_fraction(np.float32(g)) for g in (0.5, 0.9, 0.95, 0.87, 2 / 3)]
    assert found == [(1, 2), (9, 10), (19, 20), (87, 100), (2, 3)]
    with pytest.raises(ValueError, match=r"traced.*fraction"):
        jax.jit(lambda gamma: to_fraction(gamma)[0])(0.9)


def test_half_precision_is_refused(key):
    path = Geometric(Normal(jnp.zeros(3)), Normal(jnp.ones(3)))
    with pytest.raises(TypeError, match="float32 or float64"):
        weight(key, path, Annealing(jnp.ones(3)), jnp.zeros(3, jnp.bfloat16), Reversible())
