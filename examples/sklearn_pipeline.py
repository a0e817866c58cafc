"""
How do I search settings of a posterior with scikit-learn?
==========================================================

``lv.BayesianRegressor`` is a scikit-learn estimator: it goes into a pipeline, and a grid search chooses its settings by
cross-validation. This example searches the width of the network and scores by the log density of held-out targets, which
judges the whole predictive distribution and not the mean alone.
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
# each network for 400 steps, then draw by HMC as it is given. It is short, so that the search is quick.

X, y = load_diabetes(return_X_y=True, as_frame=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.25, random_state=0)
plan = lv.Plan(lv.HMC(0.01, n_leapfrog=10), ascent=400, draws=30, warmup=30, thin=2)
pipeline = Pipeline(
    [
        ("columns", make_column_transformer((PowerTransformer(), ["s5", "s6"]), remainder="passthrough")),
        ("net", lv.BayesianRegressor(plan, chains=2, random_state=0)),
    ]
)
