"""Sweeps over trainings: trials x seeds are trained side by side, as one vmapped population."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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
from metaevo.training.population import Population
from metaevo.training.population_based import SCHEDULE, PopulationBased, dims, replay
from metaevo.training.settings import default_function, make_trainee
from metaevo.training.task import LearnerConfig, TaskConfig
from metaevo.training.train_learner import Task
from metaevo.training.trials import Trials
from metaevo.tuning.config import ADAPTIVE, OF_THE_SWEEP, PRUNED, SearchSettings
from metaevo.tuning.objective import BEFORE, Plan, Progress, Watch, statistic
from metaevo.tuning.ranges import Params
from metaevo.tuning.samplers import rungs
from metaevo.tuning.space import Space
from metaevo.tuning.study import Record, Trial
from purerl.learners import num_frames
from purerl.types import Hyperparams

MAX_POPULATIONS = 16
"""Compiled static groups that are kept for later batches."""
ADAPTIVE_BATCH = 16
"""Trials at once of a sampler that learns from those before."""


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

    def static_key(self, settings: SweepSettings) -> str:
        """Everything but `hyperparams` is static, and which of these are None."""
        everything = to_dict(settings)
        hyperparams = everything.pop("hyperparams")
        for name in OF_THE_SWEEP:
            everything.pop(name)
        absent = sorted(name for name, value in hyperparams.items() if value is None)
        return json.dumps([everything, absent], sort_keys=True)

    def check(self, settings: SweepSettings) -> None:
        """Build learner, losses and environment; compiles on the first training."""
        self.population(settings)

    def seed_frames(self, settings: SweepSettings) -> int:
        """Return the environment steps of one agent."""
        return num_frames(settings.train)

    def sized(self, plan: Plan, settings: SweepSettings) -> Plan:
        """Return the plan with the chunks of the settings' population."""
        population = self.population(settings)
        return replace(
            plan,
            chunk_size=population.chunk_size,
            num_devices=population.num_devices,
            chunk_bytes=population.memory_bytes,
        )

    def begin(self, run: RunDirectory | None) -> None:
        """Keep the run directory, where population-based training saves its checkpoints."""
        if self.config.scheduler == "pbt" and run is None:
            raise ConfigError("sweep.scheduler = 'pbt': needs a run directory")
        self._run = run

    def batch_size(self) -> int:
        """All at once, unless trials are to learn from those before."""
        if self.config.batch is not None and self.config.scheduler != "pbt":
            return self.config.batch
        if self.config.scheduler in PRUNED:
            return rungs(self.config)[-1]  # of which one is expected to be left
        return ADAPTIVE_BATCH if self.config.sampler in ADAPTIVE else self.config.trials

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train group by group, as many trials at once as the devices take."""
        if self.config.scheduler == "pbt":
            assert self._run is not None
            PopulationBased(self, self._run).run(batch, watch)
            return
        groups = self.groups(batch, watch)
        for number, group in enumerate(groups, 1):
            text = f"group {number}/{len(groups)} " if len(groups) > 1 else ""
            watch.stage(f"{text}{self.name_of(group[0][0])}" or "searching")
            population = self.population(group[0][1])
            size = max(1, population.rows_at_once // self.config.seeds)
            if self.config.scheduler in PRUNED:  # later rungs need fewer chunks
                size = len(group)
            for start in range(0, len(group), size):
                self._train_rungs(population, group[start : start + size], watch)

    def _train_rungs(
        self, population: Population, group: list[tuple[Trial, SweepSettings]], watch: Watch
    ) -> None:
        """Train trials of one static group rung by rung; some are stopped at the end of each."""
        steps, seeds = rungs(self.config), self.config.seeds
        agents = population.init(self.keys, [settings.hyperparams for _, settings in group])
        trials = [trial for trial, _ in group]
        for step in steps:
            updates = max(1, round(step / steps[-1] * population.num_updates))
            agents = population.advance(agents, updates - agents.updates, watch.progress)
            scores, diverged = population.scores(agents), population.diverged(agents).sum(axis=1)
            left = []
            for place, trial in enumerate(trials):
                value = statistic(scores[place], self.config)
                # Without a score because no episode has ended, a trial is trained further.
                is_stopped = bool(diverged[place])
                if value is not None and len(steps) > 1:
                    is_stopped |= watch.should_prune(trial, step, value)
                if step < steps[-1] and not is_stopped:
                    left.append(place)
                    continue
                outcome = self.outcome(
                    scores[place],
                    frames=updates * population.frames_per_update * seeds,
                    diverged=int(diverged[place]),
                    fraction=updates / population.num_updates,
                )
                watch.done(trial, outcome)
            if not left:
                return
            agents = population.select(agents, left)
            trials = [trials[place] for place in left]

    def finalists(self, best: Record) -> dict[str, Params]:
        """Return the winner and the settings before the sweep; of a population, its schedule."""
        if self.config.scheduler != "pbt":
            return super().finalists(best)
        final = best.final_params
        return {SCHEDULE: final, "its last settings all the time": final, BEFORE: {}}

    def confirm(
        self, name: str, params: Params, seeds: int, progress: Progress
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

    def configs(self, params: Params) -> dict[str, Params]:
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

    def check_scheduler(self) -> None:
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
