r"""What gradient noise does to motion at constant speed, predicted and measured, and what whitening makes of it.

N(0, I) in d = 100, its gradients seen through noise of covariance V (`targets.noisy`); T is the variance of a
coordinate, which is its temperature. Four predictions of `samplers.smile`:

    a) noise that is not isotropic: T_i = V_i/mean V, and 1 once V is whitened, here with V estimated by `tune.whiten`;
    b) kicks of size δ = ε√(tr V)/(d − 1) heat: T = (δ/2) coth(δ/2), and 1 when they are cooled;
    c) direction is forgotten over L_noise = 2(d − 1)/(ε tr V/d): E[u·u'] = exp(−ε/L_noise) after one step;
    d) correlated noise: a diagonal does not see the directions it is strong in, a low rank does.

(c) is for small δ, where it holds to O(δ⁴) once kicks are cooled, and for noise that outweighs the force itself, which
turns u by a share 1/mean V more; here δ ≤ 0.3 and mean V ≥ 100. T_i = V_i/mean V supposes that no direction holds much
of tr V: in (d), where one holds 0.28 of it, it is off by up to a fifth.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result
from langevin.core.types import State
from langevin.samplers.smile import SMILE
from langevin.targets.noisy import Noisy
from langevin.targets.zoo import Gaussian
from langevin.tune.whiten import whiten

D, RANK, THIN = 100, 8, 10
ANISOTROPIC, KICK = 30.0, 0.5  # mean V, and δ where nothing tunes it
HEATING, HEAT = 100.0, (0.25, 0.5, 1.0, 1.5)
FORGETTING = ((100.0, 0.1), (100.0, 0.2), (100.0, 0.3), (1000.0, 0.15), (1000.0, 0.2), (1000.0, 0.3))
TOP, WEIGHTS = 28.0, np.array([1.0, 0.7, 0.5, 0.3, 0.2])  # the strongest spike ÷ mean V, and all against it

BARS = {
    "slope_naive": "1 ± 0.1",
    "slope_whitened": "0 ± 0.1",
    "heating_error": "≤ 0.01",
    "cooled_error": "≤ 0.01",
    "l_noise_error": "≤ 0.03",
    "spike_naive": "> 2",
    "spike_diagonal": "> 2",
    "spike_whitened": "1 ± 0.1",
}


def velocity(state: State):
    return state.aux


def kick_of(delta: float, total: float) -> float:
    """ε of kicks of size δ by noise of that trace."""
    return float(delta * (D - 1) / np.sqrt(total))


def heated(delta):
    """T(δ)."""
    return delta / 2 / np.tanh(delta / 2)


def anisotropic() -> np.ndarray:
    """Variances, log-uniform over a factor of ten."""
    v = np.exp(np.linspace(0, np.log(10), D))
    return ANISOTROPIC * v / v.mean()


def spiked() -> tuple[np.ndarray, float, np.ndarray]:
    """Directions, the variance of every coordinate, and what is added along the directions: the top TOP × mean V."""
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((D, WEIGHTS.size)))[0]
    # (1 + s)/(1 + s Σw/d) = TOP, and the mean is that of the other panel
    s = (TOP - 1) / (1 - TOP * WEIGHTS.sum() / D)
    base = ANISOTROPIC / (1 + s * WEIGHTS.sum() / D)
    return W, base, base * s * WEIGHTS


def seen_through(variance, spikes=0.0, W=None) -> Noisy:
    """The target; noise without spikes has them at zero, so that both share their compiled programs."""
    f32 = lambda u, size: jnp.asarray(np.broadcast_to(u, size), jnp.float32)
    W = np.eye(D, WEIGHTS.size) if W is None else W
    exact = Gaussian(np.zeros(D), np.ones(D))
    return Noisy(exact, f32(np.sqrt(variance), D), f32(W, W.shape), f32(np.sqrt(spikes), WEIGHTS.size))


def begun(key, kernel, target, chains: int) -> State:
    k_start, k_init = jax.random.split(key)
    return begin_all(k_init, kernel, target, target.target.exact(k_start, chains))


def temperatures(key, kernel, target, states, steps: int, along=None, thin: int = THIN) -> np.ndarray:
    """Of every coordinate, or along the columns of a matrix: a mean for each chain, its first fifth left out."""
    draws = steps // thin
    x = np.asarray(advance(key, kernel, target, states, length=draws, thin=thin).kept[:, draws // 5 :])
    return np.asarray(np.mean((x if along is None else x @ along) ** 2, axis=1, dtype=np.float64))


def averaged(each: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over chains and its standard error."""
    return each.mean(0), each.std(0, ddof=1) / np.sqrt(len(each))


def plain(key, kernel, target, chains: int, steps: int, along=None):
    k_begin, k_run = jax.random.split(key)
    return temperatures(k_run, kernel, target, begun(k_begin, kernel, target, chains), steps, along)


