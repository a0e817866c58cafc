"""Where chains and data live: one mesh for chains × data, on one device, many devices or many processes.

No kernel changes. `run(..., mesh=mesh(chains=4, data=2))` shards the chain axis of the states over the mesh axis
"chain" and the example axis of the data over "data"; XLA adds the one all-reduce a sharded gradient needs. On many
processes call `jax.distributed.initialize` first; every process runs the same program and gets the same result.

How chains of one device are laid out follows a fixed rule, measured by `langevin bench layout` and never timed at run
time: `vmap` on accelerators and for small positions on CPU; `lax.map`, one chain after the other, for positions above
`LARGE` numbers on CPU, where batched matrix products are slower than plain ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from langevin.core import tree
from langevin.core.types import PyTree, State

LARGE = 150_000


def layout(position: PyTree, chains: int, platform: str | None = None) -> str:
    """ "vmap" or "map", by platform and by the size of one chain's position."""
    if (platform or jax.default_backend()) != "cpu" or chains == 1:
        return "vmap"
    return "map" if tree.size(position) // chains > LARGE else "vmap"


def mesh(chains: int | None = None, data: int = 1) -> Mesh:
    """A mesh of chains × data devices; by default all devices go to chains."""
    devices = jax.device_count()
    chains = devices // data if chains is None else chains
    if chains * data > devices or chains < 1 or data < 1:
        raise ValueError(f"mesh: {chains} × {data} devices asked for, {devices} present.")
    # Explicit axes, the default of make_mesh, make vmap refuse mixed specs
    return jax.make_mesh(
        (chains, data),
        ("chain", "data"),
        (AxisType.Auto, AxisType.Auto),
        devices=jax.devices()[: chains * data],
    )


def chains_over(states: State, on: Mesh) -> State:
    """The states, their chain axis split over the mesh; `count` on every device."""
    chains = jax.tree.leaves(states.position)[0].shape[0]
    if chains % on.shape["chain"]:
        raise ValueError(f"mesh: {chains} chains do not split over {on.shape['chain']} devices; start a multiple.")
    split = lambda leaf: _put(leaf, on, PartitionSpec("chain"))
    count = _put(states.count, on, PartitionSpec())
    return State(*(jax.tree.map(split, part) for part in states[:-1]), count=count)


def data_over(target: PyTree, on: Mesh) -> PyTree:
    """The target, every array of a field `data` in it split over the mesh by example, all else on every device."""
    parts = on.shape["data"]

    def one(path, leaf):
        if parts == 1 or not any(getattr(step, "name", None) == "data" for step in path) or not np.ndim(leaf):
            return _put(leaf, on, PartitionSpec())
        if len(leaf) % parts:
            n = len(leaf)
            raise ValueError(f"mesh: {n} examples do not split over {parts} devices; leave out {n % parts} of them.")
        return _put(leaf, on, PartitionSpec("data"))

    return jax.tree_util.tree_map_with_path(one, target)


def shared(positions: PyTree, target: PyTree) -> tuple[PyTree, PyTree]:
    """Positions (chain, …) over as many of the devices as divide their number, and the target on all of those."""
    devices = math.gcd(jax.tree.leaves(positions)[0].shape[0], jax.device_count())
    if devices == 1:
        return positions, target
    on = mesh(devices)
    return jax.tree.map(lambda u: _put(u, on, PartitionSpec("chain")), positions), data_over(target, on)


def gathered(x: PyTree) -> PyTree:
    """Everything on the first device, where it is not."""
    whole = lambda u: (
        jax.device_put(u, jax.devices()[0]) if isinstance(getattr(u, "sharding", None), NamedSharding) else u
    )
    return jax.tree.map(whole, x)


def beside(x: PyTree, states: State) -> PyTree:
    """A tree of (chain, …) split over devices as the states are."""
    sharding = getattr(jax.tree.leaves(states.position)[0], "sharding", None)
    return jax.device_put(x, sharding) if isinstance(sharding, NamedSharding) else x


def host(x: PyTree) -> PyTree:
    """NumPy arrays of everything, gathered from all processes."""
    if jax.process_count() > 1:
        x = jax.tree.map(_gather, x)
    return jax.tree.map(np.asarray, jax.device_get(x))


def _put(leaf, on: Mesh, spec: PartitionSpec):
    sharding = NamedSharding(on, spec)
    if jnp.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key):
        data = _put(jax.random.key_data(leaf), on, spec)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
        return leaf
    if jax.process_count() > 1:
        whole = host(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])
    return jax.device_put(leaf, sharding)


def _gather(leaf):
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return _everywhere(leaf.sharding.mesh)(leaf)  # type: ignore[attr-defined]
    return leaf


@cache
def _everywhere(on: Mesh) -> Callable:
    """The program that copies an array to every device: one for each mesh, not one for each call."""
    return jax.jit(lambda u: u, out_shardings=NamedSharding(on, PartitionSpec()))


def together(name: str) -> None:
    """Wait until every process is here."""
    from jax.experimental.multihost_utils import sync_global_devices

    sync_global_devices(name)
