import os
import stat
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metaevo.evolution import devices
from metaevo.evolution.rows import CACHE_BYTES, choose_chunk_size, collect, deal, map_rows
from tests import processes


def python(code, **env):
    """What a fresh interpreter prints, or the last line of its complaint."""
    clean = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    done = processes.python("-c", code, env=clean | {"JAX_PLATFORMS": "cpu"} | env)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


SETUP = """
import os
from metaevo.evolution import devices
devices.setup({})
import jax
print(jax.device_count(), os.environ["XLA_FLAGS"])
"""


@pytest.mark.smoke
def test_one_device_a_core():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count, *flags = python(SETUP.format("")).split()
    assert int(count) == cores
    assert "--xla_cpu_multi_thread_eigen=false" in flags


@pytest.mark.long
def test_the_users_flags_are_respected():
    flags = "--xla_force_host_platform_device_count=5 --xla_cpu_multi_thread_eigen=true"
    count, *found = python(SETUP.format(""), XLA_FLAGS=flags).split()
    assert int(count) == 5
    assert found[:2] == flags.split()
    assert not any("device_count" in flag or "eigen" in flag for flag in found[2:])
    assert python(SETUP.format("2"), XLA_FLAGS="--xla_cpu_multi_thread_eigen=true").startswith("2 ")


def test_gpu_flags_are_set_with_a_cuda_plugin():
    (name, value), *_ = devices.GPU_FLAGS.items()
    assert name not in devices.xla_flags("", set())
    assert f"{name}={value}" in devices.xla_flags("", {"xla_cuda12"}).split()
    assert devices.xla_flags(f"{name}=", {"xla_cuda12"}).count(name) == 1


def test_xla_knows_the_flags_for_gpus():
    """It ends the process for a flag, or a value, that it does not know."""
    show = "import jax; print(jax.device_count())"
    flags = " ".join(f"{name}={value}" for name, value in devices.GPU_FLAGS.items())
    assert python(show, XLA_FLAGS=flags) == "1"
    assert python(show, XLA_FLAGS=f"{flags}S") != "1"


def f(row, shared=()):
    return {"square": row * row, "pair": jnp.stack([row, -row]).astype(jnp.float32)}


@pytest.mark.parametrize(
    ("num_devices", "capacity", "chunk_size"),
    [(1, 7, 2), (2, 1, 1), (4, 13, 2), (4, 3, 32)],
)
def test_map_rows_is_a_map(num_devices, capacity, chunk_size):
    def on_device(_, num_rows):
        sizes = {"capacity": capacity, "chunk_size": chunk_size, "num_devices": num_devices}
        return map_rows(f, num_rows=num_rows, **sizes)

    apply = devices.spread(on_device, in_axes=(0, None), num_devices=num_devices)
    rows = np.arange(capacity)
    for num_rows in {capacity, max(capacity - 3, 1), 0}:
        result = jax.device_get(apply(np.arange(num_devices), num_rows))
        assert result["square"].shape == (num_devices, capacity)
        for device in range(num_devices):
            done = slice(0, num_rows)
            np.testing.assert_array_equal(result["square"][device][done], (rows**2)[done])
            np.testing.assert_array_equal(result["pair"][device, done, 1], -rows[done])
        stride = num_devices * chunk_size
        rest = slice(-(-num_rows // stride) * stride, None)
        assert not result["square"][:, rest].any()  # never evaluated


@given(
    rows=st.integers(1, 10_000),
    bytes_per_row=st.integers(0, 10**9),
    num_devices=st.sampled_from([1, 2, 4]),
)
@example(rows=40, bytes_per_row=2**17, num_devices=2)
def test_a_chunk_fits_the_cache_and_wastes_little(rows, bytes_per_row, num_devices):
    chunk = choose_chunk_size(rows, bytes_per_row, num_devices)
    per_device = -(-rows // num_devices)
    assert 1 <= chunk <= min(per_device, 1024)
    assert chunk == 1 or chunk * bytes_per_row <= CACHE_BYTES
    chunks = -(-per_device // chunk)
    assert chunks * chunk - per_device < chunks  # fewer idle rows than chunks
    if per_device > chunk:  # no more chunks than the largest allowed size would have needed
        assert 4 * chunk * max(bytes_per_row, 1) > CACHE_BYTES or 2 * chunk > 16


def test_empty_arrays_are_dealt_and_collected():
    """An optimizer without memory keeps an array of no length."""
    rows = {"memory": np.zeros((5, 0, 5)), "other": np.arange(5)}
    dealt = deal(rows, slice(0, 6), 2)
    assert dealt["memory"].shape == (2, 3, 0, 5)
    found = collect([dealt], 5)
    assert found["memory"].shape == (5, 0, 5)
    np.testing.assert_array_equal(found["other"], np.arange(5))


IN_64_BITS = """
import jax, jax.numpy as jnp
import metaevo
from tests.metaevo.toy import Quadratic

assert jax.config.jax_enable_x64
from purerl.parts.networks import orthogonal
kernel = orthogonal()(jax.random.key(0), (4, 2), jnp.float32)
assert jnp.allclose(kernel.T @ kernel, jnp.eye(2), atol=1e-5)
for algorithm in ("Open_ES", "CMA_ES", "SimpleGA", "low_rank_es"):
    strategy = {"algorithm": algorithm, "population_size": 8}
    evolution = {"validation_seeds": 0, "num_devices": 1}
    try:
        found = metaevo.evolve(Quadratic(), strategy=strategy, generations=2, evolution=evolution)
    except metaevo.ConfigError as error:  # a message of one line
        assert "JAX_ENABLE_X64" in str(error), error
    else:
        assert found.meta_params["weights"].shape == (3,)
"""


@pytest.mark.long
def test_every_kind_of_strategy_evolves_with_64_bits_or_refuses_them():
    done = processes.python("-c", IN_64_BITS, env={**os.environ, "JAX_ENABLE_X64": "1"})
    assert done.returncode == 0, done.stderr


CACHED = """
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
    done = processes.python("-c", before + CACHED, env=environment)
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
