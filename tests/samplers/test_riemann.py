"""Metrics, their Γ, and every correction (core/riemann, metrics/, tune/floors)."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import ndtr

from langevin.baselines.adam_sgld import AdamSGLD
from langevin.baselines.msgld import MSGLD
from langevin.core import noise, tree
from langevin.core.advance import advance
from langevin.core.kernel import replace
from langevin.core.run import begin_all
from langevin.core.target import Density
from langevin.dynamics import divergence
from langevin.dynamics.metrics.block import Block
from langevin.dynamics.metrics.diagonal import RMS, Fixed
from langevin.dynamics.metrics.kronecker import Kronecker
from langevin.dynamics.metrics.monge import MongeMetric
from langevin.dynamics.metrics.position import Norms, Position, Squares
from langevin.dynamics.metrics.windowed import Windowed
from langevin.samplers.monge import Monge
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.shampoo import Shampoo
from langevin.targets.bayes import Bayes
from langevin.targets.tempered import Tempered
from langevin.targets.zoo import logistic
from langevin.tune.metric_floor import metric_floor

EDGES = np.concatenate([[-np.inf], np.linspace(-4, 4, 81), [np.inf]])
P = np.diff(ndtr(EDGES))


def quiet(make):
    """A kernel that warns of its law, made in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def coupled(position):
    """Not Gaussian, every coordinate coupled to every other."""
    x = ravel_pytree(position)[0]
    return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4) - 0.3 * jnp.sum(jnp.sin(x)) ** 2 + 0.2 * x[0] * x[1] * x[2]


def place():
    return {"w": jnp.array([[0.4, -0.8, 1.1], [0.9, 0.2, -0.5]]), "b": jnp.array([0.7, -0.3])}


METRICS = {
    "smooth": RMS(0.7),
    "li": RMS(0.7, "li"),
    "block": Block(0.7, 0.5),
    "steep block": Block(0.7, 1.0),
    "low rank": MongeMetric(0.8),
    "low rank per leaf": MongeMetric(0.8, per="leaf"),
    "kronecker": Kronecker(0.3),
    "norms": Position(Norms(0.5)),
    "squares": Position(Squares(0.5)),
    "fixed": Fixed({"w": jnp.full((2, 3), 2.0), "b": jnp.full(2, 0.5)}),
}


def geometry_at(metric, position):
    grad = jax.grad(coupled)(position)
    memory = metric.update(metric.start(position), grad, jnp.zeros((), jnp.int32))
    return metric.geometry(memory, grad, position)


def matrix(metric, position, which="apply"):
    z, unravel = ravel_pytree(position)
    product = lambda v: ravel_pytree(getattr(metric, which)(geometry_at(metric, position), unravel(v)))[0]
    return jax.vmap(product)(jnp.eye(z.size, dtype=z.dtype)).T


@pytest.mark.parametrize("name", METRICS)
def test_roots_and_inverse_roots(name):
    D, R, S = (matrix(METRICS[name], place(), w) for w in ("apply", "root", "unroot"))
    np.testing.assert_allclose(R @ R.T, D, atol=2e-6)
    np.testing.assert_allclose(S @ R, np.eye(8), atol=1e-5)
    assert np.linalg.eigvalsh(np.asarray(D)).min() > 0


def gamma_by_autodiff(metric, position):
    z, unravel = ravel_pytree(position)
    jacobian = jax.jacfwd(lambda z: matrix(metric, unravel(z)))(z)
    return np.asarray(jnp.trace(jacobian, axis1=1, axis2=2))


def closed_form(name, position):
    """Γ of the notes' §3, with g and H by autodiff."""
    z, unravel = ravel_pytree(position)
    g, H = (f(lambda z: coupled(unravel(z)))(z) for f in (jax.grad, jax.hessian))
    if name == "smooth":
        return -g * jnp.diagonal(H) * (g**2 + 0.49) ** -1.5
    if name == "li":
        return -jnp.sign(g) * jnp.diagonal(H) / (0.7 + jnp.abs(g)) ** 2
    if name == "low rank":
        c = 0.8 / (1 + 0.8 * g @ g)
        return -c * H @ g - c * jnp.trace(H) * g + 2 * c**2 * (g @ H @ g) * g
    s, out = (0.5 if name == "block" else 1.0), []
    for part in (slice(0, 2), slice(2, 8)):  # "b" comes before "w"
        n, gb = part.stop - part.start, g[part]
        out.append(-2 * s / n * (jnp.mean(gb**2) + 0.49) ** (-s - 1) * (H[part, part] @ gb))
    return jnp.concatenate(out)


