import os

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
