"""The command line: figures in one shape, one sentence and exit code 2 for a mistake."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from langevin.cli import app

runner = CliRunner()


def test_kernels(tmp_path):
    out = runner.invoke(app, ["kernels", "--json", str(tmp_path / "k.json")])
    assert out.exit_code == 0
    body = json.loads((tmp_path / "k.json").read_text())
    assert "p^(1/T)" in body["sgld"]["law"]
    assert body["sgnht"]["fields"]["diffusion"]["meaning"].startswith("A, the injected noise")
    one = runner.invoke(app, ["kernels", "hmc"])
    assert "Neal (2011)" in one.output


def test_bench_list_names_every_file():
    out = runner.invoke(app, ["bench", "--list"])
    for name in ("overhead", "bnn", "chain1d", "compile", "memory"):
        assert name in out.output


def test_reproduce_list_names_every_result():
    out = runner.invoke(app, ["reproduce", "--list"])
    for name in ("adaptive-bias", "adaptive-gamma", "adaptive-freeze", "adaptive-minibatch", "adaptive-bnn"):
        assert name in out.output


@pytest.mark.parametrize(
    "name", ["chain1d", *(pytest.param(n, marks=pytest.mark.slow) for n in ("compile", "overhead"))]
)
def test_a_quick_bench_writes_the_shape(name, tmp_path):
    file = tmp_path / "b.json"
    out = runner.invoke(app, ["bench", name, "--size", "quick", "--json", str(file), "--quiet"])
    assert out.exit_code == 0, out.output
    body = json.loads(file.read_text())
    assert body["name"] == name
    assert all(isinstance(v, (int, float)) for v in body["figures"].values())
    assert {"seed", "versions", "device", "seconds"} <= set(body["provenance"])
    if name == "compile":
        assert body["figures"]["recompiles"] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bench", "nothing"], "there is no benchmark named 'nothing'"),
        (["reproduce", "nothing"], "there is no result named 'nothing'"),
        (["reproduce", "adaptive-freeze", "--data", "x.csv"], "has no table to replace"),
        (["kernels", "nothing"], "there is no kernel named 'nothing'"),
        (["bench", "chain1d", "--size", "huge"], "it must be cpu, gpu or quick"),
        (["reproduce", "adaptive-freeze", "--figure", "a.txt"], "must end in .png or .svg"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(words, sentence):
    done = subprocess.run([sys.executable, "-m", "langevin.cli", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
