"""Chains and data on many devices and processes: the same draws as on one.

Random numbers are the same bits whatever the placing, and so is a run on the same mesh in one process or in many. How
XLA vectorises a step depends on how many chains a device holds, so between meshes the last bit of a float may differ
(as it may between 4 chains and 8 on one device): the bound is 1e-5.
"""

import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from quick import first

from langevin.core import noise, sharding
from langevin.core.advance import _advance, advance
from langevin.core.begin import begin_all
from langevin.core.kernel import Kernel, PerChain, replace, report, spread
from langevin.core.record import as_record, record
from langevin.core.run import run
from langevin.core.shards import Stored
from langevin.core.target import Density
from langevin.core.types import Law, State, position_of
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.sghmc import SGHMC
from langevin.targets.tempered import Tempered

pytestmark = pytest.mark.skipif(jax.device_count() < 4, reason="needs the 4 virtual devices of conftest.py")
KERNEL = SGHMC(step_size=1e-2, friction=2.0)


def build(key):
    return MLP((3, 8, 1), key, jnp.tanh)


@pytest.fixture(scope="module")
def net():
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    return bnn(build, (x, np.sin(x.sum(1))), noise=0.3)


@pytest.fixture(scope="module")
def start(net):
    return net.starts(noise.key(2, impl="hash"), 4)


def go(target, start, mesh=None, *, kernel=KERNEL, draws=30, **options):
    return run(noise.key(1, impl="hash"), kernel, target, start, draws=draws, chunk=20, mesh=mesh, **options)


@pytest.fixture(scope="module")
def alone(net, start):
    """The run on one device."""
    return go(net.target, start)


@record
class Bits(Kernel):
    """A kernel whose position is the random bits it is given."""

    def init(self, key, position, target):
        evaluation = target.evaluate((), position)
        return State(position, (), (), evaluation, (), jnp.zeros((), jnp.int32))

    def step(self, key, state, target):
        words = jax.random.bits(key, (3,), jnp.uint32) >> 8  # 24 bits, exact in a float
        new = state._replace(position=words.astype(jnp.float32), count=state.count + 1)
        return new, report(new)

    def law(self):
        return Law("wrong", 0.0, None, "none")


def flat(x):
    return jnp.zeros(())


@pytest.mark.parametrize("impl", ["hash", "threefry"])
def test_chains_on_four_devices_see_the_same_bits(impl):
    out = [
        run(noise.key(1, impl=impl), Bits(), Density(flat), jnp.zeros((8, 3)), draws=6, thin=2, chunk=4, mesh=mesh)
        for mesh in (None, sharding.mesh(), sharding.mesh(2, 2))
    ]
    for other in out[1:]:
        np.testing.assert_array_equal(out[0].kept, other.kept)
    assert len(np.unique(out[0].kept)) == out[0].kept.size
    assert out[1].states.position.sharding.spec == PartitionSpec("chain")
    assert len(out[1].states.position.sharding.device_set) == 4


