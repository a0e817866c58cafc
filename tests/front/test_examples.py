"""Each example of the gallery runs as a script; its last lines assert what its text says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    env |= {"MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "lab")])}
    done = subprocess.run(
        [sys.executable, str(path)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_the_format_of_the_gallery(path):
    """A title with a line of its length or longer, text cells, a picture, and assertions at the end."""
    text = path.read_text()
    title, line = text.removeprefix('"""\n').splitlines()[:2]
    assert title.endswith("?") or "?" in title, "the title is a question"
    assert set(line) == {"="}
    assert len(line) >= len(title)
    assert "\n# %%\n" in text
    assert "plt.subplots" in text
    last = re.split(r"\n# %%\n", text)[-1]
    assert last.count("assert ") >= 3
    assert "SystemExit" not in text


def test_there_are_enough_examples():
    assert len(EXAMPLES) >= 16
