r"""Plans of approximations, beside those that sample: the same warm start, then a fit in place of a sampler.

    ensemble   the trained networks themselves, one a chain
    vi         a factorised Gaussian around each, by the ELBO
    ivon       the same by natural gradients
    swag       a low-rank Gaussian of the iterates of Adam from each (multi-SWAG)
    laplace    the Gaussian of the curvature at each, Kronecker-factored, with the network's tangent there; the prior's
               width by the evidence

Each gives a mixture with one component a chain. `holding` and `plan__…` reach into them as into other plans.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, §2.2.
"""

from __future__ import annotations

from typing import Any

from langevin.tune.plan import PLANS as SAMPLERS
from langevin.tune.plan import Plan
from langevin.vi.ensemble import Ensemble
from langevin.vi.families.delta import Delta
from langevin.vi.families.low_rank import LowRank
from langevin.vi.families.mean_field import MeanField
from langevin.vi.fit import Fit
from langevin.vi.independent import Independent
from langevin.vi.ivon import IVON
from langevin.vi.laplace import Laplace
from langevin.vi.objectives.elbo import ELBO
from langevin.vi.swag import SWAG

# training is long and goes on to its end: what is trained is kept, and no sampler moves it on
WHOLE: dict[str, Any] = dict(thin=1, ascent=24_000, patience=40)
APPROXIMATIONS = {
    "ensemble": Plan(Independent(Delta()), Ensemble(), draws=1, **WHOLE),
    "vi": Plan(Independent(MeanField()), Fit(ELBO(draws=4), steps=8_000, batch=64), **WHOLE),
    "ivon": Plan(Independent(MeanField()), IVON(rate=0.003, steps=8_000, b2=0.9999, batch=64), **WHOLE),
    "swag": Plan(Independent(LowRank()), SWAG(rate=1e-2, optimizer="adam", batch=64), **WHOLE),
    "laplace": Plan(Independent(linearized=True), Laplace("kronecker", prior="evidence"), **WHOLE),
}
PLANS: dict[str, Plan] = SAMPLERS | APPROXIMATIONS
