"""Proposals learned on the way: their density, their fit, tails, and the log Z they give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.benchmarks import known

import langevin as lv
from langevin.core import noise
from langevin.evidence import Adapted
from langevin.evidence.base import log_ratios
from langevin.evidence.sampling import adapted as learning
from langevin.evidence.sampling.mixture import Mixture, fit
from langevin.evidence.weights import fit_pareto


def mixture():
    root = jnp.asarray([[[1.0, 0.0], [0.8, 0.5]], [[0.3, 0.0], [0.0, 0.2]]])
    share, mean = jnp.log(jnp.asarray([0.6, 0.4])), jnp.asarray([[1.0, -1.0], [-2.0, 2.0]])
    return Mixture(
        lv.evidence.Normal(dict(a=jnp.zeros(()), b=jnp.zeros(1)), 3.0), share, mean, root, jnp.linalg.inv(root)
    )


def other(position):
    """A normalised law that the mixture covers."""
    x = jnp.stack([position["a"], position["b"][0]])
    return jnp.sum(-0.5 * ((x - jnp.asarray([-1.8, 1.8])) / 0.4) ** 2 - jnp.log(0.4) - 0.9189385)


def test_a_mixture_has_the_density_of_its_draws(key):
    law = mixture()
    log_w = log_ratios(lv.Density(other), law, law.exact(key, 20_000))
    w = np.exp(np.asarray(log_w, np.float64))
    assert abs(w.mean() - 1) < 5 * w.std() / len(w) ** 0.5
    assert w.std() < 3


@pytest.mark.slow
def test_a_mixture_draws_its_tails(key):
    law, n = mixture(), 100_000
    side = jnp.linspace(-40.0, 40.0, 1601)
    at = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
    grid = np.asarray(jax.lax.map(lambda u: law.log_density(dict(a=u[0], b=u[1:])), at, batch_size=1601), np.float64)
    share = np.exp(grid) * 0.05**2
    assert abs(share.sum() - 1) < 3e-3
    found = np.asarray(jax.lax.map(law.log_density, law.exact(key, n), batch_size=1000))
    for level in (-8.0, -6.0, -4.5, -3.0):
        p = share[grid < level].sum()
        assert abs(np.mean(found < level) - p) < 5 * (p * (1 - p) / n) ** 0.5 + 1e-3 * p


def test_a_fit_finds_what_was_drawn():
    draw = np.random.default_rng(0)
    x = np.concatenate([draw.normal(size=(3000, 2)) * [1.0, 0.1], 5 + 0.5 * draw.normal(size=(1000, 2))])
    found = fit(x, np.zeros(len(x)), (1, 2, 4), seed=1)
    assert len(found.mean) in (2, 4)
    narrow = np.argmin(found.mean[:, 0])
    assert abs(found.mean[narrow]).max() < 0.3
    log_w = -0.5 * np.sum((x - [0.5, 0.0]) ** 2 * [3.0, 0.0], axis=1)  # precision 1 + 3, mean 1.5/4, of the first
    one = fit(x[:3000], log_w[:3000], (1,), seed=1)
    count = np.exp(log_w[:3000]).sum() ** 2 / np.exp(2 * log_w[:3000]).sum()
    assert abs(one.mean[0, 0] - 0.375) < 5 * 0.5 / count**0.5
    assert abs(one.root[0, 0, 0] ** 2 / 0.25 - 1) < 5 * (2 / count) ** 0.5


@pytest.mark.parametrize("k", [0.2, 0.7])
def test_the_tail_of_weights_is_known(k):
    found = [fit_pareto(np.log((np.random.default_rng(i).random(10_000) ** -k - 1) / k + 1e-9)) for i in range(20)]
    shapes = np.array([u[0] for u in found])
    assert abs(shapes.mean() - k) < 5 * shapes.std() / 20**0.5
    rise = np.mean([u[1] for u in found])
    assert (rise < 2e-3) if k == 0.2 else (0.02 < rise < 0.2)
    assert fit_pareto(np.zeros(1000)) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["modes", "funnel"])
def test_the_log_z_of_a_known_law(name, key):
    law = known.laws()[name]
    error, stderr, _, guarantee = known.ours(key, law)
    assert guarantee == "unbiased-Z"
    assert abs(error) < 4 * stderr
    assert stderr < 0.1


def lighter(position):
    return lv.evidence.Normal(jnp.ones(2), 0.2).log_density(position) - 3.0


@pytest.mark.slow
def test_in_many_dimensions_chains_do_the_rest(key):
    wide = lv.log_evidence(key, lv.evidence.Normal(jnp.full(50, 0.3), 0.5), lv.evidence.Normal(jnp.zeros(50), 1.0))
    assert wide.guarantee == "consistent"
    assert abs(float(wide.log_z)) < 5 * float(wide.stderr)


@pytest.mark.slow
def test_where_no_mixture_fits_chains_do_the_rest(key, monkeypatch):
    monkeypatch.setattr(learning, "USEFUL", 2.0)
    found = Adapted(particles=500)(key, lv.Density(lighter), lv.evidence.Normal(jnp.zeros(2), 1.0))
    assert found.guarantee == "consistent"
    assert abs(float(found.log_z) + 3) < 5 * float(found.stderr)


def test_mini_batches_are_refused(key):
    target = lv.Bayes(lambda p: -0.5 * p**2, lambda p, x: -0.5 * (p - x) ** 2, jnp.zeros(10), batch=2)
    with pytest.raises(ValueError, match="such as midpoint"):
        Adapted()(key, target, lv.evidence.Normal(jnp.zeros(()), 1.0))


def test_a_seed_gives_one_answer_and_it_is_near():
    target, base = lv.evidence.Normal(jnp.ones(2), 0.2), lv.evidence.Normal(jnp.zeros(2), 1.0)
    one, two = (Adapted(particles=500)(noise.key(3), target, base) for _ in range(2))
    assert float(one.log_z) == float(two.log_z)
    assert one.guarantee == "unbiased-Z"
    assert abs(float(one.log_z)) < 5 * float(one.stderr) < 0.2
