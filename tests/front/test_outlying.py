"""Chains that stand out are named, and chains that are exchangeable are not."""

import numpy as np
import pytest
from scipy.stats import binom

from langevin.core.types import Info
from langevin.diagnostics.convergence import diagnose
from langevin.diagnostics.findings import sentence
from langevin.diagnostics.outlying import find_outlying

RATE = 0.01  # of runs in which exchangeable chains are called outlying, for each quantity


def exchangeable(rng, chains, draws, entries, between):
    """Chains with offsets of one law (modes), and autocorrelated draws around them."""
    noise = rng.normal(size=(chains, draws, entries))
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0]
    for i in range(1, draws):
        x[:, i] = 0.8 * x[:, i - 1] + 0.6 * noise[:, i]
    return x + between * rng.normal(size=(chains, 1, entries))


@pytest.mark.parametrize("chains", [4, 8, 16])
@pytest.mark.parametrize("between", [0.0, 2.0])
def test_exchangeable_chains_are_seldom_called_outlying(chains, between):
    """1 run in 100 or fewer, for each quantity: 300 runs, and as many alarms as that makes likely."""
    rng, runs, alarms = np.random.default_rng(chains), 300, {"log density": 0, "predictions": 0}
    for _ in range(runs):
        kept = {
            "log density": exchangeable(rng, chains, 50, 1, between)[..., 0],
            "predictions": exchangeable(rng, chains, 50, 20, between),
        }
        for found in find_outlying(kept, np.arange(chains), None):
            alarms[found.names[0]] += 1
    for name, count in alarms.items():
        assert count <= binom.ppf(1 - 1e-4, runs, RATE), f"{name}: {count} of {runs}"


@pytest.mark.parametrize("chains", [4, 8])
def test_a_chain_far_from_the_others_is_named(chains):
    rng = np.random.default_rng(0)
    x, density = exchangeable(rng, chains, 200, 20, 0.1), exchangeable(rng, chains, 200, 1, 0.1)[..., 0]
    x[2] += 30 * rng.choice([-1, 1], size=20)
    density[1] -= 40
    found = {f.names[0]: f for f in find_outlying(dict(predictions=x, density=density), np.arange(chains), None)}
    assert {name: f.chains for name, f in found.items()} == {"predictions": (2,), "density": (1,)}
    said = sentence(found["predictions"])
    assert said.startswith(f"Chain 2 (of {chains}, counted from 0) lies far from the others in predictions")


def test_the_energy_error_of_the_review_is_mentioned():
    """3,400 in one chain where the mean of all is 679 went unmentioned."""
    rng = np.random.default_rng(0)
    others = (8 * 679 - 3400) / 7
    size = np.full(8, others)
    size[5] = 3400
    error = rng.normal(size=(8, 100))
    error *= np.sqrt(size / np.mean(error**2, axis=1))[:, None]
    zero = np.zeros((8, 100))
    info = Info(zero, zero, zero + 1, error, zero, zero, np.ones((8, 100), bool))
    found = [f for f in diagnose({"predictions": rng.normal(size=(8, 100, 5))}, info).findings if f.names]
    assert [(f.code, f.names, f.chains) for f in found if f.code == "outlying_chain"] == [
        ("outlying_chain", ("energy error",), (5,))
    ]
    assert (
        "Chain 5 (of 8, counted from 0) has a mean squared energy error of 3,400, where that of the middle"
        in " ".join(map(sentence, found))
    )


def test_chains_that_diverged_are_left_out_and_numbers_stay():
    rng = np.random.default_rng(0)
    x = exchangeable(rng, 8, 100, 10, 0.0)
    x[0] = np.nan
    x[6] += 50
    found = [f for f in diagnose({"predictions": x}).findings if f.code == "outlying_chain"]
    assert [f.chains for f in found] == [(6,)]


def test_small_energy_errors_few_chains_and_weights_are_not_judged():
    error = np.full((8, 10), 1e-3)
    error[3] = 0.1
    assert find_outlying({}, np.arange(8), error) == []
    rng = np.random.default_rng(0)
    x = exchangeable(rng, 8, 50, 3, 0.0)
    x[0] += 100
    assert find_outlying({"weights": x}, np.arange(8), None) == []
    assert find_outlying({"predictions": x[:3]}, np.arange(3), None) == []
