"""What `langevin reproduce` measures: its yardstick, its predictions, and that every result runs and draws."""

import importlib
import pkgutil

import jax.numpy as jnp
import langevin_lab.experiments
import numpy as np
import pytest
from langevin_lab.experiments import adaptive_bias

from langevin.audit import bins
from langevin.core.target import Density

NAMES = [
    m.name
    for m in pkgutil.iter_modules(langevin_lab.experiments.__path__)
    if m.name != "demo" and not m.name.startswith("_")
]


def test_bins_hold_every_number_once():
    x = np.array([-5.0, -4.0, -3.95, 0.0, 0.0999, 3.9999, 4.0, 7.0, np.nan])
    counted = bins.counts(x)
    assert counted.sum() == 9
    assert counted[[0, 1, 41, 80, 81]].tolist() == [1, 2, 2, 1, 3]


def test_total_variation_of_exact_draws_is_noise():
    x = np.random.default_rng(0).normal(size=100_000)
    expected = np.sqrt(bins.NORMAL / (2 * np.pi * x.size)).sum()
    assert bins.tv(bins.counts(x), bins.NORMAL) == pytest.approx(expected, rel=0.25)
    assert bins.tv(bins.NORMAL, bins.NORMAL) == 0.0
    assert bins.shares(Density(adaptive_bias.normal)) == pytest.approx(bins.NORMAL, abs=2e-6)


@pytest.mark.parametrize(
    ("name", "tv"),
    [("psgld", 0.2688), ("psgld_lambda1", 0.1342), ("monge", 0.2420), ("shampoo", 0.2919), ("adam_sgld", 0.2031)],
)
def test_the_laws_without_gamma_are_those_derived(name, tv):
    """p/D on N(0, 1) for each published sampler, to the digits of the derivation (bins take some off)."""
    kernel, shape = adaptive_bias.samplers()[name]
    claimed = bins.shares(kernel.law().density(Density(adaptive_bias.normal)), shape)
    assert bins.tv(claimed, bins.NORMAL) == pytest.approx(tv, abs=8e-4)


def test_corrected_samplers_claim_the_target():
    chosen = adaptive_bias.samplers()
    for name in ("psgld", "psgld_lambda1", "monge", "shampoo"):
        assert chosen[f"{name}_corrected"][0].law().kind == "order"
        assert chosen[name][0].law().kind == "wrong"


def test_a_short_run_sees_the_bias():
    """10⁵ steps are ten relaxation times: enough to tell p/D from p, and PEC from neither."""
    kernel, shape = adaptive_bias.samplers()["psgld"]
    counted, variance = adaptive_bias.histogram(0, kernel, shape, 10**5)
    assert counted.sum() == 64 * 1000
    assert 1.5 < variance < 2.4
    assert bins.tv(counted, bins.NORMAL) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_result_runs_and_draws(name, tmp_path):
    result = importlib.import_module(f"langevin_lab.experiments.{name}").run("quick", 0)
    body = result.as_dict()
    assert body["name"] == name.replace("_", "-")
    assert body["figures"]
    assert all(isinstance(v, float) and jnp.isfinite(v) for v in body["figures"].values())
    result.drawing(str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 10_000
