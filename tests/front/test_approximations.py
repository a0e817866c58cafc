"""Plans of approximations in the estimators: fit, predict, save, judge, as with those that sample."""

import numpy as np
import pytest
from quick import only

import langevin as lv
from langevin import vi
from langevin.core.record import replace
from langevin.report.gather import gather
from langevin.report.verdict import judge
from langevin.vi.plans import APPROXIMATIONS, PLANS

SHORT = {"vi": dict(steps=200), "ivon": dict(steps=200), "swag": dict(spacing=4)}


def short(name):
    plan = replace(PLANS[name], ascent=400)
    return replace(plan, tune=replace(plan.tune, **SHORT.get(name, {})), draws=min(plan.draws, 60))


def table(n=60, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (n, 2))
    return x, np.sin(x[:, 0]) + 0.1 * random.normal(size=n)


@pytest.mark.parametrize("name", only(("vi", "laplace"), APPROXIMATIONS))
def test_a_plan_is_fitted_saved_and_judged(name, tmp_path):
    x, y = table()
    model = lv.BayesianRegressor(short(name), hidden=(6,), chains=2, random_state=0).fit(x, y)
    new = table(40, seed=1)
    mean, std = model.predict(new[0], return_std=True)
    assert np.sqrt(np.mean((mean - new[1]) ** 2)) < 0.4
    assert (std > 0.03).all()
    model.save(tmp_path / "model")
    again = lv.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict(new[0]), mean, rtol=1e-6)
    facts = gather(model, *new, name="sine", target="y", train=(x, y))
    verdict = judge(facts)
    codes = {f.code: f for f in verdict.findings}
    assert facts.approximate
    assert not {"rhat", "ess_bulk", "one_chain", "never_moved", "outlying_chain"} & set(codes)
    found = codes["approximation"]
    assert np.isfinite(found.value) == (name in ("vi", "ivon", "swag"))
    assert found.level == ("good" if found.value <= 0.7 else "care")
    assert verdict.level != "good" or found.level == "good"
    longer = model.more(x, y, 5)
    assert longer.posterior_.info.ok.shape[1] == short(name).draws + 5


def test_a_linearized_fit_predicts_by_its_tangent():
    x, y = table()
    plan = short("laplace")
    model = lv.BayesianRegressor(plan, hidden=(6,), chains=2, random_state=0).fit(x, y)
    says = model.predictive(x)["mean"]
    own = vi.linearized(model.posterior_).predict(model._net().predict, model._encoded(x))["mean"]
    np.testing.assert_allclose(says, own.reshape(says.shape) * model.scale_ + model.center_, rtol=2e-3, atol=2e-3)


def test_classification_and_names():
    x, _ = table()
    model = lv.BayesianClassifier(short("laplace"), hidden=(4,), chains=2, random_state=0).fit(x, (x[:, 0] > 0) * 1)
    assert (model.predict(x) == (x[:, 0] > 0)).mean() > 0.9
    with pytest.raises(ValueError, match="there are auto, mile, smile, ensemble, vi, ivon, swag, laplace"):
        lv.BayesianRegressor("advi").fit(*table())
