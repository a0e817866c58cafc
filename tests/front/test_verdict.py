"""The verdict of a report: every rule has its level and its numbers, and nothing is said twice."""

import inspect
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pages
import pytest

from langevin.diagnostics import convergence, findings, outlying
from langevin.diagnostics.findings import Finding, sentence
from langevin.report import tiles, verdict, words
from langevin.report.data import Predictions, ReportData
from langevin.report.gather import _error
from langevin.report.page import page
from langevin.report.verdict import judge


def level(facts: ReportData) -> str:
    return judge(facts).level


def test_sound_posteriors_are_good():
    for facts in (pages.regression(), pages.classification()):
        told = judge(facts)
        assert told == ("good", ())
        assert told.headline == "You can use this posterior."


def test_findings_of_the_diagnosis_are_passed_on_once():
    facts = pages.regression()
    one = Finding("one_chain", value=1, limit=2)
    told = judge(replace(facts, diagnosis=facts.diagnosis._replace(findings=(one,))))
    assert told == ("care", (one,))
    assert told.sentences == (sentence(one),)
    for case, code in ((pages.off, "rhat"), (pages.one_left, "diverged"), (pages.undiagnosed, "too_few_draws")):
        found = judge(case())
        assert found.level == "stop"
        assert [f.level for f in found.findings if f.code == code] == ["stop"]  # said once, at the rule's level


def test_a_verdict_for_json_has_codes_levels_and_numbers():
    body = json.loads(json.dumps(judge(pages.off()).as_dict(), allow_nan=False))
    assert body["level"] == "stop"
    assert body["headline"] == "Do not use this posterior yet."
    found = {f["code"]: f for f in body["findings"]}
    assert found["rhat"]["level"] == "stop"
    assert found["rhat"]["value"] > found["rhat"]["limit"] == 1.01
    assert "predictions" in found["rhat"]["names"]
    assert found["intervals_narrow"]["value"] < found["intervals_narrow"]["limit"] < 0.9
    assert all(f["sentence"] for f in body["findings"])


def test_every_code_has_a_sentence():
    of = lambda module: set(re.findall(r'Finding\(\s*"(\w+)"', inspect.getsource(module)))
    assert of(convergence) | of(outlying) == set(findings.SENTENCES)
    outside = {"intervals_narrow", "intervals_wide", "overconfident", "underconfident"}
    assert of(verdict) | of(convergence) | of(outlying) | outside == set(words.SENTENCES)
    marked = {code for codes in tiles.SPEAKS.values() for code in codes}
    assert marked == set(words.SENTENCES)  # whatever is found marks a tile


@pytest.mark.parametrize(
    ("rhat", "expected"),
    [([1.0, 1.005], "good"), ([1.0, 1.05], "care"), ([1.0, 1.2], "stop"), ([np.inf, 1.0], "stop")]
    + [([np.nan, 1.0], "care"), ([np.nan, np.nan], "stop"), ([], "stop")],
)
def test_rhat_sets_the_level(rhat, expected):
    facts = pages.regression(rows=60, draws=60)
    bare = facts.diagnosis._replace(rhat={"predictions": np.array(rhat)}, findings=())
    told = judge(replace(facts, diagnosis=bare))
    assert told.level == expected
    assert len(told.sentences) == (expected != "good")


def test_weights_that_do_not_mix_are_no_reason_to_stop():
    facts = pages.regression()
    d = facts.diagnosis
    assert level(replace(facts, diagnosis=d._replace(rhat={**d.rhat, "weights": np.array([3.0])}))) == "good"


def test_divergence_and_law():
    facts = pages.regression()
    divergent = lambda *lost: replace(facts, diagnosis=facts.diagnosis._replace(divergent=lost))
    assert level(divergent(0)) == "good"  # the diagnosis itself would have warned
    assert level(divergent(0, 3)) == "stop"
    wrong = judge(replace(facts, law_kind="wrong", law="p/D"))
    assert wrong.level == "stop"
    assert "(p/D)" in wrong.sentences[0]


@pytest.mark.parametrize(("factor", "words"), [(0.4, "too narrow"), (3.0, "too wide")])
def test_coverage_has_a_direction(factor, words):
    facts = pages.regression()
    told = judge(replace(facts, predictions=replace(facts.predictions, std=factor * facts.predictions.std), start=None))
    assert told.level == "care"
    assert words in told.sentences[0]
    assert words in page(replace(facts, predictions=replace(facts.predictions, std=factor * facts.predictions.std)))


@pytest.mark.parametrize(("power", "words"), [(4.0, "overconfident"), (0.35, "less sure")])
def test_confidence_has_a_direction(power, words):
    facts = pages.classification()
    proba = facts.predictions.proba**power
    told = judge(replace(facts, predictions=Predictions(proba=proba / proba.sum(axis=-1, keepdims=True)), start=None))
    assert told.level == "care"
    assert words in told.sentences[0]


def test_a_better_start_is_told():
    facts = pages.regression()
    exact = Predictions(mean=facts.y[None] + 0.1, std=np.full((1, len(facts.y)), 5.0))
    told = judge(replace(facts, start=exact))
    assert told.level == "care"
    assert "deep ensemble" in told.sentences[0]
    impossible = replace(pages.classification(), start=Predictions(proba=np.eye(3)[None, np.zeros(300, int)]))
    assert level(impossible) == "good"  # a start that held labels impossible is worse, and no reason to crash
    assert "∞" in page(impossible)


def test_few_rows_and_a_run_stopped_early():
    assert "too few rows" in judge(pages.regression(rows=12)).sentences[0]
    assert "stopped early" in judge(replace(pages.regression(), draws_wanted=400)).sentences[0]


