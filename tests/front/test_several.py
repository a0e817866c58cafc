"""Several targets from the command line: one fit, and figures, a verdict and a page for each target."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import SHORT, call

from langevin.cli.evidence import _rows
from langevin.report.folder import page_paths, read_data


@pytest.fixture(scope="module")
def fitted(short_plans, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 2))
    frame = pd.DataFrame(dict(x=x[:, 0], z=x[:, 1], heat=20 + 5 * x[:, 0] + random.normal(size=100)))
    frame["cool, net"] = x[:, 1] - 0.2 * random.normal(size=100)
    frame.rename(columns={"cool, net": "cool net"}).to_csv(folder / "t.csv", index=False)
    said = call("fit", folder / "t.csv", "--target", "heat,cool net", *SHORT, "--out", folder / "m",
                "--report", folder / "r.html", "--json", folder / "f.json")  # fmt: skip
    return folder, said.output


def test_every_target_has_figures_and_a_verdict(fitted):
    folder, said = fitted
    body = json.loads((folder / "f.json").read_text())
    assert list(body["targets"]) == ["heat", "cool net"]
    assert body["figures"]["heat_rmse"] == body["targets"]["heat"]["figures"]["rmse"]
    assert 0.5 < body["figures"]["heat_rmse"] < 3
    assert body["figures"]["cool net_rmse"] < 0.6
    for name, column in (("heat", "x"), ("cool net", "z")):
        one = body["targets"][name]
        assert [row["model"] for row in one["table"]] == ["trivial", "linear", "boosting"]
        assert one["table"][1]["RMSE"] < 2, "the linear model was fitted to another target"
        assert one["drivers"][0]["column"] == column
        assert one["verdict"]["headline"] in said
    assert said.index("\nheat\n") < said.index("\ncool net\n")


def test_every_target_has_a_page(fitted):
    folder, said = fitted
    pages = [folder / "r-heat.html", folder / "r-cool-net.html"]
    assert not (folder / "r.html").exists()
    for page, name in zip(pages, ("heat", "cool net"), strict=True):
        assert f"report: {page}" in said.replace("\n", "")
        assert f"<b>{name}</b>" in page.read_text() or name in page.read_text()
    call("report", folder / "m", "--out", folder / "again.html", "--json", folder / "again.json")
    assert (folder / "again-heat.html").exists()
    assert (folder / "again-cool-net.html").exists()
    again, first = (json.loads((folder / f"{name}.json").read_text()) for name in ("again", "f"))
    assert again["figures"].keys() == first["figures"].keys()
    np.testing.assert_allclose(list(again["figures"].values()), list(first["figures"].values()), rtol=1e-3)


def test_the_folder_is_predicted_with_and_compared(fitted):
    folder, _ = fitted
    call("predict", folder / "m", folder / "t.csv", "--out", folder / "p.csv", "--quiet")
    names = list(pd.read_csv(folder / "p.csv").columns)
    assert names[0] == "heat mean"
    assert "cool net epistemic" in names
    call("compare", folder / "m", folder / "m", "--json", folder / "c.json")
    rows = json.loads((folder / "c.json").read_text())["table"]
    assert [row["score"] for row in rows] == ["log score", "PSIS-LOO", "WAIC"]
    each = json.loads((folder / "f.json").read_text())["figures"]
    np.testing.assert_allclose(rows[0]["first"], -each["heat_nll"] - each["cool net_nll"], rtol=1e-4)
    X, y, _, about = _rows(folder / "m", None, None)  # those it was trained on, for `langevin evidence`
    assert (len(X), y.shape, about["trained"]) == (80, (80, 2), True)


def test_names_that_make_one_file_are_numbered(fitted, tmp_path):
    folder, _ = fitted
    import dataclasses

    one = read_data(folder / "m")[0]
    two = [dataclasses.replace(one, target=name) for name in ("a/b", "a b")]
    assert [p.name for p in page_paths(tmp_path / "r.html", two)] == ["r-1-a-b.html", "r-2-a-b.html"]
