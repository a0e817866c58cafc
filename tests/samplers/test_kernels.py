"""What holds of every kernel (docs/architecture.md, §7). A new kernel needs a row in rows.py and nothing here."""

import importlib.util
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from laws import CHAINS, DRAWS, TARGETS, check_law, group_of, measured, powers_for, starts
from rows import ROWS

from langevin.core import tree
from langevin.core.advance import MAPPED, advance
from langevin.core.begin import begin_all
from langevin.core.display import describe, summary
from langevin.core.kernel import KERNELS, named, references, replace
from langevin.core.target import Density
from langevin.core.types import Law
from langevin.dynamics.recipe import Recipe
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Scales, Skew

SAMPLED = [name for name, row in ROWS.items() if not row.skip]
if importlib.util.find_spec("blackjax") is None:
    SAMPLED = [name for name in SAMPLED if not name.startswith(("nuts", "blackjax"))]
RECIPES = [name for name in SAMPLED if isinstance(ROWS[name].kernel, Recipe)]
TEMPERED = [n for n in SAMPLED if hasattr(ROWS[n].kernel, "temperature")]


def marks(name, *, slow):
    """All tests of a kernel run in one process, where its compiled programs are shared."""
    return [pytest.mark.xdist_group(name)] + [pytest.mark.slow] * slow


def rows(names):
    return [pytest.param(name, marks=marks(name, slow=ROWS[name].fast != "all")) for name in names]


def laws():
    """Every row on both targets; the fast suite takes the skew one (test_temperature has the other)."""
    slow = lambda name, target: ROWS[name].fast == "none" or target != "skew"
    return [pytest.param(n, t, marks=marks(n, slow=slow(n, t))) for n in SAMPLED for t in TARGETS]


