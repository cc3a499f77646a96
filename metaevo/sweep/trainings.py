"""Trials that are trainings: trials x seeds are trained side by side, as one vmapped population."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from metaevo.config import to_dict
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.sweep.halving import Bracket, brackets, run_bracket
from metaevo.sweep.settings import SweepSettings
from metaevo.sweep.trials import (
    Group,
    Outcome,
    Progress,
    Trials,
    Watch,
    by_static_settings,
    plain_scores,
)
from metaevo.training.checks import check_training
from metaevo.training.population import Agents, Population
from metaevo.training.settings import make_trainee
from metaevo.training.train_learner import Task
from metaevo.tuning.objective import objective
from metaevo.tuning.space import Space
from metaevo.tuning.study import Trial
from purerl.learners import num_frames

MAX_POPULATIONS = 16
"""Compiled static groups that are kept for later batches."""


class Trainings(Trials[SweepSettings]):
    """The trials of a sweep over a learner's settings; a population for each static group."""

    def __init__(self, settings: SweepSettings, space: Space):
        """Bind the sweep's settings; nothing is built yet.

        Args:
            settings: of the sweep.
            space: what is tried.
        """
        super().__init__(settings, space)
        self.keys = keys_for(settings.run.seed, Purpose.TUNING, self.config.seeds)
        self._populations: dict[str, Population] = {}

    def static_key(self, settings: SweepSettings) -> str:
        """Everything but `hyperparams` is static, and which of these are None."""
        everything = to_dict(settings)
        hyperparams = everything.pop("hyperparams")
        for name in ("space", "sweep", "pbt", "run"):
            everything.pop(name)
        absent = sorted(name for name, value in hyperparams.items() if value is None)
        return json.dumps([everything, absent], sort_keys=True)

    def check(self, settings: SweepSettings) -> None:
        """Build learner, losses and environment, which compiles nothing."""
        self.population(settings)

    def frames(self, settings: SweepSettings) -> int:
        """Return the environment steps of one agent."""
        return num_frames(settings.train)

    def confirm(
        self, params: Sequence[dict[str, Any]], seeds: int, progress: Progress
    ) -> list[tuple[np.ndarray, int]]:
        """Train some settings on seeds that no search has seen; their scores, who diverged."""
        keys = keys_for(self.settings.run.seed, Purpose.HELD_OUT, seeds)
        scores = []
        for each in params:
            settings = self.settings_of(each)
            agents = self.train([settings], keys, progress)
            scores.append(judged(self.population(settings), agents))
        return scores

    def train(
        self, settings: Sequence[SweepSettings], keys: jax.Array, progress: Progress
    ) -> Agents:
        """Train settings of one static group to their end.

        Args:
            settings: of the trials.
            keys: [seeds], shared by all trials.
            progress: called with the environment steps just done.
        """
        population = self.population(settings[0])
        agents = population.init(keys, [each.hyperparams for each in settings])
        return population.advance(agents, population.num_updates, progress)

    def population(self, settings: SweepSettings) -> Population:
        """Return the population of a static group; it compiles when it first trains.

        Raises:
            ConfigError: if learner, losses and environment do not fit.
        """
        key = self.static_key(settings)
        if key not in self._populations:
            trainee = make_trainee(settings)
            task = Task(trainee.env_name, trainee.learner, trainee.env_params)
            check_training(
                "sweep.seeds",
                task,
                settings.hyperparams,
                trainee.meta_params,
                kept=self.config.seeds,
                at_once=settings.run.chunk_size or 1,
            )
            if len(self._populations) >= MAX_POPULATIONS:
                del self._populations[next(iter(self._populations))]
            self._populations[key] = Population(
                task,
                settings.hyperparams,
                trainee.meta_params,
                settings.fitness,
                chunk_size=settings.run.chunk_size,
                num_devices=settings.run.num_devices,
            )
        return self._populations[key]


def judged(population: Population, agents: Agents) -> tuple[np.ndarray, int]:
    """Return the scores [seeds] of a single setting, and how many of its agents diverged."""
    return population.scores(agents)[0], int(population.diverged(agents).sum())


class FullTraining:
    """The executor that trains every trial to its end."""

    def __init__(self, trials: Trainings):
        """Bind the trials."""
        self.trials, self.config = trials, trials.config

    def batch_size(self, first_index: int, remaining: int) -> int:
        """All at once, unless the sampler learns from the trials before."""
        adaptive = self.config.sampler in ("tpe", "cma_es")
        return self.config.batch or (16 if adaptive else remaining)

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train group by group, as many trials at once as the devices take."""
        groups = by_static_settings(self.trials, batch, watch)
        for number, group in enumerate(groups):
            watch.group(number, len(groups), group.name)
            population = self.trials.population(group.settings[0])
            for part in _parts(len(group.trials), population.rows_at_once // self.config.seeds):
                settings = group.settings[part]
                agents = self.trials.train(settings, self.trials.keys, watch.progress)
                steps, curves = population.returns(agents)
                for trial, own, scores, diverged, curve in zip(
                    group.trials[part],
                    settings,
                    population.scores(agents),
                    population.diverged(agents),
                    curves,
                    strict=True,
                ):
                    outcome = self.trials.finished(scores, own, int(diverged.sum()), (steps, curve))
                    watch.done(trial, outcome)


class Halving:
    """The executor of successive halving and Hyperband: poor trials are stopped rung by rung."""

    def __init__(self, trials: Trainings):
        """Bind the trials."""
        self.trials, self.config = trials, trials.config
        self.cycle = brackets(self.config)

    def batch_size(self, first_index: int, remaining: int) -> int:
        """The trials that are left of the bracket that the first one belongs to."""
        del remaining
        bracket, offset = self._locate(first_index)
        return bracket.trials - offset

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train one bracket."""
        bracket, _ = self._locate(min(trial.index for trial in batch))
        groups = by_static_settings(self.trials, batch, watch)
        if not groups:
            return
        watch.group(0, 1, f"{len(groups)} static groups" if len(groups) > 1 else groups[0].name)
        trials = {trial.number: trial for group in groups for trial in group.trials}
        results = run_bracket(
            [self._start(group) for group in groups],
            bracket,
            lambda scores: objective(scores, self.config),
            lambda number, step, value: watch.report(trials[number], step, value),
            watch.progress,
        )
        for number, result in results.items():
            attributes = {
                "scores": plain_scores(result.scores),
                "frames": result.frames,
                "fraction": result.fraction,
                "diverged": result.diverged,
            }
            complete = result.complete and result.value is not None
            watch.done(
                trials[number],
                Outcome(
                    "complete" if complete else "pruned", result.value, attributes, result.curve
                ),
            )

    def _start(self, group: Group[SweepSettings]) -> tuple[Population, Agents, list[int]]:
        population = self.trials.population(group.settings[0])
        agents = population.init(self.trials.keys, [each.hyperparams for each in group.settings])
        return population, agents, [trial.number for trial in group.trials]

    def _locate(self, index: int) -> tuple[Bracket, int]:
        """Return the bracket that a design index falls into, and its place there."""
        index %= sum(each.trials for each in self.cycle)
        for bracket in self.cycle:
            if index < bracket.trials:
                return bracket, index
            index -= bracket.trials
        raise AssertionError("unreachable")


def _parts(count: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` (at least one) that cover `count`."""
    size = max(size, 1)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
