"""Tuning the contenders of the held-out comparison: a race of settings, on the same seeds for all.

Every contender races the same number of settings: `evaluation.trials` points of `evaluation.space`
from the same sampler with the same seed, or all combinations of a grid; and the untuned setting.
All scores are stored in the run directory. An interrupted comparison repeats the sampler's choices
with the stored scores and trains only the missing agents.
"""

import operator
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metaevo.comparison.evaluation import (
    EvaluationConfig,
    JudgedSettings,
    train_variants,
)
from metaevo.comparison.racing import Round, race, rounds_of, seeds_within
from metaevo.config import ConfigError, flatten, to_dict
from metaevo.config.checks import Measure
from metaevo.config.files import read_json, write_json_atomic
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.tasks.population import Population
from metaevo.tuning import ranges
from metaevo.tuning.config import ADAPTIVE, ADAPTIVE_BATCH, SweepConfig
from metaevo.tuning.objective import Progress, statistic
from metaevo.tuning.space import TRACED, Space, dotted_space, make_space
from metaevo.tuning.study import Outcome, Study
from purerl.types import MetaParams

CHUNKS = 4
"""Chunks of agents between two saves, up to twice as many at the end of a round.

Several, because a chunk that is not full would need another compilation.
"""
GRID_POINTS = SweepConfig().grid_points
"""Values of a range in a grid."""
RACE = "race.json"
"""File of mean scores by round, number of the setting, and its hyperparameters."""


class Entry(NamedTuple):
    """A function in the comparison."""

    population: Population
    """the compiled program; entries may share it, and `meta_params` selects the function"""
    meta_params: MetaParams
    space: Space
    """the search space of its tuning, from `tuning_space`"""


def tuning_space(settings: JudgedSettings, own: Mapping[str, PlainMapping] | None = None) -> Space:
    """Return the search space of a contender; empty without `evaluation.space`.

    Args:
        settings: settings of the run; its hyperparameters must accept all values.
        own: further or different ranges of the contender. In a grid they replace the range of an
            axis by as many values, so that all contenders race as many settings; other
            hyperparameters are left out.

    Raises:
        ConfigError: naming the key.
    """
    space, is_grid = dotted_space(settings.evaluation.space), settings.evaluation.sampler == "grid"
    if not space:
        return Space({}, {})
    known = flatten(to_dict(settings.hyperparams))
    _check_names("evaluation.space", space, known)
    shared = _space("evaluation.space", space, settings)
    _check_names("evaluation.own", own or {}, known)
    own = dict(own or {})
    if is_grid:
        own = {name: rule for name, rule in own.items() if name in space}
    if not own:
        return shared
    if is_grid:
        axes = _space("evaluation.own", own, settings).entries
        for name in own:
            count = len(shared.axes(GRID_POINTS)[TRACED + name])
            points = ranges.points(axes[TRACED + name], count)
            if len(points) != count:
                raise ConfigError(
                    f"evaluation.own.{name}: must have {count} values, as evaluation.space.{name} "
                    "has"
                )
            own[name] = {"choice": points}
    return _space("evaluation.own", {**space, **own}, settings)


def trials_of(config: EvaluationConfig, space: Space) -> int:
    """Return the number of settings from the space; 0 without tuning."""
    if not space.entries:
        return 0
    return len(space.grid(GRID_POINTS)) if config.sampler == "grid" else config.trials


def _check_names(where: str, rules: PlainMapping, known: PlainDict) -> None:
    if unknown := set(rules) - set(known):
        raise ConfigError(
            f"{where}: {sorted(unknown)} are no hyperparams; allowed: {', '.join(known)}"
        )
    for name in rules:
        if known[name] is None:  # untuned variants would have another tree structure
            raise ConfigError(f"{where}.{name}: needs a value for hyperparams.{name} too")


def _space(where: str, rules: PlainMapping, settings: JudgedSettings) -> Space:
    try:
        full = {TRACED + name: rule for name, rule in rules.items()}
        return make_space(full, type(settings), to_dict(settings))
    except ConfigError as error:
        raise ConfigError(str(error).replace(f"space.{TRACED}", f"{where}.")) from None


class Plan(NamedTuple):
    """The race that every contender runs."""

    settings: int
    """in the first round, including the untuned one"""
    first_seeds: int
    """seeds of each setting in the first round"""
    final_seeds: int
    """minimum number of seeds of each setting in the final"""
    untuned: dict[str, float]
    """the run's values of the tuned hyperparameters"""
    place: int
    """index of the untuned setting: its point of the grid, or after all trials"""

    @property
    def rounds(self) -> list[Round]:
        """The rounds of the race; empty without tuning."""
        return rounds_of(self.settings, self.first_seeds, self.final_seeds) if self.settings else []


