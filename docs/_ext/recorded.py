"""The recorded results of the lab: their pages, and the role that quotes a figure and links to its row.

    {measured}`adaptive-bias tv_target_psgld .3f`                      a figure
    {measured}`gpu/smile-uci lppd data=yacht method=mile mean .3f`     a column of the rows that match, their mean

A space in a value is written `_`; over several rows `mean`, `sum`, `most`, `least` or `count` says what is shown.

A figure that does not exist fails the build, so no number in the book is copied by hand.
"""

from __future__ import annotations

import importlib
import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "lab" / "results"


class Recorded(NamedTuple):
    """name: the path of its file below lab/results, without suffix; body: what the command wrote."""

    name: str
    body: dict[str, Any]

    @property
    def bench(self) -> bool:
        return self.name.startswith("bench/")

    @property
    def gpu(self) -> bool:
        return "gpu" in self.name.split("/")

    @property
    def command(self) -> str:
        """The command that prints its figures."""
        stem, name = self.name.rpartition("/")[2], self.body["name"]
        data = f" --data {stem[len(name) + 1 :]}" if stem != name else ""
        return f"langevin {'bench' if self.bench else 'reproduce'} {name}{data}{' --size gpu' if self.gpu else ''}"

    @property
    def module(self) -> str:
        package = "benchmarks" if self.bench else "experiments"
        return f"langevin_lab.{package}.{self.body['name'].replace('-', '_')}"

    @property
    def dirty(self) -> bool:
        """Whether it was made from a tree with changes that no commit has."""
        return self.body["provenance"]["git"].endswith("+changes")

    @property
    def title(self) -> str:
        return self.name.removeprefix("bench/").replace("gpu/", "") + (" (H200)" if self.gpu else "")


@cache
def recorded() -> dict[str, Recorded]:
    """All results by name; the scoreboard, which is made of them, has a page of its own."""
    files = sorted(file for file in RESULTS.rglob("*.json") if file.stem != "scoreboard")
    named = {str(f.relative_to(RESULTS).with_suffix("")): f for f in files}
    return {name: Recorded(name, json.loads(file.read_text())) for name, file in named.items()}


def bar_met(value: float, bar: str, *, gpu: bool = False) -> bool | None:
    """Whether a figure meets its bar, where that is one of the forms `≤ x`, `|z| ≤ x`, `below x`, `x ± y` and `x`.

    Of bars such as `≤ 1.35 (CPU), ≤ 1.05 (GPU)` it is that of the machine. A plain number is a count to be met, or a
    predicted value, which half a percent around it meets.
    """
    if "(CPU), " in bar:
        bar = bar.split(", ")[int(gpu)]
    if bar.startswith("|z| "):
        value, bar = abs(value), bar[len("|z| ") :]
    bar = bar.replace("−", "-").replace("<=", "≤").replace("below ", "< ")
    number = r"(-?[\d.]+(?:e-?\d+)?)"
    if m := re.match(rf"^([≤≥<>]) {number}(?: [a-zA-Z(].*)?$", bar):
        limit = float(m[2])
        return {"≤": value <= limit, "≥": value >= limit, "<": value < limit, ">": value > limit}[m[1]]
    if m := re.match(rf"^{number} ± {number}", bar):
        return abs(value - float(m[1])) <= float(m[2]) * (1 + 1e-9)
    if re.fullmatch(number, bar):
        near = 0.0 if isinstance(value, int) else max(0.005 * abs(float(bar)), 1e-5)
        return bool(abs(value - float(bar)) <= near)
    return None


def anchor(key: str) -> str:
    return "fig-" + re.sub(r"[^\w-]+", "-", key)


OVER: dict[str, Any] = {
    "mean": lambda v: float(np.mean(v)),
    "sum": lambda v: int(np.sum(v)),
    "most": max,
    "least": min,
    "count": len,
}


def lookup(words: str) -> tuple[str, str, str]:
    """What the role says: the text, the page and the anchor."""
    name, key, *rest = words.split()
    if name not in recorded():
        raise KeyError(f"there is no recorded result {name!r}")
    body = recorded()[name].body
    spec = next((w for w in rest if re.fullmatch(r"[+,]*\.?\d*[a-z%]?", w)), "")
    chosen = dict(w.split("=", 1) for w in rest if "=" in w)
    if not chosen:
        if key not in body["figures"]:
            raise KeyError(f"{name} has no figure {key!r}; it has {', '.join(body['figures'])}")
        return _format(body["figures"][key], spec), name, anchor(key)
    rows = [i for i, row in enumerate(body["table"]) if all(_same(row.get(k), v) for k, v in chosen.items())]
    rows = [i for i in rows if key in body["table"][i]]
    over = next((f for w, f in OVER.items() if w in rest), None)
    if not rows or (len(rows) > 1 and over is None):
        raise KeyError(f"{name}: {len(rows)} rows with {key!r} match {chosen}")
    values = [body["table"][i][key] for i in rows]
    value = over(values) if over else values[0]
    return _format(value, spec), name, f"row-{rows[0]}"


