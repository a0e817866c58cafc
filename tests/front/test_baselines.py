"""Simpler models beside a posterior: what they say, and how the posterior compares."""

from types import SimpleNamespace

import numpy as np
import pages
import pytest

from langevin.estimators.columns import Columns, raw_columns
from langevin.report.baselines import fit_baselines
from langevin.report.scores import auc, average, compare_baselines, gap, row_nll, scores, skill


def fitted(task, X, classes=None):
    columns = Columns.fit(raw_columns(X), np.ones(len(X)))
    return SimpleNamespace(task=task, columns_=columns, classes_=classes)


def test_baselines_of_a_regression():
    """On a line with noise the linear model has the noise; boosting is between it and the trivial answer."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = 2 * X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=600) + 7
    found = fit_baselines(fitted("regression", X), X[:400], y[:400], X[400:])
    assert list(found) == ["trivial", "linear", "boosting"]
    error = {k: np.sqrt(np.mean((p.mean[0] - y[400:]) ** 2)) for k, p in found.items()}
    assert error["linear"] < 0.56 < error["boosting"] < error["trivial"]
    np.testing.assert_allclose(found["linear"].std, 0.5, rtol=0.12)
    np.testing.assert_allclose(found["trivial"].mean, y[:400].mean())
    np.testing.assert_allclose(found["trivial"].std, y[:400].std(ddof=1))


def test_baselines_of_a_classification_with_text_and_gaps():
    import pandas as pd

    rng = np.random.default_rng(1)
    x = rng.normal(size=500)
    X = pd.DataFrame({"x": np.where(rng.random(500) < 0.1, np.nan, x), "kind": np.where(x > 0, "a", "b")})
    classes = np.array(["no", "yes"])
    y = classes[(x + 0.3 * rng.normal(size=500) > 0).astype(int)]
    found = fit_baselines(fitted("classification", X, classes), X[:300], y[:300], X[300:])
    for p in found.values():
        assert p.proba.shape == (1, 200, 2)
        np.testing.assert_allclose(p.proba.sum(-1), 1)
    right = {k: np.mean(classes[p.proba[0].argmax(1)] == y[300:]) for k, p in found.items()}
    assert right["linear"] > 0.85 > right["trivial"]
    assert right["boosting"] > 0.85
    share = (np.sum(y[:300] == "yes") + 0.5) / 301
    np.testing.assert_allclose(found["trivial"].proba[..., 1], share)


def test_a_class_that_training_lacks_has_a_small_share():
    X, classes = np.arange(40.0)[:, None], np.array([0, 1, 2])
    found = fit_baselines(fitted("classification", X, classes), X, np.arange(40) % 2, X[:5])
    assert found["trivial"].proba.shape == (1, 5, 3)
    assert 0 < found["trivial"].proba[0, 0, 2] < 0.02
    assert np.all(found["linear"].proba[..., 2] == 0)


@pytest.mark.parametrize("facts", [pages.regression(), pages.classification()], ids=["regression", "classification"])
def test_skill_and_gap_are_those_of_their_definitions(facts):
    for found in compare_baselines(facts):
        other = facts.baselines[found.name]
        name = "CRPS" if facts.task == "regression" else "Brier"
        assert found.skill == skill(facts, other) > 0, "the synthetic posterior is the best of them"
        assert found.gap == gap(facts, other)
        d = row_nll(facts, facts.predictions) - row_nll(facts, other)
        np.testing.assert_allclose(found.gap.stderr, d.std(ddof=1) / np.sqrt(len(d)))
        assert found.scores[name] > 0


def test_scores_are_those_of_scikit_learn():
    from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

    facts = pages.classification()
    found, p = scores(facts, facts.predictions), average(facts.predictions)
    np.testing.assert_allclose(found["Balanced accuracy"], balanced_accuracy_score(facts.y, p.argmax(1)))
    np.testing.assert_allclose(found["AUC"], roc_auc_score(facts.y, p / p.sum(1, keepdims=True), multi_class="ovr"))
    two = pages.classification(classes=2)
    expected = roc_auc_score(two.y, average(two.predictions)[:, 1])
    np.testing.assert_allclose(scores(two, two.predictions)["AUC"], expected)
    facts = pages.regression()
    expected = r2_score(facts.y, facts.predictions.mean.mean(0))
    np.testing.assert_allclose(scores(facts, facts.predictions)["R²"], expected)
    assert np.isnan(auc(np.zeros(3, int), np.full((3, 2), 0.5))), "a single class has no curve"
