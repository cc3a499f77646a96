"""Compiled programs are kept between processes."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import jax
hits = []
jax.monitoring.register_event_listener(
    lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None
)
from metaevo import devices
devices.setup(num_devices=2)
print(jax.jit(lambda x: x * 3)(7.0), len(hits), jax.config.jax_compilation_cache_dir)
"""


def run(cache, **variables):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **variables}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    if "JAX_COMPILATION_CACHE_DIR" not in variables:
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, timeout=120, env=environment, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    result, hits, folder = done.stdout.split()
    assert float(result) == 21.0
    return int(hits), folder


def test_the_second_process_finds_what_the_first_has_compiled(tmp_path):
    hits, folder = run(tmp_path)
    assert hits == 0
    assert Path(folder).parent == tmp_path / "metaevo" / "xla"
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    hits, again = run(tmp_path)
    assert hits > 0
    assert again == folder


@pytest.mark.parametrize("obstacle", ["file", "own", "off"])
def test_nothing_is_kept_there_where_it_cannot_or_should_not(tmp_path, obstacle):
    variables = {}
    if obstacle == "file":
        (tmp_path / "metaevo").write_text("in the way")
    elif obstacle == "own":
        variables["JAX_COMPILATION_CACHE_DIR"] = str(tmp_path / "mine")
    else:
        variables["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    hits, folder = run(tmp_path, **variables)
    assert hits == 0
    assert folder == variables.get("JAX_COMPILATION_CACHE_DIR", "None")
    assert not (tmp_path / "metaevo" / "xla").exists()
