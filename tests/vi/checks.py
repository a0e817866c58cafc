"""What every family and every objective must do, as functions that fail on a wrong one; mutants are held to them too.

Families are looked at away from where they begin: φ is moved by a little noise, so that no factor is zero.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.stats import multivariate_normal

from langevin.core import tree
from langevin.core.record import record
from langevin.core.target import Exact
from langevin.vi.family import HasEntropy, HasLogProb, HasMoments
from langevin.vi.variational import Variational, joint

POSITION = {"b": jnp.array([0.3, -0.2]), "w": jnp.array([[0.5, -1.0], [0.2, 0.4], [-0.3, 0.1]])}
SIZE = 8
LIMIT = 5.0


def params_of(family, key, position=POSITION, apart=0.2):
    """φ a little away from where it begins."""
    k_init, k_move = jax.random.split(key)
    flat, unravel = ravel_pytree(family.init(k_init, position))
    return unravel(flat + apart * jax.random.normal(k_move, flat.shape))


def z_of(values, null):
    """z-scores of the mean of rows against a null."""
    values = np.asarray(values, np.float64)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return (values.mean(axis=0) - np.asarray(null, np.float64)) / np.maximum(error, 1e-12)


def draws_of(family, params, key, n=6000):
    """Draws of q, flat, and their log densities where there is one."""
    return tuple(np.asarray(u, np.float64) for u in _draws_of(family, params, key, n))


@partial(jax.jit, static_argnames="n")
def _draws_of(family, params, key, n):
    draws = jax.vmap(family.sample, (0, None))(jax.random.split(key, n), params)
    log_q = jax.vmap(family.log_prob, (None, 0))(params, draws) if isinstance(family, HasLogProb) else jnp.zeros(n)
    return jax.vmap(lambda u: ravel_pytree(u)[0])(draws), log_q


def check_moments(family, key):
    """Mean and variance are those of draws."""
    assert isinstance(family, HasMoments)
    k_params, k_draw = jax.random.split(key)
    params = params_of(family, k_params)
    flat, _ = draws_of(family, params, k_draw)
    mean, variance = (np.asarray(ravel_pytree(f(params))[0]) for f in (family.mean, family.variance))
    assert np.abs(z_of(flat, mean)).max() < LIMIT
    assert np.abs(z_of((flat - mean) ** 2, variance)).max() < LIMIT


def check_gaussian(family, key):
    """log q is the normalized Gaussian with the covariance of the draws; its entropy is that Gaussian's."""
    k_params, k_draw = jax.random.split(key)
    params = params_of(family, k_params)
    flat, log_q = draws_of(family, params, k_draw)
    mean, unravel = ravel_pytree(family.mean(params))
    precision = -jax.jit(jax.hessian(lambda v: family.log_prob(params, unravel(v))))(mean)
    covariance = np.linalg.inv(np.asarray(precision, np.float64))
    mean = np.asarray(mean)
    np.testing.assert_allclose(np.diagonal(covariance), ravel_pytree(family.variance(params))[0], rtol=1e-3)
    expected = multivariate_normal.logpdf(flat[:50], mean, covariance)
    np.testing.assert_allclose(log_q[:50], expected, rtol=1e-3, atol=2e-3)
    entropy = 0.5 * np.linalg.slogdet(2 * math.pi * math.e * covariance)[1]
    np.testing.assert_allclose(family.entropy(params), entropy, rtol=1e-4, atol=1e-3)
    apart = flat - mean
    crossed = apart[:, :, None] * apart[:, None]
    assert np.abs(z_of(crossed, covariance)).max() < LIMIT


