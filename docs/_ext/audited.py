"""The tables of `What samplers converge to`, from the audit that the library carries and from `kernel.law()`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from prose import escape

FILE = Path(__file__).parents[2] / "langevin" / "audit" / "table.json"


@cache
def table() -> dict[str, dict]:
    return json.loads(FILE.read_text())


def pages() -> dict[str, str]:
    """Fragments that pages include."""
    return {"_generated/laws": _laws(), "_generated/audit": _audit(), "_generated/plans": _plans()}


def _kernels() -> list:
    from methods import modules

    return [
        (m, n)
        for m, found in modules().items()
        if m.startswith(("langevin.samplers", "langevin.baselines"))
        for n in found
    ]


def _laws() -> str:
    from api import entry_link
    from methods import law_words, page_of, required

    rows = [
        f"| {entry_link(n)} | {escape(law_words(n.thing))} | {required(n.thing)} | [mathematics](/{page_of(m)}.md) |"
        for m, n in _kernels()
    ]
    return "\n".join(
        ["| kernel | stationary distribution, default settings | needs | |", "|---|---|---|---|", *rows, ""]
    )


def _audit() -> str:
    rows = ["| audited | outcome | verdict | gradients a step | time over SGLD's |", "|---|---|---|---|---|"]
    for name, body in table().items():
        f = body["figures"]
        cost = f"{f.get('cost_grad', float('nan')):.3g} | {f.get('cost_time', float('nan')):.2f}"
        rows.append(f"| `{name}` | {body['outcome']} | {escape(body['verdict'])} | {cost} |")
    return "\n".join([*rows, ""])


def _plans() -> str:
    from langevin.vi.plans import APPROXIMATIONS, PLANS

    rows = [
        f"| `{name}` | `{type(plan.tune if name in APPROXIMATIONS else plan.kernel).__name__}` | {plan.ascent:,} | "
        f"{plan.draws} × {plan.thin} |"
        for name, plan in PLANS.items()
    ]
    head = ["| plan | sampled or fitted by | training steps | draws × thin |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])