def plan(entry: Entry, config: EvaluationConfig, evolution_frames: int) -> Plan:
    """Plan the race: the number of settings and of seeds.

    With `tuning_seeds: null` the frames of the evolution are the budget, which the shortest race
    may exceed.
    """
    space, population = entry.space, entry.population
    names = [_short_name(name) for name in space.entries]
    untuned = {name: float(operator.attrgetter(name)(population.hyperparams)) for name in names}
    settings = place = trials_of(config, space)
    if config.sampler == "grid" and names:
        grid = [_short(params) for params in space.grid(GRID_POINTS)]
        place = grid.index(untuned) if untuned in grid else place
    if names and place == settings:
        settings += 1
    final = config.final_seeds
    first = config.tuning_seeds or seeds_within(
        settings, evolution_frames // population.frames, final
    )
    return Plan(settings, first, final, untuned, place)


def tune(
    entry: Entry,
    config: EvaluationConfig,
    plan: Plan,
    *,
    directory: Path,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Race settings on the tuning seeds, which all contenders share; return the winner.

    Args:
        entry: the contender.
        config: sampler and number of settings.
        plan: plan of the race.
        directory: stores the scores; its name contains a hash of all their inputs.
        seed: seed of the run.
        progress: called after each chunk of agents, and for those of an earlier process.
    """
    population, meta_params, space = entry
    trials = trials_of(config, space)
    sweep = SweepConfig(trials=trials, sampler=config.sampler, seeds=plan.first_seeds)
    keys = keys_for(seed, Purpose.TUNING, sum(each.seeds for each in plan.rounds))
    directory.mkdir(parents=True, exist_ok=True)
    kept = _read(directory / RACE)
    candidates = {plan.place: plan.untuned}

    def train(left: Sequence[int], this: Round, number: int) -> list[float | None]:
        """Return mean scores of candidates on a round's seeds; None if an agent has no score."""
        names = {each: f"{number}/{each} {candidates[each]}" for each in left}
        missing = [each for each in left if names[each] not in kept]
        if progress is not None:
            progress((len(left) - len(missing)) * this.seeds * population.frames)
        at_once = max(1, CHUNKS * population.rows_at_once // this.seeds)
        while missing:
            count = len(missing) if len(missing) < 2 * at_once else at_once
            chunk, missing = missing[:count], missing[count:]
            results = train_variants(
                population,
                keys[this.start : this.start + this.seeds],
                [candidates[each] for each in chunk],
                [meta_params] * count,
                progress,
            )
            for each, result in zip(chunk, results, strict=True):
                kept[names[each]] = statistic(result.scores, sweep)
            write_json_atomic(directory / RACE, kept)
        return [kept[name] for name in names.values()]

    def evaluate(left: list[int], this: Round, number: int) -> np.ndarray:
        scores = train(left, this, number) if number else first_round(this)
        return np.array(scores, dtype=np.float64)  # None becomes NaN

    def first_round(this: Round) -> list[float | None]:
        """Return scores of all settings, which the sampler chooses by the scores before."""
        if sweep.sampler == "grid":
            candidates.update(enumerate(map(_short, space.grid(GRID_POINTS))))
            return train(range(plan.settings), this, 0)
        scores: dict[int, float | None] = {}
        at_once = ADAPTIVE_BATCH if sweep.sampler in ADAPTIVE else trials
        with Study(None, sweep, space, seed=seed, name="tuning") as study:
            while batch := study.ask(at_once):
                candidates.update({trial.number: _short(trial.params) for trial in batch})
                left = sorted(candidates.keys() - scores.keys())
                scores |= zip(left, train(left, this, 0), strict=True)
                for trial in batch:
                    value = scores[trial.number]
                    study.tell(trial, Outcome("pruned" if value is None else "complete", value))
        return [scores[each] for each in range(plan.settings)]

    return candidates[race(plan.settings, plan.place, plan.rounds, evaluate)]


def _read(file: Path) -> dict[str, float | None]:
    """Return stored scores; none of a damaged file, with a warning."""
    try:
        return read_json(file, dict[str, Measure]) if file.exists() else {}
    except ConfigError as error:
        warnings.warn(f"tuning again: {error}", stacklevel=2)
        return {}


def _short(params: PlainDict) -> dict[str, float]:
    return {_short_name(name): value for name, value in params.items()}


def _short_name(name: str) -> str:
    return name.removeprefix(TRACED)
