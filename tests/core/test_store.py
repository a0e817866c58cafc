"""Draws on disk: equal to those in memory bit for bit, and the folder of another run is refused."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stored_run import KERNEL, START, TARGET, Failing, go, module, same

from langevin.core.files import StoreError
from langevin.core.fingerprint import fingerprint
from langevin.core.kernel import replace
from langevin.core.shards import Stored
from langevin.core.store import Store
from langevin.core.target import Density


def test_a_stream_to_disk_is_what_is_in_memory(tmp_path, whole):
    out = go(tmp_path / "run")
    assert isinstance(out.kept, Stored)
    assert len(out.kept) == 40
    same(out, whole)
    assert [u.shape for u in out.kept] == [(2, 8, 3)] * 5
    np.testing.assert_array_equal(Stored.at(tmp_path / "run").load(), whole.kept)


def test_warm_up_is_not_stored(tmp_path, whole):
    out = go(tmp_path / "run", draws=20, warmup=20)
    assert out.kept.load().shape == (2, 20, 3)
    np.testing.assert_array_equal(out.kept.load(), whole.kept[:, 20:])


def test_bfloat16_draws_are_rounded_and_the_chain_is_not(tmp_path, whole):
    out = go(Store(tmp_path / "run", dtype="bfloat16"))
    assert str(out.kept.load().dtype) == "bfloat16"
    np.testing.assert_array_equal(out.kept.load(), whole.kept.astype(jnp.bfloat16))
    same(out.states, whole.states)
    with pytest.raises(StoreError, match="its dtype differ"):
        go(tmp_path / "run")


@pytest.mark.parametrize("at", [8, 16, 40])
def test_resume_after_an_exception_is_bit_identical(tmp_path, whole, at):
    with pytest.raises(ZeroDivisionError):
        go(tmp_path / "run", callbacks=(Failing(at),))
    # the chunk whose visit failed is not on disk: it was not finished
    assert len(Stored.at(tmp_path / "run")) == at - 8
    same(go(tmp_path / "run"), whole)
    same(go(tmp_path / "run"), whole)


def test_resume_in_warm_up(tmp_path, whole):
    with pytest.raises(ZeroDivisionError):
        go(tmp_path / "run", draws=20, warmup=20, callbacks=(Failing(-4),))
    out = go(tmp_path / "run", draws=20, warmup=20)
    np.testing.assert_array_equal(out.kept.load(), whole.kept[:, 20:])


def test_resume_with_more_draws_and_other_chunks(tmp_path, whole):
    first = go(tmp_path / "run", draws=16)
    np.testing.assert_array_equal(first.kept.load(), whole.kept[:, :16])
    same(go(tmp_path / "run", chunk=7), whole)


class Decay:
    """A visit that changes kernel and target: what a checkpoint must remember."""

    def __call__(self, progress):
        kernel, target = progress.kernel, progress.target
        data = dict(target.data, y=target.data["y"] * 0.9)
        kernel = replace(kernel, step_size=float(kernel.step_size) * 0.9)
        return progress._replace(kernel=kernel, target=replace(target, data=data))


def test_what_visits_changed_is_resumed(tmp_path):
    undisturbed = go(callbacks=(Decay(),))
    with pytest.raises(ZeroDivisionError):
        go(tmp_path / "run", callbacks=(Decay(), Failing(24)))
    same(go(tmp_path / "run", callbacks=(Decay(),)), undisturbed)
    # only the changed array is copied into the checkpoint, not the inputs
    with np.load(next((tmp_path / "run").glob("checkpoint-*.npz"))) as file:
        assert sorted(n for n in file.files if n.startswith("target.")) == ["target.1"]


def test_a_change_of_structure_is_refused_on_resume(tmp_path):
    from langevin.core.schedule import Linear

    def scheduled(progress):
        return progress._replace(kernel=replace(progress.kernel, step_size=Linear(0.02, 0.01)))

    go(tmp_path / "run", draws=8, callbacks=(scheduled,))
    with pytest.raises(StoreError, match="a visit changed the structure of the kernel"):
        go(tmp_path / "run")


def test_a_tree_that_is_not_of_dicts_comes_back_as_it_was(tmp_path):
    """An Equinox-like position: leaves in their own order, not that of sorted names."""
    import equinox as eqx

    class Net(eqx.Module):
        weight: jax.Array
        bias: jax.Array

    start = {"net": Net(np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))}
    options = dict(target=Density(net_density), start=start, draws=12)
    memory, disk = go(**options), go(tmp_path / "run", **options)
    same(disk, memory)
    assert isinstance(disk.kept.load()["net"], Net)
    again = go(tmp_path / "run", **options)  # nothing left to do: the structure is found without a draw
    assert isinstance(again.kept.load()["net"], Net)
    plain = Stored.at(tmp_path / "run").load()
    np.testing.assert_array_equal(plain["net"]["weight"], memory.kept["net"].weight)
    like = Stored.at(tmp_path / "run", like=jax.tree.map(lambda u: u[0], start)).load()
    np.testing.assert_array_equal(like["net"].weight, memory.kept["net"].weight)


def net_density(position):
    return -0.5 * jnp.sum((position["net"].weight - 2.0) ** 2) - 2.0 * jnp.sum(position["net"].bias ** 2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (dict(seed=8), "key"),
        (dict(kernel=replace(KERNEL, step_size=0.03)), "kernel"),
        (dict(start=START + 1), "start"),
        (dict(thin=2), "thin"),
        (dict(warmup=8), "warmup"),
        (dict(target=replace(TARGET, batch=4)), "target"),
        (dict(kernel=replace(KERNEL, friction=1.0), thin=3), "kernel and thin"),
    ],
)
def test_another_runs_folder_is_refused(tmp_path, change, named):
    go(tmp_path / "run", draws=8)
    with pytest.raises(StoreError, match=rf"holds another run \(its {named} differ, .*\); use another folder"):
        go(tmp_path / "run", **change)


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(StoreError, match="is not empty and holds no run of langevin; use another folder"):
        go(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_file_as_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="store: cannot write to"):
        go(tmp_path / "file" / "run")


USERS = """
import jax.numpy as jnp
from langevin.core.record import record
from langevin.core.target import Density

