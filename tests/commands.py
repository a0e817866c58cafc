"""Commands run in this process, and one small table: fits of it share their programs between files of tests."""

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from langevin.cli import app

runner = CliRunner()
SHORT = ["--kernel", "sgld", "--step-size", "1e-6", "--draws", "4", "--chains", "2", "--hidden", "4"]


def table(path, n=80):
    """Numbers with a gap, text, and a target that the numbers tell."""
    random = np.random.default_rng(0)
    x = random.normal(size=n)
    frame = pd.DataFrame(dict(x=x, kind=random.choice(["a", "b"], n), y=2 * x + 0.1 * random.normal(size=n)))
    frame.loc[3, "x"] = np.nan
    frame.to_csv(path, index=False)
    return str(path)


def call(*words, code=0):
    """What a command printed; it must end with this exit code."""
    out = runner.invoke(app, [str(w) for w in words])
    assert out.exit_code == code, out.output + repr(out.exception)
    return out
