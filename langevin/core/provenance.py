"""Where a result came from: seed, versions, device, seconds, gradients, commit."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

from langevin import __version__


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where a result came from."""

    seed: tuple[int, ...] = ()
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    device: str = ""
    layout: str = ""
    seconds: float = 0.0
    n_grad: int = 0
    n_data: int = 0
    git: str = ""

    @classmethod
    def now(cls, **known: Any) -> Provenance:
        """Versions, device and commit of this process, with what is known of the run."""
        device = jax.devices()[0]
        known.setdefault("versions", versions())
        known.setdefault("device", f"{jax.device_count()} × {device.device_kind} ({device.platform})")
        known.setdefault("git", _commit())
        return cls(**known)


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    import importlib.metadata as metadata

    found = {"python": platform.python_version(), "langevin": __version__}
    for name in ("jax", "jaxlib", "numpy", "optax"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    """The commit of this library's own checkout, or nothing when it is installed."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return ""
    ask = lambda *words: subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, timeout=5)
    try:
        head = ask("rev-parse", "--short", "HEAD").stdout.strip()
        return head + ("+changes" if ask("status", "--porcelain").stdout.strip() else "")
    except (OSError, subprocess.SubprocessError):
        return ""
