"""The suites `ppo` and `dqn`: training from scratch, ours against one flat vmap and against peers.

A worker sets up its devices, compiles, and returns a function that measures once.
"""

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from experiments.benchmarks import peers
from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import Variant, own
from experiments.benchmarks.tasks import WORK, Measure, Work, make_learner, timed

LEARNERS = tuple(dict.fromkeys(learner for learner, _ in WORK))
TASKS = tuple(dict.fromkeys(task for _, task in WORK))
MIN_UPDATES = 4
FLAT = {"flat vmap": False, "flat vmap, single-threaded": True}
"""Names of references that are our own function, and whether they are single-threaded."""
FLAT_AIM = {("ppo", "CartPole-v1", 256): 2.0}
"""On a CPU, how much faster ours should be than a flat vmap."""
AIMS = {
    "cpu": {
        ("ppo", "CartPole-v1", 1): 1.5, ("ppo", "CartPole-v1", 256): 3.0,
        ("ppo", "Breakout-MinAtar", 1): 1.5, ("ppo", "Breakout-MinAtar", 8): 1.5,
        ("dqn", "CartPole-v1", 64): 2.0,
    },
    "gpu": {
        ("ppo", "CartPole-v1", 1): 2.0, ("ppo", "CartPole-v1", 2048): 4.0,
        ("ppo", "Breakout-MinAtar", 1): 2.0, ("ppo", "Breakout-MinAtar", 8): 2.0,
        ("dqn", "CartPole-v1", 64): 3.0,
    },
}  # fmt: skip
"""How much faster ours should be than a peer."""


def suite_ppo(options: argparse.Namespace) -> dict[str, Any]:
    """PPO at CleanRL's (CartPole-v1) and PureJaxRL's (Breakout-MinAtar) settings."""
    return _compare("ppo", options)


def suite_dqn(options: argparse.Namespace) -> dict[str, Any]:
    """DQN at PureJaxRL's settings, learning from 1,000 steps on."""
    return _compare("dqn", options)


def _compare(learner: str, options: argparse.Namespace) -> dict[str, Any]:
    for task, work in works(learner, options.tasks).items():
        print(f"{task}: {work.text}")
    comparison = Comparison("steps", "task", "agents")
    for task, work in works(learner, options.tasks).items():
        for agents in options.agents or work.agents:
            count = count_updates(work, agents, options.frames)
            variants = _variants(learner, task, agents, count, options)
            others = [each for each in variants if each not in FLAT and OURS not in each]
            aims = {
                platform: dict.fromkeys(others, aim)
                for platform, table in AIMS.items()
                if (aim := table.get((learner, task, agents))) is not None
            }
            if (aim := FLAT_AIM.get((learner, task, agents))) is not None:
                aims.setdefault("cpu", {})["flat vmap"] = aim
            amount = agents * count * work.frames_per_update
            comparison.case(variants, amount, options.repeats, task, agents, aims=aims)
    texts = {task: work.text for task, work in works(learner, options.tasks).items()}
    return {"rows": comparison.rows, "failures": comparison.failures, "work": texts}


def works(learner: str, tasks: Sequence[str]) -> dict[str, Work]:
    """Return what a learner does in those of the tasks that it is measured on."""
    return {task: work for (name, task), work in WORK.items() if name == learner and task in tasks}


def count_updates(work: Work, agents: int, frames: int | None) -> int:
    """Return how many make that many frames of all agents: some, and a whole training at most."""
    least = 2 if frames else MIN_UPDATES
    count = max(least, round((frames or work.frames) / (agents * work.frames_per_update)))
    return min(count, work.whole // work.frames_per_update)


def _variants(
    learner: str, task: str, agents: int, updates: int, options: argparse.Namespace
) -> dict[str, Variant]:
    work: dict[str, Any] = {"learner": learner, "task": task, "agents": agents, "updates": updates}
    variants = {OURS: own("ours", **work)}
    for size in options.chunk_sizes:
        variants[f"ours, chunks of {size}"] = own("ours", chunk_size=size, **work)
    for name, single in FLAT.items():
        variants[name] = own("flat", single_threaded=single, default_flags=not single, **work)
    if options.peers:
        variants |= peers.variants(learner, task, agents, updates)
    variants |= externals(options, suite=learner, task=task, agents=agents, updates=updates)
    return {name: each for name, each in variants.items() if name == OURS or options.keep(name)}


# --- What runs in the processes -------------------------------------------------------------------


def _train(
    name: str,
    task: str,
    updates: int,
    part: str | None = None,
    settings: dict[str, Any] | None = None,
) -> tuple[Any, Any, Any]:
    """`train` from a key to the mean return, the learner's task, and its hyperparameters.

    With the name of a component in its slot, with its settings, at its random start.
    """
    import jax

    from metaevo.components import registry
    from metaevo.training.train_learner import Task
    from purerl.parts.evaluation import mean_return
    from purerl.parts.own_task import OwnTask, sampler

    learner, env_params, hyperparams = make_learner(name, task, updates)
    meta_params = None
    if part is not None:
        module = registry.find(part)
        component = module.make(module.Config(**(settings or {})))
        learner = dataclasses.replace(learner, **{module.SLOT: component.apply})
        meta_params = component.init(jax.random.key(0))
    sample_params = sampler(learner.env)
    if sample_params is not None:
        learner = OwnTask(learner, sample_params)

    def train(key):
        return mean_return(learner.train(key, hyperparams, meta_params, env_params).episodes)

    return train, Task(task, learner, env_params), hyperparams


def ours(
    learner: str,
    task: str,
    agents: int,
    updates: int,
    chunk_size: int | None = None,
    num_devices: int | None = None,
    part: str | None = None,
    settings: dict[str, Any] | None = None,
) -> tuple[Measure, dict[str, Any]]:
    """Agents dealt to one device a core, each of which trains chunk after chunk."""
    from metaevo.evolution import devices

    devices.setup(num_devices)
    import jax

    from experiments.benchmarks import flops
    from metaevo.training.train_learner import working_set

    train, its_task, hyperparams = _train(learner, task, updates, part, settings)
    count = min(len(jax.devices()[:num_devices]), agents)
    size = chunk_size or devices.choose_chunk_size(
        agents, working_set(its_task, hyperparams, None), count
    )

    def train_all(key):
        return devices.map_rows(
            lambda row: train(jax.random.fold_in(key, row)),
            capacity=agents,
            num_rows=agents,
            chunk_size=size,
            num_devices=count,
        )

    compiled = devices.spread(train_all, num_devices=count)
    measure = timed(compiled, lambda i: devices.replicate(jax.random.key(i), count))
    about = {"layout": f"{count} devices, chunks of {size}", "devices": count}
    frames = updates * WORK[learner, task].frames_per_update
    return measure, {**about, "flops_per_unit": flops.count(train, jax.random.key(0)) / frames}


def flat(
    learner: str, task: str, agents: int, updates: int, single_threaded: bool
) -> tuple[Measure, dict[str, Any]]:
    """A reference: the same `train` under one flat `vmap` on one device."""
    if single_threaded:
        from metaevo.evolution import devices

        devices.setup(num_devices=1)
    import jax

    if single_threaded and jax.devices()[0].platform != "cpu":
        return lambda _: {}, {"skip": "threads are a matter of CPUs"}
    train, _, _ = _train(learner, task, updates)
    compiled = jax.jit(jax.vmap(train))  # on the first device, whatever others there are
    measure = timed(compiled, lambda i: jax.random.split(jax.random.key(i), agents))
    return measure, {"layout": "one device, " + ("one thread" if single_threaded else "default")}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {"ours": ours, "flat": flat}
