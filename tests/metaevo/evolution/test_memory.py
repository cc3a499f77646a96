import re
import warnings
from types import SimpleNamespace

import jax
import pytest

from metaevo.config import ConfigError
from metaevo.evolution import devices, memory
from metaevo.evolution.rows import choose_chunk_size
from tests.metaevo.toy import Quadratic, assert_same, begun, evolution, run

FULL = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes."


def failing(chunk_size, message=FULL):
    """An evolution whose compiled block only fails."""
    config = {"chunk_size": chunk_size, "num_devices": 2, "seeds_per_candidate": 2}
    this = evolution(Quadratic(0.3), config)

    def fail(*arguments):
        raise jax.errors.JaxRuntimeError(message)

    this._program = fail
    return this


@pytest.mark.long
@pytest.mark.smoke
def test_out_of_memory_halves_the_chunk_and_continues():
    this = failing(8)
    with pytest.warns(UserWarning, match="with 8 agents at once .* out of memory: going on with 4"):
        state, metrics = this.run(begun(this), 3)
    assert this.chunk_size == 4
    assert this.bytes_needed > 0
    config = {"chunk_size": 4, "num_devices": 2, "seeds_per_candidate": 2}
    expected_state, expected = run(evolution(Quadratic(0.3), config), 3)
    assert_same(jax.device_get(state), jax.device_get(expected_state))
    assert_same(metrics, expected)


def test_other_failures_end_the_evolution(monkeypatch):
    with pytest.raises(ConfigError, match="too little memory for one agent at a time"):
        failing(1).run(None, 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        failing(8, "INTERNAL: something else").run(None, 1)
    several = {4: failing(8), 1: failing(1)}
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    for size, this in several.items():
        with pytest.raises(memory.LostError, match=rf"--resume --evolution\.chunk_size {size}"):
            this.run(None, 1)


@pytest.mark.parametrize(
    ("others", "size"),
    [([None, 9999], 16), ([90, 100], 32), ([400, 100], 7), ([20_000, 9999], 14)],
)
def test_all_processes_use_the_size_that_fits_in_each(others, size):
    """Here the program needs 90 of 100 bytes; another process answers otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert memory.fitting(32, [[90, 100], others]) == size


@pytest.mark.parametrize(
    ("chosen", "free", "most", "chunks", "warning"),
    [
        (None, 3250, 99, [32], None),
        (None, 3249, 99, [32, 28], "32 agents at once a device needs .*: going on with 28"),
        (None, 700, 99, [32, 6], "32 agents .*: going on with 6"),
        (None, 9999, 9, [32, 16, 8], "out of memory: going on with 8"),  # it does not compile
        (None, 100, 99, [32, 1], r"chunk_size = 1: a device needs"),
        (32, 700, 99, [32], r"chunk_size = 32: a device needs"),
    ],
)
def test_a_chunk_shrinks_until_it_fits(monkeypatch, chosen, free, most, chunks, warning, recwarn):
    """The program needs 50 bytes, and 100 for every agent at once."""
    config = {"chunk_size": chosen, "num_devices": 1, "seeds_per_candidate": 2}
    this, compiled = evolution(Quadratic(), config), []
    this.use_chunks_of(32)

    def compile_block():
        compiled.append(this.chunk_size)
        if this.chunk_size > most:
            raise jax.errors.JaxRuntimeError(FULL)
        return this.chunk_size

    lowered = SimpleNamespace(compile=compile_block)
    monkeypatch.setattr(
        devices, "spread", lambda *_, **__: SimpleNamespace(lower=lambda *_: lowered)
    )
    monkeypatch.setattr(devices, "bytes_of_program", lambda size: 50 + 100 * size)
    monkeypatch.setattr(devices, "free_bytes", lambda: free)
    assert this.compiled() == this.chunk_size
    assert compiled == chunks
    assert this.bytes_needed == 50 + 100 * chunks[-1]
    said = [str(each.message) for each in recwarn]
    assert not said if warning is None else re.search(warning, said[-1])


def test_accelerators_report_their_memory(monkeypatch):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 1000, "bytes_in_use": 400}

    monkeypatch.setattr(jax, "local_devices", lambda: [Device()] * 4)
    assert devices.memory_bytes() == 1000
    assert devices.free_bytes() == 600
    # Half of it in chunks of about the same size: 25 agents on each of 4 devices, 3 fit.
    assert [choose_chunk_size(rows, 100) for rows in (100, 28, 16)] == [3, 3, 2]
