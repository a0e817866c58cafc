"""Have the chains converged, and how many independent draws are they worth?

Draws are arrays (chain, draw, …); every trailing entry is a scalar quantity of its own. Each chain is split
in two halves, giving M chains of N draws x_nm, so that a drifting chain disagrees with itself.

R̂ compares the spread between chains with the spread within:
    B = N · Var_m(x̄_·m),   W = mean_m s²_m,   var⁺ = (N−1)/N · W + B/N,   R̂ = √(var⁺ / W).
It is taken of the rank-normalised draws z = Φ⁻¹((rank − 3/8) / (MN + 1/4)), and of the rank-normalised
|x − median| (folded: sees chains with one centre and unequal scales); `rhat` is the larger of the two.

The effective sample size is MN/τ̂ with
    ρ̂_t = 1 − (W − mean_m ĉ_tm) / var⁺,   P_j = ρ̂_2j + ρ̂_2j+1,
    τ̂ = −1 + 2 Σ_{j<J} min_{i≤j} P_i + ρ̂_2J,
ĉ_tm the autocovariances (by FFT) and J the first pair that is not positive (Geyer's monotone sequence).
"bulk" is the ESS of z, "mean" of x itself, "tail" the smaller of those of 1{x ≤ q₀.₀₅} and 1{x ≤ q₀.₉₅}.

R̂ near 1 for x says that chains agree on where they are: look at x and at x² (of predictions, of the log
density), since chains that have not spread out yet agree on the mean first.

References
    Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and localization: an
        improved R̂ for assessing convergence of MCMC. Bayesian Analysis 16(2), 667-718. Sections 3.1 (R̂),
        3.2 (ESS), 4.1 (ranks), 4.2 (folding), 4.3 (tail ESS).
    Geyer (1992). Practical Markov chain Monte Carlo. Statistical Science 7(4), 473-483. Section 3.3.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats import rankdata

from langevin.core import display
from langevin.core.moments import effective
from langevin.diagnostics.findings import Finding, sentence
from langevin.diagnostics.outlying import find_outlying

BLOCK = 2**21  # numbers worked on at a time: bounds memory when a quantity has very many entries
RHAT, ESS = 1.01, 100  # Vehtari et al. (2021): R̂ below the one, bulk ESS of every chain above the other
ACCEPTANCE = 0.15, 0.99  # mean acceptance below the one or above the other is told
SHOWN = 3  # quantities in the text of a diagnosis, those of the largest R̂
LEAST = 4  # draws that halves of a chain need to have a variance


def rhat(x) -> np.ndarray:
    """Rank-normalised split R̂ of draws (chain, draw, …), one for each trailing entry.

    NaN where draws are not finite or never change, huge or inf where chains stand still apart. With one
    chain its halves are compared with each other only.
    """
    return _blockwise(x, _rhat)


def ess(x, kind: str = "bulk") -> np.ndarray:
    """Effective sample size of draws (chain, draw, …) for each trailing entry; kind "bulk", "tail", "mean".

    NaN where draws are not finite or never change (as Stan says; ArviZ calls such draws independent).
    """
    kinds = {
        "bulk": lambda x: effective(_rank_normal(_halves(x))),
        "tail": lambda x: np.fmin(*(effective(_halves(x <= np.quantile(x, q, axis=(0, 1)))) for q in (0.05, 0.95))),
        "mean": lambda x: effective(_halves(x)),
    }
    if kind not in kinds:
        raise ValueError(f"ess has no kind {kind!r}: choose 'bulk', 'tail' or 'mean'.")
    return _blockwise(x, kinds[kind])


def mcse(x) -> np.ndarray:
    """Monte Carlo standard error of the mean of draws (chain, draw, …): sd(x) / √ESS_mean."""
    return _blockwise(x, lambda x: np.std(x, axis=(0, 1), ddof=1) / np.sqrt(effective(_halves(x))))


def _blockwise(x, statistic: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply `statistic`: (chain, draw, k) → (k,) to blocks of trailing entries."""
    x = np.asarray(x)
    if x.ndim < 2 or x.shape[0] < 1 or x.shape[1] < LEAST:
        raise ValueError(
            f"Draws have shape {x.shape}: (chain, draw, …) with at least {LEAST} draws is needed; "
            "for a single chain pass x[None]."
        )
    flat = x.reshape(*x.shape[:2], int(np.prod(x.shape[2:])))
    out = np.empty(flat.shape[2])
    width = max(1, BLOCK // (x.shape[0] * x.shape[1]))
    for start in range(0, flat.shape[2], width):
        block = flat[:, :, start : start + width].astype(float)
        finite = np.isfinite(block).all(axis=(0, 1))
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 of entries that never change
            value = statistic(np.where(finite, block, 0.0))
        out[start : start + width] = np.where(finite, value, np.nan)
    return out.reshape(x.shape[2:])


def _halves(x: np.ndarray) -> np.ndarray:
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]]).astype(float)


