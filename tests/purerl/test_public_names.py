"""Public names of `purerl`, and the cost of importing it."""

import subprocess
import sys

import pytest

import purerl

SCRIPT = """
import purerl
from purerl import dqn, fast, ppo, q_learning, types
import jax
jax.config.update("jax_num_cpu_devices", 3)  # refused once a backend has started
print(len(jax.devices("cpu")), purerl.envs.make("CartPole-v1")[0].name)
"""


@pytest.mark.parametrize("name", purerl.__all__)
def test_every_public_name_is_a_module(name):
    assert getattr(purerl, name).__name__ == f"purerl.{name}"


@pytest.mark.long
def test_no_backend_starts_before_an_environment_is_asked_for():
    env = {"PATH": "", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "CartPole-v1"]
