"""Mistakes in arguments get one sentence."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from every_target import PLAIN, log_likelihood, log_prior

import langevin as lv
from langevin.nets.mlp import MLP
from langevin.samplers.sgld import SGLD
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Gaussian


def one_sentence(told) -> bool:
    text = str(told.value)
    return text.endswith(".") and ". " not in text


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(target=log_prior), TypeError, r"the target is log_prior, .*wrap a log density as Density\(fn\)"),
        (dict(kernel=SGLD), TypeError, "the kernel is the class SGLD; give it its settings"),
        (dict(kernel="sgld"), TypeError, "must be an instance of a langevin Kernel"),
        (dict(start=np.zeros((2, 2), int)), TypeError, "has dtype int32; positions are real numbers: cast them"),
        (dict(start=np.zeros((2, 2), complex)), TypeError, "has dtype complex64; positions are real"),
        (dict(draws="10"), TypeError, "draws is '10'; it must be a whole number"),
        (dict(start=np.zeros((2, 3)), target=Gaussian(np.zeros(2), np.ones(2))), ValueError, "but a position of this"),
        (dict(start=np.zeros(2), target=Gaussian(np.zeros(2), np.ones(2))), ValueError, r"start\[None\]"),
    ],
)
def test_a_mistake_at_the_door_gets_one_sentence(change, error, words):
    given = dict(kernel=SGLD(0.1), target=PLAIN, start=np.zeros((2, 2), np.float32), draws=1) | change
    with pytest.raises(error, match=words) as told:
        lv.run(lv.key(0), given["kernel"], given["target"], given["start"], draws=given["draws"])
    assert one_sentence(told)


def test_chains_of_single_numbers_are_asked_about():
    with pytest.warns(UserWarning, match=r"every chain of `start` is a single number, and there are 20 chains"):
        lv.run(lv.key(0), SGLD(0.1), PLAIN, np.zeros(20, np.float32), draws=1)


@pytest.mark.parametrize("value", ["0.1", "auto", [0.1, 0.2]])
def test_a_number_must_be_a_number(value):
    with pytest.raises(TypeError, match=r"SGLD: step_size is .*; it must be a number") as told:
        SGLD(value)
    assert one_sentence(told)


def test_data_without_examples_are_refused():
    with pytest.raises(ValueError, match="`data` has no examples") as told:
        Bayes(log_prior, log_likelihood, jnp.zeros(0))
    assert one_sentence(told)


X, Y = np.zeros((4, 3), np.float32), np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ((X, Y), "classification", "kind is 'classification'; it must be one of"),
        ((X + np.nan, Y), "gaussian", "x has 12 values that are not finite"),
        ((X, Y + np.inf), "gaussian", "y has 4 values that are not finite"),
        ((X, Y[:, None]), "gaussian", r"y has shape \(4, 1\).*ravel"),
    ],
)
def test_a_network_refuses_what_it_cannot_learn_from(data, kind, words):
    with pytest.raises(ValueError, match=words) as told:
        lv.bnn(partial(MLP, (3, 4, 1)), data, kind=kind)
    assert one_sentence(told)