def whitened(key, target, rank: int, chains: int, tuning: int, steps: int, along=None, thin: int = THIN):
    """The same with scale, noise and step size found by `whiten`, and then frozen."""
    k_begin, k_tune, k_run = jax.random.split(key, 3)
    kernel = SMILE(0.1)
    states = begun(k_begin, kernel, target, chains)
    how = dict(steps=tuning, rank=rank, share=1 / ANISOTROPIC, prior=0.0)
    tuned, states = whiten(k_tune, kernel, target, states, **how)
    return temperatures(k_run, tuned, target, states, steps, along, thin)


def sloped(each: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """The slope of T on x, and its standard error over chains."""
    mean, error = averaged(np.polyfit(x, each.T, 1)[0])
    return float(mean), float(error)


def forgotten(key, target, step: float, chains: int, steps: int) -> tuple[float, float]:
    """L = −ε/log E[u·u'] and its standard error."""
    kernel = SMILE(step, length=jnp.inf)
    k_begin, k_run = jax.random.split(key)
    states = begun(k_begin, kernel, target, chains)
    u = advance(k_run, kernel, target, states, length=steps, collect=velocity).kept[:, steps // 5 :]
    mean, error = averaged(1 - np.asarray(jnp.sum(u[:, 1:] * u[:, :-1], axis=2), np.float64).mean(1))
    L = -step / np.log1p(-mean)
    return float(L), float(L * error / mean)


def run(size: str, seed: int) -> Result:
    chains, steps, tuning = {"quick": (16, 1000, 1000), "cpu": (64, 12_000, 4000), "gpu": (512, 20_000, 8000)}[size]
    k_naive, k_white, k_heat, k_length, k_spikes = jax.random.split(noise.key(seed, impl="hash"), 5)
    table: list[dict] = []

    v = anisotropic()
    target, step = seen_through(v), kick_of(KICK, v.sum())
    naive = plain(k_naive, SMILE(step, length=jnp.inf), target, chains, steps)
    white = whitened(k_white, target, RANK, chains, tuning, steps)
    for name, each in (("naive", naive), ("whitened", white)):
        slope, error = sloped(each, v / v.mean())
        table.append(dict(panel="a", setting=name, predicted=float(name == "naive"), measured=slope, stderr=error))

    for i, delta in enumerate(HEAT):
        target, step = seen_through(HEATING), kick_of(delta, HEATING * D)
        for cool in (False, True):
            kernel = SMILE(step, length=jnp.inf, cool=cool)
            each = plain(jax.random.fold_in(k_heat, 2 * i + cool), kernel, target, chains, steps)
            mean, stderr = averaged(each.mean(1))
            name = "cooled" if cool else "as it is"
            predicted = 1.0 if cool else float(heated(delta))
            row = dict(panel="b", setting=name, delta=delta, predicted=predicted)
            table.append(row | dict(measured=float(mean), stderr=float(stderr)))

    for i, (r, delta) in enumerate(FORGETTING):
        target, step = seen_through(r), kick_of(delta, r * D)
        L, error = forgotten(jax.random.fold_in(k_length, i), target, step, chains, max(steps // 10, 200))
        row = dict(panel="c", setting=f"mean V = {r:g}", delta=delta, predicted=2 * (D - 1) / (step * r))
        table.append(row | dict(measured=L, stderr=error))

    W, base, spikes = spiked()
    target, step = seen_through(base, spikes, W), kick_of(KICK, ANISOTROPIC * D)
    k_plain, k_one, k_low = jax.random.split(k_spikes, 3)
    # Λ² is small along a spike, and so is the pace
    found = {
        "naive": plain(k_plain, SMILE(step, length=jnp.inf), target, chains, steps, W),
        "diagonal": whitened(k_one, target, 1, chains, tuning, steps, W),
        "whitened": whitened(k_low, target, RANK, chains, tuning, 4 * steps, W, 4 * THIN),
    }
    for name, each in found.items():
        for i, (mean, error) in enumerate(zip(*averaged(each), strict=True)):
            predicted = float((base + spikes[i]) / ANISOTROPIC) if name == "naive" else 1.0
            row = dict(panel="d", setting=name, spike=i + 1, predicted=predicted)
            table.append(row | dict(measured=float(mean), stderr=float(error)))

    result = Result("smile-gaussian", figures_of(table), table, BARS)
    result.drawing = partial(draw, table, v / v.mean(), averaged(naive), averaged(white))
    return result


def figures_of(table: list[dict]) -> dict[str, float]:
    chosen = lambda panel, setting=None: [r for r in table if r["panel"] == panel and setting in (None, r["setting"])]
    worst = lambda rows: max(abs(r["measured"] / r["predicted"] - 1) for r in rows)
    # the spike that is furthest from 1
    spike = lambda name: max((r["measured"] for r in chosen("d", name)), key=lambda t: abs(np.log(t)))
    return {
        "slope_naive": chosen("a", "naive")[0]["measured"],
        "slope_whitened": chosen("a", "whitened")[0]["measured"],
        "heating_error": worst(chosen("b", "as it is")),
        "cooled_error": worst(chosen("b", "cooled")),
        "l_noise_error": worst(chosen("c")),
        "spike_naive": spike("naive"),
        "spike_diagonal": spike("diagonal"),
        "spike_whitened": spike("whitened"),
    }


def draw(table, noise_share, naive, white, path: str) -> None:
    """Theory as lines, measurement as points with two standard errors."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    ink, red, blue, amber, grey = "#22303c", "#c8553d", "#2a6f97", "#e09f3e", "0.55"
    chosen = lambda panel, setting=None: [r for r in table if r["panel"] == panel and setting in (None, r["setting"])]
    columns = lambda rows, *names: (np.array([r[n] for r in rows]) for n in names)
    line = dict(color=ink, lw=1.2, zorder=1)
    dots = dict(fmt="o", elinewidth=1, capsize=0, zorder=3)
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    a, b, c, d = axes.ravel()

    ends = np.array([0.15, 2.7])
    a.plot(ends, ends, **line)
    a.plot(ends, [1, 1], **line, ls="--")
    for (mean, error), colour, name in ((naive, red, "naive"), (white, blue, "whitened")):
        slope = round(chosen("a", name)[0]["measured"], 2) + 0.0
        a.errorbar(noise_share, mean, 2 * error, color=colour, ms=3.5, label=f"{name}: slope {slope:.2f}", **dots)
    a.set(title="a   Anisotropic noise", xlabel="noise of the coordinate, $V_i$ / mean $V$", ylabel="temperature $T_i$")
    a.legend(frameon=False, loc="upper left")

    delta = np.linspace(0.02, 1.65, 100)
    b.plot(delta, heated(delta), **line)
    b.plot(delta, np.ones(100), **line, ls="--")
    for name, colour in (("as it is", red), ("cooled", blue)):
        x, y, error = columns(chosen("b", name), "delta", "measured", "stderr")
        b.errorbar(x, y, 2 * error, color=colour, ms=6, label=name, **dots)
    b.annotate(r"$\frac{\delta}{2}\,\coth\frac{\delta}{2}$", (1.2, heated(1.2)), xytext=(-14, 14),
               textcoords="offset points", ha="right", fontsize=13, color=ink)  # fmt: skip
    b.set(title="b   Heating by finite kicks", xlabel=r"size of a kick, $\delta$", ylabel="temperature")
    b.legend(frameon=False, loc="upper left")

    rows = chosen("c")
    lengths = [r["predicted"] for r in rows]
    ends = np.array([min(lengths) / 1.3, max(lengths) * 1.3])
    c.plot(ends, ends, **line)
    for name, colour in zip(dict.fromkeys(r["setting"] for r in rows), (blue, amber), strict=True):
        x, y, error = columns(chosen("c", name), "predicted", "measured", "stderr")
        c.errorbar(x, y, 2 * error, color=colour, ms=6, label=name.replace("V", "$V$"), **dots)
    c.set(xscale="log", yscale="log", title="c   Direction is forgotten by noise alone",
          xlabel=r"$L_{\mathrm{noise}}$ predicted", ylabel=r"$-\varepsilon\,/\,\log E[u\cdot u']$")  # fmt: skip
    c.set_xticks([2, 5, 10, 20], ["2", "5", "10", "20"])
    c.set_yticks([2, 5, 10, 20], ["2", "5", "10", "20"])
    c.minorticks_off()
    c.legend(frameon=False, loc="upper left")

    d.axhline(1.0, **line, ls="--")
    names = (("naive", red, "naive"), ("diagonal", amber, "rank 1"), ("whitened", blue, f"rank {RANK}"))
    for i, (name, colour, label) in enumerate(names):
        x, y, error, predicted = columns(chosen("d", name), "spike", "measured", "stderr", "predicted")
        if name == "naive":
            d.hlines(predicted, x - 0.3, x + 0.3, color=grey, lw=1.5, label="$V$ / mean $V$", zorder=1)
        d.errorbar(x + 0.18 * (i - 1), y, 2 * error, color=colour, ms=6, label=label, **dots)
    d.set(yscale="log", title="d   Correlated noise", xlabel="direction of strong noise", ylabel="temperature along it")
    d.set_xticks(range(1, WEIGHTS.size + 1))
    d.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    d.minorticks_off()
    d.legend(frameon=False, ncols=2, loc="upper right")
    for axis in axes.ravel():
        axis.title.set_horizontalalignment("left")
        axis.title.set_x(0.0)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