@pytest.mark.parametrize(
    "name", [pytest.param("smooth", marks=pytest.mark.slow), "li", "block", "steep block", "low rank"]
)
def test_gamma_by_autodiff_is_the_closed_form(name):
    """Both in float64: equal to 1e-6 relative, and our own `exact` with them."""
    with jax.enable_x64(True):
        position = jax.tree.map(lambda u: jnp.asarray(u, jnp.float64), place())
        metric = jax.tree.map(lambda u: jnp.asarray(u, jnp.float64), METRICS[name])
        want = np.asarray(closed_form(name, position))
        apply = lambda p, v: metric.apply(geometry_at(metric, p), v)
        ours = np.asarray(ravel_pytree(divergence.exact(apply, position))[0])
        np.testing.assert_allclose(gamma_by_autodiff(metric, position), want, rtol=1e-6)
        np.testing.assert_allclose(ours, want, rtol=1e-6)


@pytest.mark.parametrize("name", ["norms", "squares"])
def test_gamma_of_a_metric_of_position_alone_is_closed(name):
    metric = METRICS[name]
    ours = ravel_pytree(metric.divergence(place()))[0]
    np.testing.assert_allclose(gamma_by_autodiff(metric, place()), ours, rtol=1e-5)


@pytest.mark.parametrize("name", [pytest.param("kronecker", marks=pytest.mark.slow), "low rank per leaf", "smooth"])
def test_probes_are_unbiased_and_end_point_noise_is_not_for_dense_metrics(name, key):
    """Shampoo's Γ by probes: Hutchinson, finite differences and Fixman's noise within 4 standard errors of autodiff."""
    metric, position, n = METRICS[name], place(), 20_000
    want = gamma_by_autodiff(metric, position)
    here = geometry_at(metric, position)
    apply = lambda p, v: metric.apply(geometry_at(metric, p), v)
    s = 0.02

    def probes(k):
        k_sign, k_noise = jax.random.split(k)
        v, xi = noise.like(k_sign, position, "rademacher"), noise.like(k_noise, position)
        hutchinson = divergence.along(apply, position, metric.root(here, v), metric.unroot(here, v))
        rfd = divergence.rfd(apply, position, v, metric.apply(here, v), 3e-3)
        # noise at both signs of ξ: the odd part, which is pure noise, cancels
        kick = metric.root(here, xi)
        there, back = (geometry_at(metric, tree.axpy(a, kick, position)) for a in (s, -s))
        u = metric.unroot(here, xi)
        fixman = tree.scale(0.5 / s, tree.sub(metric.apply(there, u), metric.apply(back, u)))
        endpoint = tree.scale(1 / s, tree.sub(metric.root(there, xi), metric.root(back, xi)))
        return [ravel_pytree(p)[0] for p in (hutchinson, rfd, fixman, endpoint)]

    values = jax.jit(jax.vmap(probes))(jax.random.split(key, n))
    z = [np.abs((np.asarray(v).mean(0) - want) / (np.asarray(v).std(0) / np.sqrt(n))).max() for v in values]
    assert max(z[:3]) < 4, z
    if metric.diagonal:
        assert z[3] < 4, "the end-point rule is right for a diagonal metric"
    else:
        assert z[3] > 20, "the end-point rule must fail for a dense metric, or this test sees nothing"


# --- laws in one dimension: the notes' tables, small --------------------------------------------------------------


def normal(x):
    return -0.5 * jnp.sum(x**2)


