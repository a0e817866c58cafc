"""A small posterior that the tests of targets share."""

import jax
import jax.numpy as jnp
import numpy as np

from langevin.targets import zoo
from langevin.targets.bayes import Bayes
from langevin.targets.transformed import Positive

ZOO = {
    "gaussian": zoo.Gaussian(np.array([1.0, -2.0]), np.array([[2.0, 0.9], [0.9, 1.0]])),
    "diagonal": zoo.Gaussian.conditioned(5, 100.0),
    "rotated": zoo.Gaussian.conditioned(4, 100.0, shape="rotated", key=jax.random.key(3)),
    "ar1": zoo.Gaussian.conditioned(4, 10.0, shape="ar1", rho=0.8),
    "banana": zoo.Banana(),
    "bananas": zoo.Banana(curvature=0.2, scale=1.5, d=6),
    "funnel": zoo.Funnel(d=3, scale=1.0),
    "mixture": zoo.Mixture([1.0, 3.0], np.array([[-2.0, 0.0], [1.0, 1.0]]), np.array([[0.5, 1.0], [1.0, 0.3]])),
    "grid": zoo.Mixture.grid(),
    "rings": zoo.Rings(),
    "disc": zoo.Rings(radii=jnp.array([0.1, 1.0]), width=0.5),
    "skew": zoo.Skew(),
    "scales": zoo.Scales(),
}


def log_prior(p):
    return jax.scipy.stats.norm.logpdf(p["w"], scale=2.0).sum() + jax.scipy.stats.gamma.logpdf(p["s"], 2.0)


def log_likelihood(p, data):
    return jax.scipy.stats.norm.logpdf(data["y"], data["x"] @ p["w"], p["s"])


def posterior(batch=None, n=12):
    k_x, k_y = jax.random.split(jax.random.key(0))
    x = jax.random.normal(k_x, (n, 2))
    y = x @ jnp.array([1.0, -0.5]) + 0.5 * jax.random.normal(k_y, (n,))
    return Bayes(log_prior, log_likelihood, {"x": x, "y": y}, batch)


POINT = {"w": jnp.array([0.8, 0.1]), "s": jnp.asarray(0.7)}
FREE = {"s": Positive()}


def close(x, y, tolerance=1e-4):
    """Equal up to `tolerance` of the size of y, leaf by leaf."""
    for u, v in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
        scale = np.max(np.abs(v)) + 1e-6
        np.testing.assert_allclose(u, v, rtol=0, atol=tolerance * scale)


def truth(fn, position):
    """A density and its gradient by autodiff."""
    return jax.jit(jax.value_and_grad(fn))(position)
