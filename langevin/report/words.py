"""The sentences of a verdict: findings of a report and of its diagnosis in words, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Callable

from langevin.diagnostics import findings
from langevin.diagnostics.findings import Finding, Level
from langevin.report.numbers import number, percent, percents, several

HEADLINES: dict[Level, str] = {
    "good": "You can use this posterior.",
    "care": "Usable, with care.",
    "stop": "Do not use this posterior yet.",
}
OVERSURE = "Check that test and training rows are alike; then try more chains, or a stronger prior."


def sentence(finding: Finding) -> str:
    """What was found, by how much, and what to do."""
    return SENTENCES[finding.code](finding)


def _mc_error(f: Finding) -> str:
    return (
        f"Predicted means are known to {percent(f.value)} of their standard deviation only, so much do the chains "
        "differ: take more chains, or draw more."
    )


def _rhat_unknown(f: Finding) -> str:
    missing, of = f.details["missing"], f.details["of"]
    if missing < of:
        known = f"R-hat is not known for {missing} of {of} predictions, which never change or are not finite: "
        return known + "look at the chains below."
    return "R-hat of the predictions is not known, so nothing shows that the chains agree: draw more, from 4 chains."


def _wrong_law(f: Finding) -> str:
    return (
        f"The kernel does not converge to the posterior but to another law ({f.details['law']}): choose a kernel whose "
        "law is exact, or its corrected variant."
    )


def _held(f: Finding) -> str:
    by_chance = percents(f.details["low"], f.details["high"])
    return f"The 90 % intervals hold {percent(f.value)} of the test rows, where chance explains {by_chance}: "


def _intervals_narrow(f: Finding) -> str:
    return f"{_held(f)}they are too narrow. {OVERSURE}"


def _intervals_wide(f: Finding) -> str:
    return f"{_held(f)}they are too wide, which is safe but says little. Warm up longer, or check the noise model."


def _right(f: Finding) -> str:
    sure, by_chance = f.details["confidence"], percents(f.details["low"], f.details["high"])
    return (
        f"The model is {percent(sure)} sure of its answers on average, and right in {percent(f.value)} "
        f"where chance explains {by_chance}: "
    )


def _overconfident(f: Finding) -> str:
    return f"{_right(f)}it is overconfident. {OVERSURE}"


def _underconfident(f: Finding) -> str:
    return f"{_right(f)}it is less sure than it could be. Warm up longer, or try a weaker prior."


def _worse_than_start(f: Finding) -> str:
    return (
        f"NLL is worse than that of the deep ensemble it started from, by {number(f.value)} "
        f"(standard error {number(f.details['stderr'], 2)}): lower the step size, or use the ensemble."
    )


def _few_rows(f: Finding) -> str:
    rows = several(int(f.value), "test row")
    return f"There are {rows}, too few rows to judge calibration: hold out {f.limit:.0f} or more."


def _stopped_early(f: Finding) -> str:
    return (
        f"Sampling was stopped early, after {f.value:,.0f} of {f.limit:,.0f} draws of each chain: "
        "resume it for the rest."
    )


SENTENCES: dict[str, Callable[[Finding], str]] = findings.SENTENCES | {
    "mc_error": _mc_error,
    "rhat_unknown": _rhat_unknown,
    "wrong_law": _wrong_law,
    "intervals_narrow": _intervals_narrow,
    "intervals_wide": _intervals_wide,
    "overconfident": _overconfident,
    "underconfident": _underconfident,
    "worse_than_start": _worse_than_start,
    "few_rows": _few_rows,
    "stopped_early": _stopped_early,
}