def tv(key, kernel, target=None, *, steps=6000, chains=2048, shape=(1,)):
    """Total variation to N(0, 1) in bins of 0.1, after a burn-in of a fifth; about 0.004 is noise."""
    target = Density(normal) if target is None else target
    k_start, k_init, k_run = jax.random.split(key, 3)
    states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (chains, *shape)))
    run = advance(k_run, kernel, target, states, length=steps // 20, thin=20, layout="vmap")
    x = np.asarray(run.kept)[:, steps // 100 :].ravel()
    counts = np.bincount(np.clip(np.floor(10 * x + 40).astype(int) + 1, 0, 81), minlength=82)
    return 0.5 * np.abs(counts / counts.sum() - P).sum()


@pytest.mark.parametrize(
    ("make", "low", "high"),
    [
        (partial(PSGLD, 0.05, correction="none"), 0.10, 0.13),
        (partial(PSGLD, 0.05), 0.0, 0.015),
        (partial(PSGLD, 0.01, floor=0.3), 0.0, 0.02),
        (partial(PSGLD, 0.01, floor=0.3, correction="hk2"), 0.0, 0.025),
        (partial(PSGLD, 2e-3, floor=0.3, correction="exact"), 0.0, 0.012),
        (partial(PSGLD, 2e-3, floor=0.3, correction="hutchinson"), 0.0, 0.012),
        (partial(PSGLD, 2e-3, floor=0.3, correction="rfd"), 0.0, 0.012),
        (partial(PSGLD, 2e-3, floor=0.3, correction="fixman"), 0.0, 0.012),
        (partial(PSGLD, 2e-3, floor=0.1, form="li", correction="none"), 0.25, 0.29),
        (partial(Monge, 2e-3, correction="none"), 0.23, 0.26),
        (partial(Monge, 2e-3), 0.0, 0.012),
        (partial(Monge, 2e-3, correction="pec"), 0.0, 0.012),
        (partial(Riemannian, 2e-3, metric=Position(Squares(1.0)), correction="none"), 0.16, 0.19),
        (partial(Riemannian, 2e-3, metric=Position(Squares(1.0))), 0.0, 0.012),
        (partial(Riemannian, 2e-3, metric=Position(Squares(1.0)), correction="pec"), 0.0, 0.012),
    ],
)
def test_total_variation_on_the_normal(make, low, high, key):
    assert low <= tv(key, quiet(make)) <= high


def test_explicit_gamma_is_stiff_where_pec_is_not(key):
    """λ = 0.1 at h = 0.01: explicit Γ leaves a total variation of 0.137, pec 0.028."""
    k_exact, k_pec = jax.random.split(key)
    assert 0.11 < tv(k_exact, PSGLD(0.01, floor=0.1, correction="exact")) < 0.16
    assert tv(k_pec, PSGLD(0.01, floor=0.1)) < 0.036


def test_shampoo_on_a_matrix_of_one(key):
    k_none, k_fixman = jax.random.split(key)
    bare = quiet(partial(Shampoo, 1e-3, correction="none"))
    assert 0.28 < tv(k_none, bare, shape=(1, 1)) < 0.31
    assert tv(k_fixman, Shampoo(1e-3), shape=(1, 1)) < 0.016


class Noisy(Density):
    """N(0, 1) with gradient noise of standard deviation 1, new at every draw: a mini-batch without data."""

    stochastic = True

    def draw(self, key, feed, *, fraction=1.0):
        return jax.random.normal(key, (1,)), feed

    def evaluate(self, batch, position):
        exact = super().evaluate((), position)
        return exact._replace(grad=exact.grad + batch)


jax.tree_util.register_pytree_node(Noisy, lambda t: ((), (t.fn,)), lambda aux, _: Noisy(*aux))


def test_metric_and_drift_from_one_batch_are_biased_and_from_two_are_not(key):
    """λ = 0.3, noise 1 (notes §5): predicted 0.276 same batch, 0.120 split without Γ, 0 split with hk2."""
    target, kernel = Noisy(normal), partial(PSGLD, 2e-3, floor=0.3)
    k_same, k_split, k_both, k_held = jax.random.split(key, 4)
    assert 0.26 < tv(k_same, quiet(partial(kernel, correction="none")), target) < 0.29
    assert 0.105 < tv(k_split, quiet(partial(kernel, correction="none", metric_batch=1.0)), target) < 0.135
    assert tv(k_both, kernel(), target) < 0.014
    assert tv(k_held, kernel(correction="pec", metric_batch=1.0), target) < 0.014


def test_pec_with_a_constant_metric_is_of_second_order(key):
    """Trapezoidal prediction: the variance is off by −0.49 a², a = h D |H|, where Euler's is by +a/2."""
    a, chains = 0.4, 1 << 16
    k_start, k_init, k_run = jax.random.split(key, 3)
    slow = Riemannian(a, metric=Position(Constant()), correction="pec")
    target = Density(normal)
    states = begin_all(k_init, slow, target, jax.random.normal(k_start, (chains, 1)))
    run = advance(k_run, slow, target, states, length=20, thin=2, layout="vmap")
    x = np.asarray(run.kept)[:, 10:, 0]
    ratio, error = (x**2).mean(), (x**2).mean(1).std() / np.sqrt(chains)
    want = _pec_variance(a)
    assert abs(want - 1 + 0.49 * a**2) < 0.03
    assert abs(ratio - want) / error < 5


class Constant:
    """D = 1 by a metric of position."""

    def __call__(self, position):
        return jax.tree.map(lambda u: jnp.ones(()), position)


jax.tree_util.register_pytree_node(Constant, lambda c: ((), None), lambda *_: Constant())


def _pec_variance(a):
    """Stationary variance of z in (z, y) ← pec on g = −z, D = 1, solved as a linear system."""
    # y' = z − a y + s ξ;  z' = z − (a/2)(y + y') + s ξ
    A = np.array([[1 - a / 2, -a / 2 + a * a / 2], [1.0, -a]])
    b = np.sqrt(2 * a) * np.array([1 - a / 2, 1.0])
    C = np.linalg.solve(np.eye(4) - np.kron(A, A), np.outer(b, b).ravel()).reshape(2, 2)
    return C[0, 0]


# --- frozen metrics ---------------------------------------------------------------------------------------------


def test_a_window_of_delay_takes_the_bias_away(key):
    """Windows of two relaxation times (notes §6.1, λ = 0.1): 0.048 from the window's start, below noise with delay."""
    window = dict(window=1000, form="li", floor=0.1)
    k_now, k_late = jax.random.split(key)
    measure = partial(tv, steps=12000)
    now = Riemannian(2e-3, metric=Windowed(statistic="point", delay=0, **window))
    late = Riemannian(2e-3, metric=Windowed(statistic="point", delay=1, **window))
    assert 0.035 < measure(k_now, now) < 0.065
    assert measure(k_late, late) < 0.012


def test_windowed_statistics_are_those_of_the_window_before_last():
    metric, position = Windowed(1.0, window=3), jnp.zeros(1)
    memory = metric.start(position)
    used = []
    for count in range(13):
        memory = metric.update(memory, jnp.full(1, float(count)), jnp.asarray(count))
        used.append(float(memory[2][0]))
    of = lambda i: np.mean([j**2 for j in range(3 * i + 1, 3 * i + 4)])
    assert used[:3] == [0.0] * 3
    assert used[6] == pytest.approx(of(0))
    assert used[9] == pytest.approx(of(1))
    assert used[12] == pytest.approx(of(2))


# --- choices and words ------------------------------------------------------------------------------------------


def test_the_default_correction_follows_metric_and_target():
    exact, batched = Density(normal), logistic(jax.random.key(0), 40, 3, batch=8)
    assert PSGLD().resolve(exact.stochastic).name == "pec"
    assert PSGLD().resolve(batched.stochastic).name == "hk2"
    assert PSGLD().resolve(Tempered(batched, 2.0).stochastic).name == "hk2"
    assert PSGLD().resolve(replace(batched, batch=None).stochastic).name == "pec"
    assert PSGLD().own_batch(batched) == 1 / 8
    assert PSGLD(metric_batch=0.5).own_batch(batched) == 0.5
    assert Monge().resolve(exact.stochastic).name == Shampoo().resolve(batched.stochastic).name == "fixman"
    assert Riemannian(metric=Position()).resolve(batched.stochastic).name == "exact"
    assert Riemannian(metric=Windowed()).resolve(batched.stochastic).name == "none"


def test_a_wrong_law_warns_once_and_names_it(untold):
    with pytest.warns(UserWarning, match=r"p\^\(1/T\)/D, D = 1/√\(g² \+ λ²\), not p\^\(1/T\).*correction='pec'"):
        PSGLD(correction="none")
    PSGLD(correction="none")  # warnings are errors here: a second one would fail
    with pytest.warns(UserWarning, match="moving average"):
        PSGLD(decay=0.9, correction="pec")
    with pytest.warns(UserWarning, match="sharpened.*PSGLD"):
        AdamSGLD()
    with pytest.warns(UserWarning, match=r"p\^\(\(1 \+ a\)/T\)"):
        MSGLD()
    with pytest.warns(UserWarning, match="one batch"):
        PSGLD(correction="pec").own_batch(logistic(jax.random.key(0), 40, 3, batch=8))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PSGLD(correction="gamma"), "must be one of"),
        (lambda: Monge(correction="hk2"), "diagonal metric only; take correction='fixman'"),
        (lambda: PSGLD(metric_batch=2.0), "a share of the batch"),
        (lambda: AdamSGLD(correction="pec"), "take PSGLD"),
        (lambda: MSGLD(correction="pec"), "take SGHMC"),
        (lambda: PSGLD(form="adam"), "'smooth' or 'li'"),
        (lambda: PSGLD(decay=1.0), r"in \[0, 1\)"),
        (lambda: Windowed(delay=2), "0 or 1"),
        (
            lambda: PSGLD(metric_batch=0.0, correction="hk2").own_batch(logistic(jax.random.key(0), 9, 2, batch=3)),
            "1/8",
        ),
    ],
)
def test_bad_settings_get_one_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        quiet(make)


