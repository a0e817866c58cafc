"""Every row and every plan: saved, loaded in a new process and continued, it draws what an uninterrupted run draws."""

import hashlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import ROWS

from langevin.core import document, noise
from langevin.core.arrays import is_key
from langevin.core.posterior import Posterior, sample
from langevin.core.record import replace
from langevin.core.target import Density
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.tune.plan import PLANS

pytestmark = pytest.mark.xdist_group("roundtrip")  # one process saves all, and one loads all
HERE = Path(__file__).parent
DRAWS, CHAINS = 3, 4
FAST = ("sghmc", "sgnht", "psgld", "shampoo", "riemannian-windowed", "stanley-weights", "samadams", "csgld",
        "replicaexchange", "tmala", "smile", "cyclical", "ema")  # fmt: skip
NEEDS = {"nuts": "blackjax", "blackjax-mala": "blackjax"}


def bowl(position):
    return -0.5 * jnp.sum(jnp.arange(1.0, 4.0)[None] * position["w"] ** 2)


def key():
    return noise.key(3, impl="hash")


def checked(name):
    """BlackJAX's own loops trip the reuse checker under vmap."""
    return jax.debug_key_reuse(name not in NEEDS)


def begin(name, draws=DRAWS):
    """A short run of a row's kernel."""
    start = {"w": np.linspace(-1, 1, CHAINS * 6, dtype=np.float32).reshape(CHAINS, 2, 3)}
    with checked(name):
        return sample(key(), ROWS[name].kernel, Density(bowl), start, draws=draws, chunk=DRAWS)


def network(key):
    return MLP((1, 3, 1), key)


def planned(name, draws=2):
    """A plan from random starts on a small network; training is no part of what is saved."""
    plan = replace(PLANS[name], draws=draws, thin=2)
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
    model = bnn(network, (x, np.sin(3 * x[:, 0])), noise=0.3)
    return plan, model.target, model.starts(noise.key(4, impl="hash"), 2)


def drawn(name, draws=2):
    plan, target, starts = planned(name, draws)
    return plan.sampled(key(), target, starts)


def mark(posterior):
    """A digest of draws, Info and states."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves((posterior.draws, posterior.info, posterior.state)):
        found.update(np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf).tobytes())
    return found.hexdigest()


def child(folder):
    """What the new process does: load all that is in the folder, go on, and print the digests."""
    for path in sorted(Path(folder).iterdir()):
        kind, _, name = path.name.partition(" ")
        posterior = Posterior.load(path)
        if kind == "plan":
            done = document.load(path, "plan").more(key(), planned(name)[1], posterior, 2)
        else:
            with checked(name):
                done = posterior.more(key(), Density(bowl), DRAWS, chunk=DRAWS)
        print(json.dumps([path.name, mark(done)]), flush=True)


@pytest.fixture(scope="module")
def continued(request, tmp_path_factory):
    """The digest of every row and plan that is to be tested: saved here, gone on with in one new process."""
    folder = tmp_path_factory.mktemp("saved")
    mine = [item for item in request.session.items if item.path.name == Path(__file__).name]
    for name in [item.callspec.params["row"] for item in mine if "row" in item.callspec.params]:
        begin(name).save(folder / f"row {name}")
    for name in [item.callspec.params["plan"] for item in mine if "plan" in item.callspec.params]:
        drawn(name).save(folder / f"plan {name}")
        assert document.save(folder / f"plan {name}", "plan", planned(name)[0]) == {}
    code = f"import conftest, test_roundtrip; test_roundtrip.child({str(folder)!r})"
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(HERE), str(HERE.parent), *sys.path]))
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return dict(json.loads(line) for line in out.stdout.splitlines())


def rows():
    """Every row; the fast suite has one of each kind of state: memory, metrics, wrappers, groups, weights, events."""
    for name in ROWS:
        marks = [] if name in FAST else [pytest.mark.slow]
        if name in NEEDS:
            marks.append(pytest.mark.skipif(find_spec(NEEDS[name]) is None, reason=f"needs {NEEDS[name]}"))
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("row", rows())
def test_a_row_goes_on_in_a_new_process(row, continued):
    assert continued[f"row {row}"] == mark(begin(row, 2 * DRAWS))


@pytest.mark.parametrize("plan", [pytest.param(n, marks=[] if n == "mile" else [pytest.mark.slow]) for n in PLANS])
def test_a_plan_goes_on_in_a_new_process(plan, continued):
    assert continued[f"plan {plan}"] == mark(drawn(plan, 4))