@pytest.fixture(autouse=True)
def keys_of_others(request):
    """BlackJAX's own loops trip the reuse checker under vmap; ours must not."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name", "")
    with jax.debug_key_reuse(not str(name).startswith(("nuts", "blackjax"))):
        yield


def test_every_kernel_has_a_row():
    named("sgld")
    assert set(KERNELS) - {"blackjax"} <= set(ROWS)
    assert any(isinstance(row.kernel, KERNELS["blackjax"]) for row in ROWS.values())


@pytest.mark.parametrize(("name", "target"), laws())
def test_law(name, target, key):
    """From exact starts: exact kernels keep moments 1, 2, 4; the others have a bias of the order they claim, to p or to
    the wrong law they name."""
    check_law(key, ROWS[name].kernel, target, ROWS[name])


@pytest.mark.parametrize("name", rows(TEMPERED))
def test_temperature(name, key):
    """Every kernel honours its temperature: a Gaussian at T = 1/4 has a quarter of the variance."""
    kernel = replace(ROWS[name].kernel, temperature=0.25)
    check_law(key, kernel, "scales", ROWS[name], temperature=0.25)


@pytest.fixture(scope="module")
def compilations():
    from langevin_lab.benchmarks.compile import Counter

    return Counter()


@pytest.mark.parametrize("name", rows(SAMPLED))
def test_new_numbers_do_not_recompile(name, key, compilations):
    """Another step size (an np.float64), another temperature (an int) and another key run the same program."""
    kernel, row = ROWS[name].kernel, ROWS[name]
    k_first, k_again = jax.random.split(key)
    measured(k_first, kernel, TARGETS["scales"], row)
    inner = kernel.kernel if hasattr(kernel, "kernel") else kernel
    h = getattr(inner, "step_size", None)
    changed = dict(temperature=1, **({} if h is None else {"step_size": np.float64(h) * 0.9}))
    before = compilations.count
    measured(k_again, replace(kernel, **changed), TARGETS["scales"], row)
    assert compilations.count == before


@pytest.mark.parametrize("name", rows(SAMPLED))
def test_arrives(name, key):
    """From dispersed starts R̂ of x and of x² comes below 1.02."""
    from langevin.core import moments

    kernel, row, target = ROWS[name].kernel, ROWS[name], TARGETS["scales"]
    k_start, k_init, k_run = jax.random.split(key, 3)
    start = tree.scale(3.0, target.exact(k_start, CHAINS))
    states = begin_all(k_init, kernel, target, start)
    keep = powers_for(kernel)
    go = partial(advance, kernel=kernel, target=target, length=DRAWS, thin=row.thin, collect=keep, layout="vmap")
    for k in jax.random.split(k_run, 3):
        run = go(k, states=states)
        states = run.states
    collected = np.isfinite(np.asarray(run.info.log_weight)).any(1)
    kept = np.asarray(run.kept)[collected, :, :2]
    # thousands of short chains as 16 long ones, each of hundreds side by side
    x = kept.reshape(16, len(kept) // 16 * DRAWS, 2, -1)
    assert np.nanmax(moments.rhat(moments.first(x))) < 1.02


@pytest.mark.parametrize("name", rows(ROWS))
def test_shapes_and_dtypes_are_stable(name, key):
    row = ROWS[name]
    if name.startswith(("nuts", "blackjax")) and name not in SAMPLED:
        pytest.skip("BlackJAX is not installed")
    target = Skew()
    position = starts(key, row.kernel, target)
    state = jax.eval_shape(lambda k: row.kernel.init(k, position, target), jax.random.key(0))
    after, info = jax.eval_shape(lambda k, s: row.kernel.step(k, s, target), jax.random.key(0), state)
    assert jax.tree.structure(state) == jax.tree.structure(after)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
    shape = () if group_of(row.kernel) == 1 else (group_of(row.kernel),)
    assert all(u.shape == shape for u in jax.tree.leaves(info))


def counting(cls, seen):
    """A target that notes n_data at every evaluation of every chain, those under `vmap` and in loops included."""

    class Counting(cls):
        def evaluate(self, batch, position):
            evaluation = super().evaluate(batch, position)
            here = jax.lax.stop_gradient(jax.tree.leaves(position)[0])  # so that a batch of positions counts as many
            jax.debug.callback(lambda n, here: seen.append(int(n)), evaluation.n_data, here)
            return evaluation

    return Counting


@pytest.mark.parametrize("name", rows(n for n in SAMPLED if not n.startswith(("nuts", "blackjax"))))
def test_n_grad_is_what_a_counting_target_counts(name, key):
    seen = []
    target, kernel = counting(Skew, seen)(), ROWS[name].kernel
    k_start, k_init, *keys = jax.random.split(key, 5)
    state = jax.jit(lambda k, x: kernel.init(k, x, target))(k_init, starts(k_start, kernel, Skew()))
    jax.effects_barrier()
    seen.clear()
    step = jax.jit(lambda k, s: kernel.step(k, s, target))
    total = 0
    for k in keys:
        state, info = step(k, state)
        total += int(np.sum(info.n_grad))
    jax.effects_barrier()
    assert total == len(seen)


def flat_prior(x):
    return -0.5 * jnp.sum(x**2)


def residuals(x, data):
    return -0.5 * (data - x[0]) ** 2


@pytest.mark.filterwarnings("ignore:.*metric and drift from one batch")
@pytest.mark.parametrize("name", rows(n for n in SAMPLED if not n.startswith(("nuts", "blackjax"))))
def test_every_key_is_used_once_on_a_minibatched_target(name, key):
    """The reuse checker sees noise and batch only where a batch is drawn: an exact target would hide a reuse."""
    seen, kernel = [], ROWS[name].kernel
    target = counting(Bayes, seen)(flat_prior, residuals, jnp.arange(8.0), batch=2)
    k_init, *keys = jax.random.split(key, 4)
    start = jnp.zeros(2) if group_of(kernel) == 1 else jnp.zeros((group_of(kernel), 2))
    state = jax.jit(lambda k, x: kernel.init(k, x, target))(k_init, start)
    step = jax.jit(lambda k, s: kernel.step(k, s, target))
    for k in keys:  # an event every few steps is met
        jax.effects_barrier()
        seen.clear()
        state, info = step(k, state)
        jax.effects_barrier()
        assert int(np.sum(info.n_grad)) == len(seen)
        assert int(np.sum(info.n_data)) == sum(seen), "what it says it looked at"


def walled(x):
    """N(0, 1) with a cliff into NaN at 3.5."""
    return jnp.sum(jnp.where(x < 3.5, -0.5 * x**2, jnp.nan))


@pytest.mark.parametrize("name", rows(SAMPLED))
def test_a_nan_region_is_survived_and_reported(name, key):
    kernel, target = ROWS[name].kernel, Density(walled)
    k_init, k_run = jax.random.split(key)
    states = begin_all(k_init, kernel, target, jnp.stack([jnp.linspace(-1.0, 3.4, 256), jnp.zeros(256)], 1))
    run = advance(k_run, kernel, target, states, length=30, thin=4, layout="vmap")
    ok = np.asarray(run.info.ok)
    assert ok.all(1).any(), "chains that never met the cliff must go on"
    good = np.isfinite(np.asarray(run.kept)).all(-1)
    assert np.all(good[ok]), "a draw that is said to be ok is finite"
    if kernel.law().kind == "exact" or name == "guard":
        assert ok.all(), "a Metropolis kernel rejects NaN"
    elif name == "sgld":
        assert not ok.all(), "the test target must be able to kill a chain"


@pytest.mark.parametrize("name", rows(RECIPES))
def test_recipes_are_consistent(name, key):
    """D is symmetric and positive, √D √Dᵀ = D, Q is skew, Γ is the divergence of D + Q."""
    kernel, target = ROWS[name].kernel, Skew()
    k_start, k_init, k_aux = jax.random.split(key, 3)
    position = jax.tree.map(lambda u: u[0], target.exact(k_start, 1))
    state = kernel.init(k_init, position, target)
    z, unravel = ravel_pytree((position, kernel.auxiliary(k_aux, position)))

    def matrix(apply):
        return lambda z: (
            jax.vmap(lambda v: ravel_pytree(apply(unravel(z), state.memory, unravel(v)))[0])(jnp.eye(z.size)).T
        )

    D, R, Q = (matrix(f)(z) for f in (kernel.D, kernel.sqrt_D, kernel.Q))
    np.testing.assert_allclose(D, D.T, atol=1e-6)
    np.testing.assert_allclose(R @ R.T, D, atol=1e-5)
    assert np.linalg.eigvalsh(np.asarray(D)).min() > -1e-6
    np.testing.assert_allclose(Q, -Q.T, atol=1e-6)
    jacobian = jax.jacfwd(lambda z: matrix(kernel.D)(z) + matrix(kernel.Q)(z))(z)
    gamma = jnp.trace(jacobian, axis1=1, axis2=2)
    np.testing.assert_allclose(gamma, ravel_pytree(kernel.gamma(unravel(z), state.memory))[0], atol=1e-5)


@pytest.mark.parametrize("name", sorted({type(row.kernel).__name__.lower() for row in ROWS.values()}))
def test_documented(name):
    cls = named(name)
    assert summary(cls), f"{name} needs a sentence"
    for field in describe(cls):
        assert field.words, f"{name}: the docstring has no line for {field.name!r}"
    assert references(cls), f"{name}: its module needs References"
    assert all(re.search(r"\((19|20)\d\d\)", r) for r in references(cls))
    assert isinstance(next(r.kernel for r in ROWS.values() if type(r.kernel) is cls).law(), Law)


def test_jit_is_no_jit(key):
    kernel, target = ROWS["sgld"].kernel, Skew()
    k_start, k_init, k_step = jax.random.split(key, 3)
    position = jax.tree.map(lambda u: u[0], target.exact(k_start, 1))
    state = kernel.init(k_init, position, target)
    plain, _ = kernel.step(k_step, state, target)
    fast, _ = jax.jit(kernel.step)(jax.random.clone(k_step), state, target)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-6), plain.position, fast.position)


def test_count_is_shared_so_that_a_branch_stays_a_branch(key):
    target = Scales()
    kernel = ROWS["sgld"].kernel
    k_start, k_init = jax.random.split(key)
    states = begin_all(k_init, kernel, target, target.exact(k_start, 8))
    assert states.count.shape == ()
    branch = lambda s: jax.lax.cond(s.count % 2 == 0, lambda: s.position["a"], lambda: 2 * s.position["a"])
    text = str(jax.make_jaxpr(jax.vmap(branch, (MAPPED,)))(states))
    assert "cond[" in text, "a batched predicate would have become a select"