def _rank_normal(x: np.ndarray) -> np.ndarray:
    ranks = rankdata(x.reshape(-1, x.shape[2]), axis=0)
    return ndtri((ranks - 3 / 8) / (len(ranks) + 1 / 4)).reshape(x.shape)


def _rhat(x: np.ndarray) -> np.ndarray:
    def of(z):
        n = z.shape[1]
        within, between = z.var(axis=1, ddof=1).mean(axis=0), z.mean(axis=1).var(axis=0, ddof=1)
        return np.sqrt((n - 1) / n + between / within)

    x = _halves(x)
    return np.fmax(of(_rank_normal(x)), of(_rank_normal(np.abs(x - np.median(x, axis=(0, 1))))))


class Diagnosis(NamedTuple):
    """What the chains are worth, in numbers.

    rhat: name of a quantity → R̂ of each of its entries
    ess_bulk: name → effective draws for centres (mean, median)
    ess_tail: name → effective draws for the 5 % and 95 % quantiles
    n_grad: gradients that all chains took, their draws used or not; None when not recorded
    ess_per_grad: name → the worst entry's bulk ESS for one gradient
    divergent: chains left out because they diverged
    findings: what is wrong, by how much
    """

    rhat: dict[str, np.ndarray]
    ess_bulk: dict[str, np.ndarray]
    ess_tail: dict[str, np.ndarray]
    n_grad: int | None
    ess_per_grad: dict[str, float]
    divergent: tuple[int, ...]
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings in words: what is wrong, by how much, and what to do."""
        return tuple(map(sentence, self.findings))

    def __repr__(self) -> str:
        worst = sorted(self.rhat, key=lambda name: -np.nan_to_num(_worst(np.max, self.rhat[name])))
        row = lambda name: "{}: R-hat {}, bulk ESS {}, tail ESS {}".format(name[:40], *self._numbers(name))
        more = [f"{len(worst) - SHOWN} more"] if len(worst) > SHOWN else []
        codes = ", ".join(f.code for f in self.findings) or "none"
        return f"Diagnosis({'; '.join([*map(row, worst[:SHOWN]), *more, f'findings: {codes}'])})"

    def _repr_html_(self) -> str:
        rows = [(name, *self._numbers(name)) for name in self.rhat]
        return display.page("Diagnosis", "", rows, ("quantity", "R̂", "bulk ESS", "tail ESS"), self.warnings)

    def _numbers(self, name: str) -> tuple[str, str, str]:
        """R̂ and both ESS of the worst entry of a quantity."""
        bulk, tail = (_worst(np.min, found[name]) for found in (self.ess_bulk, self.ess_tail))
        return f"{_worst(np.max, self.rhat[name]):.3f}", f"{bulk:.0f}", f"{tail:.0f}"


def diagnose(quantities: Mapping[str, Any], info=None) -> Diagnosis:
    """Judge chains by named quantities (chain, draw, …): predictions, log density, weights, their squares.

    `info` is the run's `Info`, fields (chain, draw). Chains with any `ok` False, or with draws that are not
    finite, are left out and named. Chains never collected (`log_weight` −inf throughout: a hot replica) and
    draws collected in no chain (the exploration stage of a cycle) are set aside. Weights are not used
    otherwise: R̂ and ESS are of the plain draws.
    """
    if not isinstance(quantities, Mapping):
        kind = type(quantities).__name__
        raise TypeError(f"diagnose was given {kind}: pass named quantities (chain, draw, …), such as {{'x': draws}}.")
    arrays = {name: np.asarray(x) for name, x in quantities.items()}
    shapes = {name: x.shape[:2] for name, x in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) < 2 for shape in shapes.values()):
        raise ValueError(f"Quantities need one (chain, draw) shape but have {shapes}: pass draws unpooled.")

    chains, draws, divergent, findings = _collected(arrays, info)
    n_grad = None if info is None else int(np.sum(info.n_grad))
    if len(chains) == 0 or len(draws) < LEAST:
        few = Finding("too_few_draws", value=len(draws), limit=LEAST, details=dict(chains=len(chains)))
        return Diagnosis({}, {}, {}, n_grad, {}, divergent, (*findings, few))

    kept = {name: x[np.ix_(chains, draws)] for name, x in arrays.items()}
    rhats = {name: rhat(x) for name, x in kept.items()}
    bulk = {name: ess(x, "bulk") for name, x in kept.items()}
    tail = {name: ess(x, "tail") for name, x in kept.items()}
    per_grad = {name: _worst(np.min, value) / n_grad for name, value in bulk.items()} if n_grad else {}
    energy = None if info is None else np.asarray(info.energy_error)[np.ix_(chains, draws)]
    findings += _stuck(kept, chains) + _mixing(rhats, bulk, len(chains)) + find_outlying(kept, chains, energy)
    if info is not None:
        findings += _acceptance(np.asarray(info.acceptance)[np.ix_(chains, draws)])
    return Diagnosis(rhats, bulk, tail, n_grad, per_grad, divergent, tuple(findings))


def _collected(arrays, info) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], list[Finding]]:
    """The chains and draws to judge by, the chains that diverged, and what was found of them."""
    shape = next(iter(arrays.values())).shape[:2]
    log_weight = np.zeros(shape) if info is None else np.asarray(info.log_weight)
    ok = np.ones(shape, bool) if info is None else np.asarray(info.ok)
    if not log_weight.shape == ok.shape == shape:
        raise ValueError(f"Quantities are of shape {shape} but info of {ok.shape}: pass both from one run.")

    healthy, collected = ok.all(axis=1), (log_weight > -np.inf).any(axis=1)
    draws = np.flatnonzero((log_weight[healthy & collected] > -np.inf).any(axis=0))
    for x in arrays.values():
        healthy &= np.isfinite(x[:, draws]).reshape(shape[0], -1).all(axis=1) | ~collected
    divergent = tuple(int(c) for c in np.flatnonzero(~healthy))
    chains = np.flatnonzero(healthy & collected)

    findings = []
    if divergent:
        findings.append(
            Finding("diverged", chains=divergent, value=len(divergent), limit=0.0, details=dict(of=shape[0]))
        )
    weights = log_weight[np.ix_(chains, draws)]
    if weights.size and np.ptp(weights[weights > -np.inf]) + np.isneginf(weights).any() > 1e-6:
        size = np.exp(2 * logsumexp(weights) - logsumexp(2 * weights))
        findings.append(Finding("unequal_weights", value=float(size), details=dict(draws=weights.size)))
    return chains, draws, divergent, findings


def _mixing(rhats, bulk, n_chains: int) -> list[Finding]:
    findings = [Finding("one_chain", value=1, limit=2)] if n_chains == 1 else []
    worst = {name: _worst(np.max, value) for name, value in rhats.items()}
    least = {name: _worst(np.min, value) for name, value in bulk.items()}
    unmixed = {name for name in worst if worst[name] > RHAT}
    few = {name for name in least if least[name] < ESS * n_chains}

    predictions = {name for name in worst if name.startswith("predictions")}
    weights = {name for name in unmixed | few if name.startswith("weights")}
    if weights and predictions and not predictions & (unmixed | few):
        largest = {"predictions": max(worst[name] for name in predictions)}
        value = max(worst[name] for name in weights)
        findings.append(
            Finding("weights_unmixed", names=tuple(sorted(weights)), value=value, limit=RHAT, details=largest)
        )
        unmixed, few = unmixed - weights, few - weights
    if unmixed:
        name = max(sorted(unmixed), key=lambda name: worst[name])
        details = dict(worst=name)
        findings.append(Finding("rhat", "care", tuple(sorted(unmixed)), (), worst[name], RHAT, details))
    if few:
        name = min(sorted(few), key=lambda name: least[name])
        details = dict(worst=name, chains=n_chains)
        findings.append(Finding("ess_bulk", "care", tuple(sorted(few)), (), least[name], ESS * n_chains, details))
    return findings


def _stuck(kept, chains) -> list[Finding]:
    places: dict[tuple[int, ...], list[str]] = {}
    for name, x in kept.items():
        still = (x == x[:, :1]).reshape(len(chains), -1).all(axis=1)
        if still.any():
            places.setdefault(tuple(int(c) for c in chains[still]), []).append(name)
    return [Finding("never_moved", names=tuple(names), chains=stuck) for stuck, names in places.items()]


def _acceptance(acceptance: np.ndarray) -> list[Finding]:
    mean, (low, high) = float(acceptance.mean()), ACCEPTANCE
    if (acceptance == 1).all() or not (mean < low or mean > high):
        return []
    return [Finding("acceptance", value=mean, limit=low if mean < low else high)]


def _worst(reduce, values: np.ndarray) -> float:
    values = values[~np.isnan(values)]
    return float(reduce(values)) if values.size else float("nan")
