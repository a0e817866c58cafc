"""Networks as targets: likelihoods against closed forms, priors by leaf, any subset of the parameters."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy import stats

from langevin.core import tree
from langevin.core.posterior import sample
from langevin.nets.bnn import bnn, prior_scales
from langevin.nets.images import LeNet
from langevin.nets.mlp import MLP
from langevin.samplers.hmc import HMC

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
REAL = np.sin(X[:, 0]).astype(np.float32)
KINDS = {
    "gaussian": (1, REAL),
    "heteroscedastic": (2, REAL),
    "categorical": (4, np.arange(20) % 4),
    "poisson": (1, (np.arange(20) % 5).astype(np.float32)),
}


def model(kind, **options):
    n_out, y = KINDS[kind]
    return bnn(partial(MLP, (3, 5, n_out)), (X, y), kind=kind, **options), np.asarray(y)


@pytest.mark.parametrize("kind", KINDS)
def test_likelihoods_are_scipys(kind):
    """log p(data | θ) from the predictions by SciPy's own distributions."""
    m, y = model(kind)
    ours = np.asarray(m.target.likelihood(m.position, m.target.data))
    says = {k: np.asarray(v, np.float64) for k, v in m.predict(m.position, X).items()}
    if kind == "categorical":
        np.testing.assert_allclose(says["proba"].sum(1), 1.0, rtol=1e-5)
        theirs = np.log(says["proba"][np.arange(20), y])
    elif kind == "poisson":
        theirs = stats.poisson.logpmf(y, says["rate"])
    else:
        theirs = stats.norm.logpdf(y, says["mean"], says["std"])
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] if k in ("gaussian", "poisson") else []) for k in KINDS]
)
def test_minibatches_are_unbiased(kind):
    """The mean over all parts of a split of the data is the whole, value and gradient, the prior counted once."""
    m, _ = model(kind, batch=5)
    whole = jax.value_and_grad(m.target.log_density)(m.position)
    parts = [m.target.evaluate(b, m.position) for b in m.target.parts(m.target.data, 4)]
    np.testing.assert_allclose(np.mean([p.log_density for p in parts]), whole[0], rtol=1e-5)
    mean = jax.tree.map(lambda *g: sum(g) / 4, *(p.grad for p in parts))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-4), mean, whole[1])
    assert [int(p.n_data) for p in parts] == [5] * 4


def test_prior_is_normal_per_leaf():
    m, _ = model("gaussian", prior={"layers.0.*": 2.0, "*": 0.5}, noise=0.1)
    leaves = dict(zip(tree.names(m.position["net"]), jax.tree.leaves(m.position["net"]), strict=True))
    expected = sum(
        stats.norm.logpdf(np.asarray(u), 0, 2.0 if name.startswith("layers.0") else 0.5).sum()
        for name, u in leaves.items()
    )
    np.testing.assert_allclose(m.target.prior(m.position), expected, rtol=1e-5)


def test_prior_scales_by_fan_in():
    net = MLP((9, 4, 1), jax.random.key(0))
    scales = prior_scales(eqx.filter(net, eqx.is_inexact_array), "fan_in")
    assert float(scales.layers[0].weight) == pytest.approx(1 / 3)
    assert float(scales.layers[1].weight) == pytest.approx(1 / 2)
    assert float(scales.layers[0].bias) == 1.0


def test_any_subset_of_the_parameters(key):
    """Only the last layer moves; the rest stays what it was and still counts in the prediction."""
    k_net, k_start, k_run = jax.random.split(key, 3)
    net = MLP((3, 5, 1), k_net)
    m = bnn(net, (X, REAL), noise=0.3, part=("layers.1.*",))
    assert tree.size(m.position) == 6
    posterior = sample(k_run, HMC(0.05), m.target, m.starts(k_start, 2), draws=20, chunk=20)
    assert posterior.draws["net"].layers[0].weight is None
    whole = eqx.combine(jax.tree.map(lambda u: u[0, 0], posterior.draws)["net"], net)
    np.testing.assert_array_equal(whole.layers[0].weight, net.layers[0].weight)
    seen = posterior.predict(m.predict, X)["mean"][0, 0]
    np.testing.assert_allclose(seen, jax.vmap(whole)(X)[:, 0], rtol=1e-5, atol=1e-6)


def test_starts_differ_and_have_a_chain_axis(key):
    m, _ = model("gaussian")
    starts = m.starts(key, 3)
    assert {u.shape[0] for u in jax.tree.leaves(starts)} == {3}
    assert not np.allclose(starts["net"].layers[0].weight[0], starts["net"].layers[0].weight[1])


def test_a_net_takes_images(key):
    k_x, k_start = jax.random.split(key)
    images = jax.random.normal(k_x, (6, 1, 8, 8))
    m = bnn(partial(LeNet, (1, 8, 8), 3, channels=(2, 3), hidden=5), (images, np.arange(6) % 3), kind="categorical")
    start = jax.tree.map(lambda u: u[0], m.starts(k_start, 1))
    value, grad = jax.jit(jax.value_and_grad(m.target.log_density))(start)
    assert np.isfinite(value)
    assert bool(tree.finite(grad))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(kind="heteroscedastic"), "needs 2 output"),
        (dict(part=("nothing.*",)), "no parameter matches"),
        (dict(prior={"layers.0.*": 1.0}), "no pattern of `prior` matches the parameter 'layers.1"),
        (dict(prior="wide"), "it must be a number, 'fan_in'"),
        (dict(batch=21), "batch is 21, but there are 20 examples"),
        (dict(batch=0), "batch is 0"),
        (dict(order="sorted"), "'replacement' or 'epoch'"),
    ],
)
def test_mistakes_get_a_sentence(options, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        bnn(partial(MLP, (3, 5, 1)), (X, REAL), **options)


def test_more_mistakes():
    with pytest.raises(ValueError, match="20 inputs but 19 targets"):
        bnn(partial(MLP, (3, 5, 1)), (X, REAL[:-1]))
    with pytest.raises(ValueError, match="gives 2 classes, but y holds class 3"):
        bnn(partial(MLP, (3, 5, 2)), (X, np.arange(20) % 4), kind="categorical")
