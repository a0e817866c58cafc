"""A model's folder: whole or refused in one sentence, safe to receive."""

import json
import shutil
import warnings

import commands
import numpy as np
import pytest

from langevin.core import document
from langevin.core.files import StoreError
from langevin.estimators.files import load
from langevin.report import comparison, evidence, folder
from langevin.samplers.sgld import SGLD

pytestmark = pytest.mark.xdist_group("test_fit")  # whose programs it shares
COMMON = ["--chains", "2", "--hidden", "4", "--draws", "4", "--quiet"]


@pytest.fixture(scope="module")
def table(short_plans, tmp_path_factory):
    return commands.table(tmp_path_factory.mktemp("table") / "t.csv")


def call(*words, code=0):
    out = commands.call(*words, code=code)
    return " ".join((out.output + str(out.exception or "")).split())


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    """A finished model, by a kernel that no plan has."""
    home = tmp_path_factory.mktemp("fitted")
    call("fit", table, *COMMON, "--kernel", "sgld", "--step-size", "1e-6", "--out", home / "done")
    about = dict(rows="a", n=60, task="regression", data="t", target="y", trained=True)
    evidence.write(home / "done", about, dict(method="ais", seed=0, log_z=-1.0, stderr=0.1, ess=5.0, guarantee="none"))
    return home


def test_a_kernel_that_no_plan_has_is_not_taken_for_mile(fitted):
    model = load(fitted / "done")
    assert type(model.plan_.kernel) is SGLD
    assert type(model.kernel) is SGLD
    assert float(model.posterior_.kernel.step_size) == np.float32(1e-6)


def test_two_fits_do_not_share_a_folder(table, tmp_path):
    with folder.lock(tmp_path / "m"):
        assert "is in use by process" in call("fit", table, *COMMON, "--out", tmp_path / "m", code=1)


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_kill_while_a_folder_is_replaced_loses_nothing(fitted, tmp_path, moment):
    """What is needed to go on is taken over from the old folder: before, between or after the two renames."""
    old = {"before": "m", "between": "m.old", "after": "m.old"}[moment]
    shutil.copytree(fitted / "done", tmp_path / old)
    new = tmp_path / ("m" if moment == "after" else "m.new")
    (new / "unfinished").mkdir(parents=True)
    (new / "unfinished" / "asked.json").write_text("{}")
    folder.recover(tmp_path / "m")
    assert (tmp_path / "m" / "unfinished" / "asked.json").exists()
    if moment != "after":
        assert load(tmp_path / "m").posterior_.info.ok.shape == (2, 4)


# --- damage ---------------------------------------------------------------------------------------------------------


def everything(path):
    """All that commands read of a folder, as bytes to compare."""
    model, (facts,) = load(path), folder.read_data(path)
    scores = comparison.compared(path, path)
    numbers = [model.posterior_.draws, model.posterior_.info, model.start_, facts.predictions.mean, model.epistemic_]
    text = repr([scores, facts.data, model.get_params(), folder.read_fit(path), evidence.read(path), model.plan_])
    return [np.asarray(u).tobytes() for u in flat(numbers)] + [text]


def flat(x):
    import jax

    return jax.tree.leaves(x)


def spoil(body, how, rng):
    at = int(rng.integers(len(body)))
    if how == "flip":
        return body[:at] + bytes([body[at] ^ (1 << int(rng.integers(8)))]) + body[at + 1 :]
    if how == "cut":
        return body[:at]
    return {"empty": b"", "zeros": bytes(len(body)), "noise": rng.bytes(len(body))}[how]


@pytest.mark.parametrize("how", ["flip", "cut", "empty", "zeros", "noise", "gone"])
def test_a_damaged_folder_is_refused_in_one_sentence_or_read_as_it_was(fitted, tmp_path, how):
    whole, rng = everything(fitted / "done"), np.random.default_rng(0)
    names = sorted(f.name for f in (fitted / "done").iterdir())
    assert {"estimator.npz", "report.npz", "scores.json", "fit.json", "posterior.npz", "evidence.json"} <= set(names)
    refused = 0
    for name in names:
        copy = tmp_path / f"{how}-{name}"
        shutil.copytree(fitted / "done", copy)
        if how == "gone":
            (copy / name).unlink()
        else:
            (copy / name).write_bytes(spoil((fitted / "done" / name).read_bytes(), how, rng))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = everything(copy)
            except StoreError as error:
                refused += 1
                told = str(error)
            else:
                told = " ".join(str(w.message) for w in said)
                same = [a == b for a, b in zip(found, whole, strict=True)]
                optional = how == "gone" and name in ("fit.json", "evidence.json")
                assert all(same) or optional or "draws a chain are lost" in told, (name, same)
                continue
        assert name in told or name.split(".")[0] in told or "both manifests" in told, (name, told)
        assert "Error:" not in told
    assert refused >= 7


def resealed(path, name, change):
    """An untrusted document: changed, with a digest that agrees."""
    body = json.loads((path / f"{name}.json").read_text())
    del body["sha256"]
    change(body["body"])
    (path / f"{name}.json").write_bytes(document.seal(body))


def test_a_network_larger_than_its_arrays_is_refused_before_it_is_built(fitted, tmp_path):
    shutil.copytree(fitted / "done", tmp_path / "m")
    resealed(tmp_path / "m", "estimator", lambda body: body["params"].update(hidden=[4_000_000, 4_000_000]))
    with pytest.raises(StoreError, match=r"estimator\.json describes has arrays of shapes .* and those saved are"):
        load(tmp_path / "m")


@pytest.mark.parametrize("change", [dict(kind="os.system"), dict(params={"hiden": 3}), dict(kept=None), dict(plan=3)])
def test_an_untrusted_estimator_is_one_sentence(fitted, tmp_path, change):
    shutil.copytree(fitted / "done", tmp_path / "m")
    resealed(tmp_path / "m", "estimator", lambda body: body.update(change))
    with pytest.raises(StoreError, match=r"estimator\.json is not as langevin writes it"):
        load(tmp_path / "m")


@pytest.mark.parametrize("change", [dict(guarantee="gold"), dict(log_z="x"), dict(table=3)])
def test_an_untrusted_evidence_is_one_sentence(fitted, tmp_path, change):
    shutil.copytree(fitted / "done", tmp_path / "m")
    resealed(
        tmp_path / "m", "evidence", lambda body: (body[0] if "table" in change else body[0]["table"][0]).update(change)
    )
    with pytest.raises(StoreError, match=r"evidence\.json cannot be read"):
        folder.read_data(tmp_path / "m")


@pytest.mark.parametrize("link", ["report.html", "report.html.writing"])
def test_a_report_does_not_follow_a_link(fitted, tmp_path, link):
    shutil.copytree(fitted / "done", tmp_path / "m")
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "m" / link).symlink_to(tmp_path / "victim")
    call("report", tmp_path / "m")
    assert (tmp_path / "victim").read_text() == "precious"
    assert "<html" in (tmp_path / "m" / "report.html").read_text()
