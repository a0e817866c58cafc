"""The choice of a correction, and what is said of it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geometries import coupled, normal, place, quiet

from langevin.baselines.adam_sgld import AdamSGLD
from langevin.baselines.msgld import MSGLD
from langevin.core import noise
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.target import Density
from langevin.dynamics.metrics.diagonal import RMS
from langevin.dynamics.metrics.kronecker import Kronecker
from langevin.dynamics.metrics.position import Position
from langevin.dynamics.metrics.windowed import Windowed
from langevin.samplers.monge import Monge
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.shampoo import Shampoo
from langevin.targets.bayes import Bayes
from langevin.targets.tempered import Tempered
from langevin.targets.zoo import logistic
from langevin.tune.metric_floor import metric_floor


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
