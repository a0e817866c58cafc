"""Draws for every example: the ELBO's own mean with less noise, and what has no layers for it is refused."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from vi.checks import LIMIT, params_of

from langevin import vi
from langevin.core import tree
from langevin.core.record import record
from langevin.nets.bnn import bnn
from langevin.nets.images import Convolution
from langevin.nets.mlp import MLP, Dense
from langevin.vi.variational import Variational

N = 24


def model(build, shape, **how):
    k_x, k_y = jax.random.split(jax.random.key(4))
    x = jax.random.normal(k_x, (N, *shape))
    return bnn(build, (x, jnp.sin(3 * x.reshape(N, -1)[:, 0]) + 0.1 * jax.random.normal(k_y, (N,))), **how)


NET = partial(MLP, (2, 5, 1), activation=jnp.tanh)
MLP_MODEL = model(NET, (2,), noise=0.5)


class Filters(eqx.Module):
    """A convolution, and a dense layer on the mean over its places."""

    convolution: Convolution
    head: Dense

    def __init__(self, key):
        k_first, k_head = jax.random.split(key)
        self.convolution, self.head = Convolution(1, 2, 3, k_first), Dense(2, 1, k_head)

    def __call__(self, x):
        return self.head(jnp.tanh(self.convolution(x)).mean((0, 1)))


@partial(jax.jit, static_argnames="n")
def gradients(key, aim, params, n):
    one = lambda key: ravel_pytree(aim.evaluate((key, aim.target.data), params).grad)[0]
    return jax.lax.map(one, jax.random.split(key, n), batch_size=100)


def check_mean(key, model, family, objective, n=1500):
    """The mean gradient is that of the ELBO with one draw for all examples."""
    k_a, k_b = jax.random.split(key)
    k_params, _ = jax.random.split(jax.random.key(9))
    params = params_of(family, k_params, model.position, apart=0.3)
    of = lambda key, objective: np.asarray(
        gradients(key, Variational(model.target, family, objective), params, n), np.float64
    )
    a, b = of(k_a, objective), of(k_b, vi.ELBO())
    error = np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / n)
    assert np.abs((a.mean(0) - b.mean(0)) / np.maximum(error, 1e-6)).max() < LIMIT
    return a, b


def check_noise(key, model, family, objective):
    """Gradients of means have less than a third of the variance, by 24 examples."""
    a, b = check_mean(key, model, family, objective)
    size = tree.size(model.position)
    assert a.var(0)[:size].sum() < 0.35 * b.var(0)[:size].sum()


CASES = {
    "local": (vi.MeanField(0.3), vi.LocalELBO()),
    "local, two draws": (vi.MeanField(0.3), vi.LocalELBO(draws=2)),
    "flipout": (vi.MeanField(0.3), vi.FlipoutELBO()),
    "flipout, radial": (vi.Radial(0.6), vi.FlipoutELBO()),
}


@pytest.mark.parametrize("name", ["local", "flipout", "flipout, radial"])
def test_means_are_the_elbos_with_less_noise(name, key):
    family, objective = CASES[name]
    check_noise(key, MLP_MODEL, family, objective)


def test_several_draws_and_layers_that_stay(key):
    """`part` fixes weights of one layer and the bias of the other; log σ, which is in no layer, is drawn once."""
    part = model(NET, (2,), part=("layers.0.bias", "layers.1.weight"))
    for objective in (vi.LocalELBO(draws=2), vi.FlipoutELBO(draws=2)):
        key, k_check = jax.random.split(key)
        check_mean(k_check, part, vi.MeanField(0.3), objective, n=800)


def test_flipout_of_a_convolution(key):
    check_noise(key, model(Filters, (4, 4, 1), noise=0.5), vi.MeanField(0.3), vi.FlipoutELBO())


@pytest.mark.slow
def test_a_fit_by_each(key):
    for objective in (vi.LocalELBO(), vi.FlipoutELBO()):
        key, k_fit = jax.random.split(key)
        start = jax.tree.map(lambda u: u[None], MLP_MODEL.position)
        posterior = vi.fit(
            k_fit, MLP_MODEL.target, vi.MeanField(), start, draws=5, objective=objective, steps=30, batch=8
        )
        assert np.isfinite(np.asarray(posterior.info.log_density)).all()


def test_what_has_no_layers_or_no_signs_is_refused(key):
    flat = vi.Variational(MLP_MODEL.target, vi.FullRank(), vi.FlipoutELBO())
    evaluate = lambda aim, position: aim.evaluate((key, aim.target.data), aim.family.init(key, position))
    with pytest.raises(TypeError, match=r"may change sign one by one, MeanField or Radial; FullRank"):
        evaluate(flat, MLP_MODEL.position)
    with pytest.raises(TypeError, match="LocalELBO needs the factorized Gaussian"):
        evaluate(vi.Variational(MLP_MODEL.target, vi.Radial(), vi.LocalELBO()), MLP_MODEL.position)
    conv = model(Filters, (4, 4, 1))
    with jax.debug_key_reuse(False), pytest.raises(ValueError, match=r"\(4, 4\) rows of one example.*FlipoutELBO"):
        evaluate(vi.Variational(conv.target, vi.MeanField(), vi.LocalELBO()), conv.position)
    with pytest.raises(ValueError, match="draws is 0"):
        vi.LocalELBO(draws=0)
    plain = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    other = model(plain, (2,))
    with jax.debug_key_reuse(False), pytest.raises(TypeError, match=r"no net with layers .*take ELBO"):
        evaluate(vi.Variational(other.target, vi.MeanField(), vi.FlipoutELBO()), other.position)


# --- mutants -------------------------------------------------------------------------------------------------


@record
class WideLocal(vi.LocalELBO):
    """Variances in place of standard deviations."""

    def noisy(self, family, params, draw):
        spread, how = vi.LocalELBO.noisy(self, family, params, draw)
        return jax.tree.map(jnp.square, spread), how


@record
class HalfFlipout(vi.FlipoutELBO):
    """Half of the deviations."""

    def noisy(self, family, params, draw):
        change, how = vi.FlipoutELBO.noisy(self, family, params, draw)
        return tree.scale(0.5, change), how


@record
class SameSigns(vi.FlipoutELBO):
    """All examples have the same signs: the mean is right, and nothing is gained."""

    def noisy(self, family, params, draw):
        change, how = vi.FlipoutELBO.noisy(self, family, params, draw)
        return change, lambda layer, change, key: how(layer, change, jax.random.key(0))


@pytest.mark.parametrize("mutant", [WideLocal(), HalfFlipout(), SameSigns()], ids=lambda u: type(u).__name__)
def test_mutants_are_caught(mutant, key):
    with jax.debug_key_reuse(False), pytest.raises(AssertionError):
        check_noise(key, MLP_MODEL, vi.MeanField(0.3), mutant)
