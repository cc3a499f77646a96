"""The suites: agents of a learner, trained from scratch, and generations of a preset."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from experiments.benchmarks.engine import Case, Measure, own, timed, variants
from experiments.benchmarks.tables import ROOT

PlainDict = dict[str, Any]


def preset(name: str) -> PlainDict:
    """Return the settings of a preset of configs/, without starting JAX."""
    text = (ROOT / "configs" / f"{name}.yaml").read_text(encoding="utf-8")
    found: PlainDict = yaml.safe_load(text)
    return found


def _trainings() -> Iterator[tuple[tuple[str, str], PlainDict]]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    for suite, tasks in yaml.safe_load(text).items():
        for task, given in tasks.items():
            raw = preset(given) if isinstance(given, str) else given
            yield (suite, task), {**raw, "task": {**raw.get("task", {}), "env": task}}


WORK = dict(_trainings())
"""Settings of `metaevo train`, by suite and task."""


def frames_per_update(raw: PlainDict) -> int:
    """Return the environment steps of an agent's update."""
    return int(raw["train"].get("num_envs", 1) * raw["train"]["num_steps"])


def settings_of(raw: PlainDict, updates: int) -> Any:
    """Return settings of `metaevo train`, of a training of so many updates."""
    import metaevo

    frames = updates * frames_per_update(raw)
    return metaevo.read_settings("train", raw, {"train": {"total_timesteps": frames}})


def make_problem(
    shape: str, population: int, agent_steps: int, changed: Sequence[str] = ()
) -> tuple[Any, Any]:
    """Return the problem of a preset, and its settings; `agent_steps` may be 0, the preset's."""
    import metaevo

    changes: PlainDict = {"strategy": {"population_size": population}}
    if agent_steps:
        changes["train"] = {"total_timesteps": agent_steps}
    for setting in changed:
        key, _, value = setting.partition("=")
        section, _, name = key.partition(".")
        changes.setdefault(section, {})[name] = yaml.safe_load(value)
    settings = metaevo.read_settings("evolve", shape, changes)
    return settings.build(), settings


def trainings(suite: str, options: argparse.Namespace) -> Iterator[Case]:
    """Yield the tasks of a suite."""
    for (name, task), raw in WORK.items():
        if name != suite or task not in (options.tasks or [task]):
            continue
        for agents in options.agents or (1, 64):
            per_update = agents * frames_per_update(raw)
            updates = max(2, round(options.frames / per_update))
            work = {"learner": suite, "task": task, "agents": agents, "updates": updates}
            found = variants(options, "training:ours", work, suite=suite, **work)
            for count in options.devices:
                found[f"{count} devices"] = own("training:ours", {**work, "num_devices": count})
            yield (suite, task, agents), found


def evolutions(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the presets: training, ask and tell of whole generations."""
    for shape in options.shape:
        raw = preset(shape)
        steps = options.agent_steps or raw.get("train", {}).get("total_timesteps", 0)
        work = {"generations": options.generations, "agent_steps": steps}
        for population in options.agents or (raw["strategy"]["population_size"],):
            agents = population * raw["evolution"].get("seeds_per_candidate", 1)
            ours = {"shape": shape, "population": population, **work}
            fields = {"suite": "evolution", "task": shape, "agents": agents, **work}
            if options.settings:
                ours["changed"] = options.settings
            found = variants(options, "evolution:value_loss", ours, **fields)
            for name in options.algorithms:
                changed = [*options.settings, f"strategy.algorithm={name}"]
                found[name] = own("evolution:value_loss", {**ours, "changed": changed})
            yield ("evolution", shape, agents), found


# --- In the worker's process ----------------------------------------------------------------------


def train(
    learner: str, task: str, agents: int, updates: int, num_devices: int | None = None
) -> tuple[Measure, str]:
    """Agents split over one device per core, which trains them in chunks."""
    import metaevo

    metaevo.devices.setup(num_devices)
    import jax

    settings = settings_of(WORK[learner, task], updates)
    population = settings.population(agents=agents, num_devices=num_devices, chunk_size=None)
    measure = timed(
        population.train,
        lambda repeat: jax.random.split(jax.random.key(repeat), agents),
        agents * population.frames,
    )
    return measure, f"{population.num_devices} devices, chunks of {population.chunk_size}"


def evolve(
    shape: str, generations: int, population: int, agent_steps: int, changed: Sequence[str] = ()
) -> tuple[Measure, str]:
    """A block of generations on all devices; the amount is in environment steps."""
    import metaevo

    metaevo.devices.setup()
    problem, settings = make_problem(shape, population, agent_steps, changed)
    config = replace(settings.evolution, block_size=generations, validation_seeds=0)
    evolution = metaevo.Evolution(problem, settings.strategy.build(), config)
    start = metaevo.devices.replicate(evolution.start(0), evolution.num_devices)
    evolution.compiled()
    measure = timed(
        lambda _: evolution.run(start, generations), int, generations * evolution.frames
    )
    layout = f"{evolution.num_devices} devices, chunks of {evolution.chunk_size}"
    return measure, f"{layout}, {(evolution.bytes_needed or 0) / 2**20:.0f} MiB a device by XLA"


WORKERS: dict[str, Callable[..., tuple[Measure, str]]] = {
    "training:ours": train,
    "evolution:value_loss": evolve,
}
"""By names that `--against` calls in other checkouts, with these arguments: keep both."""
