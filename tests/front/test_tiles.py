"""One rule from findings to tiles to verdict, on the tables of a new user's first hour."""

from dataclasses import replace

import numpy as np
import pages
import pandas as pd
import pytest
from fits import CLOSED

from langevin import BayesianClassifier
from langevin.diagnostics.convergence import diagnose
from langevin.diagnostics.findings import LEVELS, Finding
from langevin.diagnostics.uncertainty import variances
from langevin.report import classes
from langevin.report.data import Predictions, ReportData
from langevin.report.gather import gather
from langevin.report.page import page
from langevin.report.scores import PR_AUC, scores
from langevin.report.tiles import CHAINS, LEAST, SKILL, WORST, Tile, tiles
from langevin.report.verdict import judge

CASES = {"regression": pages.regression, "classification": pages.classification, **pages.ODD}


def shown(facts: ReportData) -> dict[str, Tile]:
    return {tile.name: tile for tile in tiles(facts, scores(facts, facts.predictions), judge(facts))}


@pytest.mark.parametrize("case", CASES)
def test_the_gravest_tile_is_as_grave_as_the_verdict(case):
    facts = CASES[case]()
    levels = [tile.level for tile in shown(facts).values()]
    assert max(levels, key=LEVELS.index) == judge(facts).level
    assert page(facts).count('<span class="flag">') == sum(level != "good" for level in levels)


def mixed(rhat: float, ess: float, error: float | None) -> ReportData:
    """A regression whose predictions have this R̂, ESS and Monte Carlo error."""
    facts = pages.regression()
    names, details = ("predictions",), dict(worst="predictions", chains=4)
    found = [Finding("rhat", "care", names, (), rhat, 1.01, details)] if rhat > 1.01 else []
    found += [Finding("ess_bulk", "care", names, (), ess, 400, details)] if ess < 400 else []
    numbers = dict(rhat={"predictions": np.array([1.0, rhat])}, ess_bulk={"predictions": np.array([ess, 900.0])})
    diagnosis = facts.diagnosis._replace(**numbers, findings=tuple(found))
    return replace(facts, diagnosis=diagnosis, error=None if error is None else np.full(20, error))


@pytest.mark.parametrize("error", [None, 0.02, 0.3])
def test_chains_that_disagree_are_red_everywhere(error):
    """R̂ 2.49 with ESS 11 was "usable, with care"."""
    facts = mixed(2.49, 11, error)
    assert judge(facts).level == "stop"
    assert judge(facts).headline == "Do not use this posterior yet."
    assert (shown(facts)[WORST].value, shown(facts)[WORST].level) == ("2.490", "stop")
    assert (shown(facts)[LEAST].level == "care") == (error != 0.02)


def test_a_green_verdict_asks_for_nothing_that_is_not_met():
    """R̂ 1.02 was green beside a tile that wants less than 1.01."""
    precise, unknown = mixed(1.02, 370, 0.02), mixed(1.02, 370, None)
    assert judge(precise).level == "good"
    assert "want" not in shown(precise)[WORST].about + shown(precise)[LEAST].about
    assert "below 1.01" not in page(precise)
    assert judge(unknown).level == "care"
    for name in (WORST, LEAST):
        assert "want" in shown(unknown)[name].about
        assert shown(unknown)[name].level == "care"


def test_both_intervals_are_judged_by_one_range():
    facts = pages.regression(rows=300)
    spread = np.sqrt(np.abs(facts.y - facts.predictions.mean.mean(axis=0)))[None]
    peaked = replace(
        facts, predictions=Predictions(mean=facts.predictions.mean, std=0.6 * facts.predictions.std + spread)
    )
    for case in (facts, peaked, pages.off()):
        found = {
            name: code for f in judge(case).findings for name in f.names if (code := f.code).startswith("interval")
        }
        for name in ("90 % coverage", "50 % coverage"):
            assert (shown(case)[name.replace(" %", "\u00a0%")].level == "care") == (name in found)
    assert set(found) == {"90 % coverage", "50 % coverage"}


