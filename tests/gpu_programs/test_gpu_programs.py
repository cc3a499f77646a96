"""Programs compiled for a GPU (`make test-gpu-programs`): forbidden parts, known costs."""

import json
import math
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from experiments.benchmarks import gpu_programs
from purerl import fast

pytestmark = [pytest.mark.gpu_programs, pytest.mark.timeout(1800)]

LARGE_SORT = 1 << 20
"""Elements. A sort of fewer is one kernel."""
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")


@pytest.fixture(scope="module")
def gpu():
    yield gpu_programs.gpus(1)
    fast.trace_for(None)


def instructions(program):
    return [each for table in program.computations.values() for each in table.values()]


@pytest.mark.parametrize("preset", gpu_programs.PRESETS)
def test_a_program_needs_neither_float64_nor_lapack_nor_the_host(gpu, preset):
    program = gpu_programs.compiled(preset, 1 if preset.startswith("train/") else 64, gpu)
    for each in instructions(program):
        assert not re.search(r"\bf64\[", each.type), each
        if each.op == "custom-call":
            assert not re.search("lapack|solver|callback", each.attributes, re.IGNORECASE), each
        if each.op == "sort":
            sizes = [int(size) for size in re.findall(r"\d+", each.type.partition("]")[0])[1:]]
            assert math.prod(sizes) < LARGE_SORT, each


def test_a_generation_on_eight_gpus_communicates_once():
    program = gpu_programs.compiled("evolve_value_loss/ppo", 64, gpu_programs.gpus(8))
    ops = [each.op.removesuffix("-start") for each in instructions(program)]
    assert sum(op in COLLECTIVES for op in ops) == 1


def test_an_update_with_metaevo_flags_is_one_graph_without_host_calls(tmp_path):
    saved = tmp_path / "table.json"
    presets = "train/ppo_cartpole", "train/dqn_cartpole", "--agents", "2"
    command = "-m", "experiments.benchmarks.gpu_programs", *presets, "--save", saved
    clean = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    subprocess.run([sys.executable, *command], env=clean, check=True)
    (table,) = json.loads(saved.read_text())["tables"]
    for cells in table["rows"]:
        row = dict(zip(table["columns"], cells, strict=True))
        assert row["syncs / update"] == "0"
        assert int(row["% in graphs"]) >= 99


def test_costs_of_known_programs(gpu):
    where = jax.sharding.SingleDeviceSharding(gpu[0])

    def cost(function, shape, updates=0):
        lowered = jax.jit(function, in_shardings=where).lower(jax.ShapeDtypeStruct(shape, float))
        return gpu_programs.finished(lowered).cost(updates)

    def sines(x):
        return jax.lax.fori_loop(0, 10, lambda _, carry: jnp.sin(carry) + x, x)

    moved = 3 * 4 * (1 << 24)  # two arrays are read, one is written
    found = cost(sines, (1 << 24,), updates=10)
    assert moved <= found.bytes <= 1.001 * moved
    assert 1 <= found.launches <= 3  # the sum, the counter and maybe the loop's condition
    assert found.syncs == 0

    def halve(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) > 1, lambda x: x / 2, x)

    assert cost(halve, (1000,)).syncs == 1  # the length of the loop depends on x
