r"""An estimator with a plan, and parameters that reach into it.

`plan` is a name (`"auto"`, `"mile"`, `"smile"`, or one of `vi.plans`) or a Plan; `kernel` is None for the plan's, a
kernel to sample with as it is, or a dict of fields to hold in the plan's own. `plan__draws` and `kernel__step_size`
reach into them, so a grid search can. "auto" is `mile`, on all data, up to SMALL rows, where steps are cheap with more
of them between draws, and `smile`, on mini-batches, above.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from langevin.core.kernel import Kernel
from langevin.core.record import is_record, replace, values
from langevin.estimators.shown import Shown
from langevin.tune.plan import Plan, holding
from langevin.vi.plans import PLANS

SMALL = 20_000  # rows up to which full gradients were the better use of the same number of examples
CHEAP = 128_000  # rows × steps from a draw to the next, at which more of them cost little


class Planned(Shown):
    """An estimator whose fields `plan` and `kernel` say how to sample."""

    plan: str | Plan
    kernel: Any

    def _chosen(self, n: int) -> Plan:
        """The plan as asked for, with a kernel or parts of one put in."""
        plan = self._named_plan(n)
        if self.kernel is None:
            return plan
        if isinstance(self.kernel, dict):
            return holding(plan, **self.kernel)
        if not isinstance(self.kernel, Kernel):
            raise TypeError(
                f"{type(self).__name__}: kernel is {self.kernel!r}; it must be a kernel such as SGLD(1e-5), a dict of "
                "fields, or None."
            )
        batch = plan.batch if is_record(self.plan) else PLANS["smile"].batch
        return replace(plan, kernel=self.kernel, tune=None, batch=batch, warmup=plan.warmup or plan.draws // 2)

    def expected(self, n: int) -> dict[str, float]:
        """How long the stages of a fit to n rows take, relative to one another; for a progress bar."""
        return self._chosen(n).expected(n)

    def _named_plan(self, n: int) -> Plan:
        if isinstance(self.plan, Plan):
            return self.plan
        name = ("mile" if n <= SMALL else "smile") if self.plan == "auto" else self.plan
        if name not in PLANS:
            known = ", ".join(["auto", *PLANS])
            raise ValueError(f"{type(self).__name__}: there is no plan {self.plan!r}; there are {known}.")
        if self.plan == "auto" and name == "mile":
            return replace(PLANS[name], thin=int(np.clip(CHEAP // n, PLANS[name].thin, 256)))
        return PLANS[name]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, and with `deep` those of the plan and of its kernel by `plan__` and `kernel__`."""
        params = super().get_params(deep=False)
        if deep and (isinstance(self.plan, Plan) or (isinstance(self.plan, str) and self.plan in ("auto", *PLANS))):
            plan = self._named_plan(1)
            held = self.kernel if isinstance(self.kernel, dict) else {}
            kernel = plan.kernel if self.kernel is None or held else self.kernel
            params |= {f"plan__{k}": v for k, v in values(plan).items() if k != "kernel"}
            params |= {f"kernel__{k}": v for k, v in (values(kernel) | held).items()}
        return params

    def set_params(self, **params: Any):
        """`plan__draws=50` and `kernel__step_size=0.1` reach into plan and kernel."""
        own = {k: v for k, v in params.items() if "__" not in k}
        super().set_params(**own)
        for name, value in params.items():
            head, _, field = name.partition("__")
            if not field:
                continue
            if name not in self.get_params():
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}: langevin kernels shows a kernel's fields."
                )
            if head == "plan":
                self.plan = replace(self._named_plan(1), **{field: value})
            elif self.kernel is None or isinstance(self.kernel, dict):
                self.kernel = (self.kernel or {}) | {field: value}
            else:
                self.kernel = replace(self.kernel, **{field: value})
        return self
