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

from experiments.benchmarks.gpu_programs import deviceless
from experiments.benchmarks.gpu_programs.programs import NEEDS, PROGRAMS
from metaevo.config import ConfigError
from purerl import fast

pytestmark = pytest.mark.gpu_programs

LARGE_SORT = 1 << 20
"""Elements. A sort of fewer is one kernel."""
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")


@pytest.fixture(scope="module")
def h100():
    yield deviceless.target("h100")
    fast.trace_for(None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_needs_neither_float64_nor_lapack_nor_the_host(h100, name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    make, agents = PROGRAMS[name]
    work = make(h100, min(agents))
    program = work.compiled.program(h100.bandwidth)
    for each in program.instructions():
        assert not re.search(r"\bf64\[", each.type), each
        if each.op == "custom-call":
            assert not re.search("lapack|solver|callback", each.attributes, re.IGNORECASE), each
        if each.op == "sort":
            sizes = [int(size) for size in re.findall(r"\d+", each.type.partition("]")[0])[1:]]
            assert math.prod(sizes) < LARGE_SORT, each


def test_a_generation_on_eight_gpus_communicates_once():
    several = deviceless.target("h100", devices=8)
    work = PROGRAMS["evolve-value-loss"][0](several, 512)
    program = work.compiled.program(several.bandwidth)
    ops = [each.op.removesuffix("-start") for each in program.instructions()]
    assert sum(op in COLLECTIVES for op in ops) == 1


def test_launches_of_a_known_program(h100):
    def product(x, y):
        return jax.lax.fori_loop(0, 10, lambda _, carry: jnp.sin(carry) @ y, x)

    shape = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    whole = h100.compile(product, shape, shape).program(h100.bandwidth).whole
    (loop,) = whole.loops
    assert loop.trips == 10
    assert 1 <= loop.body.total.launches <= 3  # the product, maybe in parts, and the counter
    assert whole.total.syncs == 0


def test_bytes_and_seconds_of_a_known_program(h100):
    def sines(x, y):
        return jax.lax.fori_loop(0, 10, lambda _, carry: jnp.sin(carry) + y, x)

    shape = jax.ShapeDtypeStruct((1 << 24,), jnp.float32)
    (loop,) = h100.compile(sines, shape, shape).program(h100.bandwidth).whole.loops
    moved = 3 * 4 * (1 << 24)  # two arrays are read, one is written
    assert moved <= loop.body.total.bytes <= 1.001 * moved
    assert loop.body.total.seconds == pytest.approx(moved / h100.bandwidth, rel=0.1)


def test_a_loop_of_dynamic_length_calls_the_host(h100):
    def halve(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) > 1, lambda x: x / 2, x)

    compiled = h100.compile(halve, jax.ShapeDtypeStruct((1000,), jnp.float32))
    whole = compiled.program(h100.bandwidth).whole
    assert whole.loops[0].trips is None
    assert whole.total.syncs == 1


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_an_update_with_metaevo_flags_is_one_graph_without_host_calls(name, tmp_path):
    saved = tmp_path / "table.json"
    command = "-m", "experiments.benchmarks.gpu_programs", name, "--agents", "2", "--save", saved
    clean = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    subprocess.run([sys.executable, *command], env=clean, check=True, timeout=500)
    (table,) = json.loads(saved.read_text())["tables"]
    (row,) = (dict(zip(table["columns"], each, strict=True)) for each in table["rows"])
    assert row["syncs / update"] == "0"
    assert int(row["% in graphs"]) >= 99


def test_an_unknown_target_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="h100") as refused:
        deviceless.target("b300")
    assert "\n" not in str(refused.value)
