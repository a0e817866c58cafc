"""Every object shows itself in one short line and in a small table, without its arrays and with all text escaped."""

import importlib
import pkgutil
import warnings
from functools import partial
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import ROWS
from test_protocols import TARGETS

import langevin as lv
from langevin.core import display
from langevin.core.display import show
from langevin.core.record import RECORDS, record, static, values
from langevin.core.types import Progress
from langevin.dynamics.mass import DenseMetric, DiagonalMetric

LONGEST = 500


class Checked(HTMLParser):
    """Counts open tags and keeps the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def read(thing):
    """The text of an object's HTML, which must be well formed."""
    parser = Checked()
    parser.feed(thing._repr_html_())
    parser.close()
    assert parser.open == []
    return parser.text


def is_short(thing):
    text = repr(thing)
    assert len(text) < LONGEST, text
    assert not {"array(", "Array(", "...", "0x"} & {w for w in ("array(", "Array(", "...", "0x") if w in text}, text
    assert "\n" not in text
    return text


@pytest.mark.parametrize("name", ROWS)
def test_a_kernel_names_its_fields_and_its_stationary_distribution(name):
    kernel = ROWS[name].kernel
    assert all(f"{field}=" in is_short(kernel) for field in values(kernel))
    text = read(kernel)
    assert f"stationary distribution: {kernel.law().words}" in text
    assert type(kernel).__name__ in text


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_is_short(name):
    target = TARGETS[name][0]
    assert is_short(target).startswith(type(target).__name__)
    assert type(target).__name__ in read(target)


def every_default():
    """One of every record of the library that needs no arguments."""
    for module in pkgutil.walk_packages(lv.__path__, "langevin."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for path, cls in sorted(RECORDS.items()):
        if path.startswith("langevin."):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    yield cls()
                except (TypeError, NotImplementedError):  # it needs arguments, or is abstract
                    continue


def test_every_record_is_short():
    found = list(every_default())
    assert len(found) > 60
    for thing in found:
        is_short(thing)
        read(thing)


def test_a_kernel_with_large_metrics_is_short():
    large = DiagonalMetric({f"layer {i}": jnp.ones((50, 50)) for i in range(30)})
    text = is_short(lv.core.PerChain(lv.HMC(jnp.ones(1000), metric=large)))
    assert "step_size=float32[1000]" in text
    assert "DiagonalMetric(variance=dict(30 arrays, 75,000 numbers))" in text
    assert "DenseMetric(covariance=float32[9,9]" in is_short(lv.HMC(0.1, metric=DenseMetric(jnp.eye(9))))


def wide(key):
    return lv.MLP((3, 64, 64, 1), key)


@pytest.fixture(scope="module")
def model():
    x = np.linspace(-1, 1, 150, dtype=np.float32).reshape(50, 3)
    return lv.bnn(wide, (x, x[:, 0]), noise=0.5)


def test_a_network_is_its_net_likelihood_prior_and_data(model):
    text = is_short(model)
    for words in ("MLP, 4,481 weights", "gaussian, σ = 0.5", "50 examples (float32[50,3], float32[50])"):
        assert words in text
        assert words in read(model)
    is_short(model.target)
    is_short(model.predict)


def test_runs_posteriors_and_states_show_shapes(memory, disk):
    for posterior in (memory, disk):
        is_short(posterior)
        text = read(posterior)
        assert "2 × 40" in text
        assert "p^(1/T)" in text
        is_short(posterior.state)
        is_short(posterior.info)
    assert "Stored(40 draws a chain" in read(disk)
    run = lv.core.run.Run(memory.state, memory.draws, memory.info, memory.kernel, lv.Density(show))
    assert "float32[2,40,3]" in is_short(run)
    assert "float32[2,40,3]" in read(run)
    is_short(Progress(3, run.kernel, run.target, run.states, run.kept, run.info))


def test_a_diagnosis_of_many_quantities_is_short():
    random = np.random.default_rng(0)
    found = lv.diagnose({f"quantity {i} <b>": random.normal(size=(2, 20, 3)) for i in range(40)})
    assert "37 more" in is_short(found)
    assert "quantity 39 <b>" in read(found)
    assert "<b>" not in found._repr_html_().replace("<b>Diagnosis</b>", "")


def test_evidence_and_plans():
    assert "log_z=-3.5" in is_short(lv.Evidence(-3.5, 0.1))
    assert "tune=whiten(damping=1000)" in is_short(lv.PLANS["smile"])
    assert "steps of Adam" in read(lv.PLANS["mile"])


@pytest.mark.parametrize("cls", [lv.BayesianRegressor, lv.BayesianClassifier])
def test_an_estimator_that_is_not_fitted_shows_what_it_was_given(cls):
    assert repr(cls(hidden=(4,))) == f"{cls.__name__}(hidden=(4,))"
    text = read(cls(hidden=(4,), plan=lv.PLANS["mile"]))
    assert "not fitted" in text
    assert "hidden (4,)" in text
    assert "chains" not in read(cls())
    bundle = cls()._repr_mimebundle_()
    assert bundle["text/html"] == cls()._repr_html_()


@record
class Hostile:
    """A <script>alert(1)</script> in a docstring. name: anything."""

    name: str = static(default="")


def test_all_text_is_escaped():
    html = Hostile("<img src=x onerror=alert(1)>\"'&")._repr_html_()
    assert "<script" not in html
    assert "<img" not in html
    assert "onerror=alert(1)" in read(Hostile("<img src=x onerror=alert(1)>"))
    page = display.page("<i>", "<i>", [("<i>", "<i>")], ("<i>",), ("<i>",))
    assert "<i>" not in page
    assert page.count("&lt;i&gt;") == 6


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.array([1.0, 2.5]), "[1, 2.5]"),
        (np.arange(9), "int64[9]"),
        (jnp.asarray(True), "True"),
        (jax.random.key(0), "key<fry>[]"),
        (partial(show, most=3), "show(most=3)"),
        ((np.zeros(5),), "(float64[5],)"),
        ({"w": [np.zeros((7, 2)), None]}, "{'w': [float64[7,2], None]}"),
        ({i: np.zeros((7, 2)) for i in range(30)}, "dict(30 arrays, 420 numbers)"),
        ("a" * 300, "'" + "a" * 158 + "…"),
        (lv.sample, "sample"),
    ],
)
def test_values_are_shown_shortly(value, text):
    assert show(value) == text


def test_a_record_can_be_shown_within_a_program():
    said = []
    jax.jit(lambda h: said.append(repr(lv.SGLD(h))) or h)(0.5)
    assert "step_size=float32[]" in said[0]
