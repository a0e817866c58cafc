"""Targets: gradients against autodiff, densities that integrate, draws that match their moments, unbiased estimates."""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from langevin.core import noise
from langevin.core.run import begin_all, run
from langevin.core.target import Density, Target
from langevin.core.types import Info, Progress
from langevin.samplers.sgld import SGLD
from langevin.targets import path, zoo
from langevin.targets import transformed as bijected
from langevin.targets.bayes import Bayes
from langevin.targets.control_variates import ControlVariates, Recenter, control_variates, full_sums
from langevin.targets.path import Annealed, Geometric, Path
from langevin.targets.tempered import Tempered
from langevin.targets.transformed import Interval, Ordered, Positive, Real, Simplex, Transformed

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


# --- a small posterior, and every target made from it -----------------------------------------------------------


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
ANCHOR = {"w": jnp.array([0.9, -0.4]), "s": jnp.asarray(0.6)}
FREE = {"s": Positive()}


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


def close(x, y, tolerance=1e-4):
    """Equal up to `tolerance` of the size of y, leaf by leaf."""
    for u, v in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
        scale = np.max(np.abs(v)) + 1e-6
        np.testing.assert_allclose(u, v, rtol=0, atol=tolerance * scale)


def truth(fn, position):
    """A density and its gradient by autodiff."""
    return jax.jit(jax.value_and_grad(fn))(position)


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


# --- bijections -------------------------------------------------------------------------------------------------

MAPS = {
    "real": (Real(), (3,)),
    "positive": (Positive(), (3,)),
    "interval": (Interval(-1.0, 2.5), (3,)),
    "simplex": (Simplex(), (3,)),
    "ordered": (Ordered(), (4,)),
}


@pytest.mark.parametrize("name", MAPS)
def test_bijection(name, key):
    """log_det is that of the Jacobian, forward undoes inverse, and batches of vectors are summed."""
    bijection, shape = MAPS[name]
    u = jax.random.normal(key, (2, *shape))
    free = (lambda v: bijection.forward(v)[:-1]) if name == "simplex" else bijection.forward
    dense = jax.jit(jax.vmap(lambda row: jnp.linalg.slogdet(jax.jacfwd(free)(row))[1]))(u)
    np.testing.assert_allclose(jax.jit(bijection.log_det)(u), dense.sum(), atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda u: bijection.inverse(bijection.forward(u)))(u), u, atol=1e-5)