def fraud(n: int = 1500, share: float = 0.06, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Payments of which few are fraudulent, and which amount, hour and country tell a little of."""
    rng = np.random.default_rng(seed)
    amount, hour = rng.lognormal(3, 1, n), rng.integers(0, 24, n)
    country = rng.choice(["DE", "FR", "US", "other"], n, p=[0.5, 0.2, 0.2, 0.1])
    score = 0.5 * np.log(amount) + 0.4 * (hour < 6) + 0.6 * (country == "other") + rng.normal(size=n)
    y = np.where(score > np.quantile(score, 1 - share), "yes", "no")
    return pd.DataFrame(dict(amount=amount, hour=hour, country=country)), y


@pytest.fixture(scope="module")
def caught() -> ReportData:
    X, y = fraud()
    model = BayesianClassifier(CLOSED, hidden=(), chains=2, random_state=0).fit(X[:1200], y[:1200])
    return gather(model, X[1200:], y[1200:], name="fraud", target="fraud", train=(X[:1200], y[:1200]))


def test_fraud_that_is_not_found_is_never_good(caught):
    told = judge(caught)
    assert told.level != "good"
    codes = {f.code: f for f in told.findings}
    assert codes["class_missed"].names == ("yes",)
    assert codes["trivial_answers"].details["answer"] == "no"
    assert {shown(caught)[name].level for name in ("Accuracy", "Balanced accuracy")} == {"care"}
    assert caught.drivers[0]["column"] == "amount"
    assert caught.curves[0]["mean"].shape[1] == 2


def test_classes_are_scored_one_by_one(caught):
    from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_fscore_support

    p = caught.predictions.proba.mean(axis=0)
    answer = p.argmax(axis=1)
    body = classes.as_json(caught)
    np.testing.assert_array_equal(body["confusion"]["counts"], confusion_matrix(caught.y, answer, labels=[0, 1]))
    precision, recall, _, rows = precision_recall_fscore_support(caught.y, answer, labels=[0, 1], zero_division=np.nan)
    for k, row in enumerate(body["classes"]):
        assert row["rows"] == rows[k]
        for name, expected in (("precision", precision[k]), ("recall", recall[k])):
            assert row[name] is None if np.isnan(expected) else row[name] == pytest.approx(expected)
    expected = average_precision_score(caught.y == 1, p[:, 1])  # of the rarer class
    assert scores(caught, caught.predictions)[PR_AUC] == pytest.approx(expected)
    assert "Recall is the share of a class" in page(caught)


def test_a_linear_model_that_does_as_well_is_named_and_is_no_fault():
    facts = pages.regression()
    own = facts.predictions
    rng = np.random.default_rng(0)
    whole = np.sqrt(variances(own.mean, own.std).total)
    alike = Predictions(mean=own.mean.mean(axis=0)[None] + rng.normal(size=len(facts.y)), std=whole[None])
    told = judge(replace(facts, baselines=facts.baselines | {"linear": alike}, start=None))
    assert told.level == "good"
    assert [f.code for f in told.findings] == ["simpler_as_good"]
    assert told.sentences[0].startswith("A linear model does as well")
    assert "standard error" in told.sentences[0]
    assert "simpler_as_good" not in {f.code for f in judge(facts).findings}
    blunt = replace(alike, std=4 * whole[None])  # the mean is as good, the distribution is not
    said = judge(replace(facts, baselines=facts.baselines | {"linear": blunt}, start=None))
    assert said.level == "good"
    assert said.sentences[0].startswith("A linear model does as well where the mean alone is wanted")


def test_members_that_predict_worse_than_their_start_are_named():
    facts = pages.regression(chains=4)
    said = facts.predictions.mean.copy()
    said[facts.chain_of == 2] += 80.0
    told = judge(replace(facts, predictions=replace(facts.predictions, mean=said)))
    worse = next(f for f in told.findings if f.code == "members_worse")
    assert worse.chains == (2,)
    assert worse.value > worse.limit
    assert "1 chain of 4 (number 2, counted from 0) predicts the test rows worse" in " ".join(told.sentences)
    assert "members_worse" not in {f.code for f in judge(facts).findings}
    unknown = replace(facts, predictions=replace(facts.predictions, mean=said), chain_of=None)
    assert "members_worse" not in {f.code for f in judge(unknown).findings}


def test_a_page_of_a_running_fit_says_that_sampling_goes_on():
    facts = replace(pages.regression(draws=50), draws_wanted=200, running=True, baselines={}, drivers=(), curves=())
    text = page(facts)
    assert judge(facts).headline == "Sampling goes on."
    assert judge(facts).sentences[0].startswith("50 of 200 draws of each chain are there")
    assert "stopped early" not in text
    assert f"<span>So far: {judge(facts).level}</span>" in text
    assert "comes when sampling has ended" in text
    done = replace(facts, running=False)
    assert "stopped early" in page(done)


def test_an_outlying_chain_marks_the_chains():
    facts = pages.regression(chains=8)
    apart = facts.predictions.mean.reshape(8, -1, len(facts.y)).copy()
    apart[3] += 60 * np.where(np.arange(len(facts.y)) % 2, 1, -1)
    facts = replace(facts, diagnosis=diagnose({"predictions": apart}))
    assert [f.chains for f in judge(facts).findings if f.code == "outlying_chain"] == [(3,)]
    assert shown(facts)[CHAINS].level == "care"
    assert "unlike the others: 3" in shown(facts)[CHAINS].about


def test_skill_over_the_best_of_the_simpler_models_comes_first():
    facts = pages.regression()
    first = next(iter(shown(facts).values()))
    assert first.name == SKILL
    assert first.about.startswith("over boosting; ")
    assert "over a linear model" in first.about
