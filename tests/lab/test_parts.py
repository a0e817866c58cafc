"""Results that are made in parts: stopped and gone on with, they are those of one run."""

from __future__ import annotations

import pytest
from langevin_lab.experiments import dais_table2


@pytest.mark.slow
def test_a_stopped_result_is_that_of_one_run(tmp_path):
    how = dict(data="vae_1")
    stopped = dais_table2.run("quick", 0, store=tmp_path / "parts", seconds=0.01, **how)
    assert stopped.figures == {}
    assert stopped.table[0]["epochs"] < 2
    again = dais_table2.run("quick", 0, store=tmp_path / "parts", **how)
    whole = dais_table2.run("quick", 0, store=tmp_path / "whole", **how)
    assert again.figures == whole.figures
