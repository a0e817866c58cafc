r"""Samplers for a small transformer that reads the Bible by characters, all from one deep ensemble.

The text is the King James Bible (`data.texts`), its first 90 % for training, then 5 % to choose by and 5 % to judge by.
An example is a window of T characters and the ones after each of them, and its log likelihood is the sum over places,

    l_i(θ) = Σ_t log p_θ(c_{t+1} | c_1 … c_t),

windows side by side, so that every character counts once. The prior is N(0, 1) on all weights: on 2,000 windows, at
the cpu size, the validation NLL of SMILE was 1.878 with it and 1.892 with N(0, 1/fan_in). Members, methods, budget and
choices are those of `smile-images`; "longer" trains the members on by AdamW with as many gradients as a sampler has,
for a net this size is not trained to the end and any further gradients may help it.

`nll` is that of the next character in nats, −log of the mean over draws of p(c_{t+1} | …), on windows half a window
apart of which the second half is scored: every character has at least T/2 before it. `accuracy` and `ece` (15 bins)
are of the same characters. The quick size reads scikit-learn's descriptions of its tables by a tiny net.

References
----------
Sommer, Robnik, Rügamer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise?
Radford, Wu, Child et al. (2019), Language models are unsupervised multitask learners.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import record, static
from langevin.core.result import Result
from langevin.data import texts
from langevin.nets.bnn import Network, NormalPrior, prior_scales
from langevin.nets.transformer import Transformer
from langevin.targets.bayes import Bayes
from langevin_lab.experiments._compared import Scale, Task, compared, means
from langevin_lab.experiments._compared_figure import draw

METHODS = ("longer", "smile", "psmile", "sghmc")
GRIDS = {"smile": (0.5, 0.1, 0.02), "psmile": (1e-2, 1e-3, 1e-4), "sghmc": (1e-3, 1e-4, 1e-5)}
SCALES = {
    "quick": Scale((200, 20, 20), chains=2, batch=16, draws=6, thin=12, ascent=200, ascent_batch=16, rate=1e-2, rank=8),
    "cpu": Scale((2_000, 100, 200), chains=2, batch=16, ascent=600, ascent_batch=16, rate=3e-3),
    "gpu": Scale((30_000, 1_000, 3_300), 1, 4, 64, draws=16, thin=80, ascent=6000, rate=2e-3),
}
NETS: dict[str, dict[str, int]] = {
    "quick": dict(context=32, width=32, depth=1, heads=2),
    "cpu": dict(context=64, width=64, depth=2, heads=4),
    "gpu": dict(context=128, width=128, depth=4, heads=4),
}


@record
class Following:
    """log p of the characters y (n, s) that follow the last s places of every x (n, T), summed over them.

    network: the net.
    """

    network: Network

    def __call__(self, position, data):
        x, y = data
        logits = self.network.outputs(position, x)[:, x.shape[1] - y.shape[1] :]
        said = jax.nn.log_softmax(logits) * jax.nn.one_hot(y, logits.shape[-1])
        return jnp.sum(said, axis=(1, 2))


@record
class Next:
    """The probabilities of the characters that follow the last places of every x: (n, places, vocabulary).

    network: the net.
    places: how many.
    """

    network: Network
    places: int = static()

    def __call__(self, position, x):
        return jax.nn.softmax(self.network.outputs(position, x)[:, x.shape[1] - self.places :])


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    scale, text = SCALES[size], texts.load(data or ("descriptions" if size == "quick" else "bible-kjv"))
    tasks = (_task(text, scale, NETS[size], seed + i) for i in range(scale.seeds))
    rows = compared(tasks, scale, seed, METHODS, GRIDS)
    result = Result("smile-gpt", means(rows, ("nll", "accuracy", "ece")), [dict(data=text.name, **r) for r in rows])
    titles = dict(nll="nats a character", accuracy="accuracy", ece="ECE")
    result.drawing = partial(draw, rows, titles, f"{text.name}, test part: {scale.chains} members")
    return result


def _task(text: texts.Text, scale: Scale, sizes: dict[str, int], seed: int) -> Task:
    context = sizes["context"]
    half = context // 2
    n, n_held, n_test = scale.examples
    beside = texts.windows(text.train, context)
    order = np.random.default_rng(seed).permutation(len(beside))[:n]
    target, starts, network = model(len(text.vocabulary), beside[order], scale.batch, sizes)

    def scored(part, most):
        found = texts.windows(part, context, half)[:most]
        return found[:, :-1], found[:, context - half + 1 :]

    held, test = scored(text.validation, n_held), scored(text.test, n_test)
    return Task(target, starts, Next(network, half), held, test, block=min(100, n_held))


def model(vocabulary: int, windows: np.ndarray, batch: int, sizes: dict[str, int]) -> tuple[Bayes, Any, Network]:
    """The posterior of a transformer given windows (n, T + 1), fresh starts for chains, and the net."""
    net = Transformer(vocabulary, jax.random.key(0), **sizes)
    sampled, fixed = eqx.partition(net, eqx.is_inexact_array)
    network = Network(fixed, kind="categorical")
    data = jnp.asarray(windows[:, :-1]), jnp.asarray(windows[:, 1:])
    prior = NormalPrior({"net": prior_scales(sampled, 1.0)})
    starts = partial(_starts, vocabulary, sizes)
    return Bayes(prior, Following(network), data, min(batch, len(windows))), starts, network


def _starts(vocabulary: int, sizes: dict[str, int], key, chains: int):
    fresh = lambda k: {"net": eqx.filter(Transformer(vocabulary, k, **sizes), eqx.is_inexact_array)}
    return jax.vmap(fresh)(jax.random.split(key, chains))
