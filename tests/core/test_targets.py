"""Targets made from targets: gradients against autodiff, unbiased estimates, tempering, paths, control variates."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from posteriors import FREE, POINT, ZOO, close, log_likelihood, log_prior, posterior, truth

from langevin.core.begin import begin_all
from langevin.core.run import run
from langevin.core.target import Density, Target
from langevin.core.types import Info, Progress
from langevin.samplers.sgld import SGLD
from langevin.targets import path, zoo
from langevin.targets.bayes import Bayes
from langevin.targets.control_variates import ControlVariates, Recenter, control_variates, full_sums
from langevin.targets.path import Annealed, Geometric, Path
from langevin.targets.tempered import Tempered
from langevin.targets.transformed import Transformed

# --- a small posterior, and every target made from it -----------------------------------------------------------


ANCHOR = {"w": jnp.array([0.9, -0.4]), "s": jnp.asarray(0.6)}


def base_density(p):
    return -0.5 * jnp.sum(p["w"] ** 2) - (p["s"] - 1.0) ** 2


MADE = {
    "tempered": lambda t: Tempered(t, 0.3),
    "tempered-likelihood": lambda t: Tempered(t, 0.3, part="likelihood"),
    "between": lambda t: Geometric(Density(base_density), t).at(0.4),
    "powered": lambda t: Annealed(t).at(0.4),
    "bijected": lambda t: Transformed(t, FREE),
    "variates": lambda t: control_variates(t, ANCHOR),
    "tempered-bijected": lambda t: Tempered(Transformed(t, FREE), 2.0, part="likelihood"),
    "bijected-variates": lambda t: Transformed(control_variates(t, ANCHOR), FREE),
}


def batch_of(target, index):
    """A batch of these examples, whatever wraps the posterior."""

    def inner(target, batch):
        if isinstance(target, path.Between):
            return (batch[0], inner(target.target, batch[1]))
        if isinstance(target, ControlVariates):
            return batch._replace(inner=inner(target.target, batch.inner))
        if isinstance(target, Bayes):
            return jax.tree.map(lambda u: u[index], target.data)
        return inner(target.target, batch)

    k_start, k_draw = jax.random.split(jax.random.key(1))
    batch, _ = target.draw(k_draw, target.start(k_start))
    return inner(target, batch)


def singles(target, point, n=12):
    """Evaluations on all batches of one example, stacked."""
    evaluate = jax.jit(lambda i: target.evaluate(batch_of(target, i[None]), point))
    return jax.tree.map(lambda *u: np.stack(u), *map(evaluate, jnp.arange(n)))


@pytest.mark.parametrize("name", MADE)
def test_evaluate_is_the_density_and_its_gradient(name):
    target = MADE[name](posterior())
    assert isinstance(target, Target)
    there = jax.jit(target.evaluate)(batch_of(target, np.arange(12)), POINT)
    close(there[:2], truth(target.log_density, POINT))
    assert all(g.dtype == jnp.float32 for g in jax.tree.leaves(there.grad))


@pytest.mark.parametrize("name", MADE)
def test_mini_batches_are_unbiased(name):
    """The mean over all single-example batches is the density and its gradient; n_data is not lost."""
    target = MADE[name](posterior(batch=1))
    each = singles(target, POINT)
    mean = jax.tree.map(lambda u: np.mean(u, axis=0, dtype=np.float64), each)
    close(mean[:2], truth(target.log_density, POINT))
    looked = {"between": 2, "variates": 2, "bijected-variates": 2}.get(name, 1)
    assert np.all(each.n_data == looked)


@pytest.mark.parametrize("name", MADE)
def test_stream_through_wrappers(name, key):
    """Feeds keep their shapes, parts are halves, a fraction is smaller, and it all compiles."""
    target = MADE[name](Bayes(log_prior, log_likelihood, posterior().data, 4, "epoch"))
    k_start, k_one, k_two = jax.random.split(key, 3)
    feed = jax.jit(lambda t, k: t.start(k))(target, k_start)
    batch, after = jax.jit(lambda t, k, f: t.draw(k, f))(target, k_one, feed)
    assert jax.tree.map(jnp.shape, feed) == jax.tree.map(jnp.shape, after)
    assert jax.tree.structure(feed) == jax.tree.structure(after)
    evaluate = jax.jit(lambda t, b: t.evaluate(b, POINT))
    halves = [evaluate(target, part) for part in jax.jit(lambda t, b: t.parts(b, 2))(target, batch)]
    whole = evaluate(target, batch)
    close(jax.tree.map(lambda u, v: (u + v) / 2, *halves)[:2], whole[:2])
    small, same = jax.jit(lambda t, k, f: t.draw(k, f, fraction=0.5))(target, k_two, after)
    assert int(evaluate(target, small).n_data) < int(whole.n_data)
    assert all(np.array_equal(u, v) for u, v in zip(jax.tree.leaves(same), jax.tree.leaves(after), strict=True))


# --- tempering and paths ----------------------------------------------------------------------------------------


def test_tempered_gaussian_has_variance_times_temperature():
    gaussian, hot = ZOO["gaussian"], zoo.Gaussian(ZOO["gaussian"].mean, 2.5 * ZOO["gaussian"].covariance)
    target = Tempered(gaussian, 2.5)
    x = np.array([[0.0, 0.0], [1.0, -3.0], [-2.0, 4.0]])
    there = jax.jit(jax.vmap(partial(target.evaluate, ())))(x)
    value, grad = jax.jit(jax.vmap(jax.value_and_grad(hot.log_density)))(x)
    close(np.diff(there.log_density), np.diff(value), 1e-5)
    close(there.grad, grad, 1e-5)
    close(jax.jit(jax.vmap(target.log_density))(x), there.log_density, 1e-6)


def test_tempered_likelihood_leaves_the_prior():
    target, inner = Tempered(posterior(), 0.25, part="likelihood"), posterior()
    fns = (target.log_density, inner.log_density, inner.prior, Tempered(inner, 0.25).prior)
    tempered, whole, prior, cold = jax.jit(lambda p: tuple(fn(p) for fn in fns))(POINT)
    close(tempered, prior + 4.0 * (whole - prior), 1e-5)
    close(cold, 4.0 * prior, 1e-6)


def test_words_for_a_target_without_prior():
    for make in (partial(Tempered, temperature=2.0, part="likelihood"), Annealed):
        with pytest.raises(TypeError, match="Gaussian has none"):
            make(ZOO["gaussian"])
    with pytest.raises(TypeError, match=r"prior, likelihood, data and n, .*Gaussian has none"):
        control_variates(ZOO["gaussian"], jnp.zeros(2))
    with pytest.raises(ValueError, match="part is 'prior'"):
        Tempered(posterior(), 2.0, part="prior")


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_ends_of_paths(beta):
    base, inner = Density(base_density), posterior()
    ends = {0.0: (base.log_density, inner.prior), 1.0: (inner.log_density, inner.log_density)}[beta]
    for made, end in zip((Geometric(base, inner), Annealed(inner)), ends, strict=True):
        assert isinstance(made, Path)
        there = jax.jit(made.at(beta).evaluate)(batch_of(made.at(beta), np.arange(12)), POINT)
        close(there[:2], truth(end, POINT), 1e-6)


def nowhere(p):
    return -jnp.inf * jnp.sum(p**2)


def test_the_near_end_is_finite_where_the_far_end_is_not():
    made = Geometric(ZOO["gaussian"], Density(nowhere))
    there = jax.jit(made.at(0.0).evaluate)(((), ()), jnp.ones(2))
    close(there[:2], truth(ZOO["gaussian"].log_density, jnp.ones(2)), 1e-6)
    assert jax.jit(made.at(0.5).log_density)(jnp.ones(2)) == -jnp.inf


# --- control variates -------------------------------------------------------------------------------------------


def gradients(target, point):
    """(batch, coordinate) gradients of all single-example batches."""
    grad = singles(target, point).grad
    return np.concatenate([grad["w"], grad["s"][:, None]], axis=1).astype(np.float64)


def test_variates_have_no_noise_at_the_anchor_and_little_near_it():
    plain, corrected = posterior(batch=1), control_variates(posterior(batch=1), ANCHOR)
    assert np.all(gradients(corrected, ANCHOR).std(0) < 1e-4 * gradients(plain, ANCHOR).std(0))
    noise = {}
    for size in (0.01, 0.02):
        near = jax.tree.map(lambda u: u + size, ANCHOR)
        noise[size] = gradients(corrected, near).std(0)
        assert np.all(noise[size] ** 2 < 0.05 * gradients(plain, near).var(0))
    np.testing.assert_allclose(noise[0.02] / noise[0.01], 2.0, atol=0.2)  # O(|θ − a|)


def test_full_sums_in_blocks():
    """Past one block, and with a remainder, the sums are those of the whole."""
    target = posterior(n=2 * 4096 + 5)
    value = lambda p: target.log_density(p) - target.prior(p)
    close(jax.jit(full_sums)(target, POINT), truth(value, POINT), 1e-4)


def test_recentre(key):
    """Anchors go to the chains' positions with full sums, on time, and nothing changes shape."""
    target = control_variates(posterior(batch=2), ANCHOR)
    kernel = SGLD(step_size=1e-3)
    start = jax.tree.map(lambda u: jnp.stack([u, 1.1 * u, 0.9 * u]), POINT)
    states = begin_all(key, kernel, target, start)
    here = Progress(30, kernel, target, states, None, Info(*(np.ones((3, 10)) for _ in Info._fields)))
    assert Recenter(every=50)(here) is here
    there = Recenter(every=25)(here)
    assert there.kernel is kernel
    assert there.target is target
    new = there.states
    assert jax.tree.structure(new) == jax.tree.structure(states)
    assert jax.tree.map(jnp.shape, new) == jax.tree.map(jnp.shape, states)
    assert jax.tree.map(lambda u: u.dtype, new) == jax.tree.map(lambda u: u.dtype, states)
    close(new.feed.anchor, states.position, 1e-7)
    assert new.eval is states.eval
    for chain in range(3):
        at = jax.tree.map(lambda u: u[chain], (new.position, new.feed))
        close((at[1].log_likelihood, at[1].grad), jax.jit(full_sums)(target.target, at[0]))
    # each chain now has no noise where it stands: its own anchor is used, not the record's
    draw = lambda k, feed, position: target.evaluate(target.draw(k, feed)[0], position).grad["w"]
    keys = jax.random.split(jax.random.key(2), (4, 3))
    grads = jax.jit(jax.vmap(jax.vmap(draw), (0, None, None)))(keys, new.feed, new.position)
    assert np.all(np.std(grads, axis=0) < 1e-4 * np.abs(grads[0]))
    with pytest.raises(TypeError, match="it is Bayes"):
        Recenter(1)(here._replace(target=target.target))


def test_recentre_in_a_run(key):
    target = control_variates(Bayes(log_prior, log_likelihood, posterior().data, 4, "epoch"), ANCHOR)
    start = jax.tree.map(lambda u: jnp.stack([u, u]), ANCHOR)
    out = run(key, SGLD(step_size=1e-4), target, start, draws=20, chunk=10, callbacks=[Recenter(10)])
    close(out.states.feed.anchor, out.states.position, 1e-7)
