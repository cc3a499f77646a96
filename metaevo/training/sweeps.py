"""Sweeps over trainings: trials x seeds are trained side by side, as one vmapped population."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from metaevo.components import filling
from metaevo.config import ConfigError, merge, to_dict
from metaevo.config.sections import LATER
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs.run_directory import RunDirectory
from metaevo.training.agents import Agents
from metaevo.training.checks import check_training
from metaevo.training.fitness import FitnessConfig
from metaevo.training.halving import Bracket, brackets, run_bracket
from metaevo.training.population import Population
from metaevo.training.population_based import SCHEDULE, PopulationBased, dims, replay
from metaevo.training.settings import default_function, make_trainee
from metaevo.training.task import LearnerConfig, TaskConfig
from metaevo.training.train_learner import Task
from metaevo.training.trials import Group, Trials
from metaevo.tuning.config import ADAPTIVE, OF_THE_SWEEP, SearchSettings
from metaevo.tuning.objective import (
    BEFORE,
    Outcome,
    Plan,
    Progress,
    Watch,
    plain_scores,
    statistic,
)
from metaevo.tuning.space import Space
from metaevo.tuning.study import Record, Trial
from purerl.learners import num_frames
from purerl.types import Hyperparams

MAX_POPULATIONS = 16
"""Compiled static groups that are kept for later batches."""


@dataclass(frozen=True, kw_only=True)
class SweepSettings(SearchSettings):
    """Settings of a sweep over trainings, and of each trial."""

    learner: str
    task: TaskConfig = field(default_factory=TaskConfig)
    channel: str = field(default="none", metadata={LATER: True})
    """messages added to observations: none, silence, constant, random, noise, the directory of a
    run of cheap talk, or zoo:NAME"""
    train: LearnerConfig
    hyperparams: Hyperparams
    fitness: FitnessConfig = field(default_factory=FitnessConfig)


class Trainings(Trials[SweepSettings]):
    """The trials of a sweep over a learner's settings; a population for each static group."""

    def __init__(self, settings: SweepSettings, space: Space):
        """Bind the sweep's settings; populations are built later.

        Args:
            settings: of the sweep.
            space: of the settings.
        """
        super().__init__(settings, space)
        self.keys = keys_for(settings.run.seed, Purpose.TUNING, self.config.seeds)
        self._populations: dict[str, Population] = {}
        self._run: RunDirectory | None = None
        self._executor: FullTraining | Halving | PopulationBased = FullTraining(self)

    def static_key(self, settings: SweepSettings) -> str:
        """Everything but `hyperparams` is static, and which of these are None."""
        everything = to_dict(settings)
        hyperparams = everything.pop("hyperparams")
        for name in OF_THE_SWEEP:
            everything.pop(name)
        absent = sorted(name for name, value in hyperparams.items() if value is None)
        return json.dumps([everything, absent], sort_keys=True)

    def check(self, settings: SweepSettings) -> None:
        """Build learner, losses and environment; compiles nothing."""
        self.population(settings)

    def seed_frames(self, settings: SweepSettings) -> int:
        """Return the environment steps of one agent."""
        return num_frames(settings.train)

    def plan(self) -> Plan:
        """Return the size of the sweep.

        Raises:
            ConfigError: if no static combination can be trained, or if the settings of the sweep
                contradict each other.
        """
        self._check_scheduler()
        longest = self.longest()
        plan, population = self.plan_for(longest), self.population(longest[0])
        share = 1.0
        if self.config.scheduler in ("successive_halving", "hyperband"):
            cycle = brackets(self.config)
            share = sum(each.cost() for each in cycle) / sum(each.trials for each in cycle)
        return replace(
            plan,
            search_frames=round(plan.full_frames * share),
            chunk_size=population.chunk_size,
            num_devices=population.num_devices,
            chunk_bytes=population.memory_bytes,
        )

    def begin(self, run: RunDirectory | None) -> None:
        """Choose how trials are trained; a population keeps checkpoints in the run directory."""
        self._run = run
        if self.config.scheduler in ("successive_halving", "hyperband"):
            self._executor = Halving(self)
        elif self.config.scheduler == "pbt":
            if run is None:
                raise ConfigError("sweep.scheduler = 'pbt': needs a run directory")
            self._executor = PopulationBased(self, run)
        else:
            self._executor = FullTraining(self)

    def batch_size(self, first_index: int, remaining: int) -> int:
        """Return as many as the scheduler trains together."""
        return self._executor.batch_size(first_index, remaining)

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train a batch."""
        self._executor.run(batch, watch)

    def finalists(self, best: Record) -> dict[str, dict[str, Any]]:
        """Return the winner and the settings before the sweep; of a population, its schedule."""
        if self.config.scheduler != "pbt":
            return super().finalists(best)
        final = best.final_params
        return {SCHEDULE: final, "its last settings all the time": final, BEFORE: {}}

    def confirm(
        self, name: str, params: dict[str, Any], seeds: int, progress: Progress
    ) -> tuple[np.ndarray, int]:
        """Train settings, or a schedule, on seeds that no search has seen."""
        keys = keys_for(self.settings.run.seed, Purpose.HELD_OUT, seeds)
        if name == SCHEDULE and self._run is not None:
            population = self.population(self.settings_of({}))
            agents = replay(population, self._run, keys, progress)
        else:
            settings = self.settings_of(params)
            population = self.population(settings)
            agents = self.train([settings], keys, progress)
        return population.scores(agents)[0], int(population.diverged(agents).sum())

    def single(self, progress: Progress) -> np.ndarray:
        """Train the settings as they are, on the seeds of the search: scores [seeds]."""
        agents = self.train([self.settings], self.keys, progress)
        return self.population(self.settings).scores(agents)[0]

    def configs(self, params: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return a config for `metaevo train` and `evolve`, or for `evolve` alone.

        An evolution fills a slot itself: if the settings name functions that are not the default,
        best_evolve.yaml is the same without them.
        """
        settings = self.settings_of(params)
        everything = to_dict(settings)
        everything = {key: value for key, value in everything.items() if key not in OF_THE_SWEEP}
        learner = settings.learner
        chosen = {name: everything.pop(name) for name in filling.slots_of(learner)}
        named = {
            name: value
            for name, value in chosen.items()
            if value != default_function(learner, name)
        }
        found = {"best.yaml": merge(everything, named)}
        return found | ({"best_evolve.yaml": everything} if named else {})

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

    def _check_scheduler(self) -> None:
        """Refuse settings of population-based training that contradict each other."""
        config, space = self.config, self.space
        if config.scheduler != "pbt":
            return
        if space.static:
            raise ConfigError(
                f"sweep.scheduler = 'pbt' changes agents in mid-training, which static settings do "
                f"not allow: {', '.join(space.static)}; allowed: hyperparams.*"
            )
        dims(space)
        updates, rounds = self.settings.train.num_updates, self.settings.pbt.rounds
        if rounds > updates:
            raise ConfigError(f"pbt.rounds = {rounds}: must be at most the {updates} updates")
        if config.trials < 2:
            raise ConfigError(f"sweep.trials = {config.trials}: pbt needs at least 2 members")
        if config.sampler not in ("random", "sobol"):
            raise ConfigError(
                f"sweep.sampler = {config.sampler!r}: pbt begins with settings that are "
                "independent of each other; allowed: random, sobol"
            )


class FullTraining:
    """The executor that trains every trial to its end."""

    def __init__(self, trials: Trainings):
        """Bind the trials."""
        self.trials, self.config = trials, trials.config

    def batch_size(self, first_index: int, remaining: int) -> int:
        """All at once, unless the sampler learns from the trials before."""
        adaptive = self.config.sampler in ADAPTIVE
        return self.config.batch or (16 if adaptive else remaining)

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train group by group, as many trials at once as the devices take."""
        groups = self.trials.groups(batch, watch)
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
        groups = self.trials.groups(batch, watch)
        if not groups:
            return
        watch.group(0, 1, f"{len(groups)} static groups" if len(groups) > 1 else groups[0].name)
        trials = {trial.number: trial for group in groups for trial in group.trials}
        results = run_bracket(
            [self._start(group) for group in groups],
            bracket,
            lambda scores: statistic(scores, self.config),
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
