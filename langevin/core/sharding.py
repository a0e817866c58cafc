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
from langevin.core.types import PyTree, State, map_chains

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
    count = _put(states.count, on, PartitionSpec())
    return map_chains(lambda part: _split(part, on), states)._replace(count=count)


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
    return _split(positions, on), data_over(target, on)


def gathered(x: PyTree) -> PyTree:
    """Everything on the first device, if anything is on several."""
    several = any(_mesh_of(leaf) is not None for leaf in jax.tree.leaves(x))
    return jax.device_put(x, jax.devices()[0]) if several else x


def beside(x: PyTree, states: State) -> PyTree:
    """A tree of (chain, …), or the states themselves, split over devices as positions are.

    XLA chooses where the parts of a first chunk go that positions do not decide (momenta, moments, step sizes), and the
    second would be compiled anew for them.
    """
    on = _mesh_of(jax.tree.leaves(states.position)[0])
    if on is None or "chain" not in on.axis_names:
        return x
    return chains_over(x, on) if isinstance(x, State) else _split(x, on)


def _split(x: PyTree, on: Mesh) -> PyTree:
    return jax.tree.map(lambda leaf: _put(leaf, on, PartitionSpec("chain")), x)


def _mesh_of(leaf) -> Mesh | None:
    """The mesh that an array is on; a traced value is on none."""
    if isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, jax.Array):
        return None
    return leaf.sharding.mesh if isinstance(leaf.sharding, NamedSharding) else None  # type: ignore[return-value]


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
