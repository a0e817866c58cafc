"""Which of a test's cases the fast suite takes; the others are slow."""

import pytest


def first(n, cases, *, group=None):
    """The first n in the fast suite, the others slow. group: of workers that run all of them."""
    own = [] if group is None else [pytest.mark.xdist_group(group)]
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=own + [pytest.mark.slow] * (i >= n))
        for i, case in enumerate(cases)
    ]


def only(fast, cases):
    """Those named in the fast suite, the others slow."""
    return [pytest.param(case, marks=[] if case in fast else [pytest.mark.slow]) for case in cases]
