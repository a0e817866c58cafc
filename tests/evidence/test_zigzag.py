"""Zig-Zag annealing: its stationary distribution, the work below log Z, the unbiased Poisson weight."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factored_regression import (
    BATCH,
    COARSE,
    FINE,
    PARTICLES,
    RUNGS,
    SIGMA,
    SIZE,
    D,
    N,
    bernoulli,
    gaussian,
    made,
    truth,
)

from langevin.core import noise
from langevin.evidence import ZigZag
from langevin.evidence.minibatch import factored
from langevin.evidence.minibatch.factored import find_anchor, linear
from langevin.evidence.minibatch.zigzag import anneal, poisson_work
from langevin.evidence.minibatch.zigzag_process import Particle, build_process, first_event, flow
from langevin.targets.zoo import laplace_truth

# --- the motion --------------------------------------------------------------------------------------------------


@jax.jit
def moved(key, made, beta, duration, start, signs):
    """Every particle after a flow at β."""
    speed = made.speeds(jnp.asarray(beta)[None])[0]

    def one(key, position, sign):
        place = Particle(position, sign, jnp.zeros((), int), jnp.zeros(()))
        return flow(key, made, beta, speed, duration, place)

    return jax.vmap(one)(jax.random.split(key, len(start)), start, signs)


def stays(key, made, beta, duration, n=8000):
    """z-scores of first and second moments of (θ, ζ) after particles started at exact draws have moved."""
    k_start, k_sign, k_flow = jax.random.split(key, 3)
    mean, cov, _ = truth(made.target, beta)
    root = np.linalg.cholesky(cov)
    start = jnp.asarray(mean, jnp.float32)[None] + jax.random.normal(k_start, (n, D)) @ jnp.asarray(root.T, jnp.float32)
    end = moved(k_flow, made, beta, duration, start, noise.rademacher(k_sign, (n, D)))
    u = np.linalg.solve(root, np.asarray(end.position, float).T - mean[:, None]).T
    both = np.concatenate([u, np.asarray(end.sign, float)], axis=1)
    values = [both] + [both[:, i : i + 1] * both[:, i + 1 :] for i in range(2 * D - 1)] + [u**2 - 1]
    values = np.concatenate(values, axis=1)
    return values.mean(0) / (values.std(0, ddof=1) / n**0.5), end


@pytest.mark.parametrize(
    ("choice", "beta"), [("weighted", 0.003), ("weighted", 0.3), ("weighted", 1.0), ("uniform", 1.0)]
)
def test_the_motion_keeps_its_law(key, choice, beta):
    z, end = stays(key, made(choice=choice), beta, 2.0)
    assert np.abs(z).max() < 5, z
    assert float(end.excess.max()) <= 1 + 1e-5
    assert float(jnp.mean(end.n_data)) > 0


def test_an_anchor_off_the_mode_keeps_the_law_too(key):
    target = gaussian()
    off = factored._store(target, find_anchor(target).position + jnp.array([0.3, -0.2, 0.4]))
    assert float(jnp.linalg.norm(off.grad + jax.grad(target.prior)(off.position))) > 1
    z, _ = stays(key, build_process(target, off._replace(n_data=0)), 0.7, 2.0)
    assert np.abs(z).max() < 5, z


def test_half_the_bound_is_seen(key):
    tickets = dataclasses.replace(made().tickets, limit=made().tickets.limit / 2)
    z, end = stays(key, dataclasses.replace(made(), tickets=tickets), 1.0, 6.0)
    assert np.abs(z).max() > 8
    assert float(end.excess.max()) > 1.5


def test_clocks_strike_when_they_should(key):
    """∫ of the rate up to the strike is the Exp(1) it was made from, whatever the sign of the level."""
    e = jax.random.exponential(key, (5,))
    for level, rise in ((2.0, 0.5), (-2.0, 0.5), (0.0, 0.5), (3.0, 0.0)):
        t = first_event(jnp.full(5, level), jnp.full(5, rise), e)
        later = jnp.maximum(t - max(-level / rise if rise else 0.0, 0.0), 0.0)
        area = max(level, 0.0) * later + 0.5 * rise * later**2
        np.testing.assert_allclose(area, e, rtol=1e-5)
    assert float(first_event(jnp.zeros(()), jnp.zeros(()), e[0])) > 1e6  # a clock that never strikes


def test_data_are_counted(key):
    """The mean of n_data over short runs is that of a plain loop in NumPy."""
    n, few, beta, duration, rng = 8000, 300, 0.05, 10.0, np.random.default_rng(0)
    k_flow, k_alone = jax.random.split(key)
    mean, cov, _ = truth(gaussian(), beta)
    start, signs = rng.multivariate_normal(mean, cov, n), rng.choice([-1.0, 1.0], (n, D))
    of = lambda u: jnp.asarray(u, jnp.float32)
    ours = np.asarray(moved(k_flow, made(), beta, duration, of(start), of(signs)).n_data)
    theirs = np.array([plain(rng, made(), beta, duration, start[i], signs[i]) for i in range(few)])
    z = (ours.mean() - theirs.mean()) / np.sqrt(ours.var(ddof=1) / n + theirs.var(ddof=1) / few)
    assert abs(z) < 5, (ours.mean(), theirs.mean())
    assert ours.mean() > 20
    # without a likelihood only the prior's clocks strike, and they evaluate no data
    alone = dataclasses.replace(made(), tickets=dataclasses.replace(made().tickets, limit=jnp.zeros(D)))
    assert int(jnp.sum(moved(k_alone, alone, beta, duration, of(start), of(signs)).n_data)) == 0


def plain(rng, made, beta, duration, theta, sign):
    """One run of the process by competing clocks, one a coordinate and kind; the number of data evaluated."""
    x = np.asarray(made.target.data["x"], float)
    a, S, G = (np.asarray(u, float) for u in (made.anchor.position, made.anchor.scale, made.anchor.grad))
    s = np.asarray(made.speeds(jnp.asarray([beta]))[0], float)
    m, p = np.asarray(made.target.base.mean, float), np.asarray(made.target.base.scale, float) ** -2
    c = np.abs(x) / SIGMA**2 * np.linalg.norm(x * S, axis=1)[:, None]
    chance = np.asarray(made.tickets.chance, float)
    limit = np.max(c / chance, axis=0)
    looked, sign, left = 0, sign.copy(), duration
    while True:
        v, far, growth = sign * s, np.linalg.norm((theta - a) / S), np.linalg.norm(s / S)
        level = np.concatenate([v * (p * (theta - m) - beta * G), beta * s * limit * far])
        rise = np.concatenate([p * s**2, beta * s * limit * growth])
        root = np.sqrt(np.maximum(level, 0) ** 2 + 2 * rise * rng.exponential(size=2 * D))
        times = (root - level) / rise
        k = int(np.argmin(times))
        if times[k] >= left:
            return looked
        theta, left = theta + times[k] * v, left - times[k]
        j = k % D
        if k >= D:
            looked += 1
            i = rng.choice(N, p=chance[:, j] / chance[:, j].sum())
            change = -x[i, j] * (x[i] @ (theta - a)) / SIGMA**2
            ceiling = limit[j] * (far + times[k] * growth)
            if rng.uniform() >= -sign[j] * change / chance[i, j] / ceiling:
                continue
        sign[j] = -sign[j]


# --- the evidence ------------------------------------------------------------------------------------------------


def test_the_work_is_a_lower_bound_and_comes_near(key):
    k_coarse, k_fine, k_first = jax.random.split(key, 3)
    log_z, spec = truth(gaussian())[2], dict(anchor=made().anchor, **SIZE)
    coarse = ZigZag(ladder=COARSE, **spec)(k_coarse, gaussian())
    fine = ZigZag(ladder=RUNGS, duration=4.0, **spec)(k_fine, gaussian())
    noisy = ZigZag(ladder=RUNGS, duration=4.0, order=1, **spec)(k_first, gaussian())
    for found in (coarse, fine, noisy):
        assert found.guarantee == "lower"
        assert float(found.lower) == float(found.log_z)
        assert float(found.log_z) - log_z < 5 * float(found.stderr)
    gaps = [log_z - float(u.log_z) for u in (coarse, fine, noisy)]
    errors = [float(u.stderr) for u in (coarse, fine, noisy)]
    assert gaps[0] - gaps[1] > 5 * np.hypot(errors[0], errors[1])
    assert gaps[1] < 0.5
    assert abs(gaps[1] - gaps[2]) < 5 * np.hypot(errors[1], errors[2])  # the batch's noise changes no mean


def climbed(key, made, duration, **how):
    k_start, k_climb = jax.random.split(key)
    start = made.target.base.exact(k_start, PARTICLES)
    return anneal(k_climb, made, FINE, duration, start, batch=BATCH, **how)


@jax.jit
def factors(keys, made, position, rise):
    """Signed ∏ (1 + dβ n r/λ) for every key."""
    value, negative, n = jax.vmap(lambda key: poisson_work(key, made, position, rise, BATCH, 1))(keys)
    return jnp.exp(value) * (1 - 2 * (negative % 2)), negative, n


@pytest.mark.parametrize("rise", [0.02, 0.15])
def test_a_poisson_factor_is_unbiased_with_its_sign(key, rise):
    """At one position, where e^{dβ (L − C)} is known; for the larger dβ many factors are negative."""
    anchor, keys = made().anchor, jax.random.split(key, 100_000)
    away = 0.8 * jnp.array([1.0, -1.0, 1.0])
    w, negative, n = (np.asarray(u, float) for u in factors(keys, made(), anchor.position + away, rise))
    exact = np.exp(0.5 * rise * float(away @ anchor.hessian @ away))
    error = w.std(ddof=1) / len(w) ** 0.5
    assert abs(w.mean() - exact) < 5 * error, (w.mean(), exact)
    assert exact > 10 * error
    assert abs(n.mean() - BATCH) < 5 * (BATCH / len(n)) ** 0.5
    assert (negative.sum() > 1000) == (rise > 0.1)
    assert (np.abs(w).mean() - exact > 5 * error) == (rise > 0.1)  # without signs the mean would be another


def test_poisson_weights_are_unbiased(key):
    """At order 1, where the data matter."""
    done = climbed(key, made(), 4.0, weight="poisson", order=1)
    w = np.exp(np.asarray(done.log_weight, float) - truth(gaussian())[2])
    error = w.std(ddof=1) / len(w) ** 0.5
    assert abs(w.mean() - 1) < 5 * error, (w.mean(), error)
    assert error < 0.07
    assert int(jnp.sum(done.negative)) == 0


def test_poisson_says_unbiased_or_warns(key):
    k_fine, k_coarse = jax.random.split(key)
    spec = dict(anchor=made().anchor, weight="poisson", order=1, duration=4.0, **SIZE)
    found = ZigZag(ladder=RUNGS, **spec)(k_fine, gaussian())
    assert found.guarantee == "unbiased-Z"
    assert abs(float(found.log_z) - truth(gaussian())[2]) < 5 * float(found.stderr)
    with pytest.warns(UserWarning, match=r"\d+ factors of the Poisson weights are negative"):
        found = ZigZag(ladder=COARSE, **spec)(k_coarse, gaussian())
    assert found.guarantee == "consistent"
    assert float(found.lower) == -np.inf
    assert abs(float(found.log_z) - truth(gaussian())[2]) < 5 * float(found.stderr)


def test_costs(key):
    k_linear, k_poisson = jax.random.split(key)
    anchor = made().anchor
    assert anchor.n_data == 3 * N  # a quadratic: two evaluations of Newton's method, and one to store the factors
    found = ZigZag(anchor=anchor, ladder=RUNGS, duration=1e-12, **SIZE)(k_linear, gaussian())
    assert int(found.n_data) == anchor.n_data + PARTICLES * RUNGS * BATCH  # work and next to no motion
    assert int(found.n_grad) == 3
    assert float(found.ess) == PARTICLES
    still = climbed(k_poisson, made(), 1e-12, weight="poisson", order=1).particle
    n = np.asarray(still.n_data)
    mean = RUNGS * BATCH  # of a Poisson number
    assert abs(n.mean() - mean) < 5 * (mean / len(n)) ** 0.5
    assert abs(n.var(ddof=1) / mean - 1) < 5 * (2 / len(n)) ** 0.5
    ahead = np.asarray(still.sign)  # as they began: fair coins, whatever the position
    assert (np.abs(ahead.mean(0)) < 5 * len(n) ** -0.5).all()
    assert (np.abs((ahead * np.sign(still.position - still.position.mean(0)[None])).mean(0)) < 5 * len(n) ** -0.5).all()


sampled = jax.jit(partial(laplace_truth, d=D, n=4096))


def test_logistic(key):
    target = bernoulli()
    k_truth, k_bound = jax.random.split(key)
    known = sampled(k_truth, target)
    found = ZigZag(anchor=made(bernoulli).anchor, ladder=RUNGS, duration=4.0, **SIZE)(k_bound, target)
    assert found.guarantee == "lower"
    assert -0.5 < float(found.log_z) - float(known.log_z) < 5 * np.hypot(float(found.stderr), float(known.ess) ** -0.5)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
def test_logistic_poisson_weights_are_unbiased(key, order):
    k_truth, k_climb = jax.random.split(key)
    known = sampled(k_truth, bernoulli())
    done = climbed(k_climb, made(bernoulli), 4.0, weight="poisson", order=order)
    w = np.exp(np.asarray(done.log_weight, float) - float(known.log_z)) * (1 - 2 * (np.asarray(done.negative) % 2))
    assert abs(w.mean() - 1) < 5 * np.hypot(w.std(ddof=1) / len(w) ** 0.5, float(known.ess) ** -0.5)


def test_a_column_of_zeros_is_left_to_its_prior(key):
    """Its coordinate has no data to draw and no clock of theirs; log Z does not see it."""
    x, y = gaussian().data["x"], gaussian().data["y"]
    target = linear(x * jnp.array([1.0, 1.0, 0.0])[None], y, sigma=SIGMA)
    found = ZigZag(ladder=RUNGS, weight="poisson", order=1, duration=2.0, **SIZE)(key, target)
    assert found.guarantee == "unbiased-Z"
    assert abs(float(found.log_z) - truth(target)[2]) < 5 * float(found.stderr)
