"""Mistakes in arguments get one sentence."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from every_target import PLAIN, log_likelihood, log_prior

import langevin as lv
from langevin.core.files import StoreError
from langevin.core.target import Density
from langevin.nets.mlp import MLP
from langevin.samplers.sgld import SGLD
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Gaussian

X, Y = np.arange(12.0, dtype=np.float32).reshape(4, 3), np.arange(4.0, dtype=np.float32)


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
        (dict(start=np.zeros((0, 2), np.float32)), ValueError, "`start` has no chains; give one position or more"),
        (dict(start=[[0.0, 0.0]]), ValueError, "give arrays and no lists of numbers"),
        (dict(key=0), TypeError, r"key is 0; make one of a seed by langevin.key\(0\)"),
        (dict(callbacks=one_sentence), TypeError, r"give a tuple of them: callbacks=\(callback,\)"),
        (dict(collect=3), TypeError, "collect is 3; it must be a function of a state"),
        (dict(store=3), TypeError, "store is 3; it must be the path of a folder"),
        (dict(store=__file__), StoreError, "is a file; name a folder"),
        (dict(thin=3 * 10**9), ValueError, "thin is 3000000000; it must be 2147483647 or less"),
        (dict(thin=10**6, draws=10**6), ValueError, "is 1000000000000 steps; a chain counts up to 2147483647"),
        (dict(kernel=SGLD(0.1, noise="norml")), ValueError, "noise is 'norml'; it must be 'normal' or 'rademacher'"),
        (dict(target=Density(lambda x: -(x**2))), ValueError, r"fn returned shape \(2,\); it must return one number"),
    ],
)
def test_a_mistake_at_the_door_gets_one_sentence(change, error, words):
    given = dict(kernel=SGLD(0.1), target=PLAIN, start=np.zeros((2, 2), np.float32), draws=1, key=lv.key(0)) | change
    with pytest.raises(error, match=words) as told:
        lv.run(**given)
    assert one_sentence(told)


def test_a_chunk_far_longer_than_the_run_takes_no_room():
    run = lv.run(lv.key(0), SGLD(0.1), PLAIN, np.zeros((2, 2), np.float32), draws=3, chunk=10**9)
    assert run.kept.shape == (2, 3, 2)


def test_a_run_whose_chains_all_diverge_says_that_none_is_left():
    steep = Density(lambda x: -jnp.sum(x**4))
    with pytest.warns(UserWarning, match="none is left, and the run ends here"):
        lv.run(lv.key(0), SGLD(1e9), steep, np.ones((2, 2), np.float32), draws=50)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lv.diagnose(np.zeros((2, 5))), "diagnose was given ndarray: pass named quantities"),
        (lambda: lv.tune.window(lv.key(0), SGLD(0.1), PLAIN, np.zeros((2, 2))), "window: SGLD has no field 'metric'"),
        (lambda: lv.BayesianRegressor(kernel="sgld").fit(X, Y), "kernel is 'sgld'; it must be a kernel such as SGLD"),
        (lambda: lv.BayesianRegressor(hidden="8").fit(X, Y), "hidden is .'8',.; it must hold whole numbers above 0"),
        (lambda: lv.BayesianRegressor(prior=-1).fit(X, Y), "has standard deviation -1; it must be positive"),
        (lambda: lv.bnn(partial(MLP, (3, 4, 1)), (X.astype(str), Y)), "x has dtype <U32; it must hold numbers"),
    ],
)
def test_other_mistakes_get_one_sentence(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_chains_of_single_numbers_are_asked_about():
    with pytest.warns(UserWarning, match=r"every chain of `start` is a single number, and there are 20 chains"):
        lv.run(lv.key(0), SGLD(0.1), PLAIN, np.zeros(20, np.float32), draws=1)


@pytest.mark.parametrize("value", ["0.1", "auto", [0.1, 0.2], None])
def test_a_number_must_be_a_number(value):
    with pytest.raises(TypeError, match=r"SGLD: step_size is .*; it must be a number") as told:
        SGLD(value)
    assert one_sentence(told)


def test_data_without_examples_are_refused():
    with pytest.raises(ValueError, match="`data` has no examples") as told:
        Bayes(log_prior, log_likelihood, jnp.zeros(0))
    assert one_sentence(told)


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
