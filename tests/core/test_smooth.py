"""softplus and log σ with derivatives of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core.smooth import log_sigmoid, softplus

FAR = jnp.array([-jnp.inf, -200.0, -30.0, -3.0, -1e-4, 0.0, 1e-4, 3.0, 30.0, 200.0])


@pytest.mark.parametrize(("ours", "theirs"), [(softplus, jax.nn.softplus), (log_sigmoid, jax.nn.log_sigmoid)])
def test_value_and_derivatives_are_those_of_jax(ours, theirs):
    np.testing.assert_allclose(ours(FAR), theirs(FAR), rtol=2e-6)
    for order in range(1, 4):
        one, two = ours, theirs
        for _ in range(order):
            one, two = jax.grad(one), jax.grad(two)
        np.testing.assert_allclose(jax.vmap(one)(FAR[1:]), jax.vmap(two)(FAR[1:]), rtol=1e-5, atol=1e-7)


def test_a_gradient_alone_takes_no_logarithm():
    program = jax.jit(jax.vmap(jax.grad(softplus))).lower(FAR).compile().as_text()
    assert "log-plus-one(" not in program
    assert " log(" not in program


def test_nan_stays_nan():
    assert bool(jnp.isnan(softplus(jnp.nan)))
