import os
import stat
from pathlib import Path

import pytest

from tests.processes import python

PROGRAM = """
import jax
hits = []
jax.monitoring.register_event_listener(
    lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None
)
from metaevo.evolution import devices
devices.setup(num_devices=2)
print(jax.jit(lambda x: x * 3)(7.0), len(hits), jax.config.jax_compilation_cache_dir)
"""


def run(cache, before="", says="", **variables):
    """A process: how many programs it found, and its folder for them."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **variables}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    if "JAX_COMPILATION_CACHE_DIR" not in variables:
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = python("-c", before + PROGRAM, env=environment)
    assert says in done.stderr if says else done.stderr == "", done.stderr
    result, hits, folder = done.stdout.split()
    assert float(result) == 21.0
    return int(hits), folder


@pytest.mark.long
def test_later_processes_reuse_programs_and_compile_half_written_ones_again(tmp_path):
    """A full disk leaves what a kill would, too. JAX itself would warn in every later process."""
    small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    _, folder = run(tmp_path, before=small, says="Error writing persistent compilation cache")
    assert Path(folder).parent == tmp_path / "metaevo" / "xla"
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    torn = list(Path(folder).glob("*-cache"))
    assert {path.stat().st_size for path in torn} == {100}
    assert run(tmp_path)[0] == 0
    assert {path.stat().st_size > 100 for path in torn} == {True}
    assert run(tmp_path) == (len(torn), folder)
