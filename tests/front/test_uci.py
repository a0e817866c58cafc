"""The table of `reproduce smile-uci`: its scores are those of the library, its bars those asked for, its rows whole."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import smile_uci

from langevin.core.record import as_record
from langevin.diagnostics import calibration


def said(position, x):
    return {"mean": x[:, 0] * position["slope"], "std": jnp.full(len(x), 1.0) * position["std"]}


def mixture(rng, draws):
    return {
        "slope": rng.normal(1.0, 0.3, draws).astype(np.float32),
        "std": rng.uniform(0.2, 0.4, draws).astype(np.float32),
    }


def test_scores_of_pooled_draws_are_those_of_the_mixture():
    """And a draw without weight may be NaN."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 1)).astype(np.float32)
    y = (x[:, 0] + 0.5 * rng.standard_normal(50)).astype(np.float32)
    pooled = mixture(rng, 7)
    mean, std = x[:, 0] * pooled["slope"][:, None], np.repeat(pooled["std"][:, None], 50, 1)
    dead = {k: np.append(v, np.nan).astype(np.float32) for k, v in pooled.items()}
    found = smile_uci.judged(as_record(said), dead, np.append(np.full(7, 0.3), 0.0), x, y)
    np.testing.assert_allclose(found["lppd"], -calibration.nll_gaussian(y, mean, std), rtol=1e-5)
    np.testing.assert_allclose(found["rmse"], calibration.rmse(y, mean), rtol=1e-5)
    lower, upper = calibration.intervals(mean, std, [0.9])
    covered = calibration.coverage(y, lower, upper)[0]
    assert 0.5 < covered < 0.9, "wrong enough that another level would show"
    assert float(found["coverage90"]) == pytest.approx(covered)


def row(data, method, lppd, passes):
    return dict(data=data, method=method, lppd=lppd, data_passes=passes)


def test_figures_name_the_least_gain_over_tables():
    rows = []
    for data, gain in (("a", 0.1), ("b", -0.02)):
        rows += [row(data, m, 1.0, 100.0) for m in ("deep ensemble", "mile", "psmile, published")]
        rows += [row(data, m, 1.0 + gain, 20.0) for m in ("ours", "ours, all data")]
    figures = smile_uci._figures(rows)
    assert figures["better_than_psmile_ours"] == 0.5
    assert figures["least_over_mile_ours_all_data"] == pytest.approx(-0.02)
    assert figures["most_passes_over_mile_ours"] == pytest.approx(0.2)
    assert set(smile_uci._bars(rows)) <= set(figures)


@pytest.mark.slow
def test_a_quick_run_has_a_row_for_every_method(tmp_path):
    result = smile_uci.run("quick", 0, data="diabetes")
    assert [r["method"] for r in result.table] == ["deep ensemble", *smile_uci.methods()]
    assert all(np.isfinite(r["lppd"]) for r in result.table)
    passes = {r["method"]: r["data_passes"] for r in result.table}
    whole = partial(pytest.approx, rel=0.15)
    assert passes["mile"] == whole(600)
    assert passes["sgld"] == whole(passes["psmile, published"])
    assert passes["ours"] <= 0.26 * passes["mile"]
    file = tmp_path / "a.png"
    result.drawing(str(file))
    assert file.stat().st_size > 10_000
