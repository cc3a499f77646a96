"""The suite `evolution`: training, ask and tell of whole generations of a preset."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from experiments.benchmarks.engine import Case, Measure, timed, variants
from metaevo.config import from_dict, load_yaml, merge, presets
from metaevo.config.plain import PlainDict


def preset(shape: str) -> PlainDict:
    """Return the settings of a preset of configs/; `ppo` is `evolve_value_loss/ppo`."""
    return load_yaml(presets.find(shape if "/" in shape else f"evolve_value_loss/{shape}"))


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the presets."""
    for shape in options.shape:
        raw = preset(shape)
        steps = options.agent_steps or raw.get("train", {}).get("total_timesteps", 0)
        work = {"generations": options.generations, "agent_steps": steps}
        for population in options.agents or (raw["strategy"]["population_size"],):
            agents = population * raw["evolution"].get("seeds_per_candidate", 1)
            ours = {"shape": shape, "population": population, **work}
            fields = {"suite": "evolution", "task": shape, "agents": agents, **work}
            found = variants(options, "evolution:value_loss", ours, **fields)
            yield ("evolution", shape, agents), found


# --- In the worker's process ----------------------------------------------------------------------


def make_problem(shape: str, population: int, agent_steps: int) -> tuple[Any, Any]:
    """Return the problem of a preset, and its settings; `agent_steps` may be 0, the preset's."""
    from metaevo.studies.evolve_settings import settings_class

    raw = merge(preset(shape), {"strategy": {"population_size": population}})
    if agent_steps:
        raw = merge(raw, {"train": {"total_timesteps": agent_steps}})
    settings = from_dict(settings_class(raw), raw)
    return settings.build(), settings


def value_loss(
    shape: str, generations: int, population: int, agent_steps: int
) -> tuple[Measure, str]:
    """A block of generations on all devices; the amount is in environment steps.

    `--against` calls this function in other checkouts: keep its arguments.
    """
    from metaevo.evolution import devices

    devices.setup()
    from metaevo.evolution.loop import Evolution
    from metaevo.evolution.problem import frames_per_generation

    problem, settings = make_problem(shape, population, agent_steps)
    config = replace(settings.evolution, block_size=generations, validation_seeds=0)
    evolution = Evolution(problem, settings.strategy.build(), config)
    start = devices.replicate(evolution.start(0), evolution.num_devices)
    agents = population * config.seeds_per_candidate
    frames = generations * agents * frames_per_generation(problem)
    measure = timed(lambda _: evolution.run(start, generations), int, frames)
    return measure, f"{evolution.num_devices} devices, chunks of {evolution.chunk_size}"
