"""
What does the command line make of a table with dates, text and gaps?
=====================================================================

Tables of practice have dates, words, empty cells and columns that say nothing. This example writes such a table, fits
it with ``langevin fit``, predicts new rows with ``langevin predict``, and looks at what the report says. No code
touches a network.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

# %%
# The table
# ---------
# The price of a house depends on its area, its district (a word) and the month of the sale (a date). A tenth of the
# areas is missing, one column is an identifier and one is constant.

rng = np.random.default_rng(0)


def houses(n, first):
    """n rows; identifiers begin at `first`."""
    area = rng.uniform(40, 160, n)
    district = rng.choice(["harbor", "hill", "old town"], n)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    season = 15 * np.sin(2 * np.pi * day.month.to_numpy() / 12)
    base = pd.Series({"harbor": 40.0, "hill": 80.0, "old town": 120.0})[district].to_numpy()
    price = base + 2.0 * area + season + rng.normal(0, 15, n)
    gaps = rng.uniform(size=n) < 0.1
    frame = {"house": [f"H{first + i:05d}" for i in range(n)], "sold": day.strftime("%Y-%m-%d"), "district": district}
    frame |= {"area": np.where(gaps, np.nan, area.round(1)), "country": "NO", "price": price.round(2)}
    return pd.DataFrame(frame)


place = Path(tempfile.mkdtemp())
table, new = houses(500, 0), houses(200, 500)
table.to_csv(place / "houses.csv", index=False)
new.drop(columns="price").to_csv(place / "new.csv", index=False)
print(table.head(4).to_string())

# %%
# Fit and predict
# ---------------
# In a shell these are ``langevin fit houses.csv --target price …`` and ``langevin predict model new.csv …``. The fit
# is much shorter than by default, and takes SGLD of a given step size in place of a tuned kernel.


def langevin(*words):
    """A command; what it prints is shown."""
    done = subprocess.run(
        [sys.executable, "-m", "langevin.cli", *map(str, words)], cwd=place, capture_output=True, text=True
    )
    print(done.stdout, done.stderr if done.returncode else "")
    done.check_returncode()


short = ["--kernel", "sgld", "--step-size", 1e-5, "--draws", 60, "--chains", 4, "--hidden", 16]
langevin(
    "fit", "houses.csv", "--target", "price", "--out", "model", "--report", "report.html", "--json", "fit.json", *short
)
langevin("predict", "model", "new.csv", "--id", "house", "--quantiles", "0.05,0.5,0.95", "--out", "answers.csv")

# %%
# The answers have the identifiers of their rows, the quantiles, and the two parts of the uncertainty.

answers = pd.read_csv(place / "answers.csv")
print(answers.head(4).round(1).to_string())

# %%
# The picture
# -----------
# Left: scores on a fifth of the rows that were held out, beside those of simpler models, as the report has them.
# Right: predictions of the new rows, whose prices the command did not see.

report = json.loads((place / "fit.json").read_text())
scores = {row["model"]: row["NLL"] for row in report["table"]} | {"posterior": report["figures"]["nll"]}
inside = (answers["q0.05"] <= new["price"]) & (new["price"] <= answers["q0.95"])
gaps = new["area"].isna()
figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.4), layout="constrained", width_ratios=(1, 1.3))
bars = axes[0].barh(list(scores), list(scores.values()), color=["0.6", "0.6", "0.6", "#0072B2"])
axes[0].bar_label(bars, fmt="%.2f", padding=3)
axes[0].set(xlabel="held-out NLL, less is better", xlim=(0, 7.5), title="report")
for rows, color, label in ((~gaps, "#0072B2", "area known"), (gaps, "#D55E00", "area missing")):
    half = (answers["q0.95"] - answers["q0.05"])[rows] / 2
    middle = (answers["q0.95"] + answers["q0.05"])[rows] / 2
    axes[1].errorbar(
        new["price"][rows], middle, yerr=half, fmt=".", markersize=3, linewidth=0.7, color=color, label=label
    )
axes[1].axline((250, 250), slope=1, color="0.5", linewidth=1)
axes[1].set(xlabel="price", ylabel="90 % interval", title=f"new rows: coverage {inside.mean():.2f}")
axes[1].legend(fontsize="small", frameon=False, loc="lower right")
plt.show()

# %%
# What holds
# ----------
# The predictions are better than those of the simpler models, and a row whose area is missing gets a wider interval.
# The verdict is still "Do not use this posterior yet": the chains of this short fit have not mixed, and the report
# says so, whatever the scores. With the default plan, which tunes its kernel, leave the options of ``short`` out.

assert report["figures"]["nll"] < min(scores["linear"], scores["boosting"]) - 0.3
assert report["verdict"]["level"] == "stop"
assert answers["std"][gaps].mean() > 2 * answers["std"][~gaps].mean()
assert abs(inside.mean() - 0.9) < 0.07
assert answers["house"].tolist() == new["house"].tolist()
assert "Do not use this posterior yet" in (place / "report.html").read_text()
