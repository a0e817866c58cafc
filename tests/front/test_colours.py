"""Chains have colours that are told apart, on light and on dark paper, also by those who do not see red or green."""

import re
from importlib import resources
from itertools import combinations

import numpy as np
import pytest

from langevin.report.sampling import CHAINS, COLOURS

STYLE = resources.files("langevin.report").joinpath("style.css").read_text("utf-8")
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
# Machado, Oliveira & Fernandes (2009), severity 1
SEEN = {
    "all": np.eye(3),
    "no green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "no red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
}


def linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.maximum(XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(first: str, second: str) -> float:
    low, high = sorted(float(XYZ[1] @ linear(c)) for c in (first, second))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("paper", [0, 1, 2], ids=["light", "dark", "print"])
def test_as_many_colours_as_chains(paper):
    background = re.findall(r"--paper: (#\w{6})", STYLE)[paper]
    colours = [re.findall(rf"--c{i}: (#\w{{6}})", STYLE)[paper] for i in range(COLOURS)]
    assert CHAINS == COLOURS == len(set(colours)) == 8
    assert all(f".c{i} {{ --k: var(--c{i}); }}" in STYLE for i in range(COLOURS))
    assert min(contrast(c, background) for c in colours) >= 2.95
    for name, seen in SEEN.items():
        places = [lab(seen @ linear(c)) for c in colours]
        nearest = min(float(np.linalg.norm(a - b)) for a, b in combinations(places, 2))
        assert nearest > 20, f"{name}: two colours are {nearest:.0f} apart"
