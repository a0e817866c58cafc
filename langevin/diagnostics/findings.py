"""What a check found, as a code, a level and numbers; and the sentence that says it.

A `Finding` is data: it can be stored, compared, counted and written to JSON. `sentence` words it. The codes of
a `Diagnosis`, which are the keys of `SENTENCES`:

    diverged          chains whose log density or draws became NaN or infinite
    unequal_weights   draws that count unequally; value: the draws they are worth
    too_few_draws     too few to compute R̂ and ESS; value: draws, limit: those needed
    one_chain         a single chain
    never_moved       chains whose draws are all equal
    weights_unmixed   weights of a network do not mix, and its predictions do; value: R̂ of the weights
    rhat              R̂ above its limit; value: the largest
    ess_bulk          bulk ESS below its limit; value: the smallest, limit: for all chains together
    acceptance        mean acceptance too low or too high
    outlying_chain    chains that lie far from the others in a quantity, or whose energy error is far larger
                      (`diagnostics.outlying`); value: of the worst
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

Level = Literal["good", "care", "stop"]
LEVELS: tuple[Level, ...] = ("good", "care", "stop")


class Finding(NamedTuple):
    """One thing that a check found.

    code: what was found, a name that stays the same from version to version
    level: "good", "care" (usable with care) or "stop" (not usable)
    names: the quantities it was found in
    chains: the chains it was found in, counted from 0
    value: the number that was found, NaN where there is none
    limit: the number that it was compared with, NaN where there is none
    details: further numbers and names that its sentence quotes
    """

    code: str
    level: Level = "care"
    names: tuple[str, ...] = ()
    chains: tuple[int, ...] = ()
    value: float = float("nan")
    limit: float = float("nan")
    details: dict[str, Any] = {}


def gravest(findings: Iterable[Finding]) -> Level:
    """The highest level among them; "good" where there are none."""
    return max((f.level for f in findings), key=LEVELS.index, default="good")


def merge(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each code and quantity: the first that was given, with the highest level of its duplicates."""
    kept: list[Finding] = []
    for new in findings:
        same = next((i for i, old in enumerate(kept) if _duplicates(old, new)), None)
        if same is None:
            kept.append(new)
        else:
            kept[same] = kept[same]._replace(level=gravest([kept[same], new]))
    return tuple(kept)


def _duplicates(old: Finding, new: Finding) -> bool:
    return old.code == new.code and (not old.names or not new.names or bool({*old.names} & {*new.names}))


def sentence(finding: Finding) -> str:
    """What was found, by how much, and what to do."""
    return SENTENCES[finding.code](finding)


def _list(things: Iterable[Any]) -> str:
    return ", ".join(map(str, things))


def _outlying(f: Finding) -> str:
    one = len(f.chains) == 1
    who = f"Chain {_list(f.chains)}" if one else f"Chains {_list(f.chains)}"
    who += f" (of {f.details['of']}, counted from 0)"
    if f.details["kind"] == "energy":
        return (
            f"{who} {'has' if one else 'have'} a mean squared energy error of {f.value:,.4g}, where that of the middle "
            f"chain is {f.details['typical']:,.4g}: steps are too coarse there; lower the step size."
        )
    return (
        f"{who} {'lies' if one else 'lie'} far from the others in {_list(f.names)} ({f.value:.1f} standard deviations, "
        f"where {f.details['typical']:.1f} are usual): look at its trace; it may have found another mode, or be stuck."
    )


SENTENCES: dict[str, Callable[[Finding], str]] = {
    "outlying_chain": _outlying,
    "diverged": lambda f: (
        f"{len(f.chains)} of {f.details['of']} chains diverged and are left out (number {_list(f.chains)}, "
        "counted from 0): lower the step size, or start nearer the mode."
    ),
    "unequal_weights": lambda f: (
        "Draws have unequal weights, which R-hat and ESS leave aside: the weights alone make "
        f"{f.details['draws']} draws worth {f.value:.0f}; if that is few, draw more."
    ),
    "too_few_draws": lambda f: (
        f"{f.details['chains']} chains of {f.value:.0f} draws are left: too few to judge; draw more."
    ),
    "one_chain": lambda f: (
        "There is one chain: R-hat compares its two halves only, and cannot see a mode never visited; "
        "run 4 chains or more."
    ),
    "never_moved": lambda f: (
        f"{len(f.chains)} chains never moved (number {_list(f.chains)}, counted from 0; variance zero in "
        f"{_list(f.names)}): all proposals were rejected, so lower the step size, or steps were far too small."
    ),
    "weights_unmixed": lambda f: (
        f"R-hat of {_list(f.names)} is {f.value:.3f}, that of the predictions {f.details['predictions']:.3f}: the "
        "weights of a network need not mix (hidden units trade places); judge by the predictions."
    ),
    "rhat": lambda f: (
        f"R-hat of {_list(f.names)} is above {f.limit:g} (worst {f.value:.3f}, of {f.details['worst']}): the "
        "chains disagree; run or warm up longer."
    ),
    "ess_bulk": lambda f: (
        f"Bulk ESS of {_list(f.names)} is below {f.limit / f.details['chains']:g} for each chain (worst {f.value:.0f} "
        f"from {f.details['chains']} chains, of {f.details['worst']}): means and R-hat are uncertain; draw more."
    ),
    "acceptance": lambda f: (
        f"Mean acceptance is {f.value:.3f}: "
        + ("too few moves are taken; lower" if f.value < f.limit else "moves are needlessly small; raise")
        + " the step size."
    ),
}
