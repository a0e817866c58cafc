"""R̂, ESS and the diagnosis: against ArviZ, against an AR(1) of known autocorrelation time, and in words."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from langevin.diagnostics import convergence
from langevin.diagnostics.convergence import diagnose, ess, mcse, rhat


def ar1(shape, rho, seed=0):
    """Stationary AR(1) chains of unit variance along axis 1; `rho` broadcasts with the other axes."""
    rng = np.random.default_rng(seed)
    noise = np.moveaxis(rng.standard_normal(shape), 1, 0)
    x = np.empty_like(noise)
    x[0] = noise[0]
    for t in range(1, shape[1]):
        x[t] = rho * x[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    return np.moveaxis(x, 0, 1)


def info(chains, draws, **fields):
    default = {
        "log_density": 0.0,
        "log_weight": 0.0,
        "acceptance": 1.0,
        "energy_error": 0.0,
        "n_grad": 2,
        "n_data": 64,
        "ok": True,
    }
    return SimpleNamespace(**{k: np.broadcast_to(fields.get(k, v), (chains, draws)) for k, v in default.items()})


@pytest.fixture(scope="module")
def az():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


RHOS = np.array([[-0.7, 0.0, 0.3], [0.9, 0.97, 0.5]])
CASES = {
    "even": ar1((4, 500, 2, 3), RHOS),
    "odd": ar1((3, 501, 2, 3), RHOS, seed=1),
    "shifted": ar1((4, 200, 2, 3), RHOS, seed=2) + np.arange(4.0)[:, None, None, None],
    "far apart": ar1((2, 60, 2, 3), RHOS, seed=2) + 1000 * np.arange(2.0)[:, None, None, None],
    "far apart, odd halves": ar1((2, 62, 2, 3), RHOS, seed=2) + 1000 * np.arange(2.0)[:, None, None, None],
    "unequal scales": ar1((4, 200, 2, 3), RHOS, seed=3) * np.arange(1.0, 5.0)[:, None, None, None],
    "short": ar1((2, 10, 2, 3), RHOS, seed=4),
    "shortest": ar1((2, 4, 2, 3), RHOS, seed=5),
    "ties": np.round(ar1((4, 300, 2, 3), RHOS, seed=6)),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_arviz(az, case):
    x = CASES[case]

    def each(fn, **kwargs):
        return np.array([[fn(x[:, :, i, j], **kwargs) for j in range(3)] for i in range(2)])

    np.testing.assert_allclose(rhat(x), each(az.rhat, method="rank"), rtol=1e-6)
    for kind in ("bulk", "tail", "mean"):
        np.testing.assert_allclose(
            ess(x, kind),
            each(az.ess, method=kind, **({"prob": (0.05, 0.95)} if kind == "tail" else {})),
            rtol=1e-6,
            err_msg=kind,
        )
    np.testing.assert_allclose(mcse(x), each(az.mcse, method="mean"), rtol=1e-6)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_ess_of_an_ar1(rho):
    # ESS = MN(1−ρ)/(1+ρ). Cutting the sum at the first negative pair biases τ̂ by 1-2 %; 40 replicates see 5 %
    values = ess(ar1((4, 2000, 40), rho, seed=7), "mean")
    z = (values.mean() - 8000 * (1 - rho) / (1 + rho)) / (values.std(ddof=1) / np.sqrt(40))
    assert abs(z) < 5


def test_mcse_covers_the_mean():
    # means divided by their own standard errors are standard normal: their mean square is 1 ± √(2/400)
    x = ar1((4, 1000, 400), 0.8, seed=8)
    square = (x.mean(axis=(0, 1)) / mcse(x)) ** 2
    assert abs((square.mean() - 1) / np.sqrt(2 / 400)) < 5


def test_blocks_change_nothing(monkeypatch):
    x = ar1((2, 50, 7), 0.5)
    whole = rhat(x), ess(x), ess(x, "tail"), mcse(x)
    monkeypatch.setattr(convergence, "BLOCK", 250)
    np.testing.assert_array_equal(whole, (rhat(x), ess(x), ess(x, "tail"), mcse(x)))


def test_degenerate_draws():
    x = np.zeros((2, 10, 4))
    x[1, :, 1] = 1.0  # two chains standing still apart
    x[:, :, 2] = 0.1
    x[0, 3, 3] = np.nan
    assert rhat(x)[1] > 1e6
    assert np.isnan(rhat(x)[[0, 2, 3]]).all()
    assert np.isnan(ess(x)[[0, 2, 3]]).all()
    assert rhat(np.zeros((2, 10, 0))).shape == (0,)
    with pytest.raises(ValueError, match=r"shape \(10,\).*x\[None\]"):
        rhat(np.zeros(10))
    with pytest.raises(ValueError, match="no kind 'median'"):
        ess(x, "median")


def test_findings_carry_codes_and_numbers():
    good = ar1((4, 1000, 2), 0.2, seed=13)
    apart = good + np.array([0, 0, 0, 1.0])[:, None, None]
    found, _ = diagnose({"log_density": good[..., 0], "predictions": apart}, info(4, 1000)).findings
    assert (found.code, found.level, found.names, found.limit) == ("rhat", "care", ("predictions",), 1.01)
    assert found.value == rhat(apart).max()
    slow = diagnose({"slow": ar1((4, 1000), 0.9, seed=14)}, info(4, 1000)).findings
    assert {f.code: f.limit for f in slow}["ess_bulk"] == 400
    codes = lambda x, **fields: [f.code for f in diagnose({"x": x}, info(*x.shape[:2], **fields)).findings]
    assert codes(good[:1]) == ["one_chain"]
    assert codes(good[:, :3]) == ["too_few_draws"]
    assert codes(good, acceptance=0.1) == codes(good, acceptance=0.995) == ["acceptance"]
    stuck = good.copy()
    stuck[2] = 0.3
    (found,) = [f for f in diagnose({"x": stuck}).findings if f.code == "never_moved"]
    assert (found.chains, found.names) == ((2,), ("x",))


def test_a_diagnosis_prints_no_arrays():
    x = ar1((4, 1000, 3), 0.2, seed=9)
    text = repr(diagnose({"predictions": x}, info(4, 1000)))
    assert "array" not in text
    assert text.startswith("Diagnosis(predictions: R-hat 1.00")
    assert text.endswith("findings: none)")


def test_good_chains_raise_no_warning():
    x = ar1((4, 1000, 3), 0.2, seed=9)
    found = diagnose({"predictions": x, "predictions²": x**2}, info(4, 1000))
    assert found.warnings == ()
    assert found.divergent == ()
    assert found.n_grad == 2 * 4 * 1000
    np.testing.assert_array_equal(found.rhat["predictions"], rhat(x))
    assert found.ess_per_grad["predictions"] == found.ess_bulk["predictions"].min() / 8000


def test_diverged_chains_are_named_and_left_out():
    x = ar1((5, 1000, 3), 0.2, seed=10)
    ok = np.ones((5, 1000), bool)
    ok[1, 400:] = False
    x[1, 400:] = 1e30
    x[3, 999, 0] = np.nan  # not flagged, but not finite either
    found = diagnose({"predictions": x}, info(5, 1000, ok=ok))
    assert found.divergent == (1, 3)
    np.testing.assert_array_equal(found.rhat["predictions"], rhat(x[[0, 2, 4]]))
    assert len(found.warnings) == 1
    assert "2 of 5 chains diverged and are left out (number 1, 3" in found.warnings[0]
    nothing = diagnose({"predictions": x}, info(5, 1000, ok=False))
    assert nothing.rhat == {}
    assert "0 chains" in nothing.warnings[-1]


def test_exploration_and_hot_replicas_are_set_aside():
    x = ar1((5, 2000, 2), 0.2, seed=11)
    log_weight = np.zeros((5, 2000))
    log_weight[:, np.arange(2000) % 100 < 50] = -np.inf
    log_weight[4] = -np.inf
    x[:, np.arange(2000) % 100 < 50] += 100
    x[0, 0] = np.inf
    x[4] = np.nan
    found = diagnose({"predictions": x}, info(5, 2000, log_weight=log_weight))
    np.testing.assert_array_equal(found.rhat["predictions"], rhat(x[:4, np.arange(2000) % 100 >= 50]))
    assert found.divergent == ()
    assert found.warnings == ()


def test_unequal_weights_are_told():
    x = ar1((4, 1000), 0.2, seed=12)
    log_weight = np.where(np.arange(1000) % 2, 0.0, np.log(3.0))
    found = diagnose({"predictions": x}, info(4, 1000, log_weight=log_weight))
    assert "4000 draws worth 3200" in found.warnings[0]  # Kish: (Σw)²/Σw² = 16/20 of them
    partly = np.zeros((4, 1000))
    partly[0, :500] = -np.inf
    assert "4000 draws worth 3500" in diagnose({"p": x}, info(4, 1000, log_weight=partly)).warnings[0]


def words(quantities, **fields):
    first = next(iter(quantities.values()))
    return " | ".join(diagnose(quantities, info(*first.shape[:2], **fields)).warnings)


def test_warnings_in_words():
    good = ar1((4, 1000, 2), 0.2, seed=13)
    apart = good + np.array([0, 0, 0, 1.0])[:, None, None]
    said = words({"log_density": good[..., 0], "predictions": apart})
    assert "R-hat of predictions is above 1.01 (worst 1." in said
    assert "log_density" not in said
    said = words({"slow": ar1((4, 1000), 0.9, seed=14)})  # 4000 · 0.1/1.9 = 210 in all, 53 for each chain
    assert "Bulk ESS of slow is below 100 for each chain" in said
    assert "R-hat compares its two halves only" in words({"x": good[:1]})

    stuck = good.copy()
    stuck[2] = 0.3
    assert "1 chains never moved (number 2," in words({"x": stuck})
    some_constant = good.copy()
    some_constant[..., 0] = 1.0  # one entry that is constant everywhere, as a saturated probability may be
    assert words({"x": some_constant}) == ""

    assert "Mean acceptance is 0.100" in words({"x": good}, acceptance=0.1)
    assert "raise the step size" in words({"x": good}, acceptance=0.995)
    assert words({"x": good}, acceptance=0.8) == ""


def test_weights_of_a_network_need_not_mix():
    good = ar1((4, 1000, 2), 0.2, seed=15)
    apart = good + np.arange(4.0)[:, None, None]
    said = words({"weights": apart, "predictions": good})
    assert "need not mix" in said
    assert "above 1.01" not in said
    said = words({"weights": apart, "predictions": apart})
    assert "need not mix" not in said
    assert "R-hat of predictions, weights is above 1.01" in said


def test_shapes_that_do_not_match():
    x = np.zeros((2, 10))
    with pytest.raises(ValueError, match=r"need one \(chain, draw\) shape"):
        diagnose({"a": x, "b": x[:, 1:]})
    with pytest.raises(ValueError, match="need one"):
        diagnose({})
    with pytest.raises(ValueError, match="from one run"):
        diagnose({"a": x}, info(2, 11))
