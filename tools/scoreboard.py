"""The scoreboard: comparisons with other libraries, from recorded JSON files to one page and one JSON file.

    python tools/scoreboard.py            join what lab/results/bench holds
    python tools/scoreboard.py --run      measure first what is quick (make scoreboard)

A comparison that fails or whose peer is missing leaves its row out or says "not installed"; the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
BENCH, PAGE, JSON = ROOT / "lab/results/bench", ROOT / "docs/scoreboard.md", ROOT / "lab/results/scoreboard.json"
PEERS = (
    *("blackjax", "numpyro", "nutpie", "posteriors", "laplace-torch", "torch-uncertainty", "sklearn-contrib-bde"),
    *("torchebm", "dynesty", "torch", "jax", "jaxlib", "numpy", "langevin"),
)


OURS = ("langevin", "ours")  # how methods of this library begin


class Section(NamedTuple):
    """name: of the benchmark. file: of its JSON. title, about: in words. columns: key → heading.

    lost: (key, sign): where ours loses: to a row of the same group whose number times sign is less than ours.
    group: columns that rows must share to be compared. run: whether `--run` measures it; the rest is recorded apart.
    """

    name: str
    file: str
    title: str
    about: str
    columns: dict[str, str]
    lost: dict[str, int]
    group: tuple[str, ...] = ()
    run: bool = True


SECTIONS = (
    Section(
        "nuts",
        "nuts.json",
        "NUTS on the references",
        "Four models with trusted draws, 4 chains, 1,000 steps of warm-up and "
        "1,000 draws each (MAMS: 4,000), acceptance "
        "0.8, diagonal metric, the same log density in JAX. Here NUTS is "
        'BlackJAX\'s kernel with `tune="auto"`. Bias is the '
        "largest |bias|/sd of means and second moments; below `noise` it is not measured.",
        dict(
            model="model",
            method="library",
            bias="max bias/sd",
            noise="noise",
            ess_per_1000="ESS / 1,000 gradients",
            ess_per_s="ESS / s",
            seconds="seconds",
            compile="compile, s",
            quality="time to these draws, s",
        ),
        dict(ess_per_s=-1, quality=1, ess_per_1000=-1),
        ("model",),
    ),
    Section(
        "steps",
        "steps.json",
        "A step of SGLD and SGHMC on a network",
        "Classifiers on 10,000 random examples, batch 128, one chain, Gaussian "
        "noise, the same step size; one gradient a "
        "step. BlackJAX: a scan with mini-batches drawn inside; posteriors: "
        "its Python loop, `inplace=True`, on the faster "
        "of one thread and all. Times are in turns in one process; memory is the peak of a process of its own.",
        dict(
            net="network",
            sampler="sampler",
            method="library",
            us="µs a step",
            over_ours="ratio to langevin",
            compile="compile, s",
            memory="peak memory, MB",
            **{"import": "of it imports, MB"},
        ),
        dict(us=1, compile=1, memory=1),
        ("net", "sampler"),
    ),
    Section(
        "laws",
        "laws.json",
        "Stationary distribution at several temperatures",
        "A Gaussian posterior (linear regression, d = 4), gradients of all data. The variance ratio should be 1. SGLD "
        'h = 0.1/λ, SGHMC h = 0.2/√λ with friction √λ (BlackJAX: its defaults), PSGLD tuned by `tune="auto"`.',
        dict(
            T="T",
            method="sampler",
            settings="settings",
            variance="variance ratio",
            worst="worst coefficient",
            bias="max bias/sd",
            noise="se of a ratio",
        ),
        {},
    ),
    Section(
        "tables",
        "tables.json",
        "A network on a table (airfoil)",
        "80 % to train, 20 % to test, standardized. langevin: "
        "`BayesianRegressor()` as it is. laplace-torch: two layers of "
        "50 (tanh), Kronecker Laplace of all weights, prior and noise by the "
        "marginal likelihood. bde: its paper's lengths.",
        dict(method="library", nll="test NLL", rmse="test RMSE", seconds="seconds of the fit", note="note"),
        dict(nll=1, rmse=1, seconds=1),
    ),
    Section(
        "torchebm",
        "torchebm.json",
        "An energy on two rings",
        "Contrastive divergence, the same network, data, chains and 3,000 "
        "training steps. torchebm: its defaults (`cd`), "
        "with a buffer (`pcd`). Ours: Metropolis-adjusted steps begun at the data (`ours`) or persistent.",
        dict(method="method", run="run", grid_kl="KL(data ‖ model)", steps_per_s="chain steps / s"),
        dict(grid_kl=1, steps_per_s=-1),
        ("run",),
        run=False,
    ),
    Section(
        "known",
        "known.json",
        "Evidence of eight known distributions",
        "`log_evidence` as it is, eight seeds, against dynesty with 500 live "
        "points. The ratio is that of likelihood calls at "
        "equal error (above 1: ours needs fewer).",
        dict(
            law="distribution",
            rmse="rmse, ours",
            calls="calls, ours",
            peer_error="error, dynesty",
            peer_stderr="its stated error",
            peer_calls="calls, dynesty",
            ratio="calls ratio at equal error",
        ),
        {},
        run=False,
    ),
    Section(
        "references",
        "references.json",
        "Samplers of langevin on the references",
        'Eight chains, 40,000 gradients each, tuned by `tune="auto"` (kernels '
        "without a tuner: by the step size of SGLD).",
        dict(
            model="model",
            kernel="kernel",
            bias="max bias/sd",
            noise="noise",
            ess_per_1000="ESS / 1,000 gradients",
            lost="chains lost",
            note="note",
        ),
        {},
        run=False,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="measure nuts, steps, laws and tables first")
    parser.add_argument("--size", default="cpu", help="of the measurements: quick or cpu")
    chosen = parser.parse_args()
    failed = [s.name for s in SECTIONS if chosen.run and s.run and not measured(s, chosen.size)]
    bodies = {s.name: json.loads((BENCH / s.file).read_text()) for s in SECTIONS if (BENCH / s.file).is_file()}
    body = dict(machine=machine(), versions=versions(), failed=failed, sections=bodies)
    JSON.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(bodies, body))
    print(f"{PAGE.relative_to(ROOT)} and {JSON.relative_to(ROOT)}: {', '.join(bodies)}")
    if failed:
        print(f"not measured now, recorded figures are kept: {', '.join(failed)}", file=sys.stderr)


def measured(section: Section, size: str) -> bool:
    """Run one benchmark in a process of its own; what fails leaves the recorded file as it is."""
    command = [sys.executable, "-m", "langevin.cli", "bench", section.name, "--size", size]
    try:
        done = subprocess.run([*command, "--json", str(BENCH / section.file)], cwd=ROOT, timeout=600)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def machine() -> dict[str, Any]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return dict(processor=name, cores=os.cpu_count(), system=platform.system(), python=platform.python_version())


def versions() -> dict[str, str]:
    found = {}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    apart = sorted((ROOT / ".venv-bde").glob("lib/*/site-packages/sklearn_contrib_bde-*.dist-info"))
    if apart:  # in an environment of its own
        found["sklearn-contrib-bde"] = apart[0].name.split("-")[1]
    return found


def page(bodies: dict[str, Any], body: dict[str, Any]) -> str:
    where, known = body["machine"], body["versions"]
    lines = [
        "# Scoreboard",
        "",
        "Comparisons of langevin with other libraries: their settings, their "
        "versions, and where langevin loses. `make scoreboard` "
        "measures the first four tables and writes this page and "
        "`lab/results/scoreboard.json`; each of the others is recorded by the "
        "command beside it.",
        "",
        f"Machine: {where['processor']}, {where['cores']} cores, Python {where['python']}. Versions: "
        + ", ".join(f"{name} {v}" for name, v in known.items())
        + ".",
        "",
    ]
    for section in SECTIONS:
        lines += [f"## {section.title}", "", section.about, ""]
        if section.name not in bodies:
            lines += [f"Not recorded yet: `langevin bench {section.name}`.", ""]
            continue
        lines += [*table(section, bodies[section.name]), "", *losses(section, bodies[section.name])]
        lines += [source(section, bodies[section.name]), ""]
    return "\n".join(lines)


def table(section: Section, body: dict[str, Any]) -> list[str]:
    rows = body["table"]
    keys = [k for k in section.columns if any(row.get(k, "") not in ("", None) for row in rows)]
    if any("note" in row for row in rows) and "note" not in keys:
        keys.append("note")
    head = [section.columns.get(k, k) for k in keys]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(cell(row.get(k, "")) for k in keys) + " |" for row in rows]


def cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return str(value).replace("|", "\\|")


def losses(section: Section, body: dict[str, Any]) -> list[str]:
    """One sentence for every figure in which the best peer is ahead of every row of langevin in its group."""
    rows, groups, lines = body["table"], {}, []
    for row in rows:
        groups.setdefault(tuple(row.get(k) for k in section.group), []).append(row)
    for group, members in groups.items():
        for key, sign in section.lost.items():
            ours = [r[key] for r in members if r["method"].startswith(OURS) and key in r]
            theirs = {r["method"]: r[key] for r in members if not r["method"].startswith(OURS) and key in r}
            best = min(theirs, key=lambda name: sign * theirs[name], default=None)
            if best is None or not ours or sign * theirs[best] >= min(sign * u for u in ours):
                continue
            mine = min(ours, key=lambda u: sign * u)
            what = section.columns.get(key, key)
            where = "".join(f" on {g}" for g in group[:1]) + "".join(f", {g}" for g in group[1:])
            numbers = f"{what} {cell(mine)} against {cell(theirs[best])}"
            lines.append(f"- langevin loses to {best}{where}: {numbers}.")
    lines += [line for row in rows if (line := remark(section.name, row))]
    return [*lines, ""] if lines else []


def remark(name: str, row: dict[str, Any]) -> str:
    """What a single row says by itself; empty where nothing is to be said."""
    if name == "known" and row.get("ratio", 1.0) < 1:
        return f"- langevin loses to dynesty on {row['law']}: it needs {cell(1 / row['ratio'])} times its calls."
    if name == "laws" and abs(row.get("variance", 1.0) - 1) > 0.2:
        return f"- {row['method']} at T = {row['T']:g} has {cell(row['variance'])} times the variance it should have."
    if name == "references" and row.get("lost"):
        return f"- {row['kernel']} lost {row['lost']} of 8 chains on {row['model']}."
    return ""


def source(section: Section, body: dict[str, Any]) -> str:
    past, load = body["provenance"], body["figures"].get("load_average")
    busy = "" if load is None else f"; load average at the start {load:.1f}"
    if load is not None and load > 1:
        busy += " (the machine was busy: ratios are safer than times)"
    lost = body.get("bars", {})
    bars = "".join(f"; `{k}` = {body['figures'].get(k)}, bar {bar}" for k, bar in lost.items())
    return (
        f"Source: `langevin bench {section.name}`, seed {past['seed']}, "
        f"{past['device']}, JAX {past['versions']['jax']}, commit "
        f"{past['git'] or 'installed'}, {past['seconds']:.0f} s{busy}{bars}."
    )


if __name__ == "__main__":
    main()
