"""Devices and environment variables of all tests."""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

from tests.compiling import SHORT

# Read by JAX when it starts, so set before anything imports it. Four host devices show a
# dependence on the number of devices; one thread each keeps them out of each other's way. The other
# flags are those of `metaevo.devices`, and those that shorten compilation.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=4 --xla_cpu_multi_thread_eigen=false "
    "--xla_cpu_enable_concurrency_optimized_scheduler=false "
    "--xla_disable_hlo_passes=cpu-parallel-task-assigner "
    "--xla_cpu_collective_call_terminate_timeout_seconds=500 "  # on a busy machine; pytest has 600
    + SHORT,
)
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers and scripts inherit the first one's
    _programs = tempfile.mkdtemp(prefix="metaevo-programs-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _programs
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # so many, so small
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
    atexit.register(shutil.rmtree, _programs, ignore_errors=True)
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("WANDB_MODE", "disabled")
os.environ.setdefault("WANDB_SILENT", "true")

import jax
import pytest
from hypothesis import settings

from metaevo.config import ConfigError
from metaevo.reports import film, plots
from purerl.fast import use_cpu_arithmetic

use_cpu_arithmetic()  # as `metaevo.devices.setup` has it

# The first example of a jitted function pays for its compilation: no deadline. The examples are
# the same in every run, so that a failure is one of the change under test.
settings.register_profile("metaevo", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("metaevo")


def pytest_collection_modifyitems(items):
    """Begin with the files whose tests take long: no process waits for another one at the end."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish():
    """Draw little, and spare the garbage collector imported modules, which live to the end."""
    film.FRAMES, plots.DPI = 3, 50
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


MANY = 30_000
"""Memory maps of one process. Linux ends it at 65,530, and every compiled program has some."""
MAPS = Path("/proc/self/maps")


@pytest.fixture
def refused(capsys):
    """A function that calls a command with bad input and returns the one line of the error."""

    def call(command, *args, **kwargs):
        capsys.readouterr()
        with pytest.raises((SystemExit, ConfigError)) as caught:
            command(*args, **kwargs)
        error, printed = caught.value, capsys.readouterr().err.splitlines()
        assert (error.exit_code if isinstance(error, ConfigError) else error.code) == 2
        (line,) = printed or [f"error: {error}"]  # `metaevo.__main__` prints it
        assert line.startswith("error: ")
        return line

    return call


@pytest.fixture(autouse=True, scope="module")
def _few_programs():
    """After a file of tests, forget compiled programs if there are many. A disk still has them."""
    yield
    if MAPS.exists() and len(MAPS.read_bytes().splitlines()) > MANY:
        jax.clear_caches()
        gc.collect()