def check_plane(family, key):
    """In two dimensions: the density integrates to 1, and draws have the means of bounded functions that it gives."""
    k_params, k_draw = jax.random.split(key)
    params = params_of(family, k_params, jnp.array([0.3, -0.5]))
    draws, _ = draws_of(family, params, k_draw)
    low, high = draws.min(axis=0), draws.max(axis=0)
    axes = [np.linspace(a - 0.3 * (b - a), b + 0.3 * (b - a), 401) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_q = jax.jit(jax.vmap(family.log_prob, (None, 0)))(params, jnp.asarray(grid, jnp.float32))
    share = np.exp(np.asarray(log_q, np.float64)) * np.prod([u[1] - u[0] for u in axes])
    assert abs(share.sum() - 1) < 0.01
    bounded = lambda x: np.tanh(np.concatenate([x, x**2, x[:, :1] * x[:, 1:]], axis=1))
    assert np.abs(z_of(bounded(draws), share @ bounded(grid) / share.sum())).max() < LIMIT


def check_entropy(family, key):
    """The gradient of the entropy in φ is that of −E log q: the constant may be left out."""
    assert isinstance(family, HasEntropy)
    k_params, k_draw = jax.random.split(key)
    params = params_of(family, k_params)

    @jax.jit
    def gradients(keys):
        def one(key):
            minus = lambda params: -family.log_prob(params, family.sample(key, params))
            return ravel_pytree(jax.grad(minus)(params))[0]

        return jax.vmap(one)(keys)

    found = gradients(jax.random.split(k_draw, 4000))
    exact = ravel_pytree(jax.grad(family.entropy)(params))[0]
    z, close = z_of(found, exact), np.abs(np.asarray(found).mean(0) - exact) < 1e-4
    assert np.where(close, 0.0, np.abs(z)).max() < LIMIT


def check_pathwise(family, key):
    """∇_φ E θ² by draws is that of mean² + variance."""
    k_params, k_draw = jax.random.split(key)
    params = params_of(family, k_params)
    weights = jnp.linspace(0.5, 2.0, SIZE)
    square = lambda flat: jnp.sum(weights * flat**2)

    @jax.jit
    def gradients(keys):
        one = lambda key: jax.grad(lambda p: square(ravel_pytree(family.sample(key, p))[0]))(params)
        return jax.vmap(lambda key: ravel_pytree(one(key))[0])(keys)

    def moment(params):
        mean, variance = (ravel_pytree(f(params))[0] for f in (family.mean, family.variance))
        return jnp.sum(weights * (mean**2 + variance))

    found, exact = gradients(jax.random.split(k_draw, 4000)), ravel_pytree(jax.jit(jax.grad(moment))(params))[0]
    z, close = z_of(found, exact), np.abs(np.asarray(found).mean(0) - exact) < 1e-4
    assert np.where(close, 0.0, np.abs(z)).max() < LIMIT


# --- objectives --------------------------------------------------------------------------------------------------


@record
class Bowl(Exact):
    """A skewed density over `POSITION`, neither Gaussian nor normalized."""

    def log_density(self, position):
        x = ravel_pytree(position)[0]
        return -0.7 * jnp.sum(x**2) + 0.4 * jnp.sum(x[:-1] * x[1:]) - jnp.sum(jax.nn.softplus(2 * x)) + 3.0


def direct(objective, family, target, key, params):
    """The objective's value written down once more, from log weights that autodiff goes all through."""
    strata = hasattr(family, "components")
    components = family.components if strata else 1
    keys = jax.random.split(key, objective.draws * components)
    which = jnp.repeat(jnp.arange(components), objective.draws)
    log_pi = family.share(params) if strata else jnp.zeros(1)

    def one(key, c):
        position, log_q = joint(family, key, params, "total", c)
        return target.log_density(position) - log_q

    log_w = jax.vmap(one)(keys, which)
    share = jnp.exp(log_pi[which]) / objective.draws
    return log_w, share


def check_gradient(objective, family, key, value):
    """Value and gradient by coefficients are those of autodiff through `value(log_w, share)`."""
    k_params, k_noise = jax.random.split(key)
    params, target = params_of(family, k_params), Bowl()
    aim = Variational(target, family, objective)
    found = jax.jit(lambda key: aim.evaluate((key, ()), params))(jax.random.clone(k_noise))
    expected, grad = jax.jit(
        jax.value_and_grad(lambda params: value(*direct(objective, family, target, k_noise, params)))
    )(params)
    np.testing.assert_allclose(found.log_density, expected, rtol=1e-4, atol=1e-4)
    a, b = ravel_pytree(found.grad)[0], ravel_pytree(grad)[0]
    np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3 * float(jnp.abs(b).max()))


@partial(jax.jit, static_argnames="n")
def gradients(aim, params, key, n):
    """n independent gradients of the objective, flat."""
    one = lambda key: ravel_pytree(aim.evaluate((key, ()), params).grad)[0]
    return jax.lax.map(one, jax.random.split(key, n), batch_size=256)


def check_same_mean(a, b, params, key, n=4000):
    """Two objectives have the same mean gradient."""
    k_a, k_b = jax.random.split(key)
    x, y = (np.asarray(gradients(aim, params, k, n), np.float64) for aim, k in ((a, k_a), (b, k_b)))
    error = np.sqrt((x.var(0, ddof=1) + y.var(0, ddof=1)) / n)
    z = np.abs(x.mean(0) - y.mean(0)) / np.maximum(error, 1e-9)
    assert z.max() < LIMIT, z.max()
    return z.max()


def same_tree(a, b, **how):
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, **how), a, b)
    assert tree.size(a) == tree.size(b)
