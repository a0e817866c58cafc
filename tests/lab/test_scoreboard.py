"""The scoreboard: what it says where a peer is ahead or missing, and that the committed page is that of its JSON."""

import json
from pathlib import Path

import pytest
from langevin_lab import scoreboard
from langevin_lab.benchmarks import _peers, laws, steps, tables, vi

from langevin.cli.figures import BENCH

ROOT = Path(__file__).parents[2]
SECTION = scoreboard.SECTIONS[0]
ROW = dict(model="m", bias=0.02, ess_per_s=100.0, quality=3.0)


def body(*rows, load=0.5):
    past = dict(seed=0, device="cpu", seconds=1.0, git="abc", versions={"jax": "0.10"})
    return dict(figures={"busy_cores": load}, table=list(rows), provenance=past, bars={})


def test_every_section_is_a_benchmark():
    assert {section.name for section in scoreboard.SECTIONS} <= set(BENCH.modules())


def test_a_lost_comparison_is_told():
    rows = ROW | dict(method="langevin NUTS"), ROW | dict(method="fast", ess_per_s=200.0)
    assert scoreboard.behind(SECTION, rows[0], rows) == "ESS / s 2×"
    assert scoreboard.bold(SECTION, "ess_per_s", rows[1], rows) == "**200**"
    assert scoreboard.bold(SECTION, "ess_per_s", rows[0], rows) == "100"
    assert scoreboard.behind(SECTION, rows[0], (rows[0], ROW | dict(method="slow", ess_per_s=50.0))) == ""
    assert scoreboard.behind(SECTION, rows[1], rows) == ""


def test_a_missing_peer_is_a_row_and_a_busy_machine_is_told():
    told = body(ROW | dict(method="langevin NUTS"), dict(model="m", method="other", note="not installed"), load=3.0)
    assert any("| other |" in line and "not installed" in line for line in scoreboard.table(SECTION, told))
    assert "the machine was busy" in scoreboard.source(SECTION, told)
    assert _peers.missing("no_such_package") == "not installed"
    assert _peers.missing("json") == ""


def test_the_page_is_that_of_its_json():
    told = json.loads((ROOT / "lab/results/scoreboard.json").read_text())
    assert (ROOT / "docs/scoreboard.md").read_text() == scoreboard.page(told["sections"], told)


def test_the_exact_posterior_of_the_regression_is_met_by_its_own_draws():
    import numpy as np

    given = laws.Regression(0)
    draws = np.random.default_rng(0).multivariate_normal(given.mean, given.covariance, (64, 200))
    found = given.score(draws, 1.0)
    assert abs(found["worst"] - 1) < 5 * found["noise"]
    assert found["bias"] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("bench", [laws, steps, tables, vi])
def test_without_peers_a_comparison_says_so(bench, monkeypatch):
    monkeypatch.setattr(bench, "missing", lambda package: "not installed")
    table = bench.run("quick", 0).table
    assert any(row.get("note") == "not installed" for row in table)
    assert any("note" not in row for row in table)
