r"""Samplers for nets on images, all from one deep ensemble: accuracy, NLL, calibration, and OOD detection.

A LeNet (69,000 weights, GELU) on MNIST, or with `--data cifar10` a ResNet with filter response normalisation (310,000
weights); no augmentation, which would make the likelihood of an example more than one. The prior is N(0, 1) on all
weights, as in the paper: on 2,000 images of MNIST the validation NLL of two members was 0.143 with it, 0.159 with
N(0, 0.1²) and 0.199 with N(0, 1/fan_in); that of short runs of SMILE, though, was 0.224, 0.200 and 0.204. Members are
trained by AdamW on the log posterior, each kept where its NLL on a validation part is least; they are the deep
ensemble, and every sampler starts at them:

    smile    SMILE, its noise whitened and completed; grid: the energy variance that `whiten` ends at
    psmile   SMILE as published, its tuner on; grid: the first ε
    csghmc   cyclical SGHMC, four cycles, a third of each exploring; grid: η
    sghmc    SGHMC; grid: η, with step size √(η/N) and a share 0.05 of the momentum lost a step

Each has 3/2 · draws · thin gradients on mini-batches, of which the first third is tuning or warm-up and the rest gives
the draws (cycles have no warm-up). The value from the grid is that of least validation NLL on the first seed, after
runs whose sampling part is a third as long; the test part is looked at once for every row. `data_passes` counts
examples in gradients of one chain ÷ N: of the training for the ensemble, after it for the samplers; the 32 batches
that `whiten` looks at first are not counted.

Out-of-distribution inputs (`ood_auroc`) are told apart by the entropy H of the mean prediction, and by the mutual
information H − mean H of a draw (`ood_auroc_mutual`): Fashion-MNIST for MNIST, MNIST on three channels for CIFAR-10,
images with their pixels shuffled for scikit-learn's digits, on which the quick size is run. ECE has 15 bins.

References
----------
Sommer, Robnik, Rügamer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise?
Zhang, Li, Zhang, Chen & Wilson (2020), Cyclical stochastic gradient MCMC for Bayesian deep learning.
Lakshminarayanan, Pritzel & Blundell (2017), Simple and scalable predictive uncertainty estimation.
Depeweg, Hernández-Lobato, Doshi-Velez & Udluft (2018), Decomposition of uncertainty (mutual information).
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from langevin.core.record import record
from langevin.core.result import Result
from langevin.data import images
from langevin.data.files import DataError
from langevin.nets.bnn import bnn
from langevin.nets.images import LeNet, ResNet
from langevin_lab.experiments._compared import Scale, Task, compared, means
from langevin_lab.experiments._compared_figure import draw

GRIDS = {
    "smile": (0.5, 0.1, 0.02),
    "psmile": (3e-2, 3e-3, 3e-4),
    "csghmc": (1e-1, 1e-2, 1e-3),
    "sghmc": (1e-2, 1e-3, 1e-4),
}
OOD = {"mnist": "fashion-mnist", "cifar10": "mnist"}

GPU = Scale((55_000, 5_000, 10_000), 3, 8, batch=512, draws=24, thin=100, ascent=6000, ascent_batch=128)
SCALES = {
    "quick": Scale((600, 150, 300), chains=2, draws=6, thin=12, ascent=300, rate=5e-3, rank=8),
    "cpu": Scale((2_000, 500, 1_000), ascent=800, rate=3e-3),
    "gpu": GPU,
}
COLOUR = dataclasses.replace(GPU, examples=(9_000, 1_000, 1_000), batch=256, thin=50, ascent=3000)


@record
class Probabilities:
    """The class probabilities of inputs.

    predict: of a network, as `bnn` makes it.
    """

    predict: Any

    def __call__(self, position, x):
        return self.predict(position, x)["proba"]


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    name = data or ("digits" if size == "quick" else "mnist")
    scale = COLOUR if (size, name) == ("gpu", "cifar10") else SCALES[size]
    found = images.load(name)
    ood, notes = load_ood(found, seed)
    tasks = (_task(found, ood, scale, seed + i) for i in range(scale.seeds))
    rows = compared(tasks, scale, seed, tuple(GRIDS), GRIDS)
    figures = means(rows, ("accuracy", "nll", "ece", "ood_auroc"))
    result = Result("smile-images", figures, [dict(data=name, **r) for r in rows], notes=[*found.notes, *notes])
    titles = dict(nll="NLL", accuracy="accuracy", ece="ECE", ood_auroc="OOD AUROC")
    result.drawing = partial(draw, rows, titles, f"{name}, test part: {scale.chains} members")
    return result


# --- images -----------------------------------------------------------------------------------------------------------


def load_ood(found: images.Images, seed: int) -> tuple[np.ndarray | None, list[str]]:
    """Images that are in none of the classes, and what to say of them."""
    shape = found.x.shape[1:]
    if found.name not in OOD:
        order = np.random.default_rng(seed).permutation(int(np.prod(shape)))
        shuffled = found.x_test.reshape(len(found.x_test), -1)[:, order].reshape(-1, *shape)
        return shuffled, ["Out-of-distribution inputs are the test images with their pixels shuffled."]
    try:
        other = images.load(OOD[found.name], part="test").x_test
    except DataError as error:
        return None, [f"No out-of-distribution inputs: {error}"]
    rim = [(n - m) // 2 for n, m in zip(shape[1:], other.shape[2:], strict=True)]
    other = np.pad(other, ((0, 0), (0, 0), (rim[0], rim[0]), (rim[1], rim[1])))
    return np.broadcast_to(other, (len(other), *shape)), []


def _task(found: images.Images, ood, scale: Scale, seed: int) -> Task:
    n, n_held, n_test = scale.examples
    order = np.random.default_rng(seed).permutation(len(found.x))
    if len(order) < n + n_held:
        n = len(order) - n_held
    train, held = order[:n], order[n : n + n_held]
    mean = found.x[train].mean((0, 2, 3), keepdims=True)
    std = found.x[train].std((0, 2, 3), keepdims=True)
    put = lambda x: np.asarray((x - mean) / std, np.float32)
    net = ResNet if found.x.shape[1] == 3 else LeNet
    build = partial(_built, net, found.x.shape[1:])
    data = put(found.x[train]), found.y[train]
    model = bnn(build, data, kind="categorical", prior=1.0, batch=scale.batch)
    return Task(
        model.target,
        model.starts,
        Probabilities(model.predict),
        (put(found.x[held]), found.y[held]),
        (put(found.x_test[:n_test]), found.y_test[:n_test]),
        None if ood is None else put(ood[:n_test]),
    )


def _built(net, shape, key):
    return net(shape, 10, key)