def test_bijections_land_where_they_should(key):
    u = np.asarray(2.0 * jax.random.normal(key, (50, 4)))
    positive, interval, simplex, ordered = (
        jax.jit(b.forward) for b in (Positive(), Interval(2, 3), Simplex(), Ordered())
    )
    assert np.all(np.asarray(positive(u)) > 0)
    assert np.all(np.abs(np.asarray(interval(u)) - 2.5) < 0.5)
    x = np.asarray(simplex(u))
    assert x.shape == (50, 5)
    assert np.all(x > 0)
    np.testing.assert_allclose(x.sum(-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(simplex(np.zeros(4)), 0.2, atol=1e-6)
    np.testing.assert_allclose(simplex(np.zeros(0)), 1.0)
    assert np.all(np.diff(np.asarray(ordered(u)), axis=-1) > 0)


@pytest.mark.parametrize("name", MAPS)
def test_bijections_far_in_the_tails(name):
    """Values stay inside the domain, and values and derivatives stay finite, for any finite u in float32."""
    bijection, shape = MAPS[name]

    @jax.jit
    @jax.vmap
    def all_of(far):
        u = jnp.full(shape, far)
        forward, log_det = bijection.forward, bijection.log_det
        return forward(u), jax.jacrev(forward)(u), log_det(u), jax.grad(log_det)(u)

    values = all_of(jnp.array([-1e9, -300.0, -30.0, 30.0, 300.0, 1e9]))
    assert all(np.all(np.isfinite(value)) for value in values)
    x = values[0]
    if name in ("positive", "simplex"):
        assert np.all(x > 0)
    if name == "interval":
        assert np.all((x > -1.0) & (x < 2.5))


def gammas(p):
    return 3.0 * jnp.sum(jnp.log(p["r"])) - jnp.sum(p["r"]) + 2.0 * jnp.sum(jnp.log1p(-p["q"])) + jnp.sum(p["f"] ** 2)


@pytest.mark.parametrize("u", [-500.0, 100.0])
def test_gradient_goes_on_past_the_border(u):
    """3 log x + u has gradient 4 as u → −∞, although x no longer moves in float32."""
    target = Transformed(Density(gammas), {"r": Positive(), "q": Interval()})
    position = {"r": jnp.asarray(u), "q": jnp.asarray(u), "f": jnp.asarray(0.0)}
    there = jax.jit(target.evaluate)((), position)
    assert np.isfinite(there.log_density)
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(there.grad))
    if u < 0:
        np.testing.assert_allclose(there.grad["r"], 4.0, atol=1e-4)


def test_bijected_density_is_the_change_of_variables():
    """Against log p(f(u)) + log |det J| with a dense Jacobian of the whole tree."""
    target = Transformed(posterior(), FREE)
    flat, unravel = ravel_pytree(POINT)

    @jax.jit
    def both(u):
        dense = jax.jacfwd(lambda u: ravel_pytree(target.constrain(unravel(u)))[0])(u)
        x = target.constrain(unravel(u))
        expected = posterior().log_density(x) + jnp.linalg.slogdet(dense)[1]
        return expected, target.log_density(unravel(u)), target.unconstrain(x)

    expected, value, back = both(flat)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    close(back, POINT, 1e-5)


def test_bijections_as_a_prefix():
    position = {"net": {"w": jnp.ones(2), "b": jnp.zeros(())}, "pair": (jnp.ones(2), jnp.zeros(2)), "s": jnp.ones(())}
    target = Transformed(Density(gammas), {"net": Positive(), "pair": (Real(), Ordered())})
    x = target.constrain(position)
    np.testing.assert_allclose(x["net"]["b"], 1.0)
    np.testing.assert_allclose(x["pair"][1], [0.0, 1.0])
    np.testing.assert_allclose(x["s"], 1.0)
    with pytest.raises(ValueError, match="no 'sigma' in the position"):
        Transformed(Density(gammas), {"sigma": Positive()}).constrain(position)
    with pytest.raises(TypeError, match="not a bijection"):
        Transformed(Density(gammas), {"s": Positive}).constrain(position)
    np.testing.assert_allclose(bijected.each(lambda b, u: u, Real(), jnp.ones(2)), 1.0)


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


# --- the zoo ----------------------------------------------------------------------------------------------------


@cache
def drawn(name, n=1 << 16, h=3e-3):
    """All that is asked of a zoo target in one program: n exact draws as a matrix, the log density at each, the
    stated moments, and at the first draw the gradient, central differences, and evaluate − log_density."""
    target = ZOO[name]

    @jax.jit
    def everything(key):
        x = target.exact(key, n)
        position = jax.tree.map(lambda u: u[0], x)
        assert jax.tree.map(jnp.shape, position) == jax.tree.map(jnp.shape, target.mean)
        density = jax.vmap(target.log_density)(x)
        flat, unravel = ravel_pytree(position)
        at = jax.vmap(lambda step: target.log_density(unravel(flat + h * step)))
        there, basis = target.evaluate((), position), jnp.eye(flat.size)
        grads = ravel_pytree(there.grad)[0], (at(basis) - at(-basis)) / (2 * h), there.log_density - density[0]
        known = [what for what in ("mean", "variance", "fourth", "cov") if hasattr(target, what)]
        moments = {what: ravel_pytree(getattr(target, what))[0] for what in known}
        return jax.vmap(lambda p: ravel_pytree(p)[0])(x), density, moments, grads

    out = everything(jax.random.key(list(ZOO).index(name)))
    return jax.tree.map(lambda u: np.asarray(u, np.float64), out)


@pytest.mark.parametrize("name", ZOO)
def test_zoo_gradient(name):
    grad, differences, gap = drawn(name)[3]
    np.testing.assert_allclose(differences, grad, atol=0.01 * (1 + np.max(np.abs(grad))))
    np.testing.assert_allclose(gap, 0.0, atol=1e-4)


@pytest.mark.parametrize("name", ZOO)
def test_zoo_moments(name):
    """Exact draws have the mean, variance, covariance and fourth moment the target states."""
    x, _, stated, _ = drawn(name)
    centred = x - stated["mean"]
    products = centred[:, :, None] * centred[:, None, :]
    values = {"variance": centred**2, "fourth": centred**4, "cov": products.reshape(len(x), -1)}
    for what, truth in {**stated, "mean": 0.0}.items():
        value = values.get(what, centred)
        z = (value.mean(0) - truth) / (value.std(0) / math.sqrt(len(x)))
        assert np.all(np.abs(z) < 5), f"{what} of {name}: z = {np.round(z, 1)}"


@pytest.mark.parametrize("name", [n for n in ZOO if n not in ("rings", "disc", "grid")])
def test_zoo_draws_follow_the_density(name):
    """E q/p = 1 under exact draws x of p, with q a product of narrow uniforms inside the bulk: p is normalised, and
    normalised where the draws are."""
    flat, density, _, _ = drawn(name)
    low, high = np.quantile(flat, [0.25, 0.75], axis=0)
    inside = np.all((flat > low) & (flat < high), axis=1)
    values = np.where(inside, np.exp(-density - np.sum(np.log(high - low))), 0.0)
    z = (values.mean() - 1.0) / (values.std() / math.sqrt(len(flat)))
    assert inside.sum() > 100
    assert abs(z) < 5, f"{name}: ∫ is off by z = {z:.1f}"


PLANES = {"gaussian": 12.0, "banana": 40.0, "mixture": 10.0, "grid": 8.0, "rings": 8.0, "disc": 6.0}


@pytest.mark.parametrize("name", PLANES)
def test_plane_integrates_to_one(name):
    target, half, m = ZOO[name], PLANES[name], 1200
    line = jnp.linspace(-half, half, m)
    rows = jax.jit(lambda a: jnp.sum(jnp.exp(jax.vmap(lambda b: target.log_density(jnp.stack([a, b])))(line))))
    total = float(jnp.sum(jax.lax.map(rows, line, batch_size=100))) * (2 * half / (m - 1)) ** 2
    assert abs(math.log(total) - target.log_z) < 1e-3


@pytest.mark.parametrize("name", ["rings", "disc"])
def test_rings_variance_by_quadrature(name):
    """½ E r² of the radial law r Σ exp(−(r − r_k)²/2w²), where the draws alone would not tell."""
    target, r = ZOO[name], np.linspace(0, 12, 20_001)
    law = r * sum(np.exp(-0.5 * ((r - float(m)) / float(target.width)) ** 2) for m in target.radii)
    np.testing.assert_allclose(target.variance, 0.5 * (law @ r**2) / law.sum(), rtol=1e-4)


def test_rings_at_the_centre():
    there = jax.jit(ZOO["rings"].evaluate)((), jnp.zeros(2))
    assert np.all(np.isfinite(there.grad))
    assert np.isfinite(there.log_density)


def test_conditioned():
    np.testing.assert_allclose(np.linalg.cond(ZOO["rotated"].cov), 100.0, rtol=1e-3)
    np.testing.assert_allclose(np.max(ZOO["diagonal"].variance) / np.min(ZOO["diagonal"].variance), 100.0, rtol=1e-5)
    assert abs(ZOO["rotated"].cov[0, 1]) > 1e-3
    with pytest.raises(ValueError, match="it must be even"):
        zoo.Banana(d=3)
    with pytest.raises(ValueError, match="do not fit"):
        zoo.Mixture([1.0], np.zeros((2, 2)), np.ones((2, 2)))


def test_eight_schools_reference_by_quadrature():
    """τ on a grid, μ and t integrated out as Gaussians: the stated moments and log_z, and the density."""
    target = zoo.EightSchools()
    y, s = (np.asarray(u, np.float64)[:, None] for u in (target.y, target.sigma))
    log_tau = np.linspace(-20, 12, 40_001)
    tau, v = np.exp(log_tau), s**2 + np.exp(2 * log_tau)
    precision = 1 / 25 + np.sum(1 / v, 0)
    m = np.sum(y / v, 0) / precision
    log_w = -0.5 * np.sum(np.log(2 * np.pi * v) + y**2 / v, 0) - 0.5 * np.log(25 * precision) + 0.5 * m**2 * precision
    w = np.exp(log_w + log_tau) * 2 / (5 * np.pi * (1 + (tau / 5) ** 2)) * (log_tau[1] - log_tau[0])
    np.testing.assert_allclose(np.log(w.sum()), target.log_z, atol=1e-5)
    p = w / w.sum()
    second = {"mu": p @ (m**2 + 1 / precision), "tau": p @ tau**2, "log_tau": p @ log_tau**2}
    for name, first in {"mu": p @ m, "tau": p @ tau, "log_tau": p @ log_tau}.items():
        np.testing.assert_allclose((first, math.sqrt(second[name] - first**2)), target.reference[name], atol=1e-5)
    # the joint density at t, μ of one τ: p(τ, y) = p(τ, μ, t, y) / p(μ, t | τ, y), checked at the conditional mode
    place = 25_000
    position = {"mu": jnp.asarray(m[place]), "log_tau": jnp.asarray(log_tau[place])}
    position["t"] = jnp.asarray(tau[place] * (y - m[place])[:, 0] / v[:, place])
    flat, unravel = ravel_pytree((position["mu"], position["t"]))
    joint = lambda u: target.log_density({**position, "mu": unravel(u)[0], "t": unravel(u)[1]})
    hessian = np.asarray(jax.jit(jax.hessian(joint))(flat), np.float64)
    laplace = jax.jit(joint)(flat) + 4.5 * math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(-hessian)[1]
    np.testing.assert_allclose(laplace, np.log(w[place] / (log_tau[1] - log_tau[0])), atol=1e-3)


def test_logistic_truth(key):
    """The importance sampler's moments against a grid, in two dimensions."""
    k_data, k_truth = jax.random.split(key)
    target = zoo.logistic(k_data, 60, 2, batch=6)
    assert jax.eval_shape(target.draw, k_truth, ())[0]["x"].shape == (6, 2)
    truth = jax.jit(zoo.laplace_truth, static_argnums=2)(jax.random.key(5), target, 2)
    line = jnp.linspace(-6.0, 6.0, 301)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = np.asarray(jax.lax.map(target.log_density, jnp.asarray(grid), batch_size=4096), np.float64)
    p = np.exp(log_p - log_p.max())
    mean = p @ grid / p.sum()
    variance = p @ (grid - mean) ** 2 / p.sum()
    error = np.sqrt(variance / float(truth.ess))
    assert truth.ess > 10_000
    assert np.all(np.abs(truth.mean - mean) < 5 * error)
    assert np.all(np.abs(truth.variance - variance) < 5 * variance * math.sqrt(3.0 / float(truth.ess)))
    log_z = np.log(p.sum() * 0.04**2) + log_p.max()
    assert abs(float(truth.log_z) - log_z) < 5 * math.sqrt(1 / float(truth.ess))


# --- NumPyro ----------------------------------------------------------------------------------------------------


def schools(sigma, y=None):
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", sigma.shape[0]):
        t = numpyro.sample("t", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * t)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def regression(x, y, batch):
    import numpyro
    import numpyro.distributions as dist

    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.Gamma(2.0, 1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch) as index:
        numpyro.sample("y", dist.Normal(x[index] @ w, s), obs=y[index])


def sliced(x):
    import numpyro
    import numpyro.distributions as dist

    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", 100, subsample_size=10):
        numpyro.sample("x", dist.Normal(m, 1.0), obs=x)


def local(x):
    import numpyro
    import numpyro.distributions as dist

    with numpyro.plate("data", x.shape[0], subsample_size=2) as index:
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        numpyro.sample("x", dist.Normal(z, 1.0), obs=x[index])


def test_numpyro_eight_schools(key):
    """NumPyro's model, its own log density, and the zoo's eight schools are the same function."""
    pytest.importorskip("numpyro")
    from numpyro.infer.util import potential_energy

    from langevin.targets.numpyro import from_numpyro

    own = zoo.EightSchools()
    target, position, constrain = from_numpyro(key, schools, own.sigma, y=own.y)
    assert isinstance(target, Target)
    expected = truth(lambda p: -potential_energy(schools, (own.sigma,), {"y": own.y}, p), position)
    there = jax.jit(lambda t, p: t.evaluate((), p))(target, position)
    close((there.log_density, there.grad), expected, 1e-6)
    renamed = {"mu": position["mu"], "log_tau": position["tau"], "t": position["t"]}
    np.testing.assert_allclose(there.log_density, jax.jit(own.log_density)(renamed), rtol=1e-5)
    x = jax.jit(constrain)(position)
    np.testing.assert_allclose(x["tau"], np.exp(position["tau"]), rtol=1e-5)
    np.testing.assert_allclose(x["theta"], x["mu"] + x["tau"] * x["t"], rtol=1e-5)


@pytest.mark.slow
def test_numpyro_subsampling(key):
    """Batches of one average to the exact density; parts halve a batch; draws differ; a run works."""
    pytest.importorskip("numpyro")
    from numpyro.infer.util import potential_energy

    from langevin.targets.numpyro import from_numpyro

    k_init, k_one, k_two, k_run = jax.random.split(key, 4)
    data = posterior().data
    target, position, constrain = from_numpyro(k_init, regression, data["x"], data["y"], 4)
    expected = truth(lambda p: -potential_energy(regression, (data["x"], data["y"], None), {}, p), position)
    close(truth(target.log_density, position), expected)
    evaluate = jax.jit(lambda batch: target.evaluate(batch, position))
    each = [evaluate((jnp.array([i]),)) for i in range(12)]
    mean = jax.tree.map(lambda *u: np.mean(np.stack(u).astype(np.float64), axis=0), *each)
    close((mean.log_density, mean.grad), expected)
    one, two = target.draw(k_one, ())[0], target.draw(k_two, (), fraction=0.5)[0]
    assert (one[0].shape, two[0].shape) == ((4,), (2,))
    assert int(evaluate(one).n_data) == 4
    halves = [evaluate(part) for part in target.parts(one, 2)]
    close(jax.tree.map(lambda u, v: (u + v) / 2, *halves)[:2], evaluate(one)[:2])
    assert jax.jit(constrain)(position)["s"] > 0
    with pytest.raises(ValueError, match="do not split into 3"):
        target.parts(one, 3)
    out = run(
        k_run, SGLD(step_size=1e-4), target, jax.tree.map(lambda u: jnp.stack([u, u]), position), draws=5, chunk=5
    )
    assert np.all(out.info.n_data == 4)


def test_numpyro_refusals(key):
    pytest.importorskip("numpyro")
    from langevin.targets.numpyro import from_numpyro

    k_one, k_two = jax.random.split(key)
    target, position, _ = from_numpyro(k_one, sliced, jnp.zeros(10))
    with pytest.raises(ValueError, match="exact log density is not available"):
        target.log_density(position)
    with pytest.raises(ValueError, match="lies inside the subsampled plate 'data'"):
        from_numpyro(k_two, local, jnp.zeros(10))


def test_keys_of_the_fast_generator_work(key):
    """Composite targets split any kind of key."""
    made = Geometric(posterior(batch=2), posterior(batch=3)).at(0.5)
    k_start, k_draw = jax.random.split(noise.key(1, impl="threefry"))
    for k_one, k_two in ((k_start, k_draw), jax.random.split(key)):
        batch, _ = jax.jit(lambda one, two: made.draw(two, made.start(one)))(k_one, k_two)
        assert [u.shape[0] for u in jax.tree.leaves(batch)] == [2, 2, 3, 3]
