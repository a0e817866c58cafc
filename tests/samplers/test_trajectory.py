"""The length of trajectories, the MAMS tuner, and a comparison with BlackJAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from energy_error import CHAINS, SIZE, TARGET, D, begin

from langevin.core.advance import _advance, advance
from langevin.core.begin import begin_all
from langevin.samplers.hmc import HMC
from langevin.samplers.mams import MAMS
from langevin.samplers.mclmc import MCLMC
from langevin.tune.mclmc import tune_mclmc
from langevin.tune.trajectory import Spread, forgetting, include, pace, tune_mams

# --- trajectories ---------------------------------------------------------------------------------------------------


def test_adjusted_meets_the_rate_asked_for(key, monkeypatch):
    """The rate, and L: 0.3 of a path of √(Σ Var) a draw, were an effective draw two draws."""
    monkeypatch.setattr("langevin.tune.trajectory.forgetting", lambda draws: np.full(len(draws), 2.0))
    kernel = MAMS(1.0, 3.0)
    states, k_tune, k_run = begin(key, kernel)
    tuned, states = tune_mams(k_tune, kernel, TARGET, states, steps=1000)
    each = np.asarray(advance(k_run, tuned, TARGET, states, length=300).info.acceptance).mean(1)
    # as in test_tune: the rate is promised along the path of dual averaging
    assert abs(each.mean() - 0.9) < 0.07 + 5 * each.std() / np.sqrt(CHAINS)
    # n = ⌈2 x L/ε⌉ steps are L and, on the average, half a step
    path = SIZE + 0.5 * float(tuned.step_size)
    assert abs(float(tuned.length) / (0.3 * 2 * path) - 1) < 0.15


def test_variances_on_the_way_are_those_of_the_positions(key):
    """A kernel that stands at given places: their variance, far from zero, to float32."""
    x = 10 + jax.random.normal(key, (40, 3))
    spread = Spread(jnp.zeros(()), jnp.zeros(3), jnp.zeros(3))
    for place in x:
        spread = include(spread, place)
    np.testing.assert_allclose(spread.square / 39, np.asarray(x).var(0, ddof=1), rtol=1e-4)
    assert float(spread.n) == 40


def test_forgetting_leaves_out_what_stands_still():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 400, 3))
    x[:, :, 1] = 1.0
    x[1] = 2.0
    steps = forgetting(x)
    assert abs(steps[0] - 1) < 0.3
    assert np.isnan(steps[1])


def test_forgetting_of_ar1():
    """x' = φ x + noise: (1 + φ)/(1 − φ) draws for each effective one, of a chain by itself."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 2000, 40))
    for t in range(1, 2000):
        x[:, t] = 0.6 * x[:, t - 1] + 0.8 * x[:, t]
    np.testing.assert_allclose(forgetting(x), 4.0, rtol=0.1)


@pytest.mark.parametrize(("steps", "kept", "thin"), [(3, 3, 1), (500, 500, 1), (501, 251, 2), (5000, 500, 10)])
def test_at_most_so_many_positions_are_kept(steps, kept, thin):
    assert pace(steps) == (kept, thin)


def test_one_program_for_all_phases(key):
    kernel = MCLMC(1.0, D**0.5)
    states, k_tune, _ = begin(key, kernel)
    before = _advance._cache_size()
    for numbers, k in zip((dict(), dict(variance=(0.5, 0.1), trust=2.0)), jax.random.split(k_tune), strict=True):
        tune_mclmc(k, kernel, TARGET, states, steps=1500, **numbers)
    assert _advance._cache_size() <= before + 1


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(kernel=HMC(1.0)), TypeError, "has no field 'length'"),
        (dict(kernel=MCLMC(lambda t: 0.1, 1.0)), TypeError, "step_size is a schedule"),
        (dict(steps=0), ValueError, "steps is 0"),
        (dict(variance=-1.0), ValueError, "variance is -1.0"),
        (dict(variance=(0.5, 0.1, 0.1)), ValueError, "two such: at first, at last"),
        (dict(share=(0.5, 0.5, 0.5)), ValueError, "sum 1 or less"),
        (dict(kernel=MAMS(1.0, 1.0)), TypeError, "carry no velocity"),
    ],
)
def test_bad_input_in_words(change, error, words, key):
    kernel = change.pop("kernel", MCLMC(1.0, 1.0))
    states, k_tune, _ = begin(key, kernel, chains=2)
    with pytest.raises(error, match=words):
        tune_mclmc(k_tune, kernel, TARGET, states, **change)


@pytest.mark.parametrize(("change", "words"), [(dict(acceptance=1.5), "acceptance is 1.5"), (dict(steps=5), "too few")])
def test_bad_input_of_adjusted(change, words, key):
    states, k_tune, _ = begin(key, MAMS(1.0, 1.0), chains=2)
    with pytest.raises(ValueError, match=words):
        tune_mams(k_tune, MAMS(1.0, 1.0), TARGET, states, **change)


# --- against BlackJAX -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_bias_is_that_of_blackjax(key):
    """Σ x²/Var of chains from exact draws, ε large: ours and BlackJAX's are off by the same, and clearly so."""
    blackjax = pytest.importorskip("blackjax")
    step, length, chains, draws = 12.0, 10.0, 500, 60
    k_start, k_init, k_run, k_theirs, k_begin = jax.random.split(key, 5)
    start = TARGET.exact(k_start, chains)
    kernel = MCLMC(step, length)
    ours = advance(k_run, kernel, TARGET, begin_all(k_init, kernel, TARGET, start), length=draws).kept

    with jax.debug_key_reuse(False):
        peer = blackjax.mclmc(TARGET.log_density, L=length, step_size=step)

        @jax.jit
        @jax.vmap
        def chain(k_begin, key, position):
            one = lambda state, k: (lambda new: (new, new.position))(peer.step(k, state)[0])
            return jax.lax.scan(one, peer.init(position, k_begin), jax.random.split(key, draws))[1]

        theirs = chain(jax.random.split(k_begin, chains), jax.random.split(k_theirs, chains), start)

    def bias(x):
        """Mean and its standard error of Σ (x²/Var − 1) over independent chains, after they have settled."""
        each = (np.asarray(x, np.float64)[:, draws // 2 :] ** 2 / np.asarray(TARGET.variance) - 1).sum(2).mean(1)
        return each.mean(), each.std(ddof=1) / np.sqrt(chains)

    (a, sa), (b, sb) = bias(ours), bias(theirs)
    assert min(abs(a) / sa, abs(b) / sb) > 10
    assert abs(a - b) / np.hypot(sa, sb) < 5