@pytest.mark.parametrize(("error", "level"), [(0.02, "good"), (0.2, "care"), (0.6, "stop")])
def test_monte_carlo_error_decides_where_it_is_known(error, level):
    """Chains that disagree a little (R̂ 1.05) may be used if their answers are known well enough."""
    facts = pages.regression()
    apart = Finding("rhat", "care", ("predictions",), value=1.05, limit=1.01, details=dict(worst="predictions"))
    diagnosis = facts.diagnosis._replace(rhat={"predictions": np.full(20, 1.05)}, findings=(apart,))
    facts = replace(facts, diagnosis=diagnosis, error=np.full(20, error))
    said = judge(facts)
    assert said.level == level
    assert any("known to" in sentence for sentence in said.sentences) == (level != "good")
    assert any("R-hat" in sentence for sentence in said.sentences) == (level != "good")
    assert judge(replace(facts, error=None)).level == "care"


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_monte_carlo_error_is_that_of_chains_that_live(task):
    """Chains that say 0.5 ± 0.1 each at random, one lost: 0.1/√(m · variance of the answer), on average over rows."""
    random, chains, rows = np.random.default_rng(0), 9, 400
    followed = np.repeat(0.5 + 0.1 * random.normal(size=(chains, 1, rows)), 3, axis=1)
    followed[4] = 1e3
    total = SimpleNamespace(total=np.full(rows, 0.5))
    model = SimpleNamespace(posterior_=SimpleNamespace(diverged=(4,)), task=task, uncertainty=lambda X: total)
    error = _error(model, None, followed)
    assert error.shape == (rows,)
    spread = np.sqrt(np.mean(error**2)) * np.sqrt((chains - 1) * 0.25)
    # in classification the answer's variance is m(1 - m), 0.25 less the variance of the chains' mean: 1 in 200
    assert abs(spread / 0.1 - 1) < 5 * np.sqrt(1 / (2 * (chains - 2) * rows)) + 0.01
    model.posterior_.diverged = (1,)
    assert _error(model, None, followed[:2]) is None


# --- baselines --------------------------------------------------------------------------------------------------------


def fraud(sure: float, rows: int = 300, share: float = 0.06) -> ReportData:
    """Few positives, of which the posterior finds none: its probabilities are higher by `sure` there."""
    facts = pages.classification(rows=rows, classes=2)
    y = (np.arange(rows) < share * rows).astype(int)
    p = np.where(y == 1, share + sure, share - sure * share / (1 - share))
    proba = np.broadcast_to(np.stack([1 - p, p], -1), (8, rows, 2)).copy()
    trivial = np.broadcast_to([1 - share, share], (1, rows, 2)).copy()
    said, other = Predictions(proba=proba), Predictions(proba=trivial)
    return replace(facts, y=y, predictions=said, start=None, baselines={"trivial": other}, error=np.full(9, 0.01))


def codes(facts: ReportData) -> dict[str, str]:
    return {f.code: f.level for f in judge(facts).findings}


def test_answers_of_the_commonest_class_are_never_good():
    found = judge(fraud(sure=0.3))  # clearly better probabilities, and no fraud found
    assert found.level == "care"
    assert {"trivial_answers", "class_missed"} <= {f.code for f in found.findings}
    assert 'Of 18 test rows of the class "versicolor" 0 are recognised' in " ".join(found.sentences)
    assert 'no more often than always answering "setosa"' in " ".join(found.sentences)
    assert "over the trivial answer" in page(fraud(sure=0.3))


def test_a_posterior_no_better_than_trivial_is_never_good():
    assert codes(fraud(sure=0.0))["no_better"] == "stop"
    facts = pages.regression()
    useless = replace(facts, predictions=facts.baselines["trivial"], start=None, error=np.full(9, 0.01))
    assert judge(useless).level == "stop"
    assert "no_better" in codes(useless)
    assert "no_better" not in codes(facts)


@pytest.mark.parametrize("name", ["linear", "boosting"])
def test_a_simpler_model_that_is_clearly_better_is_named(name):
    facts = pages.regression()
    better = Predictions(mean=facts.y[None] + 0.0, std=np.full((1, len(facts.y)), 5.0))
    found = judge(replace(facts, baselines=facts.baselines | {name: better}))
    assert found.level == "care"
    assert [f.names for f in found.findings if f.code == "simpler_is_better"] == [(name,)]
    assert words.SIMPLER[name] in found.sentences[0]


def test_chains_that_disagree_are_never_usable_however_small_the_error():
    facts = pages.off()
    assert facts.diagnosis.rhat["predictions"].max() > 1.1
    assert codes(replace(facts, error=np.full(9, 0.01)))["rhat"] == "stop"


@pytest.mark.parametrize(("error", "rhat", "level"), [(0.02, 1.05, "good"), (0.2, 1.05, "care"), (0.02, 1.3, "stop")])
def test_tiles_ask_for_what_the_verdict_asks_for(error, rhat, level):
    facts = pages.regression()
    apart = Finding("rhat", "care", ("predictions",), value=rhat, limit=1.01, details=dict(worst="predictions"))
    diagnosis = facts.diagnosis._replace(rhat={"predictions": np.full(20, rhat)}, findings=(apart,))
    facts = replace(facts, diagnosis=diagnosis, error=np.full(20, error))
    text = page(facts).replace("\u00a0", " ")
    assert judge(facts).level == level
    precise = error < 0.1
    assert ("want below 1.01" in text) != precise
    assert ("up to 1.1 will do while the Monte Carlo error is below 10 %" in text) == precise
    assert "of the predicted std., want below 10 %" in text
