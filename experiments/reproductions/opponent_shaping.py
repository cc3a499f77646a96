"""Opponent shaping in matrix games (M-FOS), from several seeds of evolution."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval
from tqdm import tqdm

from experiments.reproductions.comparison import Cell, Comparison, Output
from metaevo.components import players
from metaevo.config import from_dict, load_yaml, presets
from metaevo.evolution.evolution import BLOCK_CAPACITY, Evolution
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
    evolution.compile()

    def episode(weights, key):
        ours = opponents.naive if weights is None else players.shaper(weights)
        start, rates = opponents.draw_start(jax.random.split(key)[0]), (problem.rate, problem.rate)
        found = opponents.play(
            problem.game, ours, opponents.naive, start, rates=rates, steps=problem.frames
        )
        return jnp.mean(found.own), jnp.mean(found.other)

    play = jax.jit(jax.vmap(episode, in_axes=(None, 0)))
    rows: list[Sequence[Cell]] = []

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
    state, left = evolution.init(), evolution.config.generations
    begin = time.monotonic()
    with tqdm(total=left, desc=f"seed {seed}", unit="gen", leave=False) as bar:
        while left:
            length = min(left, BLOCK_CAPACITY)
            state, _ = evolution.run_block(state, length)
            left -= length
            bar.update(length)
    return jax.tree.map(jnp.asarray, evolution.result(state)), time.monotonic() - begin


def _comparison(title: str, published: str, preset: str) -> Comparison:
    return Comparison(
        title=title,
        published=published,
        settings=Settings,
        quick={"seeds": 1, "generations": 20, "episodes": 256},
        run=partial(run, preset),
    )


IPD = _comparison(
    "Shaping a naive learner in the iterated prisoner's dilemma",
    "M-FOS earns -0.51 a step against a naive learner (Lu et al. 2022).",
    "shaping/ipd",
)
CHICKEN = _comparison(
    "Shaping a naive learner in chicken",
    "M-FOS exploits a naive learner nearly optimally (Lu et al. 2022); the optimum is 1 a step.",
    "shaping/chicken",
)
PENNIES = _comparison(
    "Shaping a naive learner in matching pennies",
    "M-FOS exploits a naive learner (Lu et al. 2022); the optimum is 1 a step.",
    "shaping/pennies",
)
