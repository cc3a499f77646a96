"""The suites of training: agents of a learner, trained from scratch."""

import argparse
from collections.abc import Iterator
from typing import Any

from experiments.benchmarks.engine import Case, Measure, own, timed, variants
from metaevo.config import from_dict, load_yaml, merge, presets
from metaevo.config.plain import PlainDict

WORK: dict[tuple[str, str], PlainDict] = {
    ("ppo", "CartPole-v1"): load_yaml(presets.find("train/ppo_cartpole")),  # CleanRL's settings
    ("ppo", "Breakout-MinAtar"): load_yaml(presets.find("train/ppo_minatar")),  # PureJaxRL's
    ("dqn", "CartPole-v1"): {  # PureJaxRL's settings, learning from 1,000 steps on
        "learner": "dqn",
        "task": {"env": "CartPole-v1"},
        "train": {"num_envs": 10, "num_steps": 100, "learning_starts": 1_000},
    },
    ("q_learning", "GridWorld"): load_yaml(presets.find("train/q_learning_grid_world")),
}
"""Settings of `metaevo train`, by learner and task."""


def frames_per_update(raw: PlainDict) -> int:
    """Return the environment steps of an agent's update."""
    return raw["train"].get("num_envs", 1) * raw["train"]["num_steps"]


def settings_of(raw: PlainDict, updates: int) -> Any:
    """Return settings of `metaevo train`, of a training of so many updates."""
    from metaevo.training.settings import training_class

    raw = merge(raw, {"train": {"total_timesteps": updates * frames_per_update(raw)}})
    return from_dict(training_class(raw), raw)


def cases(learner: str, options: argparse.Namespace) -> Iterator[Case]:
    """Yield the tasks of a learner."""
    for (name, task), raw in WORK.items():
        if name != learner or task not in (options.tasks or [task]):
            continue
        for agents in options.agents or (1, 64):
            per_update = agents * frames_per_update(raw)
            updates = max(2, round(options.frames / per_update))
            work = {"learner": learner, "task": task, "agents": agents, "updates": updates}
            found = variants(options, "training:ours", work, suite=learner, **work)
            for count in options.devices:
                found[f"{count} devices"] = own("training:ours", {**work, "num_devices": count})
            yield (learner, task, agents), found


# --- In the worker's process ----------------------------------------------------------------------


def ours(
    learner: str, task: str, agents: int, updates: int, num_devices: int | None = None
) -> tuple[Measure, str]:
    """Agents split over one device per core, which trains them in chunks.

    `--against` calls this function in other checkouts: keep its arguments.
    """
    from metaevo.evolution import devices

    devices.setup(num_devices)
    import jax

    from metaevo.tasks.population import Population
    from metaevo.training.settings import make_task

    settings = settings_of(WORK[learner, task], updates)
    bound, functions = make_task(settings)
    population = Population(
        bound, settings.hyperparams, functions, settings.fitness,
        agents=agents, num_devices=num_devices,
    )  # fmt: skip
    measure = timed(
        population.train,
        lambda repeat: jax.random.split(jax.random.key(repeat), agents),
        agents * population.frames,
    )
    return measure, f"{population.num_devices} devices, chunks of {population.chunk_size}"
