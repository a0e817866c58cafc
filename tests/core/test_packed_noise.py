"""Noise of many arrays, drawn at once as it is on an accelerator."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core import noise


@pytest.mark.parametrize("kind", ["normal", "rademacher"])
def test_many_arrays_share_one_draw(monkeypatch, kind):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    like = {str(i): jnp.zeros((i + 1, 400)) for i in range(6)}
    drawn = noise.like(jax.random.key(0), like, kind)
    assert {k: v.shape for k, v in drawn.items()} == {k: v.shape for k, v in like.items()}
    flat = np.concatenate([np.asarray(v).ravel() for v in drawn.values()])
    n = flat.size
    assert abs(flat.mean()) < 5 / np.sqrt(n)
    assert abs((flat**2).mean() - 1) < 5 * np.sqrt(2 / n)
    rows = np.concatenate([np.asarray(v) for v in drawn.values()])  # rows of different arrays do not repeat
    off = np.corrcoef(rows)[~np.eye(len(rows), dtype=bool)]
    assert np.abs(off).max() < 5 / np.sqrt(400)
