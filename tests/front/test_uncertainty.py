"""The split of uncertainty: exact answers, the identity total = aleatoric + epistemic, weights."""

import numpy as np
import pytest

from langevin.diagnostics.uncertainty import entropies, variances

EXACT = {"rtol": 1e-12, "atol": 1e-15}


def test_variances_by_hand():
    split = variances([[1.0, 5.0], [3.0, 5.0]], [[1.0, 2.0], [2.0, 2.0]])
    np.testing.assert_allclose(split.aleatoric, [2.5, 4.0], **EXACT)
    np.testing.assert_allclose(split.epistemic, [1.0, 0.0], **EXACT)
    np.testing.assert_allclose(split.total, [3.5, 4.0], **EXACT)


def test_total_variance_is_that_of_the_mixture():
    rng = np.random.default_rng(1)
    mean, std = rng.normal(size=(6, 9)), rng.uniform(0.1, 2.0, size=(6, 9))
    second_moment = (mean**2 + std**2).mean(axis=0)
    np.testing.assert_allclose(variances(mean, std).total, second_moment - mean.mean(axis=0) ** 2, rtol=1e-11)
    np.testing.assert_allclose(variances(mean, std[:, :1]).aleatoric, np.full(9, (std[:, 0] ** 2).mean()), **EXACT)


def test_entropies_by_hand():
    certain_but_apart = [[1.0, 0.0], [0.0, 1.0]]
    unsure_alike = [[0.5, 0.5], [0.5, 0.5]]
    split = entropies(np.stack([certain_but_apart, unsure_alike], axis=1))
    np.testing.assert_allclose(split.total, [np.log(2), np.log(2)], **EXACT)
    np.testing.assert_allclose(split.aleatoric, [0.0, np.log(2)], **EXACT)
    np.testing.assert_allclose(split.epistemic, [np.log(2), 0.0], **EXACT)


def test_total_entropy_is_that_of_the_mean():
    rng = np.random.default_rng(2)
    proba = rng.dirichlet([0.3, 1.0, 2.0], size=(6, 9))
    split = entropies(proba)
    mean = proba.mean(axis=0)
    np.testing.assert_allclose(split.total, -np.sum(mean * np.log(mean), axis=1), rtol=1e-11)
    np.testing.assert_allclose(split.aleatoric, -np.sum(proba * np.log(proba), axis=2).mean(axis=0), rtol=1e-11)
    assert (split.epistemic > 0).all()
    same = entropies(np.repeat(proba[:1], 7, axis=0))
    np.testing.assert_allclose(same.epistemic, 0, atol=1e-15)
    assert (same.epistemic >= 0).all()


def test_weights_stand_for_repeated_draws():
    rng = np.random.default_rng(3)
    mean, std = rng.normal(size=(3, 4)), rng.uniform(0.1, 2.0, size=(3, 4))
    proba = rng.dirichlet([1.0, 1.0], size=(3, 4))
    log_weight = np.log(np.array([1.0, 2.0, 3.0])) + 1000  # of any size
    repeat = [0, 1, 1, 2, 2, 2]
    np.testing.assert_allclose(variances(mean, std, log_weight), variances(mean[repeat], std[repeat]), rtol=1e-11)
    np.testing.assert_allclose(entropies(proba, log_weight), entropies(proba[repeat]), rtol=1e-11)


def test_draws_not_collected_do_not_count():
    mean = np.array([[1.0], [np.nan], [3.0]])
    np.testing.assert_array_equal(variances(mean, 1.0, [0.0, -np.inf, 0.0]), variances([[1.0], [3.0]], [[1.0], [1.0]]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: variances(np.zeros(3), np.ones(3)), r"mean has shape \(3,\)"),
        (lambda: variances(np.zeros((2, 3)), np.ones(2)), r"std has shape \(2,\)"),
        (lambda: variances(np.zeros((2, 3)), 1.0, np.zeros(3)), "there are 2 draws"),
        (lambda: variances(np.zeros((2, 3)), 1.0, np.full(2, -np.inf)), "finite for some"),
        (lambda: entropies(np.full((2, 3), 0.5)), r"\(draw, n, class\) is needed"),
        (lambda: entropies(np.zeros((2, 3, 2))), "apply softmax"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call()
