"""
How do I search settings of a posterior with scikit-learn?
==========================================================

``lv.BayesianRegressor`` is a scikit-learn estimator: it goes into a pipeline, and a grid search chooses its settings
by cross-validation. This example searches the prior of the weights and the step size of the kernel. It scores by the
log density of held-out targets, which judges the whole predictive distribution and not the mean alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PowerTransformer

import langevin as lv

# %%
# The pipeline
# ------------
# Two columns of blood serum are made more symmetric before the network sees them. A ``Plan`` says how to sample: train
# each network for 300 steps, then draw by HMC. It is short, so that the search is quick.

X, y = load_diabetes(return_X_y=True, as_frame=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.25, random_state=0)
plan = lv.Plan(lv.HMC(0.01, n_leapfrog=10), ascent=300, draws=40, warmup=20, thin=2)
pipeline = Pipeline(
    [
        ("columns", make_column_transformer((PowerTransformer(), ["s5", "s6"]), remainder="passthrough")),
        ("net", lv.BayesianRegressor(plan, hidden=(8,), chains=2, random_state=0)),
    ]
)

# %%
# The search
# ----------
# ``net__kernel__step_size`` reaches through the pipeline and the estimator into the kernel. Numbers such as a step
# size or the deviation of a prior are data of the compiled program, so that other values compile nothing.


def log_score(pipeline, X, y):
    """Mean log predictive density of held-out targets."""
    return pipeline[-1].log_score(pipeline[:-1].transform(X), y)


grid = {"net__prior": [0.03, 0.3, 3.0], "net__kernel__step_size": [0.002, 0.01]}
search = GridSearchCV(pipeline, grid, scoring=log_score, cv=2).fit(X, y)
print("best:", search.best_params_)

# %%
# On rows that no fold has seen, beside the distribution of the target that ignores the columns.

found = log_score(search.best_estimator_, X_new, y_new)
trivial = np.mean(-0.5 * ((y_new - y.mean()) / y.std()) ** 2 - np.log(y.std() * np.sqrt(2 * np.pi)))
_, bounds = search.best_estimator_.predict(X_new, quantiles=[0.05, 0.95])
covered = np.mean((bounds[:, 0] <= y_new) & (y_new <= bounds[:, 1]))
print(f"log score {found:.3f}, without columns {trivial:.3f}, coverage of 90 % intervals {covered:.2f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.3), layout="constrained")
results = search.cv_results_
for step_size, style, color in ((0.002, "s--", "#D55E00"), (0.01, "o-", "#0072B2")):
    here = results["param_net__kernel__step_size"] == step_size
    priors = results["param_net__prior"][here].astype(float)
    axes[0].plot(priors, results["mean_test_score"][here], style, color=color, label=f"step size {step_size}")
axes[0].axhline(trivial, color="0.6", linewidth=1, label="without columns")
axes[0].set(xscale="log", xlabel="prior deviation of weights", ylabel="log score (two folds)")
axes[0].legend(fontsize="small", frameon=False)
rank = np.argsort(bounds.mean(1))
axes[1].vlines(np.arange(len(rank)), *bounds[rank].T, color="#0072B2", alpha=0.4, label="90 % interval")
axes[1].plot(y_new.to_numpy()[rank], ".", color="#D55E00", markersize=4, label="target")
axes[1].set(title=f"best setting: coverage {covered:.2f}", xlabel="held-out rows, by interval", ylabel="target")
axes[1].set_ylim(-320, 560)
axes[1].legend(fontsize="small", frameon=False, loc="upper left", ncols=2)
plt.show()

# %%
# What holds
# ----------
# The search leaves out the priors that are far too narrow or too wide. On new rows the chosen setting is better than
# the answer that ignores the columns, and its intervals cover what they promise within three standard deviations of
# 111 rows.

assert search.best_params_["net__prior"] == 0.3
assert found > trivial + 0.05
assert abs(covered - 0.9) < 3 * np.sqrt(0.9 * 0.1 / len(y_new))
