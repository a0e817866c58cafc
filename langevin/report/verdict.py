"""May this posterior be used? A few rules, each with its limit. A rule returns findings; `report.words` words them.

The codes of the rules, beside those of a diagnosis (`diagnostics.findings`):

    wrong_law          the kernel converges to another distribution than the posterior, as it states itself
    mc_error           Monte Carlo error of the predicted means, over their standard deviation
    approximation      draws of a fitted distribution; value: k̂, limit: up to which it stands for the posterior
    rhat_unknown       R̂ of some or all predictions is not known
    intervals_narrow   90 % or 50 % intervals hold fewer test rows than chance explains; intervals_wide: more
    overconfident      a classification is right less often than it says; underconfident: more often
    worse_than_start   a worse NLL than that of the deep ensemble the chains started from
    members_worse      chains whose own predictions have a worse NLL than the network they started from
    no_better          no clearly better NLL than that of the trivial answer
    trivial_answers    right no more often than always giving the commonest answer
    class_missed       nearly no row of a class is recognised
    simpler_is_better  a clearly better NLL of a simpler model (`report.baselines`)
    simpler_as_good    no clear difference to a linear model in NLL or in the squared error: told, and no fault
    few_rows           too few test rows to judge calibration
    stopped_early      fewer draws than were asked for; sampling_goes_on: so far
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from langevin.diagnostics.convergence import RHAT
from langevin.diagnostics.findings import LEVELS, Finding, Level, gravest, merge
from langevin.report.data import ReportData
from langevin.report.scores import (
    COVERAGE,
    HALF,
    average,
    centred,
    chains_and_draws,
    chance,
    chance_of,
    gap,
    mixing,
    paired,
    recall,
    squared,
)
from langevin.report.words import HEADLINES, RUNNING, sentence
from langevin.vi.quality import GOOD

ERROR, ERROR_STOP = 0.1, 0.5  # Monte Carlo error of a predicted mean, over its standard deviation, that 1 row in 20 has
RHAT_STOP = 1.1  # chains that disagree this much describe different posteriors
DIVERGED = 0.5  # share of chains from which the rest can no longer be called typical
CHANCE = 0.999  # a share outside this range is not an accident: 1 in 1,000 warns wrongly
STDERRS = 2.0  # standard errors from which a difference of two scores is called clear
MEMBERS = 3.0  # the same for each chain and its start: of 8 chains 1 in 100 is called worse wrongly
MISSED, MISSED_ROWS = 0.2, 5  # recall of a class, with so many test rows or more, that is called missed
FEW_ROWS = 30  # below this even a bad calibration cannot be seen
MIXING = ("rhat", "ess_bulk", "weights_unmixed")  # what a small Monte Carlo error makes unimportant
OF_CHAINS = (*MIXING, "too_few_draws", "one_chain", "never_moved", "outlying_chain")  # of what moves; fits do not


class Verdict(NamedTuple):
    """level: "good", "care" or "stop"; findings: what is wrong, the gravest first."""

    level: Level
    findings: tuple[Finding, ...]

    @property
    def running(self) -> bool:
        """Whether it is of draws so far."""
        return any(f.code == "sampling_goes_on" for f in self.findings)

    @property
    def headline(self) -> str:
        return RUNNING if self.running else HEADLINES[self.level]

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(map(sentence, self.findings))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: codes, levels and numbers beside the sentences."""
        return dict(level=self.level, headline=self.headline, findings=[_as_dict(f) for f in self.findings])


def judge(facts: ReportData) -> Verdict:
    """Every rule is asked; the gravest finding sets the level."""
    diagnosed = facts.diagnosis.findings
    if facts.approximate:
        diagnosed = tuple(f for f in diagnosed if f.code not in OF_CHAINS)
    elif is_precise(facts):
        diagnosed = tuple(f for f in diagnosed if f.code not in MIXING)
    found = merge([*diagnosed, *(finding for rule in RULES for finding in rule(facts))])
    order = lambda f: (f.code != "sampling_goes_on", -LEVELS.index(f.level))
    return Verdict(gravest(found), tuple(sorted(found, key=order)))


def error(facts: ReportData) -> float:
    """The Monte Carlo error that only 1 row in 20 exceeds; NaN where it is not known."""
    known = facts.error is not None and len(facts.error) and np.isfinite(facts.error).all()
    return float(np.quantile(facts.error, 0.95)) if known else float("nan")


