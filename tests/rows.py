"""One row per kernel: all a contributor edits. The generic tests in test_kernels.py take every row.

`kernel` is the setting to test, its step size the largest at which the claim of `law()` is to hold on the two test
targets (scales 0.5 to 2). `skip` says why a kernel is not tested for its law here, and where it is. A kernel with a
wrong law that it names is held to that law; one whose wrong law has no closed form is tested for all but its law. Both
are built `quietly`.
"""

import warnings
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from langevin.baselines.adam_sgld import AdamSGLD
from langevin.baselines.msgld import MSGLD
from langevin.baselines.noise_scaled import NoiseScaled
from langevin.baselines.published_smile import PublishedSMILE
from langevin.core.record import record
from langevin.dynamics.metrics.block import Block
from langevin.dynamics.metrics.position import Position
from langevin.dynamics.metrics.windowed import Windowed
from langevin.samplers.adaptive_friction import AdaptiveFriction
from langevin.samplers.amala import AMALA
from langevin.samplers.blackjax import NUTS, BlackJAX
from langevin.samplers.csgld import CSGLD
from langevin.samplers.ensemble_sgld import EnsembleSGLD
from langevin.samplers.ghmc import GHMC
from langevin.samplers.hmc import HMC
from langevin.samplers.mala import MALA
from langevin.samplers.mams import MAMS
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.monge import Monge
from langevin.samplers.optimize import Optimize
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.samadams import SamAdams
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.sgnht import SGNHT
from langevin.samplers.sgrhmc import SGRHMC
from langevin.samplers.shampoo import Shampoo
from langevin.samplers.smile import SMILE
from langevin.samplers.stanley import Stanley
from langevin.samplers.tmala import TMALA
from langevin.samplers.underdamped import Underdamped
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.samplers.wrappers.ema import EMA
from langevin.samplers.wrappers.guard import Guard
from langevin.samplers.wrappers.replica_exchange import ReplicaExchange
from langevin.samplers.wrappers.thin import Thin


class Row(NamedTuple):
    kernel: Any
    skip: str = ""
    thin: int = 12  # steps between two looks; more for a kernel that moves slowly
    fast: Literal["all", "law", "none"] = "all"  # what the fast suite tests of it; "law": on one target alone


