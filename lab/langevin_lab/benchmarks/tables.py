r"""A network on the table `airfoil`: laplace-torch, torch-uncertainty, bde and the default of this library.

The split is that of `bench bde`: 80 % to train, 20 % to test, standardized by the training part, so `nll` (the mean
negative log density of the predictive distribution) and `rmse` are in standard deviations of the target. Seconds are
those of a fit in one process, compilation included.

    langevin           BayesianRegressor(): two layers of 16, heteroscedastic noise, plan and chains by default
    laplace-torch      two layers of 50 (tanh), 2,000 full-batch steps of Adam; Laplace of all weights with a Kronecker
                       Hessian; prior and noise by the marginal likelihood, 200 steps of Adam
    torch-uncertainty  a deep ensemble and MC dropout; not run where it cannot be imported (it needs torchvision)
    bde                the rows that `langevin bench bde` recorded: its paper's lengths, in an environment of its own
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from langevin.core.result import Result
from langevin.data import tables
from langevin_lab.benchmarks._peers import busy_cores, label, missing
from langevin_lab.benchmarks.bde import split

RECORDED = Path(__file__).parents[2] / "results" / "bench" / "bde-airfoil.json"
STEPS = {"quick": 50, "cpu": 2000, "gpu": 2000}


def run(size: str, seed: int) -> Result:
    parts = split(tables.load("airfoil", task="regression"))
    narrow = {k: np.asarray(u, np.float32) for k, u in parts.items()}
    load, table = busy_cores(), []
    if size == "quick":
        narrow["x_train"], narrow["y_train"] = narrow["x_train"][:200], narrow["y_train"][:200]
    table.append(ours(narrow, seed, quick=size == "quick"))
    why = missing("laplace")
    table.append(dict(method="laplace-torch", note=why) if why else laplace(narrow, seed, STEPS[size]))
    why = missing("torch_uncertainty")
    for way in ("deep ensemble", "MC dropout"):
        table.append(dict(method=f"torch-uncertainty {way}", note=why or "not run: no adapter has been tested"))
    table.append(recorded())
    by = {row["method"]: row for row in table if "nll" in row}
    figures: dict[str, float] = {"busy_cores": load}
    figures |= {f"nll_minus_langevin_{m}": r["nll"] - by["langevin"]["nll"] for m, r in by.items() if m != "langevin"}
    figures |= {f"seconds_over_langevin_{m}": r["seconds"] / by["langevin"]["seconds"] for m, r in by.items()}
    return Result("tables", figures, table)


def ours(parts: dict[str, np.ndarray], seed: int, *, quick: bool) -> dict[str, Any]:
    from langevin.core.kernel import replace
    from langevin.estimators.regressor import BayesianRegressor
    from langevin.tune.plan import PLANS

    short = replace(
        PLANS["mile"], kernel=replace(PLANS["mile"].kernel, step_size=0.01), tune=None, ascent=200, draws=10
    )
    began = time.perf_counter()
    model = BayesianRegressor(random_state=seed, plan=short) if quick else BayesianRegressor(random_state=seed)
    model.fit(parts["x_train"], parts["y_train"])
    seconds = time.perf_counter() - began
    x, y = parts["x_test"], parts["y_test"]
    rmse = float(np.sqrt(np.mean((model.predict(x) - y) ** 2)))
    return dict(
        method="langevin", version=label("langevin"), nll=-float(model.log_score(x, y)), rmse=rmse, seconds=seconds
    )


def laplace(parts: dict[str, np.ndarray], seed: int, steps: int) -> dict[str, Any]:
    import torch
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    began = time.perf_counter()
    x, y = torch.as_tensor(parts["x_train"]), torch.as_tensor(parts["y_train"])[:, None]
    wide = [torch.nn.Linear(x.shape[1], 50), torch.nn.Tanh(), torch.nn.Linear(50, 50), torch.nn.Tanh()]
    net = torch.nn.Sequential(*wide, torch.nn.Linear(50, 1))
    _descend(torch.optim.Adam(net.parameters(), 1e-2, weight_decay=1e-4), lambda: torch.mean((net(x) - y) ** 2), steps)
    la = Laplace(net, "regression", subset_of_weights="all", hessian_structure="kron")
    la.fit(DataLoader(TensorDataset(x, y), batch_size=256))
    prior, sigma = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    loss = lambda: -la.log_marginal_likelihood(prior.exp(), sigma.exp())
    _descend(torch.optim.Adam([prior, sigma], 1e-1), loss, min(steps, 200))
    seconds = time.perf_counter() - began
    f_mean, f_variance = la(torch.as_tensor(parts["x_test"]), pred_type="glm")
    mean = f_mean[:, 0].detach().numpy()
    variance = (f_variance[:, 0, 0] + la.sigma_noise.detach() ** 2).detach().numpy()
    away = (parts["y_test"] - mean) ** 2
    nll = float(np.mean(0.5 * away / variance + 0.5 * np.log(2 * np.pi * variance)))
    rmse = float(np.sqrt(away.mean()))
    return dict(method="laplace-torch", version=label("laplace"), nll=nll, rmse=rmse, seconds=seconds)


def _descend(optimizer, loss, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def recorded() -> dict[str, Any]:
    """The peer's rows of `bench bde` as recorded: their mean, and the commit they are of."""
    if not RECORDED.is_file():
        return dict(method="bde", note="not recorded: langevin bench bde --json lab/results/bench/bde-airfoil.json")
    body = json.loads(RECORDED.read_text())
    rows = [row for row in body["table"] if row["method"] == "bde"]
    mean = {k: float(np.mean([row[k] for row in rows])) for k in ("nll", "rmse", "seconds")}
    note = f"recorded at {body['provenance']['git']}, mean of {len(rows)} seeds, {body['provenance']['device']}"
    return dict(method="bde", version="sklearn-contrib-bde 1.0.2") | mean | dict(note=note)
