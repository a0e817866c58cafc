"""One row per kernel: all a contributor edits. The generic tests in test_kernels.py take every row.

`kernel` is the setting to test, its step size the largest at which the claim of `law()` is to hold on the two test
targets (scales 0.5 to 2). `skip` says why a kernel is not tested for its law here, and where it is.
"""

from typing import Any, NamedTuple

from langevin.samplers.ascend import Ascend
from langevin.samplers.blackjax import NUTS, BlackJAX
from langevin.samplers.cyclical import Cyclical
from langevin.samplers.guard import Guard
from langevin.samplers.hmc import HMC
from langevin.samplers.mala import MALA
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.sgnht import SGNHT
from langevin.samplers.thin import Thin
from langevin.samplers.underdamped import Underdamped


class Row(NamedTuple):
    kernel: Any
    skip: str = ""
    thin: int = 12  # steps between two looks; more for a kernel that moves slowly


ROWS = {
    "sgld": Row(SGLD(step_size=0.05), thin=24),
    "sgld-rademacher": Row(SGLD(step_size=0.05, noise="rademacher"), thin=24),
    "sghmc": Row(SGHMC(step_size=0.1, friction=2.0)),
    "sgnht": Row(SGNHT(step_size=0.1, diffusion=2.0)),
    "underdamped": Row(Underdamped(step_size=0.4, friction=2.0)),
    "underdamped-obabo": Row(Underdamped(step_size=0.3, friction=2.0, scheme="OBABO")),
    "underdamped-aboba": Row(Underdamped(step_size=0.3, friction=2.0, scheme="ABOBA")),
    "underdamped-baoa": Row(Underdamped(step_size=0.3, friction=2.0, scheme="BAOA")),
    "mala": Row(MALA(step_size=0.1)),
    "hmc": Row(HMC(step_size=0.3, n_leapfrog=4), thin=4),
    "hmc-mclachlan": Row(HMC(step_size=0.5, n_leapfrog=2, integrator="mclachlan"), thin=4),
    "thin": Row(Thin(SGLD(step_size=0.05), n=4), thin=6),
    "guard": Row(Guard(SGLD(step_size=0.05)), thin=24),
    "nuts": Row(NUTS(step_size=0.4, max_doublings=4), thin=2),
    "blackjax-mala": Row(BlackJAX("mala", {"step_size": 0.1})),
    "cyclical": Row(Cyclical(SGLD(step_size=0.05), period=64), skip="its law is per cycle: test_cyclical.py"),
    "ascend": Row(Ascend(), skip="it samples no law: test_tune.py looks for the mode"),
}
