"""The theory that `langevin reproduce dais-rates` shows: lags, terms of the gap, perfect transitions."""

import numpy as np
import pytest
from langevin_lab import oracle
from langevin_lab.experiments import _dais_theory as theory
from langevin_lab.experiments import _regression as paper
from langevin_lab.experiments import dais_rates

TOLERANCE = 0.03  # of slopes from 10⁵ to 10⁶ steps


def small():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3)) * np.array([0.5, 0.7, 0.9])
    return oracle.Regression(X, X @ random.normal(size=3) + random.normal(size=60), scale=1.3)


@pytest.fixture(scope="module")
def table():
    """Lags and terms of the two lengths from which slopes are taken."""
    powers = dais_rates.POWERS
    found = {K: theory.follow(paper.problem(), K, list(powers.values())) for K in (10**5, 10**6)}
    parts = theory.LAGS + theory.TERMS
    return [
        dict(gamma=0.0, c=name, K=K) | {part: float(v[part][i]) for part in parts}
        for K, v in found.items()
        for i, name in enumerate(powers)
    ]


@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_terms_of_eq_17_add_up_to_the_gap(gamma):
    for problem in (small(), paper.problem()):
        for K in (2, 30, 300):
            parts = theory.follow(problem, K, [1 / 8, 1 / 4, 1 / 2], gamma)
            gaps = oracle.gaps(problem, K, [1 / 8, 1 / 4, 1 / 2], gamma)
            np.testing.assert_allclose(sum(parts[term] for term in theory.TERMS), gaps, rtol=1e-9)


def test_lags_are_those_of_eq_16_with_matrices():
    """γ = 0: θ' has the mean T₁₁m + ½hr and the covariance T₁₁ΣT₁₁ + T₁₂², without eigenvectors."""
    problem, K, c = small(), 40, 1 / 3
    eye, lags = np.eye(problem.d), []
    m, S = np.zeros(problem.d), eye * problem.scale**2
    for beta, eta in zip(*oracle.published(problem, K, c), strict=True):
        P, r, h = eye / problem.scale**2 + beta * problem.A, beta * problem.b, eta**2
        behind = np.linalg.norm(m - np.linalg.solve(P, r)), np.linalg.norm(np.linalg.inv(S) - P, 2)
        lags.append((*behind, *(np.array(behind) * (beta >= 0.5))))
        T11, T12 = eye - 0.5 * h * P, eta * (eye - 0.25 * h * P)
        m, S = T11 @ m + 0.5 * h * r, T11 @ S @ T11 + T12 @ T12
    parts = theory.follow(problem, K, [c])
    np.testing.assert_allclose([parts[name][0] for name in theory.LAGS], np.max(lags, axis=0), rtol=1e-9)


def test_the_mean_lags_by_no_more_than_its_bound_at_any_step():
    problem, powers = paper.problem(), [0.0, *dais_rates.POWERS.values()]
    for K in (10, 100, 1000, 10_000):
        most = [theory.most_lag(problem, K, c) for c in powers]
        share = theory.follow(problem, K, powers)["lag_mean"] / most
        assert np.all(share <= 1)
    assert share[0] > 0.9


def test_slopes_are_those_of_theory(table):
    assert dais_rates.slope_error(table, ("late_mean", "late_precision")) < TOLERANCE
    assert dais_rates.slope_error(table, theory.TERMS) < TOLERANCE


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("late_mean", lambda c: c - 1),
        ("late_mean", lambda c: -2 * c),
        ("late_precision", lambda c: 2 * (2 * c - 1)),
        ("term_mean", lambda c: 2 * c - 1),
        ("term_covariance", lambda c: -2 * c),
        ("term_kinetic", lambda c: -4 * c),
    ],
)
def test_a_wrong_exponent_is_noticed(table, monkeypatch, part, wrong):
    right = theory.exponents
    monkeypatch.setattr(theory, "exponents", lambda c: right(c) | {part: wrong(c)})
    assert dais_rates.slope_error(table, (part,)) > 4 * TOLERANCE


def test_below_a_quarter_the_covariance_is_off_by_the_leapfrog(table):
    """c = 1/8: lemma 1's exponent −3/4 holds for the mean alone, and −2c = −1/4 for what depends on the covariance."""
    chosen, theirs = dais_rates.pick(table, 0.0, "c18"), theory.exponents(1 / 8)
    assert abs(dais_rates.slope(chosen, "late_mean") - theirs["late_mean"]) < TOLERANCE
    for part in ("lag_precision", "late_precision", "term_covariance"):
        assert theirs[part] == -1 / 4
        assert abs(dais_rates.slope(chosen, part) - theirs[part]) < TOLERANCE
    assert chosen[-1]["term_covariance"] < 0 < chosen[-1]["term_kinetic"]


def test_the_gap_falls_fastest_at_a_sixth(table):
    best = max(dais_rates.POWERS, key=lambda name: -theory.exponents(dais_rates.POWERS[name])["gap"])
    assert best == "c16"
    for name in ("c16", "c14"):
        gaps = [sum(row[term] for term in theory.TERMS) for row in dais_rates.pick(table, 0.0, name)]
        assert abs(np.log10(gaps[1] / gaps[0]) - theory.exponents(dais_rates.POWERS[name])["gap"]) < TOLERANCE


@pytest.mark.parametrize("K", [1, 7, 500])
def test_perfect_transitions_lose_what_eq_7_says(K):
    """log Z − Σ (β_k − β_{k−1}) E log p(y | θ) over exact draws, with matrices, is eq. 8's sum of KL."""
    problem, total = small(), 0.0
    for beta in np.arange(K) / K:
        S = np.linalg.inv(np.eye(problem.d) / problem.scale**2 + beta * problem.A)
        m = S @ (beta * problem.b)
        total += (problem.constant + problem.b @ m - 0.5 * np.trace(problem.A @ (S + np.outer(m, m)))) / K
    np.testing.assert_allclose(theory.perfect(problem, K), problem.log_z - total, rtol=1e-9)


def test_perfect_transitions_need_one_over_K():
    gaps = [theory.perfect(paper.problem(), K) for K in (10**5, 10**6)]
    assert abs(np.log10(gaps[1] / gaps[0]) + 1) < 1e-3
    assert abs(10**6 * gaps[1] / theory.perfect_limit(paper.problem()) - 1) < 1e-4


def test_every_bar_is_of_a_figure(monkeypatch):
    monkeypatch.setitem(dais_rates.LONGEST, "cpu", 2)
    result = dais_rates.run("cpu", 0)
    assert set(result.bars) <= set(result.figures)
    assert result.figures["terms_sum_error"] < 1e-9
