"""The scoreboard's tables: what each comparison is, which columns it has, and the page that says who is ahead.

`tools/scoreboard.py` measures, joins the recorded JSON files and writes `docs/scoreboard.md` by `page`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
            ess_per_1000="ESS / 10³ gradients",
            ess_per_s="ESS / s",
            seconds="seconds",
            compile="compile, s",
            quality="time to draws, s",
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
        "of one thread and all; a call of BlackJAX's SGHMC counts as its ten "
        "leapfrog steps. Times are in turns in one process; memory is the peak of a process of its own.",
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
        'Eight chains, 20,000 gradients each, tuned by `tune="auto"` (kernels '
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


def page(bodies: dict[str, Any], body: dict[str, Any]) -> str:
    where, known = body["machine"], body["versions"]
    lines = [
        "# Scoreboard",
        "",
        "Comparisons of langevin with other libraries: their settings, their "
        "versions, and where langevin loses. `make scoreboard` "
        "measures the first four tables and writes this page and "
        "`lab/results/scoreboard.json`; each of the others is recorded by the "
        "command beside it. The best of each comparison is bold; the last "
        "column says in what a row of langevin is behind the best, and by what factor.",
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
        lines += [*table(section, bodies[section.name]), ""]
        lines += [source(section, bodies[section.name]), ""]
    return "\n".join(lines)


def table(section: Section, body: dict[str, Any]) -> list[str]:
    rows = body["table"]
    keys = [k for k in section.columns if any(row.get(k, "") not in ("", None) for row in rows)]
    if any("note" in row for row in rows) and "note" not in keys:
        keys.append("note")
    said = [behind(section, row, rows) for row in rows]
    head = [section.columns.get(k, k) for k in keys] + (["behind in"] if any(said) else [])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row, words in zip(rows, said, strict=True):
        cells = [bold(section, k, row, rows) for k in keys] + ([words] if any(said) else [])
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def bold(section: Section, key: str, row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """A cell; in bold where it is the best of its group."""
    text = cell(row.get(key, ""))
    if key not in section.lost or key not in row:
        return text
    every = [section.lost[key] * r[key] for r in alike(section, row, rows) if key in r]
    return f"**{text}**" if len(every) > 1 and section.lost[key] * row[key] == min(every) else text


def cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    first, _, second = str(value).partition("-")
    known = second if second.startswith(first) and "_" in second else str(value)  # posteriordb names data and model
    return known.replace("|", "\\|")


def alike(section: Section, row: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that are compared with this one."""
    return [r for r in rows if all(r.get(k) == row.get(k) for k in section.group)]


def behind(section: Section, row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """In what a row of ours is behind the best peer of its group; of any row, where it misses its distribution."""
    words = [remark(section.name, row)]
    if str(row.get("method", "")).startswith(OURS):
        for key, sign in section.lost.items():
            theirs = [r[key] for r in alike(section, row, rows) if not r["method"].startswith(OURS) and key in r]
            best = min(theirs, key=lambda value: sign * value, default=None)
            if best is not None and key in row and sign * best < sign * row[key]:
                ratio = max(best / row[key], row[key] / best) if best and row[key] > 0 < best else float("nan")
                times = f" {ratio:.2g}×" if ratio == ratio else ""
                words.append(f"{section.columns.get(key, key).split(',')[0]}{times}")
    return "; ".join(filter(None, words))


def remark(name: str, row: dict[str, Any]) -> str:
    """What a single row says by itself; empty where nothing is to be said."""
    if name == "known" and row.get("ratio", 1.0) < 1:
        return f"dynesty needs {cell(row['ratio'])} of its calls"
    if name == "laws" and abs(row.get("variance", 1.0) - 1) > 0.2:
        return "another distribution"
    if name == "references" and row.get("lost"):
        return f"lost {row['lost']} of 8 chains"
    return ""


def source(section: Section, body: dict[str, Any]) -> str:
    past, others = body["provenance"], body["figures"].get("busy_cores")
    busy = "" if others is None else f"; others kept {others:.1f} cores busy at the start"
    if others is not None and others > 0.3:
        busy += " (the machine was busy: ratios are safer than times)"
    lost = body.get("bars", {})
    bars = "".join(f"; `{k}` = {body['figures'].get(k)}, bar {bar}" for k, bar in lost.items())
    return (
        f"Source: `langevin bench {section.name}`, seed {past['seed']}, "
        f"{past['device']}, JAX {past['versions']['jax']}, commit "
        f"{past['git'] or 'installed'}, {past['seconds']:.0f} s{busy}{bars}."
    )
