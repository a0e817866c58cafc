"""64-bit numbers enabled: kernels keep the types of their states, and the default estimators fit."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from quick import first

KERNELS = """
    import sys, warnings
    warnings.simplefilter("ignore")
    import jax.numpy as jnp
    import numpy as np
    from langevin.core import noise
    from langevin.core.run import run
    from langevin.core.target import Density
    from rows import ROWS

    bowl = lambda x: -0.5 * jnp.sum(x**2)
    for name in sys.argv[1:] or ROWS:
        # BlackJAX's own kernels do not take float32 positions once 64-bit numbers are enabled
        foreign = type(ROWS[name].kernel).__module__.endswith("blackjax")
        for dtype in (np.float64,) if foreign else (np.float32, np.float64):
            start = np.linspace(-1, 1, 8).astype(dtype).reshape(4, 2)
            out = run(noise.key(0), ROWS[name].kernel, Density(bowl), start, draws=4, thin=2)
            assert out.states.position.dtype == out.kept.dtype == dtype, (name, dtype, out.kept.dtype)
            assert np.isfinite(np.asarray(out.kept)).all(), name
"""

FIT = """
    import sys, warnings
    from functools import partial
    import numpy as np
    import langevin as lv

    warnings.simplefilter("ignore")
    import langevin.report.gather  # what the command line imports besides
    x = np.linspace(-1, 1, 60)[:, None]
    for name in sys.argv[1:]:
        short = dict(rounds=1, steps=20 if name == "mile" else 40)
        plan = lv.PLANS[name]
        plan = lv.replace(plan, tune=partial(plan.tune, **short), draws=4, warmup=4, thin=2, ascent=20)
        model = lv.BayesianRegressor(hidden=(4,), chains=2, plan=plan).fit(x, x[:, 0] ** 2)
        assert np.isfinite(model.predict(x)).all(), name
"""


def check(script, *words):
    env = dict(os.environ, JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu", PYTHONPATH=str(Path(__file__).parents[1]))
    command = [sys.executable, "-c", textwrap.dedent(script), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_microcanonical_kernels_keep_the_types_of_their_states():
    check(KERNELS, "mclmc", "smile", "mams")


@pytest.mark.slow
def test_all_kernels_keep_the_types_of_their_states():
    check(KERNELS)


@pytest.mark.parametrize("plan", first(1, ["mile", "smile"]))
def test_the_default_plans_fit(plan):
    check(FIT, plan)
