"""What the documents say is run: README's code, its commands, the public names."""

import re
import warnings
from pathlib import Path

import pytest

import langevin
from langevin.core.record import replace
from langevin.tune.plan import PLANS

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_readme_code_runs(block, capsys, monkeypatch):
    """As it stands; only the plan behind an estimator is short and not tuned, for `make demo` runs it whole.

    A block that names the plan and shortens it itself has it as it is.
    """
    if "PLANS" not in BLOCKS[block]:
        plan = PLANS["mile"]
        short = replace(plan, kernel=replace(plan.kernel, step_size=0.01), tune=None, ascent=80, draws=8, thin=4)
        monkeypatch.setitem(PLANS, "mile", short)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a kernel with a wrong law says so
        exec(compile(BLOCKS[block], f"README block {block}", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


def test_public_names_resolve():
    for name in langevin.__all__:
        assert getattr(langevin, name) is not None
    with pytest.raises(AttributeError, match="attribute nothing"):
        langevin.nothing  # noqa: B018


def test_import_is_light():
    """`import langevin` alone loads neither JAX nor anything else heavy."""
    import subprocess
    import sys

    heavy = ("jax", "sklearn", "matplotlib", "equinox", "pandas")
    code = f"import sys, langevin; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_commands_in_readme_exist():
    from langevin.cli.figures import BENCH

    named = set(re.findall(r"langevin bench (\w+)", (ROOT / "README.md").read_text()))
    assert named <= set(BENCH.modules())