def quietly(cls, **fields):
    """A kernel that says at its making that its law is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**fields)


@record
class Gentle:
    """ψ_b = 1/(1 + 0.3 |θ_b|²): a metric of position that is bounded, so that explicit steps are stable."""

    def __call__(self, position):
        return jax.tree.map(lambda w: 1 / (1 + 0.3 * jnp.sum(w**2)), position)


# a grid over the energies of both test targets, and a φ that is far from flat and from the truth
CONTOUR = dict(low=4.0, width=1.0, bins=14, log_phi=-0.3 * jnp.abs(jnp.arange(14.0) - 4), gain=1e-4)

ROWS = {
    "sgld": Row(SGLD(step_size=0.05), thin=24),
    "sgld-rademacher": Row(SGLD(step_size=0.05, noise="rademacher"), thin=24, fast="none"),
    "sghmc": Row(SGHMC(step_size=0.1, friction=2.0)),
    "sgnht": Row(SGNHT(step_size=0.1, diffusion=2.0)),
    "underdamped": Row(Underdamped(step_size=0.4, friction=2.0)),
    "underdamped-obabo": Row(Underdamped(step_size=0.3, friction=2.0, scheme="OBABO"), fast="none"),
    "underdamped-aboba": Row(Underdamped(step_size=0.3, friction=2.0, scheme="ABOBA"), fast="none"),
    "underdamped-baoa": Row(Underdamped(step_size=0.3, friction=2.0, scheme="BAOA"), fast="none"),
    "adaptivefriction": Row(AdaptiveFriction(step_size=0.3, friction=1.0, floor=1.0), fast="law"),
    "adaptivefriction-steep": Row(AdaptiveFriction(step_size=0.3, friction=3.0, floor=0.3), fast="none"),
    "sgrhmc": Row(SGRHMC(step_size=0.15)),
    "sgrhmc-hutchinson": Row(SGRHMC(step_size=0.15, correction="hutchinson"), fast="none"),
    "sgrhmc-exact": Row(SGRHMC(step_size=0.15, correction="exact"), fast="none"),
    "sgrhmc-none": Row(quietly(SGRHMC, step_size=0.15, correction="none"), fast="none"),
    "psgld": Row(PSGLD(step_size=0.05), thin=24),
    "psgld-hk2": Row(PSGLD(step_size=0.05, correction="hk2"), thin=24, fast="law"),
    "psgld-held": Row(PSGLD(step_size=0.05, correction="pec", metric_batch=0.5), thin=24, fast="none"),
    "psgld-fixman": Row(PSGLD(step_size=0.05, correction="fixman"), thin=24, fast="none"),
    "psgld-rfd": Row(PSGLD(step_size=0.05, correction="rfd"), thin=24, fast="none"),
    "psgld-hutchinson": Row(PSGLD(step_size=0.05, correction="hutchinson"), thin=24, fast="none"),
    "psgld-exact": Row(PSGLD(step_size=0.05, correction="exact"), thin=24, fast="none"),
    "psgld-none": Row(quietly(PSGLD, step_size=0.05, correction="none"), thin=24, fast="law"),
    "monge": Row(Monge(step_size=0.05, alpha=0.3), thin=24, fast="law"),
    "monge-pec": Row(Monge(step_size=0.025, alpha=0.3, correction="pec"), thin=48, fast="none"),
    "shampoo": Row(Shampoo(step_size=0.05, epsilon=1.0, largest=3), thin=24, fast="none"),
    "riemannian-block": Row(Riemannian(step_size=0.05, metric=Block(1.0)), thin=24, fast="none"),
    "riemannian": Row(Riemannian(step_size=0.05, metric=Position(Gentle())), thin=24, fast="law"),
    "riemannian-windowed": Row(Riemannian(step_size=0.05, metric=Windowed(1.0, window=100)), thin=24, fast="law"),
    "adamsgld": Row(quietly(AdamSGLD, step_size=0.05, momentum=0.0, decay=0.0, floor=1.0), thin=24, fast="law"),
    "msgld": Row(quietly(MSGLD, step_size=0.025, momentum=0.0), thin=48, fast="none"),
    "stanley": Row(Stanley(step_size=0.2, threshold=2.0), thin=16),
    "stanley-coordinate": Row(Stanley(step_size=0.15, threshold=0.7, form="smooth", per="coordinate"), fast="none"),
    "stanley-none": Row(quietly(Stanley, step_size=0.05, threshold=1.0, correction="none"), thin=48, fast="law"),
    "stanley-none-coordinate": Row(
        quietly(Stanley, step_size=0.05, form="smooth", per="coordinate", correction="none"), thin=24, fast="none"
    ),
    "stanley-printed": Row(quietly(Stanley, step_size=0.05, every=4, correction="none"), thin=24, fast="none"),
    "stanley-weights": Row(Stanley(step_size=0.05, threshold=1.0, correction="weights"), thin=48, fast="law"),
    "stanley-hk2": Row(Stanley(step_size=0.05, threshold=2.0, form="smooth", correction="hk2"), thin=24, fast="none"),
    "stanley-pec": Row(Stanley(step_size=0.05, threshold=2.0, form="smooth", correction="pec"), thin=24, fast="none"),
    "noisescaled": Row(quietly(NoiseScaled, step_size=0.025, per="coordinate"), thin=24, fast="law"),
    "noisescaled-toy": Row(
        quietly(NoiseScaled, step_size=0.025, per="coordinate", variant="toy"), thin=48, fast="none"
    ),
    "ensemblesgld": Row(EnsembleSGLD(step_size=0.05), thin=24, fast="law"),
    "samadams": Row(SamAdams(step_size=0.2, friction=2.0), fast="law"),
    "csgld": Row(CSGLD(step_size=0.04, **CONTOUR), thin=20),
    "replicaexchange": Row(ReplicaExchange(SGLD(step_size=0.05), temperatures=(1.0, 2.0), every=2), thin=24),
    "replicaexchange-ladder": Row(
        ReplicaExchange(Underdamped(step_size=0.4, friction=2.0), temperatures=(1.0, 1.6, 2.5, 4.0), every=3),
        fast="none",
    ),
    "mala": Row(MALA(step_size=0.1)),
    "tmala": Row(TMALA(step_size=0.1, bound=2.0), fast="law"),
    "amala": Row(AMALA(step_size=0.05, bound=1.0, floor=0.5), thin=24, fast="law"),
    "ghmc": Row(GHMC(step_size=0.7, gamma=0.8), fast="law"),
    "hmc": Row(HMC(step_size=0.3, n_leapfrog=4), thin=4),
    "hmc-mclachlan": Row(HMC(step_size=0.5, n_leapfrog=2, integrator="mclachlan"), thin=4, fast="none"),
    "mclmc": Row(MCLMC(step_size=1.0, length=2.0), thin=8),
    "mclmc-verlet": Row(MCLMC(step_size=0.6, length=2.0, integrator="verlet"), fast="none"),
    "mams": Row(MAMS(step_size=2.0, length=4.0), thin=4),
    "mams-memory": Row(MAMS(step_size=2.0, length=4.0, memory=1.0), thin=4, fast="none"),
    "smile": Row(SMILE(step_size=0.5, length=2.0)),
    "publishedsmile": Row(
        quietly(PublishedSMILE, step_size=0.1),
        skip="no law is known for it, and its step size drifts without end: test_smile.py",
    ),
    "thin": Row(Thin(SGLD(step_size=0.05), n=4), thin=6, fast="none"),
    "ema": Row(EMA(SGLD(step_size=0.05)), thin=24, fast="none"),
    "guard": Row(Guard(SGLD(step_size=0.05)), thin=24, fast="law"),
    "nuts": Row(NUTS(step_size=0.4, max_doublings=4), thin=2, fast="none"),
    "blackjax-mala": Row(BlackJAX("mala", {"step_size": 0.1}), fast="none"),
    "cyclical": Row(Cyclical(SGLD(step_size=0.05), period=64), skip="its law is per cycle: test_cyclical.py"),
    "optimize": Row(Optimize(), skip="it samples no law: test_tune.py looks for the mode"),
}
