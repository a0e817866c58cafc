r"""What regressor and classifier share: from a table to a posterior over networks.

Rows are merged and put in order (`columns`), a part is held out, columns are encoded, and the plan runs on the rest.
Predictions are in `predictive`, checks of tables in `checks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from langevin.core import noise, progress
from langevin.core.bar import Bar
from langevin.core.callbacks import Figures
from langevin.core.fingerprint import fingerprint
from langevin.estimators import files, unfinished
from langevin.estimators.architecture import mlp, weighed
from langevin.estimators.columns import Columns
from langevin.estimators.explain import Explained
from langevin.estimators.planned import Planned
from langevin.estimators.predictive import Predictive
from langevin.estimators.snapshot import Snapshot
from langevin.evidence.base import Normal
from langevin.nets.bnn import BNN, Kind, bnn
from langevin.tune.plan import Plan
from langevin.tune.warm_start import HeldOut

FEW = 10  # rows held out from which on training stops by them


@dataclass(eq=False, repr=False)
class NetworkEstimator(Explained, Predictive, Planned):
    """A Bayesian network on a table. Its two kinds say how targets become numbers, and outputs answers.

    plan: "auto", "mile" (all data), "smile" (mini-batches), an approximation ("ensemble", "vi", "laplace", "swag",
        "ivon"), or a Plan.
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

    plan: str | Plan = "auto"
    _: KW_ONLY
    kernel: Any = None
    hidden: tuple[int, ...] = (16, 16)
    activation: str = "relu"
    network: Any = None
    prior: float | str | dict = 0.5
    part: tuple[str, ...] = ("*",)
    chains: int = 8
    holdout: float = 0.1
    outliers: float = 0.05
    random_state: Any = None
    verbose: bool = False

    # --- what a kind says --------------------------------------------------------------------------------------

    def _targets(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Numbers for the network; what undoes it is kept."""
        raise NotImplementedError

    def _likelihood(self) -> tuple[Kind, int]:
        """Of the network's outputs, and how many there are."""
        raise NotImplementedError

    def _center(self) -> Any:
        """Of the logarithms of counts."""
        return 0.0

    def _offsets(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """What makes log likelihoods of rows comparable between models of one table."""
        return np.zeros(len(y))

    # --- fit ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        X,
        y,
        sample_weight=None,
        *,
        callbacks: tuple = (),
        watch: Callable[[Any], None] | None = None,
        store: str | Path | None = None,
    ):
        """Sample the posterior of a network for (X, y); a row of weight 2 counts as two.

        callbacks: called after every chunk of draws, as in `langevin.sample`.
        watch: called after every chunk of draws with the estimator as it stands.
        store: a folder in which the fit is kept while it runs: the same call with it goes on where it was stopped.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        raw, y, weight = self._table(X, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if len(y) < 2 and self.task == "regression":
            raise ValueError(f"{type(self).__name__}: there is 1 sample with weight; at least 2 are needed.")
        self.table_ = fingerprint((raw, y, weight))
        folder = None if store is None else Path(store)
        if folder is not None:
            seed = unfinished.begin(folder, self, self.table_, seed)
        train, held = self._parts(len(y), seed)
        take = lambda index: [(name, u[index]) for name, u in raw]
        self.columns_ = Columns.fit(take(train), weight[train])
        numbers = self._targets(y, weight)
        x = self.columns_.encoded(take(train))
        plan = self._chosen(len(train))
        model = self._model(x, numbers[train])
        target = weighed(model.target, weight[train])
        self.seed_, self.n_rows_, self.plan_ = seed, len(train), plan
        began = time.perf_counter() - unfinished.seconds(folder)
        rows = take(held if len(held) else train)
        with self._shown(plan, len(train)):
            score = self._score(model, take(held), numbers[held])
            k_starts, k_fit = jax.random.split(noise.key(seed))
            starts = model.starts(k_starts, self.chains)
            start = plan.trained(jax.random.clone(k_fit), target, starts, score=score, store=folder)
            self.start_ = jax.tree.map(np.asarray, start)
            looks: tuple = (Figures(),)
            if watch is not None:
                seconds, before = time.perf_counter() - began, unfinished.sampled(folder, model.position)
                looks += (Snapshot(self, lambda now: watch(now._calibrated(rows)), before, seconds),)
            self.posterior_ = plan.sampled(k_fit, target, start, callbacks=(*looks, *callbacks), store=folder)
        self.seconds_ = time.perf_counter() - began
        self._model_ = model
        return self._calibrated(rows)

    def _score(self, model: BNN, rows: list[tuple[str, np.ndarray]], numbers: np.ndarray) -> HeldOut | None:
        """The log likelihood of rows held out, by which training stops; None where they are too few."""
        if len(numbers) < FEW:
            return None
        held = (jnp.asarray(self.columns_.encoded(rows)), jnp.asarray(numbers))
        return HeldOut(model.target.log_likelihood, held)

    @contextmanager
    def _shown(self, plan: Plan, n: int) -> Iterator[None]:
        """A progress bar around the stages of a plan, where one is asked for."""
        if not self.verbose:
            yield
            return
        with Bar(plan.expected(n)) as bar, progress.listen(bar):
            yield

    def target(self, X, y, sample_weight=None) -> tuple[Any, Normal]:
        """The posterior of the network on a table as a target, and its prior as a base: for `langevin.evidence`."""
        own = clone(self)
        raw, y, weight = own._table(X, y, sample_weight)
        numbers = own._targets(y, weight)
        model = own._model(Columns.fit(raw, weight).encoded(raw), numbers)
        prior = Normal(jax.tree.map(jnp.zeros_like, model.position), model.target.log_prior.scale)
        return weighed(model.target, weight, own._offsets(y, weight)), prior

    def _net(self) -> BNN:
        """The network to predict with; a loaded or unpickled estimator builds it anew."""
        if getattr(self, "_model_", None) is None:
            none = np.zeros((2, len(self.columns_.names)), np.float32)
            many = np.shape(getattr(self, "center_", 0.0))
            self._model_ = self._model(none, np.zeros((2, *many), np.int32))
        return self._model_

    def more(self, X, y, draws: int, sample_weight=None, *, callbacks: tuple = ()):
        """The chains of a fit go on for `draws` draws, on the table they were fitted to."""
        check_is_fitted(self)
        raw, y, weight = self._table(X, y, sample_weight, reset=False)
        train, held = self._parts(len(y), self.seed_)
        if fingerprint((raw, y, weight)) != self.table_:
            have = f"{len(train)} rows to train on, the fit had {self.n_rows_}"
            raise ValueError(f"more: this is not the table of the fit ({have}, or values differ); pass the same table.")
        take = lambda index: [(name, u[index]) for name, u in raw]
        model = self._model(self.columns_.encoded(take(train)), self._targets(y, weight)[train])
        target = weighed(model.target, weight[train])
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
        build = self.network or mlp(type(self).__name__, (x.shape[1], *self.hidden, outputs), self.activation)
        return bnn(build, (x, numbers), kind=kind, prior=self.prior, center=self._center(), part=self.part)

    # --- scikit-learn ------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_model_"}

    def save(self, path: str | Path) -> None:
        """A folder that `langevin.load` reads; no pickle, no data."""
        check_is_fitted(self)
        files.save(self, Path(path))
