"""The suites `ppo`, `dqn`, `learned-rules` and `devices`: training from scratch."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from experiments.benchmarks import peers
from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import Argument, Variant, own
from experiments.benchmarks.tasks import WORK, Work, make_learner
from experiments.benchmarks.work import Made, layout, timed
from metaevo.evolution.devices import usable_cores


def suite_ppo(options: argparse.Namespace) -> Comparison:
    """PPO at CleanRL's (CartPole-v1) and PureJaxRL's (Breakout-MinAtar) settings."""
    return _compare("ppo", options)


def suite_dqn(options: argparse.Namespace) -> Comparison:
    """DQN at PureJaxRL's settings, learning from 1,000 steps on."""
    return _compare("dqn", options)


def _compare(learner: str, options: argparse.Namespace) -> Comparison:
    chosen = works(learner, options.tasks)
    for task, work in chosen.items():
        print(f"{task}: {work.text}")
    comparison = Comparison("steps", "task", "agents")
    for task, work in chosen.items():
        for agents in options.agents or work.agents:
            updates = work.updates(agents, options.frames)
            variants = _variants(learner, task, agents, updates, options)
            amount = agents * updates * work.frames_per_update
            comparison.case(variants, options.repeats, task, agents, amount=amount)
    return comparison


def works(learner: str, tasks: Sequence[str]) -> dict[str, Work]:
    """Return the work of a learner on its tasks among the given ones."""
    return {task: work for (name, task), work in WORK.items() if name == learner and task in tasks}


def _variants(
    learner: str, task: str, agents: int, updates: int, options: argparse.Namespace
) -> dict[str, Variant]:
    work: dict[str, Argument] = {
        "learner": learner, "task": task, "agents": agents, "updates": updates
    }  # fmt: skip
    variants = {OURS: own("training:ours", work)}
    if options.peers and peers.available("rejax"):
        variants["rejax"] = own(f"peers:rejax_{learner}", work, default_flags=True)
    variants |= externals(options, suite=learner, task=task, agents=agents, updates=updates)
    return {name: each for name, each in variants.items() if name == OURS or options.keep(name)}


class Rule(NamedTuple):
    """A learner with a learned rule in a slot."""

    part: str
    """the part"""
    learner: str
    task: str
    agents: int
    hand_written: str
    """the learner's own rule"""
    settings: dict[str, int]
    """of the part"""


RULES = (
    Rule("optimizer", "ppo", "CartPole-v1", 64, "Adam", {}),
    Rule("open", "ppo", "Breakout-MinAtar", 8, "Adam", {}),
    Rule("lpg", "lpg", "GridWorlds", 8, "a2c", {"hidden_size": 256}),
)


def suite_learned_rules(options: argparse.Namespace) -> Comparison:
    """Training with a learned rule, a hand-written one, and the authors' OPEN and GROOVE."""
    comparison = Comparison("steps", "rule", "task", "agents")
    for rule in RULES:
        if rule.task not in options.tasks:
            continue
        work = WORK[rule.learner, rule.task]
        for agents in options.agents or [rule.agents]:
            updates = work.updates(agents, options.frames)
            plain: dict[str, Argument] = {"task": rule.task, "agents": agents, "updates": updates}
            others = {}
            if rule.part != "optimizer":
                others = externals(options, suite="learned-rules", **plain)
            plain |= {"learner": rule.learner}
            variants = {
                OURS: own("training:ours", plain, part=rule.part, settings=rule.settings),
                rule.hand_written: own("training:ours", plain),
                **others,
            }
            amount = agents * updates * work.frames_per_update
            labels = rule.part, rule.task, agents
            comparison.case(variants, options.repeats, *labels, amount=amount)
    return comparison


DEVICES = (1, 2, 4, 8)
AGENTS_EACH, AGENTS = 32, 256
"""per device in weak scaling, of all devices in strong scaling"""
DEVICE_UPDATES = 8


def suite_devices(options: argparse.Namespace) -> Comparison:
    """PPO on CartPole-v1 on 1 to 8 devices, more than the cores of a CPU included."""
    weak, strong = options.agents[:2] if len(options.agents) > 1 else (AGENTS_EACH, AGENTS)
    kinds = {
        f"weak, {weak} agents each": {count: weak * count for count in DEVICES},
        f"strong, {strong} agents": {count: max(strong, count) for count in DEVICES},
    }
    task = "CartPole-v1"
    batch = WORK["ppo", task].frames_per_update
    print(f"{usable_cores()} cores")
    comparison = Comparison("steps", "scaling", faster_than="1 device")
    for kind, sizes in kinds.items():
        variants = {}
        for count, agents in sizes.items():
            updates = DEVICE_UPDATES
            if options.frames:
                updates = max(2, options.frames // (agents * batch))
            work = {"learner": "ppo", "task": task, "agents": agents, "updates": updates}
            variants[f"{count} device{'s' * (count > 1)}"] = own(
                "training:ours", work, default_flags=True, num_devices=count
            )
        comparison.case(variants, options.repeats, kind)
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def _task(
    name: str,
    task: str,
    updates: int,
    part: str | None = None,
    settings: dict[str, int] | None = None,
) -> tuple[Any, Any, Any]:
    """Return a learner's task, its hyperparameters, and the random parameters of a part."""
    import jax

    from metaevo.parts.classes import part_class
    from metaevo.training.train_learner import Task
    from purerl.parts.own_task import OwnTask, sampler

    learner, env_params, hyperparams = make_learner(name, task, updates)
    meta_params = None
    if part is not None:
        found = part_class(part)(**(settings or {}))
        learner = dataclasses.replace(learner, **{found.slot: found.apply})
        meta_params = found.init(jax.random.key(0))
    sample_params = sampler(learner.env)
    if sample_params is not None:
        learner = OwnTask(learner, sample_params)
    return Task(task, learner, env_params), hyperparams, meta_params


def ours(
    learner: str,
    task: str,
    agents: int,
    updates: int,
    num_devices: int | None = None,
    part: str | None = None,
    settings: dict[str, int] | None = None,
) -> Made:
    """Agents split over one device per core, which trains them in chunks."""
    from metaevo.evolution import devices

    devices.setup(num_devices)
    import jax

    from metaevo.training.fitness import FitnessConfig
    from metaevo.training.population import Population

    present = len(jax.devices())
    if num_devices is not None and present < num_devices:
        return lambda _: {}, {"skip": f"there are {present} devices"}
    parts = _task(learner, task, updates, part, settings)
    population = Population(*parts, FitnessConfig(), agents=agents, num_devices=num_devices)
    amount = agents * updates * WORK[learner, task].frames_per_update
    measure = timed(population.train, lambda i: jax.random.split(jax.random.key(i), agents), amount)
    return measure, {"layout": layout(population.num_devices, population.chunk_size)}
