"""Names an editor sees: their number, their signatures, and their types."""

import inspect
import subprocess
import sys

import pytest

import langevin as lv

PROGRAM = """
import langevin as lv

reveal_type(lv.SGLD)
reveal_type(lv.samplers.EMA)
reveal_type(lv.evidence.AIS)
lv.SGLD(step_siz=3)
"""


def test_the_top_level_is_small_and_sub_packages_are_there():
    assert len(lv.__all__) <= 60
    for name in ("tune", "targets", "energy", "diffusion", "nets", "diagnostics", "samplers", "evidence", "schedules"):
        assert inspect.ismodule(getattr(lv, name))


def test_sample_shows_its_whole_signature():
    shown, loop = inspect.signature(lv.sample).parameters, inspect.signature(lv.run).parameters
    assert list(shown) == [*loop, "tune", "progress"]
    assert [p.default for p in shown.values()] == [*(p.default for p in loop.values()), None, False]
    assert all(f"{name}: " in lv.sample.__doc__ for name in shown)


@pytest.mark.slow
def test_a_type_checker_sees_classes_and_mistakes(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    told = subprocess.run([sys.executable, "-m", "mypy", str(file)], capture_output=True, text=True).stdout
    assert "-> langevin.samplers.sgld.SGLD" in told
    assert "-> langevin.samplers.wrappers.ema.EMA" in told
    assert "-> langevin.evidence.annealing.ais.AIS" in told
    assert 'Unexpected keyword argument "step_siz" for "SGLD"' in told
