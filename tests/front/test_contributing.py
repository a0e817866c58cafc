"""CONTRIBUTING says how a sampler is added; here that is done, to the letter, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("langevin", "lab/langevin_lab", "tests", "tools", "pyproject.toml")


def test_a_sampler_is_one_file_and_one_row(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    whole, imported, row = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    path = re.search(r"Save this as `(langevin/samplers/\w+\.py)`", text).group(1)
    for name in COPIED:
        there = tmp_path / name
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, there, ignore=skip) if (ROOT / name).is_dir() else shutil.copy(ROOT / name, there)
    (tmp_path / path).write_text(whole)
    rows = tmp_path / "tests" / "rows.py"
    here = rows.read_text().replace("\n\n\nclass Row", f"\n{imported}\n\nclass Row", 1)
    rows.write_text(here.replace("ROWS = {\n", f"ROWS = {{\n{row}", 1))

    env = os.environ | {"PYTHONPATH": f"{tmp_path}:{tmp_path / 'lab'}"}
    go = lambda *command: subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert "out of date" in go("tools/stubs.py", "--check").stderr
    assert go("tools/stubs.py").returncode == 0
    assert "ScaledSGLD as ScaledSGLD" in (tmp_path / "langevin/samplers/__init__.pyi").read_text()
    told = go("-m", "langevin.cli", "kernels", "scaledsgld")
    assert "whose steps are all scaled alike" in told.stdout, told.stderr
    # the generic tests that take a second; the others take what they take for any kernel
    chosen = "scaledsgld and (consistent or documented or stable) or every_kernel_has_a_row"
    tests = ["tests/samplers/test_kernels.py", "-q", "-k", chosen, "-p", "no:cacheprovider"]
    done = go("-m", "pytest", *tests, "-o", "addopts=")
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    assert "scaledsgld" in go("-m", "langevin.cli", "audit", "--list").stdout
