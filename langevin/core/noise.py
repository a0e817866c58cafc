r"""Noise for kernels: normals, cheap signs, and a fast counter-based generator.

`"normal"` draws ξ ~ N(0, 1) by inversion, √2 erf⁻¹(u), u uniform on a grid of 2^23 points in (−1, 1). With
w = −log(1 − u²), √2 erf⁻¹(u)/u is a smooth function of w and here a polynomial of degree 10, and the logarithm one of
degree 6 in the mantissa: no branch and no function but products, in three fifths of the time of Giles's (2010) two
branches. The relative error is below 10⁻⁵.
`"rademacher"` draws ξ = ±1 with probability ½, 32 coordinates from one
word. A one-step method of weak order 1 needs only the moments E ξ = E ξ³ = 0, E ξ² = 1, E ξ⁴ = O(1) (Milstein &
Tretyakov 2004, §2.1, eq. (1.26)), so for SGLD the bias of expectations stays O(h) with either; a single step is of
course not Gaussian, and exact kernels (MALA, HMC) must not use signs.

`hash` is a *key implementation*, so splits, batches and normals all become cheap and the key-reuse checker still
sees them. With the key (a, b) and the counter c,

    y = m(c ⊕ a),   word = m(y + b) ⊕ y,   m(x): x ^= x≫16; x *= 0x7feb352d; x ^= x≫15; x *= 0x846ca68b; x ^= x≫16.

m is a bijection of 32 bits with nearly ideal avalanche; the feed-forward ⊕ y makes the words of one key a random
function rather than a permutation. A word depends on its key and index alone, so it is the same whatever the
sharding. It is for simulation, not cryptography; `tests/test_noise.py` holds its statistical battery.

References
----------
Giles (2010), Approximating the erfinv function, GPU Computing Gems (that it is smooth in w).
Wellons (2018), Prospecting for hash functions (`lowbias32`).
Milstein & Tretyakov (2004), Stochastic Numerics for Mathematical Physics, §2.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
import jax.extend as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core.types import Key, PyTree

Noise = Literal["normal", "rademacher"]
FEW = 4  # leaves that are drawn one by one on an accelerator


def like(key: Key, x: PyTree, kind: Noise = "normal") -> PyTree:
    """Independent noise in the shape of x: unit variance, mean zero."""
    leaves, structure = jax.tree.flatten(x)
    if kind not in DRAWS:
        raise ValueError(f"noise is {kind!r}; it must be 'normal' or 'rademacher'.")
    if not leaves:
        return x
    if len(leaves) > FEW and jax.default_backend() != "cpu" and all(u.dtype == jnp.float32 for u in leaves):
        # one launch in place of one a leaf; on CPU every leaf's noise is fused with what uses it
        sizes = [math.prod(u.shape) for u in leaves]
        cuts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        flat = DRAWS[kind](key, (cuts[-1],))
        parts = [flat[a:b].reshape(u.shape) for a, b, u in zip(cuts, cuts[1:], leaves, strict=False)]
        return jax.tree.unflatten(structure, parts)
    # split, not fold_in: the reuse checker does not take fold_in for a use, and would not see a key used twice
    keys = jax.random.split(key, len(leaves)) if len(leaves) > 1 else [key]
    drawn = [DRAWS[kind](k, u.shape).astype(u.dtype) for k, u in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def words(keys: Key) -> tuple[jax.Array, Callable[[jax.Array], Key]]:
    """Keys as plain words to scan over, and how to make keys of them again inside.

    The reuse checker takes the transpose that batching does to a scan over keys for a use of them.
    """
    return jax.random.key_data(keys), partial(jax.random.wrap_key_data, impl=jax.random.key_impl(keys))


def normal(key: Key, shape: tuple[int, ...]) -> jax.Array:
    """Standard normals in float32."""
    return inverse(jax.random.bits(key, shape, jnp.uint32))


def inverse(bits: jax.Array) -> jax.Array:
    """The normal of the upper 23 bits of every word."""
    # 23 bits as the odd numbers from 1 − 2^23 to 2^23 − 1, exact as floats in any order of evaluation
    odd = lax.bitcast_convert_type((bits >> 8) | jnp.uint32(1), jnp.int32) - (1 << 23)
    x = odd.astype(jnp.float32) * np.float32(2.0**-23)
    return x * _horner(INVERSE, -_log((1.0 - x) * (1.0 + x)) - MIDDLE)


def _log(y):
    """The logarithm of normal floats from 2^-126 to 1."""
    bits = lax.bitcast_convert_type(y, jnp.int32)
    exponent = (bits - ROOT_HALF) >> 23
    m = lax.bitcast_convert_type(bits - (exponent << 23), jnp.float32) - 1.0  # from √½ − 1 to √2 − 1
    return m * _horner(LOG1P, m) + np.float32(math.log(2.0)) * exponent.astype(jnp.float32)


def rademacher(key: Key, shape: tuple[int, ...]) -> jax.Array:
    """Signs ±1 in float32; 32 consecutive rows (entries, for a vector) share the words of one."""
    rows, columns = (math.prod(shape[:-1]), shape[-1]) if len(shape) > 1 else (math.prod(shape), 1)
    if rows * columns == 0:
        return jnp.zeros(shape, jnp.float32)
    words = jax.random.bits(key, (-(-rows // 32), 1, columns), jnp.uint32)
    bits = words << lax.broadcasted_iota(jnp.uint32, (1, 32, 1), 1)
    signs = lax.bitcast_convert_type((bits & jnp.uint32(0x80000000)) | jnp.uint32(0x3F800000), jnp.float32)
    return signs.reshape(-1, columns)[:rows].reshape(shape)


DRAWS = {"normal": normal, "rademacher": rademacher}

# polynomials through Chebyshev's points, from the highest power down: √2 erf⁻¹(u)/u in w − MIDDLE for 0 ≤ w ≤ 22 log 2,
# and log(1 + m)/m
MIDDLE, ROOT_HALF = np.float32(11 * math.log(2.0)), np.int32(0x3F3504F3)
INVERSE = (-3.38658511e-11, 3.59472035e-10, 3.31365468e-09, -6.22162162e-08, 3.35003335e-07, -8.17766932e-07,
           -1.11003919e-05, 0.000360699807, -0.00754890451, 0.254934758, 3.66919255)  # fmt: skip
LOG1P = (-0.14338313, 0.220702991, -0.253978312, 0.332567781, -0.499903619, 1.00000465)


def _horner(coefficients, x):
    value = np.float32(coefficients[0])
    for c in coefficients[1:]:
        value = value * x + np.float32(c)
    return value


def key(seed: int, *, impl: str | None = None) -> Key:
    """A key from a seed; `impl` is "hash" (default on CPU, where random bits are the largest cost) or "threefry"."""
    impl = impl or ("hash" if jax.default_backend() == "cpu" else "threefry")
    if impl not in ("hash", "threefry"):
        raise ValueError(f"key: impl is {impl!r}; it must be 'hash' or 'threefry'.")
    return jax.random.key(seed, impl=HASH if impl == "hash" else "threefry2x32")


# --- the hash generator ----------------------------------------------------------------------------------------


def _mix(x):
    x = x ^ (x >> 16)
    x = x * jnp.uint32(0x7FEB352D)
    x = x ^ (x >> 15)
    x = x * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def _word(data, counter):
    y = _mix(counter ^ data[0])
    return _mix(y + data[1]) ^ y


def _counter(shape):
    """0, 1, 2, … in the given shape, made of iotas so that it fuses with what uses it."""
    total = jnp.zeros(shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(len(shape))):
        total = total + lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride & 0xFFFFFFFF)
        stride *= shape[axis]
    return total


# one program where they are called outside of one: op by op they would be twenty


@partial(jax.jit, inline=True)
def _seed(seed):
    low = seed.astype(jnp.uint32)
    high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize > 4 else jnp.zeros((), jnp.uint32)
    return child(jnp.stack([low, high]), jnp.uint32(0x5EED))


def child(data, counter):
    """A new key (two words of two streams that no `random_bits` uses) for every counter."""
    a = _word(jnp.stack([data[0] ^ jnp.uint32(0x9E3779B9), data[1] ^ jnp.uint32(0x3C6EF372)]), counter)
    b = _word(jnp.stack([data[1] + jnp.uint32(0xDAA66D2B), data[0] + jnp.uint32(0x78DDE6E4)]), counter)
    return jnp.stack([a, b], axis=-1)


@partial(jax.jit, static_argnames="shape", inline=True)
def _split(data, shape):
    return child(data, _counter(tuple(shape)))


@partial(jax.jit, inline=True)
def _fold_in(data, number):
    return child(data, jnp.asarray(number).astype(jnp.uint32) ^ jnp.uint32(0xA5A5A5A5))


def _random_bits(data, width, shape):
    shape = tuple(shape)
    if width == 64:
        low, high = (_random_bits(child(data, jnp.uint32(i)), 32, shape) for i in (1, 2))
        return low.astype(jnp.uint64) | (high.astype(jnp.uint64) << jnp.uint64(32))
    word = _word(data, _counter(shape))
    return word if width == 32 else (word >> (32 - width)).astype(jnp.dtype(f"uint{width}"))


HASH = jex.random.define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="langevin_hash",
    tag="lh",
)