def is_precise(facts: ReportData) -> bool:
    """Whether the answers are known well enough that R̂ up to RHAT_STOP and any ESS will do.

    Chains in modes of their own never agree to the last digit, and need not. The tiles of the page say the same.
    """
    return error(facts) < ERROR


def wrong_law(facts: ReportData) -> list[Finding]:
    """A kernel that converges to something else, as it says itself."""
    if facts.law_kind != "wrong":
        return []
    return [Finding("wrong_law", "stop", details=dict(law=facts.law.strip().rstrip(".") or "which one is not stated"))]


def approximation(facts: ReportData) -> list[Finding]:
    """Draws of a fitted distribution are draws of the posterior where k̂ shows it; what is unknown is not good."""
    if not facts.approximate:
        return []
    level: Level = "good" if facts.pareto_k <= GOOD else "care"
    return [Finding("approximation", level, value=facts.pareto_k, limit=GOOD, details=dict(law=facts.law))]


def disagreement(facts: ReportData) -> list[Finding]:
    """The Monte Carlo error, or where it is not known R̂ of the predictions; what is unknown does not count as good."""
    m, diagnosed = mixing(facts.diagnosis), {f.code: f for f in facts.diagnosis.findings}
    if not np.isnan(found := error(facts)):
        level: Level = "stop" if found > ERROR_STOP else "care"
        findings = [Finding("mc_error", level, value=found, limit=ERROR)] if found >= ERROR else []
        if m.rhat > RHAT_STOP and not facts.approximate:
            findings.append(_rhat(m.rhat, "stop"))
        return findings
    if facts.approximate:
        return []
    unknown = dict(missing=m.unknown, of=m.entries)
    if np.isnan(m.rhat):
        few = diagnosed.get("too_few_draws", Finding("rhat_unknown", details=unknown))
        return [few._replace(level="stop")]
    findings = []
    if m.rhat > RHAT:
        findings.append(_rhat(m.rhat, "stop" if m.rhat > RHAT_STOP else "care"))
    if m.unknown and "never_moved" not in diagnosed:
        findings.append(Finding("rhat_unknown", "care", ("predictions",), details=unknown))
    return findings


def _rhat(value: float, level: Level) -> Finding:
    return Finding("rhat", level, ("predictions",), value=value, limit=RHAT, details=dict(worst="predictions"))


def divergence(facts: ReportData) -> list[Finding]:
    """Half of the chains or more."""
    lost, (chains, _) = facts.diagnosis.divergent, chains_and_draws(facts)
    if not lost or len(lost) < DIVERGED * chains:
        return []
    return [Finding("diverged", "stop", (), lost, len(lost), DIVERGED * chains, dict(of=chains))]


def coverage(facts: ReportData) -> list[Finding]:
    """90 % and 50 % intervals of a regression: a finding for each direction, of the first that is off so."""
    if facts.task != "regression":
        return []
    inside, found = centred(facts, facts.predictions), dict[str, Finding]()
    for name, p in ((COVERAGE, 0.9), (HALF, 0.5)):
        share, by_chance = float(np.mean(inside <= p)), chance(len(facts.y), p, CHANCE)
        for new in _outside("intervals_narrow", "intervals_wide", share, by_chance, stated=p):
            old = found.get(new.code, new)
            found[new.code] = old._replace(names=(*old.names, name))
    return list(found.values())


def confidence(facts: ReportData) -> list[Finding]:
    """How sure a classification is, and how often it is right."""
    if facts.task != "classification":
        return []
    p = average(facts.predictions)
    sure, found = p.max(axis=1), float(np.mean(p.argmax(axis=1) == facts.y))
    return _outside("overconfident", "underconfident", found, chance_of(sure, CHANCE), confidence=float(sure.mean()))


def _outside(below: str, above: str, found: float, by_chance: tuple[float, float], **details: float) -> list[Finding]:
    """A share that is below or above what chance explains."""
    low, high = by_chance
    if not (found < low or found > high):
        return []
    code, limit = (below, low) if found < low else (above, high)
    return [Finding(code, "care", value=found, limit=limit, details=dict(low=low, high=high, **details))]


def start(facts: ReportData) -> list[Finding]:
    """Sampling should not make predictions worse than the deep ensemble it started from."""
    found = gap(facts, facts.start)
    if found is None or not found.mean > STDERRS * found.stderr:
        return []
    limit, details = STDERRS * found.stderr, dict(stderr=found.stderr)
    return [Finding("worse_than_start", "care", value=found.mean, limit=limit, details=details)]


