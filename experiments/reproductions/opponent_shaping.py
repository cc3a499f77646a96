"""Opponent shaping in matrix games, from several seeds of evolution, beside M-FOS."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval
from tqdm import tqdm

from experiments.reproductions.comparison import Comparison, Output
from metaevo.components import shapers
from metaevo.config import from_dict, load_yaml, presets
from metaevo.evolution.evolution import BLOCK_CAPACITY, Evolution
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import game_plots
from metaevo.runs.settings import MAX_SEED
from metaevo.statistics import iqm
from metaevo.studies.games import extortion, meta_game
from metaevo.studies.games.shaping import ShapingStudy
from metaevo.studies.games.shaping_settings import ShapingSettings
from purerl import opponents


@dataclass(frozen=True)
class Settings:
    """How much of everything."""

    seeds: Annotated[int, Gt(0)] = 5
    """evolutions, each from a seed of its own"""
    generations: Annotated[int, Gt(0)] = 100
    """of each"""
    episodes: Annotated[int, Gt(1)] = 4096
    """fresh meta-episodes on which each is judged"""
    seed: Annotated[int, Interval(ge=0, le=MAX_SEED)] = 0
    """of the first evolution"""


def check(settings: Settings) -> None:
    """Nothing optional is needed."""
    del settings


def _run(preset: str) -> Callable[[Settings, Output], None]:
    """Return the comparison of a preset."""

    def run(settings: Settings, output: Output) -> None:
        raw = load_yaml(presets.find(preset))
        shaping = from_dict(ShapingSettings, raw)
        config = dataclasses.replace(shaping.evolution, generations=settings.generations)
        problem = ShapingStudy(shaping).problem({})
        game, rate = problem.game, problem.rate
        evolution = Evolution(problem, shaping.strategy, config, seed=settings.seed)
        begin = time.monotonic()
        evolution.compile()
        compile_seconds = time.monotonic() - begin

        def episode(weights, key):
            ours = opponents.naive if weights is None else shapers.shaper(weights)
            start = meta_game.start_of(jax.random.split(key)[0])
            found = meta_game.play(game, ours, opponents.naive, (rate, rate), start, problem.frames)
            return jnp.mean(found.own), jnp.mean(found.other)

        judge = jax.jit(jax.vmap(episode, in_axes=(None, 0)))
        rows = []

        def add(name, weights, seed, seconds):
            keys = keys_for(seed, Purpose.HELD_OUT, settings.episodes)
            own, other = (np.asarray(each, np.float64) for each in judge(weights, keys))
            rows.append([name, iqm(own), own.mean(), iqm(other), other.mean(), seconds])

        add("naive against naive", None, settings.seed, float("nan"))
        weights = None
        for seed in range(settings.seed, settings.seed + settings.seeds):
            weights, seconds = evolve(evolution.with_settings(seed, shaping.strategy), seed)
            add(f"shaper, seed {seed}", weights, seed, seconds)
        output.table(
            preset.replace("/", "_"),
            ["", "we earn (IQM)", "mean", "the naive learner earns (IQM)", "mean ", "seconds"],
            rows,
        )
        output.note(
            f"Payoffs a step, over {settings.episodes:,} fresh meta-episodes of {problem.frames} "
            f"joint moves. Seconds of {settings.generations} generations of "
            f"{shaping.strategy.population_size} candidates x {config.seeds_per_candidate} games, "
            f"after {compile_seconds:.0f} s of compilation."
        )
        assert weights is not None
        _draw(weights, problem, output)

    return run


def evolve(evolution: Evolution, seed: int) -> tuple[Any, float]:
    """Return what an evolution has found, and the seconds that it took."""
    state, left = evolution.init(), evolution.config.generations
    begin = time.monotonic()
    with tqdm(total=left, desc=f"seed {seed}", unit="gen", leave=False) as bar:
        while left:
            length = min(left, BLOCK_CAPACITY)
            state, _ = evolution.run_block(state, length)
            left -= length
            bar.update(length)
    weights = jax.tree.map(jnp.asarray, evolution.result(state))
    return weights, time.monotonic() - begin


def _draw(weights: shapers.Weights, problem: Any, output: Output) -> None:
    """Draw a meta-episode and what opponents can reach, with the last shaper."""
    game = problem.game
    found = extortion.illustrate(
        game, shapers.shaper(weights), opponents.naive, problem.rate, steps=problem.frames, seed=0
    )
    path = output.figure("meta_episode")
    game_plots.plot_meta_episode(found.probabilities, found.payoffs, path, opponent="naive")
    if extortion.is_constant_sum(game):
        return
    corners = list(zip(game.other, game.own, strict=True))
    game_plots.plot_reach(
        found.reaches, corners, output.figure("reach"), predicted=extortion.defection(game)
    )
    output.table(
        "extortion",
        ["joint move", "factor of the line", "passes mutual defection at", "variance along it"],
        [[step, line.factor, line.miss, line.explained] for step, line in found.lines.items()],
    )


def _comparison(title: str, published: str, preset: str) -> Comparison:
    return Comparison(
        title=title,
        published=published,
        settings=Settings,
        quick={"seeds": 1, "generations": 20, "episodes": 256},
        check=check,
        run=_run(preset),
    )


IPD = _comparison(
    "Shaping a naive learner in the iterated prisoner's dilemma",
    "M-FOS earns -0.51 a step against a naive learner (Lu et al. 2022), and finds zero-determinant "
    "extortion.",
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
