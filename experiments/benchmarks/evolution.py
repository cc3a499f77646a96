"""The suites `evolution` and `games`: generations of a preset, against the code of others."""

import argparse
import itertools
from typing import Any

from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import Sample, own
from experiments.benchmarks.tasks import make_problem
from experiments.benchmarks.work import Clock, Made, layout
from metaevo.config import load_yaml, presets

SHAPES = ("ppo", "standard", "blog")
"""Presets of configs/evolve_value_loss."""
GAME = "shaping/ipd"
GAMES, CANDIDATES = 16, 128
"""Games per candidate, and number of candidates."""
HIDDEN = (16, 256)
"""units of a meta-policy: in our preset, and in the authors' M-FOS"""
GAME_GENERATIONS = 4
"""of one measurement of ours; peers measure one"""


def suite_evolution(options: argparse.Namespace) -> Comparison:
    """Value-loss evolution: training, ask and tell of whole generations."""
    comparison = Comparison("frames", "shape", "agents", "generations")
    for shape in options.shape:
        preset = load_yaml(presets.find(f"evolve_value_loss/{shape}"))
        population = options.population or preset["strategy"]["population_size"]
        agents = population * preset["evolution"]["seeds_per_candidate"]
        steps = options.agent_steps or preset["train"]["total_timesteps"]
        # One generation of the larger shapes takes long enough.
        generations = options.generations if shape == "ppo" else 1
        work = {"generations": generations, "agent_steps": steps}
        ours = own("evolution:value_loss", work, shape=shape, population=population)
        others = externals(options, suite="evolution", task=shape, agents=agents, **work)
        others = {name: each for name, each in others.items() if options.keep(name)}
        comparison.case({OURS: ours, **others}, options.repeats, shape, agents, generations)
    return comparison


def suite_games(options: argparse.Namespace) -> Comparison:
    """Evolving meta-policies against naive learners, 16 games each, on one device."""
    comparison = Comparison("games", "game", "units", "candidates")
    for hidden, candidates in itertools.product(HIDDEN, options.agents or [CANDIDATES]):
        ours = own("evolution:matrix_game", hidden=hidden, candidates=candidates)
        others = externals(
            options, suite="games", task="ipd", agents=candidates, games=GAMES, hidden=hidden
        )
        comparison.case(
            {OURS: ours, **others}, options.repeats, "ipd", hidden, candidates,
            amount=candidates * GAMES,
        )  # fmt: skip
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def value_loss(shape: str, generations: int, population: int, agent_steps: int) -> Made:
    """Blocks of generations on all devices; the amount is in environment steps."""
    from metaevo.evolution import devices

    devices.setup()
    changes = {
        "strategy": {"population_size": population},
        "train": {"total_timesteps": agent_steps},
    }
    return _blocks(f"evolve_value_loss/{shape}", changes, generations)


def matrix_game(hidden: int, candidates: int) -> Made:
    """Blocks of generations on one device, without validation; the amount is in games."""
    from metaevo.evolution import devices

    devices.setup(1)
    changes = {
        "policy": {"hidden": hidden},
        "strategy": {"population_size": candidates},
        "evolution": {"seeds_per_candidate": GAMES, "validation_seeds": 0, "num_devices": 1},
    }
    return _blocks(GAME, changes, GAME_GENERATIONS, amount=GAME_GENERATIONS * candidates * GAMES)


def _blocks(
    preset: str, changes: dict[str, Any], generations: int, amount: float | None = None
) -> Made:
    from metaevo.evolution import devices
    from metaevo.evolution.loop import Evolution

    problem, settings = make_problem(preset, changes)
    evolution = Evolution(problem, settings.strategy, settings.evolution, seed=0)
    state = evolution.init()

    def frames() -> int:
        return evolution.frames(int(devices.first(state.generation)))

    def measure(repeat: int) -> Sample:
        nonlocal state
        before = frames()
        clock = Clock()
        state, _ = evolution.run_block(state, generations)
        sample = clock.sample(0.0)
        return {**sample, "amount": frames() - before if amount is None else amount}

    return measure, {"layout": layout(evolution.num_devices, evolution.chunk_size)}
