"""Programs to compile for a GPU: trainings of the learners, generations of evolutions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np

from experiments.benchmarks.gpu_programs.deviceless import Compiled, Target, finished
from experiments.benchmarks.tasks import WORK, Trainee, make_learner, make_problem
from metaevo.config import merge
from metaevo.evolution import devices
from metaevo.evolution.evolution import Evolution
from metaevo.evolution.problem import bytes_per_evaluation
from metaevo.parts.classes import part_class
from purerl import dqn, envs, ppo, q_learning
from purerl.parts import losses
from purerl.parts.own_task import OwnTask, sampler

UPDATES = 30
"""Length of the trainings below. One of another length costs as much for each update."""


class Work(NamedTuple):
    """A compiled program, and the work that it does."""

    compiled: Compiled
    agents: int
    updates: int
    """of each agent; generations of an evolution"""
    frames: int
    """environment steps of all agents, in one update or generation"""
    env_steps: int = 0
    """length of the rollout of an update, if it has one"""
    gradient_steps: int = 0
    """of an update, if it has minibatches"""
    inputs: Callable[[int], tuple] = lambda seed: ()
    """`seed -> arguments` of the program"""


Program = Callable[[Target, int], Work]
"""`(target, agents) -> work`"""


def _training(make: Callable[[], Trainee], part: str | None = None) -> Program:
    """Return the program that trains agents side by side.

    Args:
        make: returns a learner, the environment's parameters and hyperparameters.
        part: a part with the numbers that each agent learns by, if any.
    """

    def program(target: Target, agents: int) -> Work:
        learner, env_params, hyperparams = make()
        init: Callable[[jax.Array], Any] | None = None
        if part is not None:
            found = part_class(part)()
            learner = type(learner)(learner.config, learner.env, **{found.slot: found.apply})
            init = found.init
        if (own := sampler(learner.env)) is not None:
            learner = OwnTask(learner, own)

        def train(keys, meta_params):
            axes = 0, None, None, None
            result = jax.vmap(learner.train, axes)(keys, hyperparams, meta_params, env_params)
            return result.episodes, result.metrics, jax.vmap(learner.policy)(result.state)

        def inputs(seed):
            key = jax.random.key(seed)
            return jax.random.split(key, agents), init and init(key)

        config = learner.config
        return Work(
            target.compile(train, *jax.eval_shape(partial(inputs, 0))),
            agents,
            config.num_updates,
            agents * config.frames_per_update,
            getattr(config, "num_steps", 0),
            getattr(config, "update_epochs", 0) * getattr(config, "num_minibatches", 0),
            inputs,
        )

    return program


def _suite(learner: str, task: str, part: str | None = None) -> Program:
    """Return the training of a suite of `experiments/benchmark.py`."""
    return _training(lambda: make_learner(learner, task, UPDATES), part)


def _recurrent() -> Trainee:
    env, env_params = envs.make("CartPole-v1")
    frames = UPDATES * WORK["ppo", "CartPole-v1"].frames_per_update
    config = ppo.Config(frames, recurrent_size=32)
    return ppo.PPO(config, env, value_loss=losses.clipped_squared), env_params, ppo.Hyperparams()


def _ant() -> Trainee:
    env, env_params = envs.make("brax/ant")
    config = ppo.Config(UPDATES * 64 * 64, num_envs=64, num_steps=64, num_minibatches=16)
    return ppo.PPO(config, env), env_params, ppo.Hyperparams()


def _prioritized() -> Trainee:
    env, env_params = envs.make("CartPole-v1")
    config = dqn.Config(UPDATES * 1000, replay="prioritized", learning_starts=1000)
    return dqn.DQN(config, env), env_params, dqn.Hyperparams()


def _q_learning() -> Trainee:
    env, env_params = envs.make("GridWorld", observations="index", size=8, slip_probability=0.2)
    config = q_learning.Config(total_timesteps=UPDATES * 500, num_steps=500)
    return q_learning.QLearning(config, env), env_params, q_learning.Hyperparams()


def _evolution(preset: str, **changes: Any) -> Program:
    """Return the program of a block of generations of a preset; `agents` are its candidates.

    With more than one device of the target, they share a generation.
    """

    def program(target: Target, agents: int) -> Work:
        own = {"strategy": {"population_size": agents}}
        problem, settings = make_problem(preset, merge(own, changes))
        count = len(target.devices)
        # Chunks that fill the target's memory.
        most = int(target.memory // 4 // max(bytes_per_evaluation(problem), 1))
        rows = -(-agents * settings.evolution.seeds_per_candidate // count)
        chunk = devices.even_chunk_size(rows, max(most, 1))
        config = replace(settings.evolution, chunk_size=chunk)
        with mock.patch.object(devices, "select", return_value=list(target.devices)):
            evolution = Evolution(problem, settings.strategy, config, seed=0)
            block = devices.spread(evolution._block, in_axes=(0, None, None), num_devices=count)
            copies = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype),
                evolution.template,
            )
            lowered = block.lower(copies, np.int32(1), evolution.traced)
        compiled = finished(lowered)

        def inputs(seed):
            del seed  # which is the evolution's own
            return evolution.init(), np.int32(1), evolution.traced

        frames = evolution.frames_per_generation
        return Work(compiled, evolution.evaluations, 1, frames, inputs=inputs)

    return program


PROGRAMS: dict[str, tuple[Program, tuple[int, ...]]] = {
    "ppo": (_suite("ppo", "CartPole-v1"), (1, 64, 2048, 16384)),
    "ppo-breakout": (_suite("ppo", "Breakout-MinAtar"), (1, 64)),
    "ppo-recurrent": (_training(_recurrent), (1, 2048)),
    "ppo-ant": (_training(_ant), (1,)),
    "dqn": (_suite("dqn", "CartPole-v1"), (1, 64)),
    "dqn-prioritized": (_training(_prioritized), (64,)),
    "q-learning": (_training(_q_learning), (2048,)),
    "lpg": (_suite("lpg", "GridWorlds"), (64,)),
    "optimizer": (_suite("ppo", "CartPole-v1", "optimizer"), (64,)),
    "open": (_suite("ppo", "CartPole-v1", "open"), (64,)),
    "drift": (_suite("ppo", "CartPole-v1", "drift"), (64,)),
    "evolve-value-loss": (
        _evolution("evolve_value_loss/blog", train={"total_timesteps": 65536}),
        (512,),
    ),
    "evolve-optimizer": (_evolution("evolve_optimizer/ppo"), (64,)),
    "evolve-tasks": (_evolution("evolve_optimizer/tasks"), (64,)),
    "evolve-drift": (_evolution("evolve_drift/ppo"), (64,)),
    "evolve-lpg": (_evolution("evolve_lpg/lpg"), (64,)),
    "shaping": (_evolution("shaping/ipd"), (128,)),
    "cheap-talk": (_evolution("cheap_talk/cartpole"), (64,)),
}
"""By name: the program, and the numbers of agents or candidates to compile it for."""
NEEDS = {"ppo-ant": "brax"}
"""Packages that programs need besides our own."""
