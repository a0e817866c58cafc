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
RUNNING = "Sampling goes on."
OVERSURE = "Check that test and training rows are alike; then try more chains, or a stronger prior."


def sentence(finding: Finding) -> str:
    """What was found, by how much, and what to do."""
    return SENTENCES[finding.code](finding)


def _rhat_unknown(f: Finding) -> str:
    missing, of = f.details["missing"], f.details["of"]
    if missing < of:
        known = f"R-hat is not known for {missing} of {of} predictions, which never change or are not finite: "
        return known + "look at the chains below."
    return "R-hat of the predictions is not known, so nothing shows that the chains agree: draw more, from 4 chains."


def _chance(f: Finding) -> str:
    return f"where chance explains {percents(f.details['low'], f.details['high'])}"


def _held(f: Finding) -> str:
    return f"The {100 * f.details['stated']:.0f} % intervals hold {percent(f.value)} of the test rows, {_chance(f)}"


def _both(f: Finding) -> str:
    return ", as those of 50 % are" if len(f.names) > 1 else ""


def _right(f: Finding) -> str:
    sure = percent(f.details["confidence"])
    return f"The model is {sure} sure of its answers on average, and right in {percent(f.value)} {_chance(f)}"


def _approximation(f: Finding) -> str:
    drawn = f"Its draws are of an approximation of the posterior ({f.details['law']})"
    if f.value != f.value:
        return f"{drawn}, and how far that is from the posterior is not known: judge by the scores on test rows."
    if f.value <= f.limit:
        return f"{drawn}, and k-hat is {number(f.value)} (want {f.limit:g} or less): it stands for the posterior."
    return (
        f"{drawn}, and k-hat is {number(f.value)} (want {f.limit:g} or less): it is not the posterior itself, mostly "
        "too narrow. Judge by the scores on test rows, or sample with the plan mile."
    )


SIMPLER = {"linear": "A linear model", "boosting": "Gradient boosting"}


def _no_better(f: Finding) -> str:
    what = "mean and spread of the training rows" if f.details["task"] == "regression" else "shares of the classes"
    better = "worse than" if f.value > -f.limit else "not better than" if f.value >= 0 else "not clearly better than"
    return (
        f"Its NLL is {better} that of an answer that uses no feature, the {what} (difference {number(f.value)}, "
        f"standard error {number(f.details['stderr'], 2)}): the features say little of the target, or the network has "
        "not learnt it."
    )


def _as_good(f: Finding) -> str:
    who, measure = SIMPLER[f.names[0]], f.details["measure"]
    difference = (
        f"the {measure} of the posterior less its is {number(f.value)} (standard error "
        f"{number(f.details['stderr'], 2)}), which is no clear difference"
    )
    if measure == "NLL":
        return f"{who} does as well: {difference}. The simpler model may be enough."
    return (
        f"{who} does as well where the mean alone is wanted: {difference}. The predicted distributions are better: NLL "
        f"is lower by {number(-f.details['nll'])}."
    )


SENTENCES: dict[str, Callable[[Finding], str]] = findings.SENTENCES | {
    "mc_error": lambda f: (
        f"Predicted means are known to {percent(f.value)} of their standard deviation only, so much do the chains "
        "differ: take more chains, or draw more."
    ),
    "rhat_unknown": _rhat_unknown,
    "wrong_law": lambda f: (
        f"The kernel does not converge to the posterior but to another distribution ({f.details['law']}): choose a "
        "kernel whose stationary distribution is exact, or its corrected variant."
    ),
    "approximation": _approximation,
    "intervals_narrow": lambda f: f"{_held(f)}: they are too narrow{_both(f)}. {OVERSURE}",
    "intervals_wide": lambda f: (
        f"{_held(f)}: they are too wide{_both(f)}, which is safe but says little. Warm up longer, "
        "or check the noise model."
    ),
    "overconfident": lambda f: f"{_right(f)}: it is overconfident. {OVERSURE}",
    "underconfident": lambda f: (
        f"{_right(f)}: it is less sure than it could be. Warm up longer, or try a weaker prior."
    ),
    "worse_than_start": lambda f: (
        f"NLL is worse than that of the deep ensemble it started from, by {number(f.value)} "
        f"(standard error {number(f.details['stderr'], 2)}): lower the step size, or use the ensemble."
    ),
    "members_worse": lambda f: (
        f"{several(len(f.chains), 'chain')} of {f.details['of']} (number {', '.join(map(str, f.chains))}, counted from "
        f"0) {'predicts' if len(f.chains) == 1 else 'predict'} the test rows worse than the trained "
        f"{'network it' if len(f.chains) == 1 else 'networks they'} started from: NLL is higher by up to "
        f"{number(f.value)} (standard error {number(f.details['stderr'], 2)}). Lower the step size, or warm up longer."
    ),
    "no_better": _no_better,
    "trivial_answers": lambda f: (
        f"It is right in {percent(f.value)} of the test rows, no more often than always answering "
        f'"{f.details["answer"]}" ({percent(f.limit)}): use its probabilities and not its answers, or collect rows '
        "of the other classes."
    ),
    "class_missed": lambda f: (
        f'Of {several(f.details["rows"], "test row")} of the class "{f.names[0]}" {f.details["right"]} are '
        "recognised: lower the probability from which it is answered, or collect more rows of it."
    ),
    "simpler_is_better": lambda f: (
        f"{SIMPLER[f.names[0]]} predicts the test rows clearly better: its NLL is lower by {number(f.value)} (standard "
        f"error {number(f.details['stderr'], 2)}). Use it, or try wider layers and longer training."
    ),
    "simpler_as_good": _as_good,
    "few_rows": lambda f: (
        f"There are {several(int(f.value), 'test row')}, too few rows to judge calibration: hold out {f.limit:.0f} or "
        "more."
    ),
    "stopped_early": lambda f: (
        f"Sampling was stopped early, after {f.value:,.0f} of {f.limit:,.0f} draws of each chain: "
        "resume it for the rest."
    ),
    "sampling_goes_on": lambda f: (
        f"{f.value:,.0f} of {f.limit:,.0f} draws of each chain are there; all below is what is known so far."
    ),
}
