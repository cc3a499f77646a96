"""The suite `environments`: stepping alone, with random actions, in a scan."""

import argparse
import time
from collections.abc import Callable
from typing import Any

from experiments.benchmarks import peers
from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.processes import own

Measure = Callable[[int], dict[str, float]]
ENVIRONMENTS = (
    "GridWorld", "Doors", "CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1",
    "Breakout-MinAtar", "FourRooms-misc",
)  # fmt: skip
IN_GYMNASIUM = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "Doors")
"""Those that are also measured in Gymnasium: its own, and our NumPy version of Doors."""
NUM_ENVS = (10, 2048)
STEPS = 2**20
"""of all environments in one measurement"""
GYMNASIUM_STEPS = 2**14
FIRST = "one device"


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Stepping alone: environments under vmap in a scan, against Gymnasium's vectors in NumPy."""
    comparison = Comparison("steps", "environment", "envs", products=False)
    for name in options.environments:
        for num_envs in options.num_envs:
            steps = max(1, (options.frames or STEPS) // num_envs)
            work: dict[str, Any] = {"name": name, "num_envs": num_envs}
            variants = {
                OURS: own("step_all_devices", steps=steps, **work),
                FIRST: own("step_one_device", steps=steps, default_flags=True, **work),
            }
            if options.peers and name in IN_GYMNASIUM and peers.available("Gymnasium"):
                few = max(1, min(options.frames or STEPS, GYMNASIUM_STEPS) // num_envs)
                variants["Gymnasium, sync"] = own("step_gymnasium", steps=few, **work)
            amount = num_envs * steps
            comparison.case(variants, amount, options.repeats, name, num_envs)
    return {"rows": comparison.rows, "failures": comparison.failures}


def _rollout(name: str, num_envs: int, steps: int) -> Callable[[Any], Any]:
    """From a key to the sum of all rewards; environments reset themselves."""
    import jax
    import jax.numpy as jnp

    from purerl import envs

    env, params = envs.make(name)
    actions = env.action_space(params)

    def step(carry, key):
        states, total = carry
        action_key, step_key = jax.random.split(key)
        action = jax.vmap(actions.sample)(jax.random.split(action_key, num_envs))
        keys = jax.random.split(step_key, num_envs)
        obs, states, reward, *_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
            keys, states, action, params
        )
        total += jnp.sum(reward) + jnp.sum(obs)  # an observation that nobody wants is not made
        return (states, total), None

    def run(key):
        reset_key, key = jax.random.split(key)
        keys = jax.random.split(reset_key, num_envs)
        _, states = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
        (_, total), _ = jax.lax.scan(step, (states, 0.0), jax.random.split(key, steps))
        return total

    return run


def step_all_devices(name: str, num_envs: int, steps: int) -> tuple[Measure, dict[str, Any]]:
    """Environments dealt to the devices, as even as it goes."""
    from metaevo.evolution import devices

    devices.setup()
    import jax

    from experiments.benchmarks.tasks import timed

    count = min(len(jax.devices()), num_envs)
    each = -(-num_envs // count)
    compiled = devices.spread(_rollout(name, each, steps), num_devices=count)

    def keys(repeat):
        return devices.place(jax.random.split(jax.random.key(repeat), count), count)

    measure = timed(compiled, keys)
    amount = {"amount": float(count * each * steps)}
    return lambda i: {**measure(i), **amount}, {"layout": f"{count} devices x {each} envs"}


def step_one_device(name: str, num_envs: int, steps: int) -> tuple[Measure, dict[str, Any]]:
    """All environments on XLA's default device."""
    import jax

    from experiments.benchmarks.tasks import timed

    measure = timed(jax.jit(_rollout(name, num_envs, steps)), jax.random.key)
    return measure, {"layout": "one device, default"}


def step_gymnasium(name: str, num_envs: int, steps: int) -> tuple[Measure, dict[str, Any]]:
    """Gymnasium's SyncVectorEnv; random actions are drawn before."""
    import importlib.metadata

    import numpy as np

    from experiments.reproductions.gym_envs import make_vector

    vector = make_vector(name, num_envs)
    vector.action_space.seed(0)
    actions: list[Any] = [np.asarray(vector.action_space.sample()) for _ in range(steps)]

    def measure(repeat):
        vector.reset(seed=repeat)
        start, cpu = time.perf_counter(), time.process_time()
        for action in actions:
            vector.step(action)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": float(num_envs * steps)}

    version = importlib.metadata.version("gymnasium")
    return measure, {"layout": "one thread", "version": version}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "step_all_devices": step_all_devices,
    "step_one_device": step_one_device,
    "step_gymnasium": step_gymnasium,
}
