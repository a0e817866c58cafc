r"""What regressor and classifier share: from a table to a posterior over networks, and back to predictions.

fit     rows merged and put in order (`columns`), a part held out, columns encoded, the plan run on the rest
predict rows in blocks of one size, so that a row's answer does not depend on the rows beside it
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from langevin.core import noise
from langevin.core.callbacks import ProgressBar
from langevin.core.fingerprint import fingerprint
from langevin.core.posterior import Posterior
from langevin.core.provenance import Provenance
from langevin.core.record import record, replace
from langevin.core.run import join
from langevin.core.types import Progress
from langevin.diagnostics import uncertainty
from langevin.estimators import files
from langevin.estimators.columns import Columns, merged, names_of, raw_columns
from langevin.estimators.planned import Planned
from langevin.evidence.base import Normal
from langevin.nets.bnn import BNN, Kind, bnn
from langevin.nets.mlp import MLP
from langevin.tune.plan import Plan
from langevin.tune.warm_start import HeldOut

FEW = 10  # rows held out from which on training stops by them
BLOCK = 256  # rows a prediction looks at together


def relu(x):  # JAX's own are no functions of a module, as pickle wants them
    return jax.nn.relu(x)


def tanh(x):
    return jnp.tanh(x)


def silu(x):
    return jax.nn.silu(x)


def gelu(x):
    return jax.nn.gelu(x)


ACTIVATIONS = {f.__name__: f for f in (relu, tanh, silu, gelu)}


@record
class Weighted:
    """Log likelihoods of data = (x, y, w), each times its weight.

    likelihood: of (x, y).
    """

    likelihood: Any

    def __call__(self, position, data):
        x, y, weight = data
        return weight * self.likelihood(position, (x, y))


class NetworkEstimator(Planned):
    """A Bayesian network on a table. Its two kinds say how targets become numbers, and outputs answers.

    plan: "auto", "mile" (all data), "smile" (mini-batches) or a Plan.
    kernel: None for the plan's, a kernel to sample with as it is, or a dict of fields to hold in the plan's.
    hidden: widths of the layers between.
    activation: "relu", "tanh", "silu" or "gelu".
    prior: standard deviation of weights, "fan_in", or a dict of path patterns.
    part: patterns of the parameters to sample; others stay as they were built.
    chains: networks trained, and chains.
    holdout: share of rows held out to calibrate `is_outlier`.
    outliers: share of usual rows that `is_outlier` may call so.
    random_state: seed of everything random.
    verbose: show a progress bar.
    """

    task: ClassVar[str]

    def __init__(
        self,
        plan: str | Plan = "auto",
        *,
        kernel: Any = None,
        hidden: tuple[int, ...] = (16, 16),
        activation: str = "relu",
        network: Any = None,
        prior: float | str | dict = 0.5,
        part: tuple[str, ...] = ("*",),
        chains: int = 8,
        holdout: float = 0.1,
        outliers: float = 0.05,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.plan = plan
        self.kernel = kernel
        self.hidden = hidden
        self.activation = activation
        self.network = network
        self.prior = prior
        self.part = part
        self.chains = chains
        self.holdout = holdout
        self.outliers = outliers
        self.random_state = random_state
        self.verbose = verbose

    # --- what a kind says --------------------------------------------------------------------------------------

    def _targets(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Numbers for the network; what undoes it is kept."""
        raise NotImplementedError

    def _likelihood(self) -> tuple[Kind, int]:
        """Of the network's outputs, and how many there are."""
        raise NotImplementedError

    def _unit(self, said: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Predictions in the target's own unit."""
        return said

    def _split(self, said: dict[str, np.ndarray]) -> uncertainty.Split:
        raise NotImplementedError

    # --- fit ---------------------------------------------------------------------------------------------------

    def fit(self, X, y, sample_weight=None, *, callbacks: tuple = (), watch: Callable[[Any], None] | None = None):
        """Sample the posterior of a network for (X, y); a row of weight 2 counts as two.

        watch: called after every chunk of draws with the estimator as it stands.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, y = self._checked(X, y)
        weight = np.array(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        raw, y, weight = merged(raw_columns(X), y, weight)
        if len(y) < 2 and self.task == "regression":
            raise ValueError(f"{type(self).__name__}: there is 1 sample with weight; at least 2 are needed.")
        self.table_ = fingerprint((raw, y, weight))
        train, held = self._parts(len(y), seed)
        take = lambda index: [(name, u[index]) for name, u in raw]
        self.columns_ = Columns.fit(take(train), weight[train])
        numbers = self._targets(y, weight)
        x = self.columns_.encoded(take(train))
        plan = self._chosen(len(train))
        model = self._model(x, numbers[train])
        target = self._weighed(model.target, weight[train])
        self.seed_, self.n_rows_, self.plan_, began = seed, len(train), plan, time.perf_counter()
        k_starts, k_fit = jax.random.split(noise.key(seed))
        bar = (ProgressBar(plan.draws),) if self.verbose else ()
        score = None
        if len(held) >= FEW:
            score = HeldOut(
                model.target.log_likelihood,
                (jnp.asarray(self.columns_.encoded(take(held))), jnp.asarray(numbers[held])),
            )
        start = plan.trained(jax.random.clone(k_fit), target, model.starts(k_starts, self.chains), score=score)
        self.start_ = jax.tree.map(np.asarray, start)
        rows = take(held if len(held) else train)
        looks = (Look(self, lambda now: watch(now._calibrated(rows))),) if watch else ()
        self.posterior_ = plan.sampled(k_fit, target, start, callbacks=(*bar, *looks, *callbacks))
        self.seconds_ = time.perf_counter() - began
        self._model_ = model
        return self._calibrated(rows)

    def target(self, X, y, sample_weight=None) -> tuple[Any, Normal]:
        """The posterior of the network on a table as a target, and its prior as a base: for `langevin.evidence`."""
        own = clone(self)
        X, y = own._checked(X, y)
        weight = np.array(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        raw, y, weight = merged(raw_columns(X), y, weight)
        numbers = own._targets(y, weight)
        model = own._model(Columns.fit(raw, weight).encoded(raw), numbers)
        prior = Normal(jax.tree.map(jnp.zeros_like, model.position), model.target.log_prior.scale)
        return own._weighed(model.target, weight), prior

    def _net(self) -> BNN:
        """The network to predict with; a loaded or unpickled estimator builds it anew."""
        if getattr(self, "_model_", None) is None:
            none = np.zeros((2, len(self.columns_.names)), np.float32)
            self._model_ = self._model(none, np.zeros(2, np.int32))
        return self._model_

    def more(self, X, y, draws: int, sample_weight=None, *, callbacks: tuple = ()):
        """The chains of a fit go on for `draws` draws, on the table they were fitted to."""
        check_is_fitted(self)
        X, y = self._checked(X, y, reset=False)
        weight = np.array(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        raw, y, weight = merged(raw_columns(X), y, weight)
        train, held = self._parts(len(y), self.seed_)
        if fingerprint((raw, y, weight)) != self.table_:
            have = f"{len(train)} rows to train on, the fit had {self.n_rows_}"
            raise ValueError(f"more: this is not the table of the fit ({have}, or values differ); pass the same table.")
        take = lambda index: [(name, u[index]) for name, u in raw]
        model = self._model(self.columns_.encoded(take(train)), self._targets(y, weight)[train])
        target = self._weighed(model.target, weight[train])
        k_fit = jax.random.split(noise.key(self.seed_))[1]
        began = time.perf_counter() - self.seconds_
        self.posterior_ = self.plan_.more(k_fit, target, self.posterior_, draws, callbacks=callbacks)
        self.seconds_ = time.perf_counter() - began
        return self._calibrated(take(held if len(held) else train))

    def _parts(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on, and rows held out to find out what epistemic uncertainty is usual."""
        if not 0 <= self.holdout < 1:
            raise ValueError(f"{type(self).__name__}: holdout is {self.holdout}; it must be 0 or more and below 1.")
        order, out = np.random.default_rng(seed).permutation(n), int(self.holdout * n)
        out = 0 if n - out < 2 else out
        return np.sort(order[out:]), np.sort(order[:out])

    def _model(self, x: np.ndarray, numbers: np.ndarray) -> BNN:
        kind, outputs = self._likelihood()
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"{type(self).__name__}: activation is {self.activation!r}; there are {', '.join(ACTIVATIONS)}."
            )
        sizes = (x.shape[1], *self.hidden, outputs)
        build = self.network or partial(MLP, sizes, activation=ACTIVATIONS[self.activation])
        return bnn(build, (x, numbers), kind=kind, prior=self.prior, part=self.part)

    def _weighed(self, target: Any, weight: np.ndarray) -> Any:
        if (weight == 1).all():
            return target
        data = (*target.data, jnp.asarray(weight, jnp.float32))
        return replace(target, log_likelihood=Weighted(target.log_likelihood), data=data)

    def _calibrated(self, rows: list[tuple[str, np.ndarray]]):
        """The epistemic uncertainty that a share `outliers` of rows held out exceeds."""
        known = [self._split(said).epistemic for said in self._said(self.columns_.encoded(rows))]
        self.epistemic_ = np.concatenate(known)
        self.threshold_ = float(np.quantile(self.epistemic_, 1 - self.outliers))
        return self

    # --- predictions -------------------------------------------------------------------------------------------

    def predictive(self, X, *, start: bool = False) -> dict[str, np.ndarray]:
        """What every draw says of every row, in the target's unit: {"mean", "std"} (draw, n) or {"proba"}.

        start: what the trained networks say from which the chains set out, the deep ensemble.
        """
        parts = list(self._blocks(X, start=start))
        return {k: np.concatenate([p[k] for p in parts], axis=1) for k in parts[0]}

    def followed(self, X) -> np.ndarray:
        """The mean, or the probability of the last class, that every draw says of some rows: (chain, draw, n)."""
        rows = self.columns_.encoded(raw_columns(self._checked_rows(X)))
        said = self._unit(self.posterior_.predict(self._net().predict, rows))
        return np.asarray(said["mean"] if "mean" in said else said["proba"][..., -1])

    def uncertainty(self, X):
        """Uncertainty of every row: total, aleatoric (noise), epistemic (what more data would remove).

        Variances in regression, entropies in nats in classification; a frame if X is one.
        """
        parts = [self._split(said) for said in self._blocks(X)]
        whole = uncertainty.Split(*map(np.concatenate, zip(*parts, strict=True)))
        return _like(X, whole._asdict()) if hasattr(X, "columns") else whole

    def is_outlier(self, X) -> np.ndarray:
        """Whether the networks disagree on a row more than on all but a share `outliers` of rows held out in fit."""
        return np.asarray(self.uncertainty(X).epistemic) > self.threshold_

    def _blocks(self, X, *, start: bool = False) -> Iterator[dict[str, np.ndarray]]:
        """Predictions in the target's unit, some rows at a time."""
        check_is_fitted(self)
        x = self.columns_.encoded(raw_columns(self._checked_rows(X)))
        return self._said(x, self.start_ if start else None)

    def _said(self, x: np.ndarray, draws=None) -> Iterator[dict[str, np.ndarray]]:
        draws, model = self._pooled() if draws is None else draws, self._net()
        for i in range(0, len(x), BLOCK):
            cut = x[i : i + BLOCK]
            full = np.concatenate([cut, np.zeros((BLOCK - len(cut), x.shape[1]), np.float32)])
            said = _of_each(model.predict, draws, full)
            yield self._unit({k: np.asarray(u, np.float64)[:, : len(cut)] for k, u in said.items()})

    def _pooled(self):
        """Positions (draw, …) of equal weight, of all chains that did not diverge."""
        posterior: Posterior = self.posterior_
        weight = posterior.weights().reshape(-1)
        flat = jax.tree.map(lambda u: np.asarray(u).reshape(-1, *u.shape[2:]), posterior.draws)
        used = weight[weight > 0]
        if np.ptp(used) <= 1e-6 * used.max():
            index = np.flatnonzero(weight > 0)
        else:  # systematic resampling
            index = np.searchsorted(np.cumsum(weight), (np.arange(len(used)) + 0.5) / len(used)).clip(
                max=len(weight) - 1
            )
        return jax.tree.map(lambda u: u[index], flat)

    # --- scikit-learn ------------------------------------------------------------------------------------------

    def _checked(self, X, y, *, reset: bool = True):
        """Rows and targets, in numbers or as a frame, of one length."""
        if hasattr(X, "columns"):
            names_of(X)
            validate_data(self, X, skip_check_array=True, reset=reset)
            X, y = X.reset_index(drop=True), np.asarray(y)
            if len(X) != len(y):
                raise ValueError(f"X has {len(X)} rows but y {len(y)}.")
        else:
            X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        return X, self._checked_y(y, reset)

    def _checked_y(self, y, reset: bool):
        raise NotImplementedError

    def _checked_rows(self, X):
        if hasattr(X, "columns"):
            validate_data(self, X, skip_check_array=True, reset=False)
            return X
        return validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_model_"}

    def save(self, path: str | Path) -> None:
        """A folder that `langevin.load` reads; no pickle, no data."""
        check_is_fitted(self)
        files.save(self, Path(path))


class Look:
    """A callback that calls `watch` with the estimator as it would be if sampling ended here, uncalibrated.

    before: draws and Info that it has already, where a fit goes on; seconds: what they took.
    """

    def __init__(self, estimator: Any, watch: Callable[[Any], Any], before: Sequence = (), seconds: float = 0.0):
        self.estimator, self.watch, self.began = estimator, watch, time.perf_counter() - seconds
        self.pieces = list(before)

    def __call__(self, progress: Progress) -> Progress:
        if progress.done > 0:
            self.pieces.append((progress.kept, progress.info))
            now = copy.copy(self.estimator)
            now.seconds_ = time.perf_counter() - self.began
            known = Provenance.now(seconds=now.seconds_)
            now.posterior_ = Posterior(*join(self.pieces), progress.states, progress.kernel, known)
            self.watch(now)
        return progress


@jax.jit
def _of_each(predict, draws, x):
    return jax.lax.map(lambda position: predict(position, x), draws, batch_size=16)


def _like(X, columns: dict[str, np.ndarray]):
    """A frame with the rows of X."""
    import pandas as pd

    return pd.DataFrame(columns, index=X.index)
