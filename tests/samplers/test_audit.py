"""The audit tells right samplers from wrong ones, and says what is wrong, in words."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from mutants import Bare, Boastful, Careless, Flipped, HalfFrozen, Mirrored, Quiet, Stuck, Weighted
from typer.testing import CliRunner

from langevin.audit import trials
from langevin.audit.entry import audit_kernel
from langevin.audit.one_step import Local
from langevin.audit.subjects import audited, excluded, subject
from langevin.audit.table import add, page
from langevin.audit.verdict import Finding, _gamma
from langevin.cli import app
from langevin.core import noise
from langevin.core.kernel import registered
from langevin.samplers.mala import MALA
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD

FEW = ("normal", "gaussian", "cold")
BLACKJAX = pytest.mark.skipif(importlib.util.find_spec("blackjax") is None, reason="BlackJAX is not installed")
HERE = Path(__file__).parents[1]
SLOW = [
    pytest.param(k, (*FEW, "logistic-12"), marks=pytest.mark.slow)
    for k in (SGLD(0.05), MALA(0.1), SGHMC(0.1, friction=2.0), Mirrored())
]


@pytest.mark.parametrize(("kernel", "targets"), [(SGLD(0.05), FEW), *SLOW], ids=repr)
def test_right_samplers_pass(kernel, targets):
    result = audit_kernel(kernel, targets, "quick")
    assert result.passed, result.verdict
    assert result.figures["cost_grad"] == 1
    assert all(result.figures[f"tv_target_{t}"] < 0.03 for t in FEW)


def test_a_missing_root_two_is_named():
    result = audit_kernel(Quiet(), FEW, "quick")
    assert not result.passed
    assert "the noise is too small by √2" in result.verdict
    assert abs(result.figures["variance_normal"] - 0.5) < 0.05
    assert abs(result.figures["order_normal"]) < 0.3, "the bias does not shrink with h"


def test_a_dropped_divergence_is_named():
    result = audit_kernel(Bare(), FEW, "quick")
    assert not result.passed
    assert "converges to p/D, not p" in result.verdict
    assert "Γ = ∇·D is missing" in result.verdict
    assert abs(result.figures["tv_target_normal"] - 0.247) < 0.03, "(θ² + λ²)^½ e^{−θ²/2} at λ = 0.3"


def test_a_coupling_of_the_wrong_sign_is_named():
    result = audit_kernel(Flipped(), FEW, "quick")
    assert not result.passed
    assert "chains diverged" in result.verdict
    assert "Q must be skew" in result.verdict


@pytest.mark.parametrize("seed", range(3))
def test_coordinates_that_never_move_are_seen(seed):
    """Chains start at exact draws, so what stands still looks exact."""
    result = audit_kernel(HalfFrozen(), ("normal", "gaussian"), "quick", seed=seed)
    assert result.outcome == "unclear", result.verdict
    assert "gaussian: 2 of 4 coordinates did not move" in result.verdict
    assert not result.passed


def test_only_coordinates_that_forgot_their_start_are_judged():
    result = audit_kernel(SGLD(0.05), ("gaussian50",), "quick")
    assert "coordinates that forgot their start" in result.table[0]["finding"]
    assert result.passed


def test_starts_are_drawn_from_the_seed():
    trial = trials.named(["gaussian"], "quick")[0]
    one, again, other = (np.asarray(trial.starts(noise.key(s), 64)) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.any(one == other)


def test_a_metropolis_kernel_gets_no_diagnosis_of_gamma():
    """Its moves are no drift and diffusion; a step too wide for its law must not read as a dropped Γ."""
    result = audit_kernel(Careless(), ("normal",), "quick")
    assert result.outcome == "failed", result.verdict
    assert "Γ" not in result.verdict


@pytest.mark.parametrize(("share", "told"), [(0.0, True), (0.5, True), (-0.4, False), (1.4, False)])
def test_gamma_is_diagnosed_only_for_shares_of_it(share, told):
    local = Local(0.5, 2.0, share, 1.0, 1.0, np.full(82, 1 / 82))
    assert bool(_gamma([Finding("normal", "wrong")], local)) == told


def test_an_order_too_high_is_named():
    result = audit_kernel(Boastful(), ("normal",), "quick")
    assert not result.passed
    assert "not h^2 as it claims" in result.verdict


def test_a_temperature_ignored_is_named_for_any_object_with_init_and_step():
    result = audit_kernel(Stuck(), ("normal", "cold"), "quick")
    assert not result.passed
    assert "ignores its temperature" in result.verdict
    assert result.law == "states none"


def test_weights_and_groups():
    result = audit_kernel(Weighted(), ("normal",), "quick")
    assert result.passed, result.verdict
    assert result.figures["tv_target_normal"] < 0.03
    assert result.figures["ksd_p_normal"] > 0.01, "what is not collected does not count"


@pytest.mark.slow
def test_a_wrong_law_that_is_named_is_met_and_not_called_right():
    from langevin.baselines.msgld import MSGLD

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = MSGLD(0.025, momentum=0.0)
    result = audit_kernel(kernel, ("normal",), "quick")
    assert result.outcome == "as claimed", result.verdict
    assert not result.passed
    assert result.figures["tv_target_normal"] > 0.1
    assert result.figures["tv_claimed_normal"] < 0.03
    assert result.figures["z_claimed_normal"] < 5
    assert "does not converge to p" in result.verdict


@pytest.mark.slow
@BLACKJAX
def test_blackjax_sgld_is_right():
    with jax.debug_key_reuse(False):
        result = audit_kernel(subject("blackjax:sgld")[1], FEW, "quick")
    assert result.passed, result.verdict


def blackjax_sghmc_variance(h, T, length=10, alpha=0.01):
    """The stationary variance of x on N(0, 1): a call is linear in (x, m) with m fresh from N(0, 1)."""
    step = np.array([[1.0, h], [-h, 1.0 - alpha * h]])
    noise = np.diag([0.0, 2 * alpha * T * h])
    call, spread = np.eye(2), np.zeros((2, 2))
    for _ in range(length):
        call, spread = step @ call, step @ spread @ step.T + noise
    return (call[0, 1] ** 2 + spread[0, 0]) / (1 - call[0, 0] ** 2)


@pytest.mark.slow
@BLACKJAX
def test_blackjax_sghmc_ignores_its_temperature():
    """And not only that: at T = 1 the variance is L/(L − 1) = 1.11 as h → 0."""
    with jax.debug_key_reuse(False):
        result = audit_kernel(subject("blackjax:sghmc", {"step_size": "0.1"})[1], FEW, "quick")
    assert not result.passed
    assert "ignores its temperature" in result.verdict
    np.testing.assert_allclose(blackjax_sghmc_variance(1e-3, 1.0), 10 / 9, rtol=1e-3)
    np.testing.assert_allclose(blackjax_sghmc_variance(1e-3, 0.01), 10 / 9, rtol=1e-3)
    assert abs(result.figures["variance_normal"] - blackjax_sghmc_variance(0.1, 1.0)) < 0.04


def test_every_registered_kernel_is_audited_or_excluded_with_a_reason():
    covered = {name.split("-")[0] for name in audited()} | set(excluded())
    assert covered == set(registered())
    assert {"sgld", "sghmc", "mala", "hmc"} <= set(audited())


def test_the_command(tmp_path):
    file = tmp_path / "a.json"
    words = ["audit", "sgld", "--target", "normal", "--size", "quick", "--json", str(file), "--step-size", "0.1"]
    out = CliRunner().invoke(app, words)
    assert out.exit_code == 0, out.output
    assert "passed" in out.output
    body = json.loads(file.read_text())
    assert body["name"] == "audit-sgld"
    assert "step_size=0.1" in body["kernel"]
    assert body["outcome"] == "passed"
    assert {"tv_target_normal", "z_target_normal", "tv_claimed_normal", "ksd_normal", "cost_grad", "cost_time"} <= set(
        body["figures"]
    )
    assert all(isinstance(v, (int, float)) for v in body["figures"].values())
    assert {"seed", "versions", "device", "seconds"} <= set(body["provenance"])


def test_a_file_of_the_users():
    words = ["audit", f"{HERE / 'mutants.py'}:Quiet", "--target", "normal", "--size", "quick"]
    out = CliRunner().invoke(app, words)
    assert "failed" in out.output
    assert "too small by √2" in out.output.replace("\n", " ")


def test_the_page():
    result = audit_kernel(SGLD(0.05), ("normal",), "quick", name="sgld")
    text = page({"sgld": result.as_dict()}, "quick")
    assert "| sgld | 0.0" in text
    assert text.count("\n|") >= 5


def test_one_audit_replaces_its_row(tmp_path):
    result = audit_kernel(SGLD(0.05), ("normal",), "quick", name="sgld")
    for verdict in ("first", "second"):
        add(tmp_path, "sgld", dataclasses.replace(result, verdict=verdict), "quick")
    add(tmp_path, "mala", dataclasses.replace(result, verdict="third"), "quick")
    found = json.loads((tmp_path / "audit.json").read_text())
    assert {name: row["verdict"] for name, row in found.items()} == {"sgld": "second", "mala": "third"}
    text = (tmp_path / "audit.md").read_text()
    assert "first" not in text
    assert "| second |" in text
    with pytest.raises(ValueError, match="mine is none of them"):
        add(tmp_path, "mine", result, "quick")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["audit", "nothing"], "there is no kernel named 'nothing'"),
        (["audit"], "name a kernel"),
        (["audit", "optimize"], "it samples no distribution"),
        (["audit", "sgld", "--target", "nowhere"], "there is no target named 'nowhere'"),
        (["audit", "sgld", "--size", "huge"], "it must be cpu, gpu or quick"),
        (["audit", "sgld", "--stepsize", "1"], "SGLD has no option --stepsize"),
        (["audit", "no.such.module:Kernel"], "no.such.module cannot be imported"),
        (["audit", "nowhere.py:Kernel"], "there is no file nowhere.py"),
        (["audit", f"{HERE / 'mutants.py'}:Missing"], "has no 'Missing'"),
        (["audit", f"{HERE / 'mutants.py'}:NOT_A_KERNEL"], "a kernel has init and step"),
        (["audit", "blackjax:nothing"], "there is no algorithm 'nothing'"),
        (["audit", "blackjax:csgld"], "csgld needs energy bins"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(words, sentence):
    out = CliRunner().invoke(app, words)
    assert out.exit_code == 2
    assert sentence in (out.output + out.stderr).replace("\n", " ")


@pytest.mark.slow
def test_the_quick_form_takes_a_minute_at_most():
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "langevin.cli", "audit", "sgld", "--size", "quick"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "passed" in done.stdout
    assert time.perf_counter() - began < 60