def _same(value: Any, text: str) -> bool:
    return str(value).replace(" ", "_") == text or (isinstance(value, float) and _number(text) == value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _format(value: Any, spec: str) -> str:
    return f"{value:{spec}}".replace("-", "−") if spec else show(value)


def show(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    large = abs(value) >= 1e4
    text = f"{value:,.0f}" if large and abs(value) < 1e8 and value == int(value) else f"{value:.4g}"
    return text.replace("-", "−")


# --- pages ---------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Markdown of `results/index` and of one page for each result."""
    found = {f"results/{r.name}": _page(r) for r in recorded().values()}
    return found | {"results/index": _index()}


INDEX = """# Results

Every recorded result of the lab: the command that prints it, its figures beside their bars, the drawing, and where it
came from. These pages are generated from the JSON files in `lab/results` when the book is built.

A result is marked **+changes** where it was measured from a working tree with changes that no commit records; it holds
for code close to, but not exactly, the commit named. A bar is the limit set before the measurement; "missed" counts the
figures that do not meet theirs.
"""


def _index() -> str:
    out = [INDEX]
    groups = {"Experiments": False, "Benchmarks": True}
    for title, bench in groups.items():
        chosen = [r for r in recorded().values() if r.bench == bench]
        out += [f"## {title}\n", "| result | question | bars missed | device | commit |", "|---|---|---|---|---|"]
        for r in chosen:
            p, (missed, bars) = r.body["provenance"], _missed(r)
            mark = f"{missed} of {bars}" if bars else ""
            commit = (p["git"] or "installed").replace("+changes", " **+changes**")
            link = f"[{r.title}](/results/{r.name}.md)"
            out.append(f"| {link} | {_about(r)} | {mark} | {p['device']} | {commit} |")
        entries = [f"{r.title} <{r.name}>" for r in chosen]
        out += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```", ""]
    return "\n".join(out)


def _missed(r: Recorded) -> tuple[int, int]:
    met = [bar_met(v, r.body["bars"][k], gpu=r.gpu) for k, v in r.body["figures"].items() if k in r.body["bars"]]
    return sum(m is False for m in met), len(met)


def _doc(r: Recorded) -> str:
    try:
        return importlib.import_module(r.module).__doc__ or ""
    except ImportError:  # a peer that is not installed; the docstring can be read without it
        import ast

        file = ROOT / "lab" / (r.module.replace(".", "/") + ".py")
        return ast.get_docstring(ast.parse(file.read_text())) or ""


def _about(r: Recorded) -> str:
    from prose import escape as markdown

    return markdown(" ".join(_doc(r).strip().split("\n\n")[0].split()))


def _page(r: Recorded) -> str:
    from prose import split_references, to_myst

    body, p = r.body, r.body["provenance"]
    text, refs = split_references(_doc(r))
    out = [f"# {r.title}\n", to_myst(text), "", f"```sh\n{r.command}\n```", ""]
    versions = ", ".join(f"{k} {v}" for k, v in p["versions"].items())
    where = (
        f"Measured on {p['device']}, seed {p['seed']}, {p['seconds']:,.0f} seconds, commit {p['git'] or '(installed)'}"
    )
    out += [f"{where}; {versions}.", ""]
    if r.dirty:
        out += [":::{warning}", "Measured from a working tree with changes that no commit records.", ":::", ""]
    out += [f":::{{note}}\n{note}\n:::\n" for note in body.get("notes", [])]
    up = "../" * (r.name.count("/") + 2)
    if (RESULTS / f"{r.name}.png").exists():
        out += [f"![{r.title}]({up}lab/results/{r.name}.png)", ""]
    out += ["## Figures", "", "```{raw} html", _figures(r), "```", ""]
    if body["table"]:
        out += ["## Table", "", "```{raw} html", _table(body["table"]), "```", ""]
    if refs:
        from prose import escape as markdown

        out += ["## References", "", *(f"- {markdown(e)}" for e in refs), ""]
    return "\n".join(out)


def _figures(r: Recorded) -> str:
    body, rows = r.body, []
    for key, value in body["figures"].items():
        bar = body["bars"].get(key, "")
        met = bar_met(value, bar, gpu=r.gpu) if bar else None
        said = "" if met is None else "met" if met else "<strong>missed</strong>"
        cells = f"<td><code>{escape(key)}</code></td><td>{show(value)}</td><td>{escape(bar)}</td><td>{said}</td>"
        rows.append(f'<tr id="{anchor(key)}">{cells}</tr>')
    head = "<thead><tr><th>figure</th><th>measured</th><th>bar</th><th></th></tr></thead>"
    return _wrap(f'<table class="docutils">{head}<tbody>{"".join(rows)}</tbody></table>')


def _table(table: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(k for row in table for k in row))
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = []
    for i, row in enumerate(table):
        cells = "".join(f"<td>{escape(show(row[c])) if row.get(c) is not None else ''}</td>" for c in columns)
        body.append(f'<tr id="row-{i}">{cells}</tr>')
    return _wrap(f'<table class="docutils"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>')


def _wrap(table: str) -> str:
    return f'<div class="table-wrapper docutils container recorded">{table}</div>'
