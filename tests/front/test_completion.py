"""The shell completes names, in bash, zsh and fish, without importing JAX."""

import os
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from langevin.cli import app, complete

PROGRAM = "import sys; sys.argv[0] = 'langevin'; from langevin.cli import main; "
QUIET = "\nassert not {'jax', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)"


def ask(env, *words):
    """What the program prints under the environment variables that a shell sets; and in how many seconds."""
    code = PROGRAM + "\ntry: main()\nfinally:" + QUIET.replace("\n", " ")
    began = time.perf_counter()
    out = subprocess.run(
        [sys.executable, "-c", code, *words], env=dict(os.environ, **env), capture_output=True, text=True
    )
    assert "Traceback" not in out.stderr, out.stderr
    return out.stdout, time.perf_counter() - began


def bash(*words):
    return ask(dict(_LANGEVIN_COMPLETE="complete_bash", COMP_WORDS=" ".join(words), COMP_CWORD=str(len(words) - 1)))


CASES = [
    (("fit", "--plan", "s"), {"smile", "swag"}),
    (("fit", "x.csv", "--kernel", "sgl"), {"sgld"}),
    (("fit", "x.csv", "--task", "c"), {"classification"}),
    (("fit", "di"), {"diabetes", "digits"}),
    (("kernels", "sg"), {"sghmc", "sgld", "sgnht", "sgrhmc"}),
    (("cite", "psg"), {"psgld"}),
    (("audit", "mcl"), {"mclmc"}),
    (("bench", "me"), {"memory"}),
    (("bench", "memory", "--size", "q"), {"quick"}),
    (("reproduce", "evidence-b"), {"evidence-bnn"}),
    (("evidence", "x.py", "--method", "da"), {"dais"}),
    (("ev",), {"evidence"}),
    (("fit", "nothing-like-it"), set()),  # the shell goes on with files
]


def test_names_are_completed():
    """One process for all but the first, which is a process of its own as in a shell."""
    told, seconds = bash("langevin", *CASES[0][0])
    assert set(told.split()) == CASES[0][1]
    assert seconds < 3  # 0.3 s on an idle machine; a generous bound where others compute
    for words, names in CASES[1:]:
        env = dict(COMP_WORDS=" ".join(("langevin", *words)), COMP_CWORD=str(len(words)))
        out = CliRunner().invoke(app, [], prog_name="langevin", env=env | {"_LANGEVIN_COMPLETE": "complete_bash"})
        assert set(out.stdout.split()) == names, words


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_answered(shell):
    env = {"_LANGEVIN_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "langevin fit --plan s"}
    out = CliRunner().invoke(app, [], prog_name="langevin", env=env | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})
    assert "smile" in out.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_and_installed(shell, tmp_path):
    env = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    out, _ = ask(env, "--show-completion", shell)
    assert "_LANGEVIN_COMPLETE=complete_" + shell in out
    out, _ = ask(env, "--install-completion", shell)
    assert "completion installed" in out
    assert any("LANGEVIN_COMPLETE" in f.read_text() for f in tmp_path.rglob("*") if f.is_file())


def test_the_names_are_those_of_the_library():
    from langevin.audit import trials
    from langevin.cli import figures
    from langevin.core.kernel import registered
    from langevin.data.files import EMBEDDED
    from langevin.evidence import METHODS
    from langevin.nets.priors import PRIORS
    from langevin.vi.plans import PLANS

    ours = [name for name, cls in registered().items() if cls.__module__.startswith("langevin.")]
    assert complete.kernels("") == sorted(ours)
    assert set(complete.METHODS) == set(METHODS)
    assert set(complete.PLANS) == {"auto", *PLANS}
    assert set(complete.PRIORS) == set(PRIORS)
    assert complete.tables("") == list(EMBEDDED)
    assert set(complete.TRIALS) == set(trials.BUILT)
    assert complete.SIZES == figures.SIZES
    for kind in (figures.BENCH, figures.REPRODUCE):
        assert complete.FOLDERS[kind.command] == kind.package.partition(".")[2]
