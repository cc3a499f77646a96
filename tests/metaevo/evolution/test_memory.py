"""Chunk sizes: chosen by XLA's memory analysis, halved when memory runs out."""

import jax
import jax.numpy as jnp
import pytest

from metaevo.config import ConfigError
from metaevo.evolution import devices, hosts, memory
from tests.metaevo.toy import Quadratic, assert_same, begun, evolution, run

FULL = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes."


def failing(chunk_size, message=FULL):
    """An evolution whose compiled block only fails."""
    config = {"chunk_size": chunk_size, "num_devices": 2, "seeds_per_candidate": 2}
    this = evolution(Quadratic(0.3), config)

    def fail(*arguments):
        raise jax.errors.JaxRuntimeError(message)

    this._program, this.bytes_needed = fail, 0
    return this


@pytest.mark.long
@pytest.mark.smoke
def test_the_memory_estimate_grows_with_the_chunk():
    class Heavy(Quadratic):
        """Every evaluation carries a megabyte."""

        def evaluate(self, key, meta_params, task):
            evaluation = super().evaluate(key, meta_params, task)
            carry = jnp.full(2**18, evaluation.fitness)
            carry = jax.lax.fori_loop(0, 9, lambda i, x: x.at[i].add(jnp.sum(x)), carry)
            return evaluation._replace(fitness=carry[0])

    needed = []
    for size in (1, 4):
        this = evolution(Heavy(), {"chunk_size": size, "num_devices": 1})
        this.compiled()
        needed.append(this.bytes_needed)
    assert needed[0] >= 2**20
    assert needed[1] >= 4 * 2**20
    assert 2.9 * 2**20 <= needed[1] - needed[0] <= 30 * 2**20  # small buffers may go


@pytest.mark.long
def test_out_of_memory_halves_the_chunk_and_continues():
    this = failing(8)
    start = begun(this)
    with pytest.warns(UserWarning, match="out of memory with 8 agents at once .* on with 4"):
        state, metrics = memory.run(this, start, 3)
    assert this.chunk_size == 4
    config = {"chunk_size": 4, "num_devices": 2, "seeds_per_candidate": 2}
    expected_state, expected = run(evolution(Quadratic(0.3), config), 3)
    assert_same(jax.device_get(state), jax.device_get(expected_state))
    assert_same(metrics, expected)


def test_one_agent_at_a_time_is_the_end():
    with pytest.raises(ConfigError, match="too little memory for one agent at a time"):
        memory.run(failing(1), None, 1)


def test_other_failures_are_not_hidden():
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        memory.run(failing(8, "INTERNAL: something else"), None, 1)


def test_out_of_memory_ends_one_of_several_processes(monkeypatch):
    this = failing(8)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(hosts.LostError, match=r"--resume --evolution\.chunk_size 4"):
        memory.run(this, None, 1)


class Sized:
    """Work that needs some bytes, and 100 for every agent at once; records its compilations."""

    bytes_needed = None

    def __init__(self, chunk_size, limit=10**9):
        self.chunk_size, self.sizes, self.limit = chunk_size, [], limit

    def compiled(self):
        self.sizes.append(self.chunk_size)
        if self.chunk_size > self.limit:
            raise jax.errors.JaxRuntimeError(FULL)
        self.bytes_needed = 50 + 100 * self.chunk_size

    def use_chunks_of(self, chunk_size):
        self.chunk_size = chunk_size


@pytest.mark.parametrize(("free", "chunks"), [(3250, [32]), (3249, [32, 28]), (700, [32, 6])])
def test_a_chunk_shrinks_until_it_fits(monkeypatch, recwarn, free, chunks):
    monkeypatch.setattr(devices, "free_bytes", lambda: free)
    this = Sized(32)
    memory.fit(this)
    assert this.sizes == chunks
    assert this.bytes_needed == 50 + 100 * chunks[-1] <= free
    assert len(recwarn) == len(chunks) - 1


def test_a_given_chunk_is_kept_and_one_agent_is_always_tried(monkeypatch):
    monkeypatch.setattr(devices, "free_bytes", lambda: 100)
    this = Sized(32)
    with pytest.warns(UserWarning, match="32 agents at once need 3.2 KiB .* 1 would fit"):
        memory.fit(this, keep=True)
    assert this.chunk_size == 32
    this = Sized(1)
    with pytest.warns(UserWarning, match="one agent at a time needs"):
        memory.fit(this)
    assert this.chunk_size == 1


def test_out_of_memory_while_compiling_halves_too(monkeypatch):
    monkeypatch.setattr(devices, "free_bytes", lambda: 10**9)
    this = Sized(32, limit=9)
    with pytest.warns(UserWarning, match="going on with"):
        memory.fit(this)
    assert this.sizes == [32, 16, 8]


def test_accelerators_report_their_memory(monkeypatch):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 1000, "bytes_in_use": 400}

    monkeypatch.setattr(jax, "local_devices", lambda: [Device()] * 4)
    assert devices.memory_bytes() == 1000
    assert devices.free_bytes() == 600
    # Half of it in chunks of about the same size: 25 agents on each of 4 devices, 3 fit.
    assert devices.choose_chunk_size(100, 100) == 3
    assert devices.choose_chunk_size(28, 100) == 3
    assert devices.choose_chunk_size(16, 100) == 2