def members(facts: ReportData) -> list[Finding]:
    """Chains that predict worse than the networks they started from."""
    if facts.start is None or facts.chain_of is None or len(facts.y) < 2:
        return []
    worse = {}
    for c in np.unique(facts.chain_of):
        if c < len(facts.start):
            own, before = facts.predictions.only(facts.chain_of == c), facts.start.only(np.array([c]))
            found = paired(facts, own, before)
            if found.mean > MEMBERS * found.stderr:
                worse[int(c)] = found
    if not worse:
        return []
    worst = max(worse.values(), key=lambda g: g.mean)
    details = dict(stderr=worst.stderr, of=len(np.unique(facts.chain_of)))
    return [Finding("members_worse", "care", (), tuple(worse), worst.mean, MEMBERS * worst.stderr, details)]


def trivial(facts: ReportData) -> list[Finding]:
    """Worth its time only if it is clearly better than an answer that uses no feature."""
    found = gap(facts, facts.baselines.get("trivial"))
    if found is None or found.mean < -STDERRS * found.stderr:
        return []
    level: Level = "stop" if found.mean >= 0 else "care"
    details = dict(stderr=found.stderr, task=facts.task)
    return [Finding("no_better", level, value=found.mean, limit=-STDERRS * found.stderr, details=details)]


def answers(facts: ReportData) -> list[Finding]:
    """A classification whose answers are those of the commonest class, or that never names some class."""
    if facts.task != "classification" or "trivial" not in facts.baselines or not len(facts.y):
        return []
    classes = facts.classes or ()
    common = int(average(facts.baselines["trivial"])[0].argmax())
    right, by_chance = (average(facts.predictions).argmax(axis=1) == facts.y).mean(), (facts.y == common).mean()
    found = []
    if len(np.unique(facts.y)) > 1 and right <= by_chance:
        details = dict(answer=classes[common])
        found.append(Finding("trivial_answers", "care", value=float(right), limit=float(by_chance), details=details))
    rows = np.bincount(facts.y, minlength=len(classes))
    for k, share in enumerate(recall(facts, facts.predictions)):
        if rows[k] >= MISSED_ROWS and share < MISSED:
            seen = dict(rows=int(rows[k]), right=round(share * rows[k]))
            found.append(Finding("class_missed", "care", (classes[k],), value=float(share), limit=MISSED, details=seen))
    return found


def simpler(facts: ReportData) -> list[Finding]:
    """A linear model or boosting should not predict clearly better; a linear model that does as well is named."""
    found = []
    for name in ("linear", "boosting"):
        g = gap(facts, facts.baselines.get(name))
        if g is None or not np.isfinite(g.stderr):
            continue
        limit, details = STDERRS * g.stderr, dict[str, Any](stderr=g.stderr)
        if g.mean > limit:
            found.append(Finding("simpler_is_better", "care", (name,), value=g.mean, limit=limit, details=details))
        elif name == "linear" and g.mean > -limit:
            details["measure"] = "NLL"
            found.append(Finding("simpler_as_good", "good", (name,), value=g.mean, limit=limit, details=details))
        elif name == "linear" and (s := squared(facts, facts.baselines[name])).mean > -STDERRS * s.stderr:
            details = dict(measure="squared error", stderr=s.stderr, nll=g.mean)
            found.append(Finding("simpler_as_good", "good", (name,), (), s.mean, STDERRS * s.stderr, details))
    return found


def few_rows(facts: ReportData) -> list[Finding]:
    """Too few to see a bad calibration."""
    n = len(facts.y)
    return [Finding("few_rows", "care", value=n, limit=FEW_ROWS)] if n < FEW_ROWS else []


def stopped(facts: ReportData) -> list[Finding]:
    """Fewer draws than were asked for, so far or for good."""
    _, draws = chains_and_draws(facts)
    wanted = facts.draws_wanted
    if facts.running:
        return [Finding("sampling_goes_on", "care", value=draws, limit=wanted)]
    return [Finding("stopped_early", "care", value=draws, limit=wanted)] if wanted > draws else []


RULES: tuple[Callable[[ReportData], list[Finding]], ...] = (
    wrong_law,
    approximation,
    disagreement,
    divergence,
    coverage,
    confidence,
    start,
    members,
    trivial,
    answers,
    simpler,
    few_rows,
    stopped,
)


def _as_dict(finding: Finding) -> dict[str, Any]:
    plain = lambda v: None if isinstance(v, float) and not math.isfinite(v) else v
    body = finding._asdict()
    details = {k: plain(v) for k, v in body.pop("details").items()}
    return {k: plain(v) for k, v in body.items()} | dict(details=details, sentence=sentence(finding))
