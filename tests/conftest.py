"""Strict JAX for every test: key reuse is an error, silent rank promotion is an error, warnings are errors.

Most of the suite's time is compiling, so programs are compiled with less effort, and shared between workers and runs.
"""

import ctypes
import gc
import importlib.util
import mmap
import os
import signal
import sys
import zlib
from pathlib import Path

FLAGS = {
    "xla_force_host_platform_device_count": "4",
    "xla_backend_optimization_level": "1",
    "xla_llvm_disable_expensive_passes": "true",
    # a fifth less of the suite's time; a program that compiles for minutes without them: see test_ebm_training
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
}


def _known_flags() -> list[str]:
    """The flags that this version of XLA knows; it ends the process at others."""
    found = importlib.util.find_spec("jaxlib")
    files = Path(found.submodule_search_locations[0]).glob("*.so") if found else ()
    library = max(files, key=lambda file: file.stat().st_size, default=None)
    if library is None:
        return []
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return [f"--{name}={value}" for name, value in FLAGS.items() if text.find(name.encode()) >= 0]


os.environ.setdefault("XLA_FLAGS", " ".join(_known_flags()))

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".pytest_cache" / "programs"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


# files whose tests share programs or fits: one worker has each, for tracing is not shared between workers
TOGETHER = (
    "test_fit",
    "test_dais",
    "test_minibatch",
    "test_ais",
    "test_toolbox",
    "test_reversible",
    "test_zigzag",
    "test_adapters",
    "test_adapter_state",
    "test_latent_objectives",
)
GROUPS = {name: "fits" for name in ("test_estimators", "test_columns", "test_conformal", "test_information")}
GROUPS |= {name: name for name in TOGETHER}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Files that share programs stay in one worker."""
    for item in items:
        if item.path.stem in GROUPS and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(GROUPS[item.path.stem]))


LARGEST = 3 << 30  # bytes of a worker above which compiled programs are let go


def pytest_runtest_teardown(item):
    """Let compiled programs go before a worker outgrows a laptop; those that come again are read from the disk."""
    if _resident() > LARGEST:
        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def _resident() -> int:
    """Bytes of memory this process holds; 0 where that is not known."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt here, also where the suite was started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def untold():
    """Warnings that are given once a process are given again here, and to no test after it."""
    from langevin.core import kernel

    before = set(kernel.TOLD)
    kernel.TOLD.clear()
    yield
    kernel.TOLD.update(before)


@pytest.fixture
def key(request):
    """A fixed key of the fast generator, different for every test."""
    from langevin.core import noise

    # the file's name alone: a test keeps its key wherever its folder goes; not nodeid: xdist adds the group to it
    name = f"tests/{request.node.path.name}::{request.node.name}"
    return noise.key(zlib.crc32(name.encode()), impl="hash")
