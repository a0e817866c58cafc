"""Is a chain unlike the others?

Chains from one target are exchangeable: none should stand out. Of every quantity (chain, draw, …) the chain means x̄_c
are compared with their median over chains, in units of the standard deviation w within chains:

    d_c = √ mean_k ((x̄_ck − median_c x̄_ck) / w_k)²        over its entries k; with its sign where there is one entry.

A chain is outlying if d_c is above 1 in size, and lies more than z(m) robust standard deviations (1.4826 · median
absolute deviation) from the median of d over the m chains: z is 10 from 8 chains, 20 from 4; fewer are not judged. Of
exchangeable chains that are normal about 1 run in 100 or fewer is so called, for each quantity (a test measures it).

For the energy error, a chain is outlying if its mean square is above 0.1 and above 5 times the median over chains.
"""

import numpy as np

from langevin.diagnostics.findings import Finding

FEW, MANY = 4, 8  # chains from which, and from which on with the lower limit, they are judged
LIMITS = {FEW: 20.0, MANY: 10.0}  # robust standard deviations
ENERGY, HARMLESS = 5.0, 0.1  # times the median of the mean squared energy errors; below the second none matters


def find_outlying(kept: dict[str, np.ndarray], chains: np.ndarray, energy_error: np.ndarray | None) -> list[Finding]:
    """A finding for each quantity in which a chain stands out; weights of a network, which need not mix, are not asked.

    kept: quantities (chain, draw, …) of the chains numbered `chains`; energy_error: (chain, draw) of the same.
    """
    m = len(chains)
    if m < FEW:
        return []
    limit = LIMITS[MANY if m >= MANY else FEW]
    findings = []
    for name, x in kept.items():
        if name.startswith("weights"):
            continue
        distance = distances(x)
        far = np.abs(distance) > 1
        far &= np.abs(distance - np.median(distance)) > limit * _robust(distance)
        if far.any():
            worst = float(np.abs(distance[far]).max())
            details = dict(of=m, typical=float(np.median(np.abs(distance))), kind="distance")
            findings.append(Finding("outlying_chain", "care", (name,), _numbers(chains, far), worst, limit, details))
    return findings + _energy(energy_error, chains)


def distances(x: np.ndarray) -> np.ndarray:
    """How far each chain lies from the middle of all, in standard deviations within chains (d_c above)."""
    x = np.asarray(x, float).reshape(*x.shape[:2], -1)
    mean = x.mean(axis=1)
    within = np.sqrt(x.var(axis=1, ddof=1).mean(axis=0))
    off = mean - np.median(mean, axis=0)
    off = np.divide(off, within, out=np.zeros_like(off), where=within > 0)
    return off[:, 0] if off.shape[1] == 1 else np.sqrt(np.mean(off**2, axis=1))


def _energy(error: np.ndarray | None, chains: np.ndarray) -> list[Finding]:
    if error is None or not np.isfinite(error).all():
        return []
    square = np.mean(np.asarray(error, float) ** 2, axis=1)
    middle = float(np.median(square))
    far = (square > HARMLESS) & (square > ENERGY * middle)
    if not far.any():
        return []
    details = dict(of=len(chains), typical=middle, kind="energy")
    worst = float(square[far].max())
    return [Finding("outlying_chain", "care", ("energy error",), _numbers(chains, far), worst, ENERGY, details)]


def _robust(values: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _numbers(chains: np.ndarray, far: np.ndarray) -> tuple[int, ...]:
    return tuple(int(c) for c in np.asarray(chains)[far])
