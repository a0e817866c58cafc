"""From figures to a sentence: what a sampler converges to, and if it is not what it claims, what that looks like.

The order of the questions: did chains diverge; is it right (p within Monte Carlo error, or p as h → 0 with the order
claimed); is it the wrong law it names; and otherwise what is off. A variance off by the same factor everywhere, at h
and at h/2, is noise of the wrong size; one that does not follow the temperature is a temperature ignored; a diffusion
that changes with position and a drift without its divergence is a dropped Γ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from langevin.audit.one_step import Local
from langevin.core.types import Law


class Finding(NamedTuple):
    """What one trial found. `status` is right, order, claimed, lower, wrong, diverged, unclear or skipped."""

    name: str
    status: str
    note: str = ""
    temperature: float = 1.0
    chains: int = 0
    diverged: int = 0
    tv_target: float = math.nan
    tv_claimed: float = math.nan
    tv_floor: float = math.nan
    z_target: float = math.nan
    z_claimed: float = math.nan
    order: float = math.nan
    ksd: float = math.nan
    ksd_p: float = math.nan
    ratio: float = math.nan  # pooled variance of the latents over the truth's, at h
    ratio_limit: float = math.nan  # the same extrapolated to h = 0
    quick: float = math.nan  # that of the first coordinate, the quickest of a Gaussian
    n_grad: float = math.nan
    unmoved: int = 0  # coordinates that did not move
    adjusted: bool = False  # some proposals were rejected


PASSED = ("right", "order")


def row_words(f: Finding, law: Law | None) -> str:
    """A few words for one row of the table."""
    words = {
        "right": "p, within Monte Carlo error",
        "order": f"p as h → 0, bias O(h^{law.order:.0f})" if law and law.kind == "order" else "p as h → 0, bias O(h)",
        "claimed": "not p, but the law it claims",
        "lower": "p as h → 0, of a lower order than claimed",
        "wrong": "not p",
        "diverged": f"{f.diverged} of {f.chains} chains diverged",
        "unclear": "unclear",
        "skipped": "not tried",
    }[f.status]
    return f"{words}: {f.note}" if f.note else words


def verdict(findings: list[Finding], law: Law | None, local: Local | None, *, momentum: bool):
    """ "passed", "as claimed", "unclear" or "failed", and the sentence."""
    tried = [f for f in findings if f.status not in ("skipped", "unclear")]
    if not tried:
        return "unclear", "nothing could be judged: " + "; ".join(
            f"{f.name}: {row_words(f, law)}" for f in findings
        ) + "."
    bad = [f for f in tried if f.status in ("wrong", "diverged", "lower")]
    if law is not None and law.kind == "wrong":
        return _named(tried, law)
    still = [f for f in findings if f.unmoved]
    if not bad and still:
        each = "; ".join(f"{f.name}: {f.note}" for f in still)
        return "unclear", (
            f"whether it samples p cannot be said, for parts of the position stand still ({each}): chains started at "
            "exact draws look right there, and chains started elsewhere never arrive."
        )
    if not bad:
        return "passed", _passed(tried, law) + _left_out(findings)
    if all(f.status == "lower" for f in bad):
        order = next((f.order for f in bad if f.order == f.order), math.nan)
        claims = f"not h^{law.order:.0f} as it claims ({_where(bad)})"
        return "failed", f"converges to p, but with a bias of order h^{order:.1f}, {claims}."
    return "failed", _wrong(tried, bad, local, momentum) + _left_out(findings)


def _passed(tried, law) -> str:
    worst = max(tried, key=lambda f: f.z_claimed if f.z_claimed == f.z_claimed else f.z_target)
    z = worst.z_claimed if worst.z_claimed == worst.z_claimed else worst.z_target
    tail = f"on all {len(tried)} targets (largest |z| {z:.1f}, on {worst.name})"
    if all(f.status == "right" for f in tried):
        return f"samples p: bias within Monte Carlo error {tail}."
    if law is None:
        return f"samples p as h → 0: bias of order h {tail}; it states no law of its own."
    return f"samples p as h → 0: bias of order h^{law.order:.0f}, as claimed, {tail}."


def _named(tried, law: Law):
    """A kernel that says it is wrong: is it wrong in the way it says?"""
    judged = [f for f in tried if f.z_claimed == f.z_claimed]
    missed = [f for f in judged if f.status == "wrong"]
    shown = _clearest([f for f in judged if f.status == "claimed"] or tried)
    how = f"total variation {shown.tv_target:.2f}, variance {shown.ratio:.2f}× on {shown.name}"
    diverged = [f for f in tried if f.status == "diverged"]
    tail = f" {_diverged_words(diverged)}" if diverged else ""
    if missed:
        worst = max(missed, key=lambda f: f.z_claimed)
        return "failed", (
            f"samples neither p nor the law it names ({law.words}): |z| {worst.z_claimed:.0f} to that law on "
            f"{worst.name}, total variation {worst.tv_claimed:.3f} to it and {worst.tv_target:.3f} to p.{tail}"
        )
    if all(f.status == "right" for f in tried):
        return "as claimed", f"is within Monte Carlo error of p on these targets, though it claims only: {law.words}."
    met = (
        f"as it says (total variation to that law {shown.tv_claimed:.3f})" if judged else "no closed form to hold it to"
    )
    return "as claimed", f"does not converge to p: {how}; it converges to {law.words}; {met}.{tail}"


def _wrong(tried, bad, local: Local | None, momentum: bool) -> str:
    diverged = [f for f in bad if f.status == "diverged"]
    if diverged:
        sentence = _diverged_words(diverged)
        gaussian = [f for f in diverged if f.name in ("normal", "gaussian", "gaussian50", "cold")]
        everywhere = all(2 * f.diverged > f.chains for f in diverged)
        if gaussian and everywhere and momentum:
            sentence += (
                " Even a Gaussian heats without bound: a force, or a coupling of position and momentum, has the wrong "
                "sign (Q must be skew: what r does to position is minus what position does to r)."
            )
        elif gaussian and everywhere:
            sentence += (
                " Even a Gaussian is left without bound: the gradient has the wrong sign, or the step is far too large."
            )
        else:
            sentence += " A smaller step size is the usual remedy."
        return sentence
    return _gamma(bad, local) or _heat(tried) or _noise(bad, local) or _unknown(bad, local)


def _heat(tried) -> str:
    """Does the variance follow the temperature?"""
    by = {f.name: f for f in tried}
    one, quarter = by.get("gaussian", by.get("normal")), by.get("cold")
    if one is None or quarter is None or quarter.status != "wrong":
        return ""
    warm, cold = one.quick, 0.25 * quarter.quick  # in units of the variance at T = 1
    power = math.log(warm / cold) / math.log(4.0)
    start = f"at T = 1/4 the variance is {4 * cold:.2f}× what it should be"
    also = "" if one.status in PASSED else f"; at T = 1 it is {warm:.2f}×, and that does not shrink with h either"
    if power < 0.25:
        return f"ignores its temperature: {start}, as if T = {cold:.2f}{also}."
    if abs(power - 2.0) < 0.15:
        return f"the variance goes as T², not T: {start}; the noise is scaled by T where it should be by √T{also}."
    if abs(power - 1.0) > 0.2:
        return f"follows its temperature only in part: {start} (variance ∝ T^{power:.2f}){also}."
    return ""


def _noise(bad, local: Local | None) -> str:
    """Is the variance off by one factor everywhere?"""
    plain = [f for f in bad if f.name in ("normal", "gaussian", "cold")]
    ratios = [f.quick for f in plain if f.quick > 0]
    if not ratios or max(ratios) / min(ratios) > 1.15 or (local and local.most / local.least > 1.2):
        return ""
    factor = sum(ratios) / len(ratios)
    if abs(factor - 1) < 0.02:
        return ""
    start = f"does not sample p: the variance is {factor:.2f}× the truth on {_where(plain)}, also as h → 0;"
    if local:
        start += f" one step has drift {local.slope:.2f} h∇log p and noise of variance {local.diffusion:.2f}·2h;"
    if abs(factor - 0.5) < 0.05:
        return start + " the noise is too small by √2."
    if abs(factor - 2.0) < 0.2:
        return start + " the noise is too large by √2."
    return start + f" the noise is off by a factor {math.sqrt(factor):.2f}, as if T = {factor:.2f}."


def _gamma(bad, local: Local | None) -> str:
    """Does the diffusion change with position, and the drift not make up for it?"""
    if local is None or local.most / local.least < 1.2 or not -0.25 <= local.share < 0.75:
        return ""  # a share of Γ outside 0 … 1 is no dropped part of it
    normal = next((f for f in bad if f.name == "normal"), _clearest(bad))
    which = "Γ = ∇·D is missing" if abs(local.share) < 0.25 else f"only {local.share:.2f} of Γ = ∇·D is there"
    law = "p/D" if abs(local.share) < 0.25 else f"p D^{local.share - 1:.2f}"
    fit = f", total variation to that {normal.note}" if normal.note else ""
    return (
        f"converges to {law}, not p: variance {normal.ratio_limit:.2f}×, total variation {normal.tv_target:.2f} on "
        f"{normal.name}, and it does not shrink with h. The diffusion D changes with position ({local.least:.2g} to "
        f"{local.most:.2g}) and {which} in the drift{fit}; add it (correction='pec' in our kernels)."
    )


def _unknown(bad, local: Local | None) -> str:
    worst = _clearest(bad)
    claim = (
        f"|z| {worst.z_claimed:.0f} after extrapolation"
        if worst.z_claimed == worst.z_claimed
        else f"|z| {worst.z_target:.0f}"
    )
    inside = (
        f" One step has drift {local.slope:.2f} h∇log p and noise of variance {local.diffusion:.2f}·2h."
        if local
        else ""
    )
    return (
        f"does not sample p on {_where(bad)}: the bias does not shrink with h as it should (on {worst.name} variance "
        f"{worst.ratio:.2f}× at h, {worst.ratio_limit:.2f}× as h → 0, {claim}).{inside}"
    )


def _left_out(findings) -> str:
    slow = [f.name for f in findings if f.status == "unclear"]
    skipped = "; ".join(f"{f.name}: {f.note}" for f in findings if f.status == "skipped")
    tail = f" Not tried on {skipped}." if skipped else ""
    return tail if not slow else f"{tail} Unclear on {', '.join(slow)}: raise the step size or --size."


def _diverged_words(diverged) -> str:
    each = ", ".join(f"{f.diverged} of {f.chains} on {f.name}" for f in diverged)
    return f"chains diverged: {each}."


def _clearest(findings) -> Finding:
    return max(findings, key=lambda f: f.tv_target if f.tv_target == f.tv_target else 0.0)


def _where(findings) -> str:
    return ", ".join(f.name for f in findings)
