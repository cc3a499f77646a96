"""Opponent shaping in matrix games (M-FOS), from several seeds of evolution."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval
from tqdm import tqdm

from experiments.benchmarks.tables import Cell
from experiments.reproductions.comparison import Comparison, Output
from metaevo.components import players
from metaevo.config import from_dict, load_yaml, presets
from metaevo.evolution.blocks import run_generations
from metaevo.evolution.evolution import Evolution
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs.settings import MAX_SEED
from metaevo.statistics import iqm
from metaevo.studies.games.settings import ShapingSettings
from metaevo.studies.games.shaping import Shaping, ShapingStudy
from purerl import opponents


@dataclass(frozen=True)
class Settings:
    """Seeds and lengths."""

    seeds: Annotated[int, Gt(0)] = 5
    """number of evolutions, each with its own seed"""
    generations: Annotated[int, Gt(0)] = 100
    """of each evolution"""
    episodes: Annotated[int, Gt(1)] = 4096
    """fresh meta-episodes that measure each result"""
    seed: Annotated[int, Interval(ge=0, le=MAX_SEED)] = 0
    """of the first evolution"""


def run(preset: str, settings: Settings, output: Output) -> None:
    """Evolve with each seed against a naive learner, and play fresh meta-episodes."""
    shaping = from_dict(ShapingSettings, load_yaml(presets.find(preset)))
    config = dataclasses.replace(shaping.evolution, generations=settings.generations)
    problem = Shaping(shaping, ShapingStudy(shaping).met)
    evolution = Evolution(problem, shaping.strategy, config, seed=settings.seed)

    def episode(weights, key):
        ours = opponents.naive if weights is None else players.shaper(weights)
        start, rates = opponents.draw_start(jax.random.split(key)[0]), (problem.rate, problem.rate)
        found = opponents.play(
            problem.game, ours, opponents.naive, start, rates=rates, steps=problem.frames
        )
        return jnp.mean(found.own), jnp.mean(found.other)

    play = jax.jit(jax.vmap(episode, in_axes=(None, 0)))
    rows: list[list[Cell]] = []

    def add(name: str, weights: Any, seed: int, seconds: float | None) -> None:
        keys = keys_for(seed, Purpose.HELD_OUT, settings.episodes)
        own, other = (np.asarray(each, np.float64) for each in play(weights, keys))
        rows.append([name, iqm(own), own.mean(), iqm(other), other.mean(), seconds])

    add("naive against naive", None, settings.seed, None)
    for seed in range(settings.seed, settings.seed + settings.seeds):
        weights, seconds = _evolve(evolution.with_settings(seed, shaping.strategy), seed)
        add(f"shaper, seed {seed}", weights, seed, seconds)
    output.table(
        preset.replace("/", "_"),
        ["", "we earn (IQM)", "mean", "the naive learner earns (IQM)", "mean ", "seconds"],
        rows,
    )
    output.note(
        f"Payoffs per step in {settings.episodes:,} fresh meta-episodes of {problem.frames} joint "
        f"moves. Seconds of {settings.generations} generations of "
        f"{shaping.strategy.population_size} candidates x {config.seeds_per_candidate} games, "
        f"without compilation. `metaevo evolve --config configs/{preset}.yaml` draws one of them."
    )


def _evolve(evolution: Evolution, seed: int) -> tuple[Any, float]:
    """Return the result of an evolution, and its seconds."""
    seconds = 0.0
    with tqdm(total=evolution.config.generations, desc=f"seed {seed}", leave=False) as bar:
        for block in run_generations(evolution, evolution.start()):
            seconds += block.seconds
            bar.update(block.done - bar.n)
    return jax.tree.map(jnp.asarray, evolution.result(block.state)), seconds


def _comparison(preset: str, game: str, published: str) -> Comparison:
    quick = {"seeds": 1, "generations": 20, "episodes": 256}
    title = f"Shaping a naive learner in {game}"
    return Comparison(title, f"M-FOS {published}", Settings, quick, partial(run, preset))


IPD = _comparison(
    "shaping/ipd",
    "the iterated prisoner's dilemma",
    "earns -0.51 a step against a naive learner (Lu et al. 2022).",
)
CHICKEN = _comparison(
    "shaping/chicken",
    "chicken",
    "exploits a naive learner nearly optimally (Lu et al. 2022); the optimum is 1 a step.",
)
PENNIES = _comparison(
    "shaping/pennies",
    "matching pennies",
    "exploits a naive learner (Lu et al. 2022); the optimum is 1 a step.",
)
