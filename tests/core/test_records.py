"""Records and schedules: numbers are cast once, statics are programs, and nothing retraces."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from langevin.core.display import show
from langevin.core.record import External, as_record, is_record, nonnegative, positive, record, replace, static
from langevin.core.schedule import Cosine, Linear, Polynomial, Scaled, at, phase
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.samplers.wrappers.guard import Guard


@record
class Thing:
    """For these tests. rate: a number. count: whole. tree: anything. mode: static."""

    rate: float = positive(default=0.1)
    count: int = nonnegative(default=3)
    tree: object = None
    mode: str = static(default="a")
    flag: bool = False


# --- casting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2, 2.0, np.float64(2), np.float32(2), np.int64(2), np.float16(2)])
def test_numbers_are_cast_to_one_dtype(value):
    thing = Thing(rate=value, count=value)
    assert (thing.rate.dtype, thing.count.dtype) == (np.float32, np.int32)
    assert (thing.rate, thing.count) == (2.0, 2)


def test_arrays_trees_and_flags_stay():
    x = jnp.arange(3.0)
    thing = Thing(rate=x, tree={"a": x, "b": None}, flag=True)
    assert thing.rate is x
    assert thing.tree["a"] is x
    assert thing.flag is True
    weak = Thing(rate=jnp.asarray(2.0))
    assert not weak.rate.weak_type


def test_a_record_is_frozen():
    with pytest.raises(AttributeError):
        Thing().rate = 1.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (dict(rate=0), "Thing: rate is 0; it must be positive"),
        (dict(rate=-1e-3), r"Thing: rate is -0\.001; it must be positive"),
        (dict(rate=float("nan")), "Thing: rate is nan; it must be positive"),
        (dict(count=-1), "Thing: count is -1; it must be zero or more"),
    ],
)
def test_numbers_out_of_range_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        Thing(**fields)
    with pytest.raises(ValueError, match=words):
        replace(Thing(), **fields)


def test_the_authors_own_check_comes_after_the_casts():
    @record
    class Checked:
        x: float = 1.0

        def __post_init__(self):
            assert isinstance(self.x, np.float32)
            if self.x > 5:
                raise ValueError("too much")

    Checked(2)
    with pytest.raises(ValueError, match="too much"):
        Checked(6)


# --- pytrees --------------------------------------------------------------------------------------------------------


def test_the_pytree_round_trip():
    thing = Thing(0.5, tree={"x": jnp.ones(2), "y": None}, mode="b")
    leaves, structure = jax.tree.flatten(thing)
    assert len(leaves) == 4  # rate, count, x, flag
    back = jax.tree.unflatten(structure, leaves)
    assert (back.mode, back.rate, back.flag) == ("b", thing.rate, False)
    assert back.tree["x"] is thing.tree["x"]
    # anything may sit in a leaf: the constructor is not asked
    assert jax.tree.map(lambda _: "x", thing).rate == "x"
    assert jax.tree.unflatten(structure, [None] * 4).rate is None
    assert structure == jax.tree.structure(replace(thing, rate=2, count=9))
    assert structure != jax.tree.structure(replace(thing, mode="c"))


def test_leaves_have_names():
    from langevin.core import tree

    assert tree.names(Thing(tree={"x": 1.0})) == ["rate", "count", "tree.x", "flag"]


def test_new_numbers_do_not_retrace_and_new_statics_do():
    traces = []

    @jax.jit
    def value(thing):
        traces.append(thing.mode)
        return thing.rate * thing.count

    for rate in (1, 2.0, np.float64(3), np.float32(4), jnp.asarray(5.0), jnp.float32(6)):
        assert value(Thing(rate=rate, count=np.int64(2))) == 2 * float(rate)
    assert traces == ["a"]
    value(Thing(mode="b"))
    value(Thing(mode="b", rate=7))
    assert traces == ["a", "b"]


def test_records_are_made_and_changed_inside_jit():
    inside = jax.jit(lambda h: replace(Thing(h), rate=2 * h).rate)
    assert inside(0.5) == 1.0
    assert jax.grad(lambda h: Thing(rate=h).rate ** 2)(3.0) == 6.0
    swept = jax.vmap(lambda h: Thing(rate=h).rate + 1)
    np.testing.assert_array_equal(swept(jnp.arange(1.0, 4.0)), [2, 3, 4])


# --- replace and repr -------------------------------------------------------------------------------------------------


def test_replace_reaches_through_kernel():
    kernel = Cyclical(Guard(SGLD(0.1)), period=50)
    new = replace(kernel, step_size=0.2, max_drop=5, period=60)
    assert (new.kernel.kernel.step_size, new.kernel.max_drop, new.period) == (np.float32(0.2), 5, 60)
    assert kernel.kernel.kernel.step_size == np.float32(0.1), "the old one is as it was"
    both = replace(kernel, kernel=Guard(SGLD(0.3)), temperature=2)
    assert (both.kernel.kernel.step_size, both.kernel.kernel.temperature) == (np.float32(0.3), 2)


def test_replace_names_what_there_is():
    with pytest.raises(TypeError, match="SGLD has no field 'stepsize'; its fields are noise, step_size, temperature"):
        replace(SGLD(), stepsize=1)
    with pytest.raises(TypeError, match="SGLD has no field 'nothing'"):
        replace(Cyclical(SGLD()), nothing=1)


def test_a_record_prints_as_it_is_built():
    assert repr(SGLD(1e-3)) == "SGLD(step_size=0.001, temperature=1, noise='normal')"
    assert eval(repr(SGLD(0.25, noise="rademacher"))).noise == "rademacher"
    assert repr(Cyclical(SGLD(0.5))).startswith("Cyclical(kernel=SGLD(step_size=0.5,")
    assert repr(Thing(rate=jnp.zeros((2, 3)))).startswith("Thing(rate=float32[2,3], count=3")
    assert show(jnp.float32(0.5)) == "0.5"


def test_a_traced_record_prints():
    seen = []
    jax.jit(lambda t: seen.append(repr(t)) or t.rate)(Thing())
    assert seen[0].startswith("Thing(rate=float32[]")


# --- functions ---------------------------------------------------------------------------------------------------


def double(x):
    return 2 * x


def test_functions_are_held_static():
    held = Thing(tree=double).tree
    assert isinstance(held, External)
    assert held(3) == 6
    assert show(held) == "double"
    assert jax.tree.leaves(held) == []
    assert as_record(held) is held
    assert is_record(as_record(double))
    assert not is_record(Thing)


def test_a_callable_that_is_a_pytree_keeps_its_arrays():
    schedule = Linear(0.0, 1.0, 10)
    assert Thing(tree=schedule).tree is schedule


# --- schedules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "count", "value"),
    [
        (0.3, 7, 0.3),
        (Polynomial(0.1, delay=10, power=0.5), 0, 0.1),
        (Polynomial(0.1, delay=10, power=0.5), 30, 0.05),
        (Cosine(2.0, period=8), 0, 2.0),
        (Cosine(2.0, period=8), 4, 1.0),
        (Cosine(2.0, period=8), 8, 2.0),
        (Linear(1.0, 3.0, 10), 5, 2.0),
        (Linear(1.0, 3.0, 10), 99, 3.0),
        (Scaled(Linear(1.0, 3.0, 10), 0.5), 5, 1.0),
        (Scaled(2.0, 0.25), 1, 0.5),
    ],
)
def test_schedules(schedule, count, value):
    np.testing.assert_allclose(at(schedule, jnp.int32(count)), value, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(at)(as_leaf(schedule), jnp.int32(count)), value, rtol=1e-6)


def as_leaf(schedule):
    return SGLD(schedule).step_size


def test_phase_is_a_fraction_of_the_cycle():
    np.testing.assert_allclose(phase(jnp.arange(6), np.int32(4)), [0, 0.25, 0.5, 0.75, 0, 0.25])
    # far from the start a float would have lost the place
    assert phase(jnp.int32(2**30 + 1), np.int32(4)) == 0.25


def test_an_optax_schedule_is_wrapped():
    kernel = SGLD(optax.exponential_decay(0.1, 10, 0.5))
    assert isinstance(kernel.step_size, External)
    np.testing.assert_allclose(at(kernel.step_size, jnp.int32(10)), 0.05, rtol=1e-6)
    assert len(jax.tree.leaves(kernel)) == 1  # the temperature


def test_schedules_do_not_retrace():
    traces = []

    @jax.jit
    def value(kernel, count):
        traces.append(1)
        return at(kernel.step_size, count)

    for first in (1, 0.5, np.float64(0.25)):
        value(SGLD(Polynomial(first, delay=7)), jnp.int32(3))
    assert len(traces) == 1
    value(SGLD(0.1), jnp.int32(3))
    assert len(traces) == 2, "a number in place of a record is another program"


@pytest.mark.parametrize("build", [Polynomial, Cosine])
def test_schedules_of_nothing_are_refused(build):
    with pytest.raises(ValueError, match="it must be positive"):
        build(0.0)
    with pytest.raises(ValueError, match=f"{build.__name__}: .* it must be positive"):
        build(0.1, 0)