@pytest.mark.parametrize(("chains", "data"), first(1, [(2, 2), (4, 1), (1, 4)]))
def test_a_network_on_four_devices(net, start, alone, chains, data):
    out = go(net.target, start, sharding.mesh(chains, data))
    for u, v in zip(jax.tree.leaves(alone.kept), jax.tree.leaves(out.kept), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(alone.info.n_data, out.info.n_data)


@pytest.mark.parametrize(("chains", "data", "reductions"), [(4, 1, 0), (2, 2, 1)])
def test_a_gradient_of_split_data_costs_one_all_reduce(net, start, chains, data, reductions):
    """Value and all parts of the gradient go together, once a step; chains never talk."""
    on = sharding.mesh(chains, data)
    target = sharding.data_over(net.target, on)
    states = sharding.chains_over(begin_all(noise.key(0, impl="hash"), KERNEL, target, start), on)
    rest = dict(length=20, thin=1, layout="vmap", accelerated=False)
    key, keep = noise.key(1, impl="hash"), as_record(position_of)
    text = _advance.lower(key, KERNEL, target, states, keep, np.int32(20), **rest).compile().as_text()
    count = lambda name: len(re.findall(rf" {name}(?:-start)?\(", text))
    assert count("all-reduce") == reductions
    assert count("all-gather") == count("all-to-all") == count("collective-permute") == 0


def test_data_inside_other_targets_is_split(net):
    on = sharding.mesh(1, 4)
    for target in (net.target, Tempered(net.target, 2.0)):
        placed = sharding.data_over(target, on)
        inner = getattr(placed, "target", placed)
        assert inner.data[0].sharding.spec == PartitionSpec("data")
        assert jax.tree.leaves(inner.log_prior)[0].sharding.spec == PartitionSpec()
        again = sharding.data_over(placed, on)
        assert all(u is v for u, v in zip(jax.tree.leaves(placed), jax.tree.leaves(again), strict=True))


def test_keys_are_placed_and_are_still_keys():
    keys = jax.random.split(noise.key(0, impl="hash"), 4)
    put = sharding._put(keys, sharding.mesh(), PartitionSpec("chain"))
    assert jnp.issubdtype(put.dtype, jax.dtypes.prng_key)
    np.testing.assert_array_equal(jax.random.key_data(put), jax.random.key_data(keys))


def test_positions_are_shared_by_as_many_devices_as_divide_them(net):
    """Six chains on four devices go to two; the metric of a chain lies beside it; three stay where they are."""
    positions, target = sharding.shared(net.starts(jax.random.key(0), 6), net.target)
    leaf = jax.tree.leaves(positions)[0]
    assert len(leaf.sharding.device_set) == 2
    assert len(jax.tree.leaves(target)[0].sharding.device_set) == 2
    states = State(positions, (), (), (), (), ())
    assert sharding.beside(jnp.zeros((6, 3)), states).sharding.device_set == leaf.sharding.device_set
    assert len(jax.tree.leaves(sharding.gathered(positions))[0].sharding.device_set) == 1
    three = net.starts(jax.random.key(0), 3)
    assert sharding.shared(three, net.target)[0] is three


def test_later_chunks_on_many_devices_compile_nothing(net, start):
    """Momenta are made by a program that leaves their place open; kernels of each chain by another."""
    from langevin_lab.benchmarks.compile import Counter

    each = PerChain(spread(KERNEL, 4))
    positions, target = sharding.shared(start, net.target)
    states = begin_all(noise.key(0, impl="hash"), each, target, positions)
    counter, counts = Counter(), []
    for _ in range(3):
        before = counter.count
        states = advance(noise.key(1, impl="hash"), each, target, states, length=7).states
        counts.append(counter.count - before)
    assert counts[0]
    assert not any(counts[1:]), counts


def test_what_does_not_split_is_said(net, start):
    three = jax.tree.map(lambda u: u[:3], start)
    with pytest.raises(ValueError, match="mesh: 3 chains do not split over 4 devices; start a multiple"):
        go(net.target, three, sharding.mesh())
    x, y = net.target.data
    with pytest.raises(ValueError, match="mesh: 63 examples do not split over 4 devices; leave out 3 of them"):
        go(replace(net.target, data=(x[:63], y[:63])), start, sharding.mesh(1, 4))
    with pytest.raises(ValueError, match="mesh: 5 × 1 devices asked for, 4 present"):
        sharding.mesh(5)


def test_a_sharded_run_is_stored_and_resumed(net, start, tmp_path):
    mesh = sharding.mesh(2, 2)
    whole = go(net.target, start, mesh)
    go(net.target, start, mesh, draws=10, store=tmp_path / "run")
    out = go(net.target, start, mesh, store=tmp_path / "run")
    jax.tree.map(np.testing.assert_array_equal, out.kept.load(), whole.kept)
    jax.tree.map(np.testing.assert_array_equal, out.states, whole.states)
    # a folder does not depend on where its run was placed: one device reads it and has nothing left to do
    again = go(net.target, start, store=tmp_path / "run")
    jax.tree.map(np.testing.assert_array_equal, again.states, whole.states)


SCRIPT = """
import hashlib, sys
import jax, numpy as np
index, address, folder, shape = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2 if index >= 0 else 4)
if index >= 0:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=2, process_id=index)
assert jax.device_count() == 4
import jax.numpy as jnp
from langevin.core import noise, sharding
from langevin.core.run import run
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.sghmc import SGHMC
from langevin.core.posterior import sample

x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
net = bnn(lambda key: MLP((3, 8, 1), key, jnp.tanh), (x, np.sin(x.sum(1))), noise=0.3)
start = net.starts(noise.key(2, impl="hash"), 4)
mesh = sharding.mesh(*map(int, shape.split("x")))
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compiled.append(event) if event.endswith("backend_compile_duration") else None
)

def digest(draws, **options):
    post = sample(noise.key(1, impl="hash"), SGHMC(1e-2, friction=2.0), net.target, start, chunk=4, mesh=mesh,
                  draws=draws, **options)
    mark = hashlib.sha256()
    draws = post.draws.load() if hasattr(post.draws, "load") else post.draws
    info = [getattr(post.info, name) for name in post.info._fields]
    for leaf in jax.tree.leaves((draws, info, sharding.host(post.state))):
        mark.update(np.asarray(leaf).tobytes())
    assert post.expect(bias).shape == (8,)
    return mark.hexdigest()

def bias(position):
    return position["net"].layers[0].bias

first = digest(8)
before = len(compiled)
again = digest(8)
assert len(compiled) == before, "a second run must not compile"
digest(8, store=folder)
stored = digest(12, store=folder)
print(first, again, stored, digest(12), flush=True)
"""


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Process:
    """One process of several, its words in files; whatever happens it is gone at the end."""

    def __init__(self, script, index, address, folder, shape):
        env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        self.files = [script.with_name(f"{index}.{name}") for name in ("out", "err")]
        command = [sys.executable, str(script), str(index), address, str(folder), shape]
        with open(self.files[0], "w") as out, open(self.files[1], "w") as err:
            self.process = subprocess.Popen(command, env=env, stdout=out, stderr=err)

    def answer(self):
        code = self.process.wait(timeout=300)
        out, err = (file.read_text() for file in self.files)
        assert code == 0, err[-3000:]
        return out.split()[-4:]

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["4x1", "2x2"])
def test_two_processes_are_one(tmp_path, shape):
    """Two processes of two devices run the same program and get what one process of four gets; the first writes."""
    script = tmp_path / "process.py"
    script.write_text(SCRIPT)
    address = f"127.0.0.1:{port()}"
    with ExitStack() as stack:
        pair = [Process(script, i, address, tmp_path / "run", shape) for i in (0, 1)]
        alone = Process(script, -1, address, tmp_path / "alone", shape)
        for process in (*pair, alone):
            stack.callback(process.end)
        one, two, whole = (process.answer() for process in (*pair, alone))
    first, again, stored, longer = whole
    assert first == again
    assert stored == longer
    assert one == two == whole
    assert len(Stored.at(tmp_path / "run")) == 12
    assert not list((tmp_path / "run").glob("*.writing"))
