"""Evolution where JAX computes with 64 bits, which a process decides when it starts."""

import os

import pytest

from tests.processes import python

PROGRAM = """
import jax, jax.numpy as jnp
import metaevo

class Quadratic(metaevo.MetaProblem):
    def init(self, key):
        return jax.random.normal(key, (3,))
    def evaluate(self, key, meta_params, task):
        return metaevo.Evaluation(-jnp.sum((meta_params - 1.0) ** 2), {})

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
        assert found.meta_params.shape == (3,)
"""


@pytest.mark.long
def test_every_kind_of_strategy_evolves_with_64_bits_or_refuses_them():
    done = python("-c", PROGRAM, env={**os.environ, "JAX_ENABLE_X64": "1"})
    assert done.returncode == 0, done.stderr