SCALE = 1.0

def half(x):
    return -0.5 * x**2

def density(x):
    return jnp.sum(half(x)) * SCALE
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("-0.5", "-50"), ("SCALE = 1.0", "SCALE = 2.0"), ("x**2", "x**4"), ("jnp.sum", "jnp.max")],
    ids=["constant", "global", "power", "name"],
)
def test_a_function_that_changed_under_its_name_is_refused(tmp_path, monkeypatch, old, new):
    """In itself, in a function it calls, or in a number of its module; what stands around it does not count."""
    assert old in USERS
    target = lambda text: Density(module(tmp_path, monkeypatch, text).density)
    options = dict(kernel=KERNEL, start=START, draws=8)
    go(tmp_path / "run", target=target(USERS), **options)
    remarks = "# a remark\n" + USERS.replace("def half(x):", "def half(x):\n    'words'\n")
    go(tmp_path / "run", target=target(remarks), **options)
    with pytest.raises(StoreError, match=r"holds another run \(its target differ, in numbers, data or code\)"):
        go(tmp_path / "run", target=target(USERS.replace(old, new)), **options)


def test_a_method_of_a_users_class_counts(tmp_path, monkeypatch):
    text = (
        USERS
        + """
@record
class Own:
    scale: float = 1.0

    def log_density(self, x):
        return self.scale * jnp.sum(half(x))
"""
    )
    one, same_again, other = (
        fingerprint(module(tmp_path, monkeypatch, t).Own())
        for t in (text, text, text.replace("jnp.sum(half", "3 * jnp.sum(half"))
    )
    assert one == same_again != other


def test_a_folder_in_use_is_refused(tmp_path, whole):
    def another(progress):
        with pytest.raises(StoreError, match=rf"the folder {folder} is in use by process {os.getpid()}"):
            go(folder)
        return progress

    folder = tmp_path / "run"
    same(go(folder, callbacks=(another,)), whole)
    assert not (folder / "lock").exists()
    (folder / "lock").write_text("process 1 on a machine that is gone")  # left by a killed process
    same(go(folder), whole)
