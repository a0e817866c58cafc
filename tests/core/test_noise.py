"""The statistical battery of the noise: every figure is a z-score with a null, |z| < 5. 10⁹ draws in the slow suite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtr
from jax.sharding import NamedSharding, PartitionSpec

from langevin.core import noise, sharding

BINS = 1 << 12


@jax.jit
def tally(keys):
    """Sums over a block of streams (stream, draw): everything the battery needs, linear in the draws."""
    bits = jax.vmap(lambda k: jax.random.bits(k, (4096,), jnp.uint32))(jax.vmap(jax.random.clone)(keys))
    x = jax.vmap(lambda k: noise.normal(k, (4096,)))(keys)
    f = x.astype(jnp.float32)
    pair = lambda a, b: jnp.sum(a * b)
    planes = ((bits[..., None] >> jnp.arange(32, dtype=jnp.uint32)[None, None]) & 1).astype(jnp.float32).reshape(
        -1, 32
    ) * 2 - 1
    steps = bits[:, 1:] ^ bits[:, :-1]
    flips = jax.lax.population_count(steps).astype(jnp.int32) - 16
    uniform = ndtr(f)
    return dict(
        n=jnp.asarray(f.size, jnp.float32),
        moments=jnp.stack([jnp.sum(f**k) for k in (1, 2, 3, 4)]),
        serial=jnp.stack([pair(f[:, lag:], f[:, :-lag]) for lag in (1, 2, 3, 8, 32, 64, 1024)]),
        squares=pair(f[:, 1:] ** 2 - 1, f[:, :-1] ** 2 - 1),
        streams=pair(f[1:], f[:-1]),
        stream_squares=pair(f[1:] ** 2 - 1, f[:-1] ** 2 - 1),
        balance=jnp.sum(planes, axis=0),
        word=planes.T @ planes,
        flips=jnp.sum(flips).astype(jnp.float32),
        low=jnp.bincount((bits & (BINS - 1)).ravel().astype(jnp.int32), length=BINS).astype(jnp.float32),
        high=jnp.bincount((bits >> 20).ravel().astype(jnp.int32), length=BINS).astype(jnp.float32),
        cells=jnp.bincount((uniform * BINS).ravel().astype(jnp.int32).clip(0, BINS - 1), length=BINS).astype(
            jnp.float32
        ),
    )


def battery(seed, blocks, impl="hash"):
    """z-scores of `blocks` blocks of 256 streams × 4,096 draws."""
    total = None
    for block in range(blocks):
        root = jax.random.fold_in(noise.key(seed, impl=impl), block)
        sums = jax.tree.map(lambda u: np.asarray(u, np.float64), tally(jax.random.split(root, 256)))
        total = sums if total is None else jax.tree.map(np.add, total, sums)
    n = total["n"]
    lagged = lambda lag: n * (4096 - lag) / 4096
    chi = lambda counts: (np.sum((counts - n / BINS) ** 2 / (n / BINS)) - (BINS - 1)) / np.sqrt(2 * (BINS - 1))
    ks = np.max(np.abs(np.cumsum(total["cells"]) / n - np.arange(1, BINS + 1) / BINS)) * np.sqrt(n)
    word = total["word"][np.triu_indices(32, 1)]
    m = total["moments"] / n
    z = dict(
        mean=m[0] * np.sqrt(n),
        variance=(m[1] - 1) * np.sqrt(n / 2),
        skew=m[2] * np.sqrt(n / 15),
        kurtosis=(m[3] - 3) * np.sqrt(n / 96),
        serial=np.array(
            [s / np.sqrt(lagged(g)) for s, g in zip(total["serial"], (1, 2, 3, 8, 32, 64, 1024), strict=True)]
        ),
        squares=total["squares"] / 2 / np.sqrt(lagged(1)),
        streams=total["streams"] / np.sqrt(n * 255 / 256),
        stream_squares=total["stream_squares"] / 2 / np.sqrt(n * 255 / 256),
        balance=total["balance"] / np.sqrt(n),
        word=word / np.sqrt(n),
        flips=total["flips"] / np.sqrt(8 * lagged(1)),
        low=chi(total["low"]),
        high=chi(total["high"]),
        cells=chi(total["cells"]),
    )
    return z, ks


def judge(z, ks):
    bad = {name: np.round(v, 2) for name, v in z.items() if not np.all(np.abs(v) < 5)}
    assert not bad, bad
    assert ks < 2.6, f"Kolmogorov-Smirnov √n D = {ks:.2f}"  # p = 3e-6


def test_battery():
    judge(*battery(1, 8))


@pytest.mark.slow
def test_battery_of_a_billion_draws():
    judge(*battery(2, 954))


def test_the_battery_sees_a_bad_generator(monkeypatch):
    """A linear congruential generator in place of the hash must fail."""
    weak = lambda data, counter: (counter + data[0]) * jnp.uint32(1664525) + data[1]
    monkeypatch.setattr(noise, "_word", weak)
    tally.clear_cache()
    with pytest.raises(AssertionError):
        judge(*battery(1, 1))
    tally.clear_cache()


@pytest.mark.parametrize("derive", ["seed", "fold_in", "split"])
def test_first_words_of_neighbouring_keys(derive):
    """Low-entropy keys: the first word and first normal of 2²⁰ neighbouring seeds or children are uniform."""
    n = 1 << 18
    root = noise.key(7, impl="hash")
    if derive == "seed":
        keys = jax.vmap(lambda s: jax.random.key(s, impl=noise.HASH))(jnp.arange(n, dtype=jnp.uint32))
    elif derive == "fold_in":
        keys = jax.vmap(lambda i: jax.random.fold_in(root, i))(jnp.arange(n))
    else:
        keys = jax.random.split(root, n)
    words = np.asarray(jax.vmap(lambda k: jax.random.bits(k, (2,), jnp.uint32))(keys))
    for column in words.T:
        for cells in (column >> 20, column & 4095):
            counts = np.bincount(cells, minlength=4096)
            z = (np.sum((counts - n / 4096) ** 2 / (n / 4096)) - 4095) / np.sqrt(2 * 4095)
            assert abs(z) < 5
        bits = ((column[:, None] >> np.arange(32)) & 1) * 2.0 - 1
        assert np.all(np.abs(bits.sum(0)) / np.sqrt(n) < 5)
        assert np.all(np.abs((bits[1:] * bits[:-1]).sum(0)) / np.sqrt(n - 1) < 5), "neighbours must not correlate"


def test_words_collide_as_often_as_random_ones():
    """A permutation of the counter would never repeat a word; 2²¹ random ones repeat 512 times."""
    n = 1 << 21
    words = np.asarray(jax.random.bits(noise.key(3, impl="hash"), (n,), jnp.uint32))
    expected = n * (n - 1) / 2 / 2**32
    assert abs(n - len(np.unique(words)) - expected) / np.sqrt(expected) < 5


def test_normals_are_as_good_as_their_grid():
    """Against √2 erf⁻¹ in double precision on the same bits, over the whole grid: 1e-5 of each at most."""
    from scipy.special import erfinv

    grid = np.arange(1 << 23, dtype=np.uint32)
    x = (grid.astype(np.float64) + 0.5) / 2**22 - 1.0
    ours = np.asarray(jax.jit(noise.inverse)(grid << 9), np.float64)
    np.testing.assert_allclose(ours, np.sqrt(2) * erfinv(x), rtol=1e-5)
    assert abs((ours**2).mean() - 1) < 2e-6
    assert abs((ours**4).mean() / 3 - 1) < 2e-5


@pytest.mark.parametrize("shape", [(), (1,), (7,), (33,), (3, 5), (64, 3), (2, 3, 4), (0,), (40, 1)])
def test_rademacher_shapes_and_signs(shape, key):
    x = np.asarray(noise.rademacher(key, shape))
    assert x.shape == shape
    assert np.all(np.abs(x) == 1)


def test_rademacher_moments(key):
    x = np.asarray(noise.rademacher(key, (4096, 257)), np.float64)
    n = x.size
    assert abs(x.sum()) / np.sqrt(n) < 5
    for shift in (1, 2, 31, 32, 33):
        assert abs((x[shift:] * x[:-shift]).sum()) / np.sqrt(n) < 5, f"rows {shift} apart correlate"
    assert abs((x[:, 1:] * x[:, :-1]).sum()) / np.sqrt(n) < 5


@pytest.mark.parametrize("impl", ["hash", "threefry"])
def test_reproducible_whatever_the_sharding(impl):
    mesh = sharding.mesh(chains=4)
    draw = lambda: noise.normal(noise.key(11, impl=impl), (64, 33))
    alone = jax.jit(draw)()
    spread = jax.jit(draw, out_shardings=NamedSharding(mesh, PartitionSpec("chain")))()
    np.testing.assert_array_equal(np.asarray(alone), np.asarray(spread))


def test_the_reuse_checker_sees_hash_keys(key):
    noise.normal(key, (3,))
    with pytest.raises(jax.errors.KeyReuseError):
        noise.normal(key, (3,))


def test_an_unknown_generator_is_refused():
    with pytest.raises(ValueError, match="impl is 'mersenne'"):
        noise.key(0, impl="mersenne")
