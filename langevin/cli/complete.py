"""What the shell completes: names of kernels, methods, tables and results, found without importing JAX.

Importing the samplers takes seconds, so kernels are read from the stubs and benchmarks from the folder they are in; the
few other names are listed here, and a test compares them with what the library has. Where nothing here fits, the shell
completes files.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path

import typer

ACTIVATIONS = ("relu", "tanh", "silu", "gelu")
PLANS = ("auto", "mile", "smile", "ensemble", "vi", "ivon", "swag", "laplace")
TASKS = ("regression", "classification")
SIZES = ("cpu", "gpu", "quick")
FOLDERS = {"bench": "benchmarks", "reproduce": "experiments"}
METHODS = (
    "ais", "hais", "reverse", "bdmc", "dais", "ldvi", "midpoint", "stochastic_dais", "two_batch", "stages", "zigzag",
    "smc", "adapted", "bridge", "harmonic", "importance", "sumo", "laplace", "nested", "thermo", "stepping",
)  # fmt: skip
TRIALS = (
    "normal", "paper", "gaussian", "cold", "gaussian50", "banana50", "funnel", "logistic", "logistic-50", "logistic-12",
)  # fmt: skip


def among(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A completion by names that are known."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def tables(incomplete: str) -> list[str]:
    """Tables that come with the library."""
    from langevin.data.files import EMBEDDED

    return [name for name in EMBEDDED if name.startswith(incomplete)]


def kernels(incomplete: str) -> list[str]:
    """Kernels, as `langevin kernels` lists them."""
    package = Path(__file__).parent.parent
    stubs = (package / folder / "__init__.pyi" for folder in ("samplers", "baselines"))
    names = (name.lower() for stub in stubs for name in re.findall(r" as (\w+)$", stub.read_text(), flags=re.M))
    return sorted(name for name in names if name.startswith(incomplete.lower()))


def results(context: typer.Context, incomplete: str) -> list[str]:
    """Benchmarks of `bench` or results of `reproduce`, as --list has them."""
    found = importlib.util.find_spec(f"langevin_lab.{FOLDERS[context.info_name or 'bench']}")
    places = found.submodule_search_locations if found else None
    names = (m.name for m in pkgutil.iter_modules(places or []))
    own = (name.replace("_", "-") for name in names if not name.startswith("_") and not name.endswith("_peer"))
    return sorted(name for name in own if name.startswith(incomplete))
