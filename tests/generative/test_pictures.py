"""Images: features with a hash, nets of energies, and the order that AUROC counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments._pictures import auroc, overlap, tiled
from langevin_lab.features import classifier, distances, extractor
from quick import first

from langevin.energy.energy import Energy
from langevin.energy.nets import Convolutional, Residual


def pictures(n=80, shape=(1, 8, 8)):
    return np.random.default_rng(0).random((n, *shape)).astype(np.float32)


@pytest.mark.parametrize("kind", ["classifier", "random"])
def test_features_are_named_by_what_computes_them(kind):
    extract, called = extractor("digits", kind)
    assert called.startswith(f"digits-{kind}-")
    assert len(called.split("-")[-1]) == 4
    found = extract(pictures())
    assert found.shape == (80, 64)
    assert np.isfinite(found).all()
    assert found.std(0).min() > 0


def test_the_classifier_knows_digits():
    from sklearn.linear_model import LogisticRegression

    from langevin.data import images

    found = images.load("digits")
    extract, _ = extractor("digits")
    judge = LogisticRegression(max_iter=200).fit(extract(found.x[:600]) / 10, found.y[:600])
    assert judge.score(extract(found.x_test) / 10, found.y_test) > 0.8


def test_the_classifier_says_classes():
    from langevin.data import images

    found = images.load("digits")
    assert np.mean(classifier("digits")(found.x_test) == found.y_test) > 0.88
    with pytest.raises(ValueError, match="classifier: there is none for 'flowers'"):
        classifier("flowers")


def test_histograms_overlap_by_what_they_share():
    a = np.random.default_rng(0).normal(size=20_000)
    assert overlap(a, a) == 1
    assert overlap(a, a + 100) == 0
    assert abs(overlap(a, a + 1.0) - 0.6171) < 0.02  # 2 Φ(−½)


def test_images_are_tiled_in_their_order():
    x = np.arange(64.0).reshape(64, 1, 1, 1) / 64 * np.ones((1, 3, 4, 4))
    sheet = tiled(x)
    assert sheet.shape == (48, 48, 3)
    np.testing.assert_allclose(sheet[2 + 6 * 3, 2 + 6 * 5], (3 * 8 + 5) / 64)


def test_features_refuse_what_is_no_image_of_the_set():
    extract, _ = extractor("digits")
    with pytest.raises(ValueError, match=r"images of \(1, 7, 7\) given, digits has \(1, 8, 8\)"):
        extract(pictures(shape=(1, 7, 7)))
    with pytest.raises(ValueError, match="give numbers in"):
        extract(2 * pictures() - 1)
    with pytest.raises(ValueError, match="there is none for 'flowers'"):
        extractor("flowers")


def test_distances_have_a_floor_and_see_a_change():
    from langevin.data import images

    found = images.load("digits")
    order = np.random.default_rng(1).permutation(len(found.x))
    real, more = found.x[order[:700]], found.x[order[700:1050]]
    same, other = distances("digits", real, more), distances("digits", real, 1 - more)
    names = [k for k in same if k.startswith("ffd") and not k.endswith("floor")]
    assert len(names) == 2
    for name in names:
        assert same[name] < 2 * same[f"{name}_floor"]
        assert other[name] > 5 * other[f"{name}_floor"]


@pytest.mark.parametrize(
    ("net", "shape"),
    first(2, [(Convolutional, (3, 8, 8)), (Residual, (1, 8, 8)), (Convolutional, (1, 8, 8)), (Residual, (3, 16, 16))]),
)
def test_energies_of_images_give_one_number_with_a_gradient_everywhere(net, shape, key):
    energy = Energy.of(net(shape, key, widths=(4, 8)), shape)
    grad = jax.grad(energy.log_density)(jnp.zeros(shape))
    assert grad.shape == shape
    assert np.all(np.asarray(grad) != 0)


def test_auroc_counts_pairs():
    assert auroc(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 1.0
    assert auroc(np.array([1.0, 4.0]), np.array([2.0, 3.0])) == 0.5
    assert auroc(np.array([0.0]), np.array([1.0, 2.0])) == 0.0
