"""Mutual information and acquisition: known answers, all labels gone through, and the guarantee of greedy batches."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import entr

from langevin.diagnostics import (
    acquisition,
    bald,
    batchbald,
    entropies,
    information,
    joint_information,
    logdet,
    mutual_information,
)
from langevin.diagnostics.families import Gaussian, LogNormal, NegativeBinomial, Poisson

random = np.random.default_rng(0)
PROBA = random.dirichlet([0.4, 0.8, 1.5], size=(5, 6))


def test_three_measures_are_their_definitions():
    found, n = information(PROBA), len(PROBA)
    mean = PROBA.mean(0)
    kl = lambda p, q: (p * np.log(p / q)).sum(-1)
    np.testing.assert_allclose(found.mutual, entropies(PROBA).epistemic, rtol=1e-12)
    np.testing.assert_allclose(found.reverse, np.mean([kl(mean, p) for p in PROBA], axis=0), rtol=1e-11)
    pairs = [kl(p, q) for p, q in itertools.product(PROBA, PROBA)]
    np.testing.assert_allclose(found.pairwise, np.sum(pairs, axis=0) / n**2, rtol=1e-11)
    weight = np.log([1.0, 2.0, 1.0, 3.0, 1.0])
    again = information(PROBA[[0, 1, 1, 2, 3, 3, 3, 4]])
    for a, b in zip(information(PROBA, weight), again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


def test_measures_of_draws_that_agree_or_rule_out():
    same = information(np.repeat(PROBA[:1], 3, axis=0))
    np.testing.assert_allclose(np.stack(same), 0, atol=1e-14)
    apart = information([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert apart.mutual == pytest.approx(np.log(2))
    assert apart.reverse == np.inf


# --- regression -----------------------------------------------------------------------------------------------------


def by_grid(mean, std, points=400_001):
    """H of the mixture less the mean H, by the trapezium rule."""
    y = np.linspace((mean - 10 * std).min(), (mean + 10 * std).max(), points)
    p = np.mean([stats.norm.pdf(y, m, s) for m, s in zip(mean, std, strict=True)], axis=0)
    return np.trapezoid(entr(p), y) - np.mean(np.log(std * np.sqrt(2 * np.pi * np.e)))


def test_gaussians_by_quadrature():
    mean, std = random.normal(size=(7, 4)), random.uniform(0.5, 1.5, size=(7, 4))
    mean[:, 3] *= 1e3  # draws that have nothing in common: log of their number
    found = mutual_information(Gaussian(mean, std))
    exact = [by_grid(*both) for both in zip(mean.T, std.T, strict=True)]
    assert (np.abs(found.value - exact) < found.error + 1e-4).all()
    assert (found.error < 5e-3).all()
    assert found.value[3] == pytest.approx(np.log(7), abs=1e-6)
    log_normal = mutual_information(LogNormal(mean[:, :3], std[:, :3]))
    np.testing.assert_array_equal(log_normal.value, found.value[:3])
    units = mutual_information(Gaussian(10 * mean + 3, 10 * std))
    np.testing.assert_allclose(units.value, found.value, rtol=1e-9)


def test_the_error_covers_draws_left_out():
    mean, std = random.normal(size=(300, 20)), np.full((300, 20), 0.7)
    few, all_of = (mutual_information(Gaussian(mean, std), max_draws=k) for k in (60, 300))
    z = (few.value - all_of.value) / few.error
    assert np.abs(z).max() < 5
    assert 0.3 < np.sqrt((z**2).mean()) < 2
    exact = 0.5 * np.log1p(1 / 0.49)  # of N(μ, 0.49) with μ ~ N(0, 1)
    np.testing.assert_allclose(all_of.value, exact, atol=0.2)


@pytest.mark.parametrize(
    ("mixture", "law"),
    [
        (Poisson(random.gamma(4.0, 2.0, size=(5, 3))), lambda m, s, i: stats.poisson(m.mean[s, i])),
        (
            NegativeBinomial(random.gamma(4.0, 2.0, size=(5, 3)), random.uniform(0.1, 1.0, size=(5, 3))),
            lambda m, s, i: stats.nbinom(1 / m.dispersion[s, i], 1 / (1 + m.mean[s, i] * m.dispersion[s, i])),
        ),
    ],
    ids=["poisson", "negative_binomial"],
)
def test_counts_by_scipys_probabilities(mixture, law, monkeypatch):
    k = np.arange(3000)
    p = np.array([[law(mixture, s, i).pmf(k) for i in range(3)] for s in range(5)])
    exact = entr(p.mean(0)).sum(-1) - entr(p).sum(-1).mean(0)
    found = mutual_information(mixture)
    np.testing.assert_allclose(found.value, exact, atol=1e-6)
    assert (np.abs(found.value - exact) <= found.error).all()
    monkeypatch.setattr("langevin.diagnostics.disagreement.COUNTS", 0)
    sampled = mutual_information(mixture)
    z = (sampled.value - exact) / sampled.error
    assert np.abs(z).max() < 5
    assert (sampled.error > 1e-3).all()


# --- batches --------------------------------------------------------------------------------------------------------


def test_joint_information_by_going_through_all_labels():
    p = PROBA[:, :3]
    together = np.zeros(27)
    for place, labels in enumerate(itertools.product(range(3), repeat=3)):
        together[place] = np.prod([p[:, i, label] for i, label in enumerate(labels)], axis=0).mean()
    exact = entr(together).sum() - entr(p).sum((1, 2)).mean()
    assert joint_information(p) == pytest.approx(exact, rel=1e-10)
    assert joint_information(p) < information(p).mutual.sum()
    assert joint_information(p[:, :1]) == pytest.approx(information(p).mutual[0], rel=1e-10)


def test_batchbald_scores_are_exact_and_greedy():
    batch = batchbald(PROBA, 3)
    first = int(information(PROBA).mutual.argmax())
    assert batch.rows[0] == first
    for size in (1, 2, 3):
        assert batch.score[size - 1] == pytest.approx(joint_information(PROBA[:, batch.rows[:size]]), rel=1e-9)
    rest = [i for i in range(6) if i != first]
    assert batch.rows[1] == max(rest, key=lambda i: joint_information(PROBA[:, [first, i]]))
    best = max(joint_information(PROBA[:, list(rows)]) for rows in itertools.combinations(range(6), 3))
    assert (1 - 1 / np.e) * best <= batch.score[-1] <= best + 1e-12
    assert (batch.error == 0).all()
    weight = np.log([1.0, 2.0, 1.0, 3.0, 1.0])
    again = batchbald(PROBA[[0, 1, 1, 2, 3, 3, 3, 4]], 3)
    np.testing.assert_allclose(batchbald(PROBA, 3, log_weight=weight).score, again.score, rtol=1e-9)


def test_batchbald_from_drawn_labels():
    """Beyond `configurations` labels are drawn; scores are those of all labels within their errors."""
    pool = np.random.default_rng(1).dirichlet([0.5, 0.5, 0.5], size=(12, 8))
    z = []
    for seed in range(8):
        batch = batchbald(pool, 5, configurations=60, seed=seed)
        np.testing.assert_array_equal(batch.error > 0, [False] * 4 + [True])
        assert len(set(batch.rows)) == 5
        z.append((batch.score[4] - joint_information(pool[:, batch.rows])) / batch.error[4])
    assert np.abs(np.sum(z)) / np.sqrt(8) < 5
    assert np.abs(z).max() < 5
    assert batchbald(pool, 5, configurations=2000).score[-1] > 0.9 * batchbald(pool, 5, configurations=300).score[-1]


def test_repeated_rows_are_taken_by_bald_and_not_by_batchbald():
    """Two draws that disagree on a repeated row, and less on another: one label of the first tells nearly all."""
    sharp, soft = [[0.95, 0.05], [0.05, 0.95]], [[0.7, 0.3], [0.3, 0.7]]
    other = [[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8]]
    pool = np.stack([np.repeat(sharp, 2, axis=0)[[0, 2, 0, 2]]] * 3 + [np.array(other)], axis=1)
    np.testing.assert_array_equal(np.sort(bald(pool, 2)), [0, 1])
    assert set(batchbald(pool, 2).rows) == {0, 3}
    assert len(soft) == 2


def test_logdet_is_bayesian_linear_regression():
    """With weights N(0, 1) and noise σ: ½ log det(1 + X Xᵀ/σ²), and a greedy batch has its share of the best."""
    draw = np.random.default_rng(2)
    x, sigma = draw.normal(size=(7, 3)), 0.5
    weights = draw.normal(size=(4000, 3))
    weights = (weights - weights.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(weights.T, bias=True)).T)
    mean = weights @ x.T
    value = lambda rows: 0.5 * np.linalg.slogdet(np.eye(len(rows)) + x[rows] @ x[rows].T / sigma**2)[1]
    batch = logdet(mean, np.full_like(mean, sigma), 3)
    for size in (1, 2, 3):
        assert batch.score[size - 1] == pytest.approx(value(batch.rows[:size]), rel=1e-8)
    best = max(value(np.array(rows)) for rows in itertools.combinations(range(7), 3))
    assert (1 - 1 / np.e) * best <= batch.score[-1] <= best + 1e-9
    one = mutual_information(Gaussian(mean[:200], np.full((200, 7), sigma)), max_draws=200)
    np.testing.assert_allclose(one.value, 0.5 * np.log1p((x**2).sum(1) / sigma**2), atol=0.15)
    whole = logdet(np.repeat(mean[:, :1], 3, axis=1), np.full((4000, 3), sigma), 3)
    assert whole.score[2] == pytest.approx(0.5 * np.log1p(3 * (x[0] ** 2).sum() / sigma**2), rel=1e-8)


def test_a_batch_chosen_for_single_rows_is_seen():
    """A greedy choice that forgets what was chosen has another second row here."""
    pool = np.concatenate([PROBA[:, [information(PROBA).mutual.argmax()]]] * 2 + [PROBA], axis=1)
    forgets = acquisition.largest(information(pool).mutual, 3, "test")
    assert joint_information(pool[:, forgets]) < batchbald(pool, 3).score[-1] - 0.01


# --- estimators -----------------------------------------------------------------------------------------------------


def test_estimators_acquire(fitted_regressor, fitted_classifier):
    for (model, X, _), measure in ((fitted_regressor, None), (fitted_classifier, information)):
        said = model.predictive(X)
        own = model.mutual_information(X)
        assert own.shape == (len(X),)
        if measure:
            np.testing.assert_allclose(own, measure(said["proba"]).mutual, atol=1e-9)
        else:
            np.testing.assert_allclose(own, mutual_information(model._mixture(said)).value, rtol=1e-9)
        np.testing.assert_array_equal(model.acquire(X, 4, "bald"), np.argsort(-own, kind="stable")[:4])
        for method in ("batchbald", "variance", "random"):
            found = model.acquire(X, 4, method, random_state=1)
            assert len(set(found)) == 4
            np.testing.assert_array_equal(found, model.acquire(X, 4, method, random_state=1))
        assert model.acquire(X, 1)[0] in range(len(X))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, X: m.acquire(X, 4, "coreset"), "method is 'coreset'; there are batchbald, bald, variance, random"),
        (lambda m, X: m.acquire(X, 0), "n is 0, but there are 120 rows in the pool; take from 1 to 120"),
        (lambda m, X: m.acquire(X, 999, "random"), "n is 999"),
        (lambda m, X: batchbald(np.ones((2, 3)), 1), r"\(draw, n, class\) is needed"),
        (lambda m, X: logdet(np.ones((2, 3)), np.zeros((2, 3)), 1), "predictions without noise"),
        (lambda m, X: joint_information(np.full((2, 30, 3), 1 / 3)), "30 rows have too many labels"),
    ],
)
def test_mistakes_get_a_sentence(call, sentence, fitted_classifier):
    with pytest.raises(ValueError, match=sentence):
        call(*fitted_classifier[:2])
