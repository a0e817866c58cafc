"""log Z of an energy: between bounds in the plane, where a grid knows it; and the noise taken off by Tweedie."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.diagnostics import grid
from langevin.energy.energy import Energy
from langevin.energy.weigh import log_z


def plane(scale=1.5, temperature=1.0):
    net = eqx.nn.MLP(2, 1, 16, 2, jax.nn.silu, key=jax.random.key(5))
    net = jax.tree.map(lambda u: 3.0 * u if eqx.is_inexact_array(u) else u, net)
    return Energy.of(net, (2,), temperature=temperature, scale=scale)


def test_annealing_and_quadrature_agree_and_bounds_hold(key):
    energy = plane()
    known = grid.grid(energy.log_density, 9.0)
    draws = jnp.asarray(grid.drawn(known, 128), jnp.float32)
    found = log_z(key, energy, draws=draws, ladder=100, particles=256)
    assert abs(float(found.log_z) - known.log_z) < 5 * float(found.stderr)
    assert float(found.stderr) < 0.03
    assert abs(float(found.upper) - known.log_z) < 0.1
    alone = log_z(jax.random.fold_in(key, 1), energy, ladder=100, particles=256)
    assert abs(float(alone.log_z) - known.log_z) < 5 * float(alone.stderr)
    assert not np.isfinite(float(alone.upper))


def test_draws_of_another_law_turn_the_sandwich_over(key):
    energy = plane()
    wrong = jax.random.normal(key, (128, 2)) * 0.1 - 2.5
    found = log_z(jax.random.fold_in(key, 1), energy, draws=wrong, ladder=20, particles=256)
    assert float(found.upper) < float(found.lower) - 5 * float(found.stderr)


def test_the_log_z_of_a_gaussian_is_known_at_every_temperature(key):
    # e^{−|x|²/2vT} e^{−|x|²/2σ²} has the precision 1/vT + 1/σ²
    v, T, scale, d = 0.6, 0.5, 1.5, 3
    energy = Energy.of(Bell(jnp.asarray(v)), (d,), temperature=T, scale=scale)
    known = 0.5 * d * np.log(2 * np.pi / (1 / (v * T) + 1 / scale**2))
    found = log_z(key, energy, ladder=400, particles=1024)
    assert float(found.stderr) < 0.012
    assert abs(float(found.log_z) - known) < 4 * float(found.stderr)


def test_an_energy_without_a_base_is_told():
    energy = plane(scale=np.inf)
    with pytest.raises(ValueError, match=r"log_z: the energy has no Gaussian factor to begin at; pass base="):
        log_z(jax.random.key(0), energy)


def test_draws_of_a_grid_are_of_its_law():
    known = grid.grid(lambda x: -0.5 * jnp.sum(((x - jnp.array([1.0, -0.5])) / jnp.array([0.5, 2.0])) ** 2), 10.0)
    x = grid.drawn(known, 40_000)
    z = (x.mean(0) - [1.0, -0.5]) / (np.array([0.5, 2.0]) / 200)
    assert np.abs(z).max() < 5
    z = (x.var(0) / np.array([0.25, 4.0]) - 1) / np.sqrt(2 / 40_000)
    assert np.abs(z).max() < 5  # a cell of 1/30 adds 4e-4 of the smaller variance


class Bell(eqx.Module):
    """f = −|x|²/2v."""

    v: jax.Array

    def __call__(self, x):
        return -0.5 * jnp.sum(x**2) / self.v


def test_noise_is_taken_off_as_of_a_gaussian():
    # clean N(0, s²), noise e²: p is N(0, s² + e²), and the mean of the clean one is x s²/(s² + e²)
    s, e = 0.7, 0.4
    energy = Energy.of(Bell(jnp.asarray(s**2 + e**2)), (3,))
    x = jnp.array([1.0, -2.0, 0.3])
    np.testing.assert_allclose(energy.denoised(x, e), x * s**2 / (s**2 + e**2), rtol=1e-5)