def test_the_law_without_gamma_refuses_where_it_has_no_closed_form():
    law = quiet(partial(PSGLD, correction="none")).law().density(Density(coupled))
    with pytest.raises(ValueError, match="one dimension"):
        law.log_density(place())


@pytest.mark.parametrize("form", ["smooth", "li"])
def test_the_law_without_gamma_is_p_over_d(form):
    law = quiet(partial(PSGLD, floor=0.3, form=form, temperature=0.5, correction="none")).law()
    x = jnp.array([0.8])
    D = (0.64 + 0.09) ** -0.5 if form == "smooth" else 1 / 1.1
    assert law.density(Density(normal)).log_density(x) == pytest.approx(-0.32 / 0.5 - np.log(D), rel=1e-5)


def test_kronecker_takes_any_rank_and_leaves_long_axes_alone(key):
    position = {"n": jnp.asarray(0.3), "v": jnp.arange(1.0, 4.0), "t": jnp.ones((2, 3, 4)), "long": jnp.ones((2, 9))}
    metric = Kronecker(0.1, largest=8)
    grad = noise.like(key, position)
    geometry = metric.geometry(metric.update(metric.start(position), grad, 0), grad, position)
    v = jax.tree.map(jnp.ones_like, position)
    back = metric.unroot(geometry, metric.root(geometry, v))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4), back, v)
    g = np.asarray(grad["t"], np.float64)
    D = np.eye(1)
    for axis in range(3):
        m = np.moveaxis(g, axis, 0).reshape(g.shape[axis], -1)
        w, u = np.linalg.eigh(m @ m.T + 0.1 * np.eye(len(m)))
        D = np.kron(D, (u * w ** (-1 / 6)) @ u.T)
    np.testing.assert_allclose(metric.apply(geometry, v)["t"].ravel(), D @ np.ones(24), rtol=1e-4)


