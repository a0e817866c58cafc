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
    "name", ["chain1d", *(pytest.param(n, marks=pytest.mark.slow) for n in ("compile", "overhead", "firsthour"))]
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


SCRIPT = """
import jax.numpy as jnp
import langevin as lv
from langevin.targets.zoo import Gaussian
target, base = Gaussian(jnp.ones(2), jnp.full(2, 0.5)), lv.evidence.Normal(jnp.zeros(2), 2.0)
"""


def test_evidence_of_a_script(tmp_path):
    script, file = tmp_path / "model.py", tmp_path / "e.json"
    script.write_text(SCRIPT)
    words = ["evidence", str(script), "--method", "importance", "--method", "laplace", "--method", "bridge"]
    out = runner.invoke(app, [*words, "--json", str(file)])
    assert out.exit_code == 0, out.output
    first, second, third = json.loads(file.read_text())["table"]
    assert abs(first["log_z"]) < 5 * first["stderr"]
    assert first["guarantee"] == "unbiased-Z"
    assert abs(second["log_z"]) < 1e-3
    assert "needs draws of the target" in third["words"]
    assert "no answer" in out.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing.py"], "there is no file nothing.py"),
        (["model.py", "--method", "magic"], "there is no method 'magic'; there are ais, hais"),
        (["empty.py"], "has no 'target'; a script sets `target` and `base`"),
        (["."], "is a model; say what it is to explain by --data"),
        (["model.py", "--method", "bridge"], "no method gave an answer; evidence: bridge needs draws"),
    ],
)
def test_evidence_says_what_is_wrong(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SCRIPT)
    (tmp_path / "empty.py").write_text("")
    out = runner.invoke(app, ["evidence", *words, "--quiet"])
    assert out.exit_code == 2
    assert sentence in " ".join(out.output.split())


def test_the_version_is_told():
    import langevin

    out = CliRunner().invoke(app, ["--version"])
    assert out.exit_code == 0
    assert out.output.strip() == f"langevin {langevin.__version__}"
