"""The suite `environments`: stepping alone, with random actions."""

import argparse
import importlib.metadata
import itertools
from collections.abc import Callable
from typing import Any, Literal

from experiments.benchmarks import peers
from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.processes import Sample, own
from experiments.benchmarks.work import Clock, Made, timed

ENVIRONMENTS = (
    "GridWorld", "CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1",
    "Breakout-MinAtar", "FourRooms-misc",
)  # fmt: skip
IN_GYMNASIUM = {
    **dict.fromkeys(("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1"), "Gymnasium"),
    "Breakout-MinAtar": "MinAtar",
}
"""Packages of the environments that are also measured in Gymnasium's vectors."""
ASYNC_MOST = 500
"""processes of an AsyncVectorEnv"""
NUM_ENVS = (10, 2048)
STEPS = 2**20
"""steps of all environments in one measurement"""
GYMNASIUM_STEPS = 2**14


def suite(options: argparse.Namespace) -> Comparison:
    """Stepping alone: environments under vmap in a scan, against Gymnasium's vectors in NumPy."""
    comparison = Comparison("steps", "environment", "envs")
    for name, num_envs in itertools.product(options.environments, options.num_envs):
        total = options.frames or STEPS
        work = {"name": name, "num_envs": num_envs, "steps": max(1, total // num_envs)}
        variants = {
            OURS: own("environments:all_devices", work),
            "one device": own("environments:one_device", work, default_flags=True),
        }
        if options.peers and name in IN_GYMNASIUM and peers.available(IN_GYMNASIUM[name]):
            few = work | {"steps": max(1, min(total, GYMNASIUM_STEPS) // num_envs)}
            for kind in ("sync", "async") if num_envs <= ASYNC_MOST else ("sync",):
                worker = own("environments:in_gymnasium", few, kind=kind)
                variants[f"Gymnasium, {kind}"] = worker
        comparison.case(variants, options.repeats, name, num_envs)
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def rollout(name: str, num_envs: int, steps: int) -> Callable[[Any], Any]:
    """Return a function from a key to the sum of all rewards; environments reset automatically."""
    from metaevo.commands.envs import random_play
    from purerl import envs

    env, params = envs.make(name)
    play = random_play(env, num_envs, steps)
    return lambda key: play(key, params)


def all_devices(name: str, num_envs: int, steps: int) -> Made:
    """Environments split evenly over the devices."""
    from metaevo.evolution import devices

    devices.setup()
    import jax

    count = min(len(jax.devices()), num_envs)
    each = -(-num_envs // count)
    compiled = devices.spread(rollout(name, each, steps), num_devices=count)

    def keys(repeat: int) -> Any:
        return devices.place(jax.random.split(jax.random.key(repeat), count), count)

    measure = timed(compiled, keys, count * each * steps)
    return measure, {"layout": f"{count} devices x {each} envs"}


def one_device(name: str, num_envs: int, steps: int) -> Made:
    """All environments on XLA's default device."""
    import jax

    measure = timed(jax.jit(rollout(name, num_envs, steps)), jax.random.key, num_envs * steps)
    return measure, {"layout": "one device, default"}


def in_gymnasium(name: str, num_envs: int, steps: int, kind: Literal["sync", "async"]) -> Made:
    """Gymnasium's SyncVectorEnv or AsyncVectorEnv with actions drawn in advance."""
    import numpy as np

    from experiments.reproductions.gym_envs import make_vector

    # Forked, because starting hundreds of interpreters takes long; JAX's backend starts later.
    vector = make_vector(name, num_envs, kind, context="fork" if kind == "async" else None)
    vector.action_space.seed(0)
    actions: list[Any] = [np.asarray(vector.action_space.sample()) for _ in range(steps)]

    def measure(repeat: int) -> Sample:
        vector.reset(seed=repeat)
        clock = Clock()
        for action in actions:
            vector.step(action)
        return clock.sample(num_envs * steps)

    layout = "one thread" if kind == "sync" else f"{num_envs} processes"
    return measure, {"layout": layout, "version": importlib.metadata.version("gymnasium")}