def test_stale_roots_are_taken_every_interval():
    metric, position = Kronecker(0.1, interval=3), jnp.ones((1, 1))
    memory, seen = metric.start(position), []
    for count in range(7):
        memory = metric.update(memory, jnp.full((1, 1), 1.0 + count), jnp.asarray(count))
        seen.append(float(metric.apply(metric.geometry(memory, None, position), position)[0, 0]))
    want = [(1 + 3 * (c // 3)) ** 2 + 0.1 for c in range(7)]
    np.testing.assert_allclose(seen, np.asarray(want) ** -0.5, rtol=1e-5)
    assert metric.kind == "moving"


def test_moving_averages_start_at_zero_and_forget():
    metric = RMS(1.0, decay=0.9)
    memory = metric.start(jnp.zeros(1))
    for _ in range(3):
        memory = metric.update(memory, jnp.full(1, 2.0), 0)
    assert float(memory[0]) == pytest.approx(4 * (1 - 0.9**3))


def test_floors_are_the_size_of_the_gradients(key):
    """On N(0, s²) RMS(g) = 1/s at stationarity."""
    scale = jnp.array([0.1, 1.0, 10.0])
    k_start, k_init, k_tune, k_general, k_none = jax.random.split(key, 5)
    target = Density(_scaled, (scale,))
    start = PSGLD(1e-3)
    states = begin_all(k_init, start, target, scale[None] * jax.random.normal(k_start, (512, 3)))
    tuned, _ = metric_floor(k_tune, start, target, states, share=0.5)
    np.testing.assert_allclose(tuned.floor * scale, 0.5, rtol=0.1)
    general, _ = metric_floor(k_general, Riemannian(1e-3, metric=RMS()), target, states)
    np.testing.assert_allclose(general.metric.floor * scale, 0.5, rtol=0.1)
    with pytest.raises(ValueError, match="no floor"):
        metric_floor(k_none, Monge(), target, states)


def test_floors_are_of_what_the_metric_sees(key):
    """Its own batch of an eighth has √8 times the noise; the noise of this target is nearly all of its gradient."""
    k_start, k_init, k_also, k_whole, k_own = jax.random.split(key, 5)
    target = Bayes(_prior, _likelihood, jax.random.normal(k_start, (512,)), batch=64)
    start = PSGLD(1e-6)
    states = begin_all(k_init, start, target, jnp.zeros((256, 1)))
    own, _ = metric_floor(k_own, start, target, states)
    coupled = quiet(partial(PSGLD, 1e-6, correction="none"))
    shared, _ = metric_floor(k_whole, coupled, target, begin_all(k_also, coupled, target, jnp.zeros((256, 1))))
    assert float(own.floor[0] / shared.floor[0]) == pytest.approx(8**0.5, rel=0.1)


def _scaled(x, scale):
    return -0.5 * jnp.sum((x / scale) ** 2)


def test_n_data_counts_both_batches(key):
    target = logistic(jax.random.key(0), 64, 3, batch=16)
    kernel = PSGLD(1e-3)
    k_init, k_step = jax.random.split(key)
    state = kernel.init(k_init, jnp.zeros(3), target)
    _, info = kernel.step(k_step, state, target)
    assert (int(info.n_grad), int(info.n_data)) == (3, 16 + 2 + 2)


@pytest.mark.slow
def test_the_metric_batch_is_the_same_at_both_points_and_not_the_drifts(key):
    """On data whose gradients differ example by example, seen at both points of hk2."""
    seen = []

    class Spy(Bayes):
        def evaluate(self, batch, position):
            seen.append(np.asarray(batch))
            return super().evaluate(batch, position)

    target = Spy(_prior, _likelihood, jnp.arange(64.0), batch=16)
    kernel = PSGLD(1e-3)
    k_init, k_step = jax.random.split(key)
    with jax.disable_jit():
        state = kernel.init(k_init, jnp.zeros(1), target)
        seen.clear()
        kernel.step(k_step, state, target)
    metric, again, drift = seen
    np.testing.assert_array_equal(metric, again)
    assert len(metric) == 2
    assert len(drift) == 16


def test_pec_holds_the_metric_batch(key):
    """The same batch at one look a step until it is drawn anew, at step 64, with one look more."""
    target = Bayes(_prior, _likelihood, jnp.arange(64.0), batch=16)
    kernel = PSGLD(1e-6, correction="pec", metric_batch=1 / 8)
    k_init, k_run = jax.random.split(key)
    state = kernel.init(k_init, jnp.zeros(1), target)
    step = jax.jit(kernel.step)
    batches, looks = [], []
    for k in jax.random.split(k_run, 70):
        state, info = step(k, state, target)
        batches.append(np.asarray(state.memory[1][1]))
        looks.append((int(info.n_grad), int(info.n_data)))
    assert batches[0].shape == (2,)
    assert all(np.array_equal(b, batches[0]) for b in batches[:64])
    assert not np.array_equal(batches[64], batches[0])
    assert looks[0] == looks[64] == (3, 20)
    assert set(looks[1:64]) == {(2, 18)}


def _prior(x):
    return -0.5 * jnp.sum(x**2)


def _likelihood(x, data):
    return -0.5 * (data - x[0]) ** 2
