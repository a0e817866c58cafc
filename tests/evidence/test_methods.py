"""Methods as records: a registry, one call, one sentence for what is wrong, and a file that gives them back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import langevin as lv
from langevin.core import noise
from langevin.core.serialize import decode, encode
from langevin.evidence import AIS, METHODS, SUMO, Adapted, Bridge, Importance, Laplace, Midpoint, Thermodynamic, ZigZag
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.minibatch.factored import find_anchor, linear
from langevin.samplers.hmc import HMC

BASE = lv.evidence.Normal(jnp.zeros(2), 1.0)
TARGET = lv.evidence.Normal(jnp.full(2, 0.3), 0.5)
ANY = noise.key(0)


def factored():
    x = np.random.default_rng(0).normal(size=(20, 2))
    return linear(x, x[:, 0], batch=4)


MADE = {name: cls() for name, cls in METHODS.items()} | {
    "a ladder and a kernel": AIS(ladder=power_ladder(5), kernel=HMC(0.2, n_leapfrog=2), particles=3),
    "a proposal": Bridge(proposal=TARGET),
    "an anchor": ZigZag(anchor=find_anchor(factored())),
    "a rule": Thermodynamic(rule="trapezoid", draws=3),
}


@pytest.mark.parametrize("name", MADE)
def test_a_method_comes_back_from_a_file(name):
    body, arrays, lost = encode(MADE[name])
    again = decode(body, arrays)
    assert lost == {}
    assert type(again) is type(MADE[name])
    assert repr(again) == repr(MADE[name])
    for a, b in zip(*map(jax.tree.leaves, (again, MADE[name])), strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_method_is_public_under_its_class_name():
    for name, cls in METHODS.items():
        assert vars(lv.evidence)[cls.__name__] is cls
        assert cls.name == name


def test_a_name_with_settings_is_the_record(key):
    by_name = lv.log_evidence(jax.random.clone(key), TARGET, BASE, "importance", particles=64)
    by_record = lv.log_evidence(key, TARGET, BASE, Importance(particles=64))
    assert float(by_name.log_z) == float(by_record.log_z)
    assert float(by_name.n_grad) == 64


def test_auto_goes_by_the_target(monkeypatch):
    chosen = lambda self, *given: type(self)
    for cls in (Adapted, Midpoint):
        monkeypatch.setattr(cls, "estimate_evidence", chosen)
    assert lv.log_evidence(ANY, TARGET, BASE) is Adapted
    assert lv.log_evidence(ANY, factored(), BASE) is Midpoint


WRONG = {
    "a name": (lambda: lv.log_evidence(ANY, TARGET, BASE, "magic"), "there is no method 'magic'; there are ais, hais"),
    "a setting": (lambda: lv.log_evidence(ANY, TARGET, BASE, "ais", rungs=3), "no setting 'rungs'; it has ladder"),
    "a class": (lambda: lv.log_evidence(ANY, TARGET, BASE, AIS), r"the class AIS; .* such as AIS\(\)"),
    "both": (lambda: lv.log_evidence(ANY, TARGET, BASE, AIS(), ladder=3), r"write AIS\(ladder=…\)"),
    "no draws": (lambda: lv.log_evidence(ANY, TARGET, BASE, Bridge()), "bridge needs draws of the target"),
    "no base": (lambda: Laplace()(ANY, TARGET), "base, NoneType, has no `exact"),
    "no target": (lambda: SUMO()(ANY, jnp.sum, BASE), "sumo needs a target with an exact log_density"),
    "mini-batches": (lambda: AIS()(ANY, factored(), BASE), "ais needs exact densities, but Regression"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(what):
    call, words = WRONG[what]
    with pytest.raises((TypeError, ValueError), match=words):
        call()
