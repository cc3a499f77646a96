"""Sweeps over trainings: trials x seeds are trained side by side, as one vmapped population."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.tasks.binding import LearnerConfig, LearnerSettings, TaskConfig
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.memory import check_training
from metaevo.tasks.population import Population
from metaevo.training.settings import make_task
from metaevo.tuning.config import SearchSettings
from metaevo.tuning.objective import Count, Program, Rung, Rungs
from metaevo.tuning.samplers import rungs
from purerl.types import Hyperparams


@dataclass(frozen=True, kw_only=True)
class SweepSettings(SearchSettings, LearnerSettings):
    """Settings of a sweep over trainings, and of each trial."""

    learner: str
    task: TaskConfig = field(default_factory=TaskConfig)
    train: LearnerConfig
    hyperparams: Hyperparams
    fitness: FitnessConfig = field(default_factory=FitnessConfig)


class Trainings(Program[SweepSettings]):
    """Trainings that differ in their hyperparams: one population."""

    def __init__(self, settings: SweepSettings) -> None:
        """Build the population of a static group; it compiles when it first trains."""
        self.sweep, run = settings.sweep, settings.run
        task, meta_params = make_task(settings)
        check_training(
            "sweep.seeds",
            task,
            settings.hyperparams,
            meta_params,
            kept=self.sweep.seeds,
            at_once=run.chunk_size or 1,
        )
        self.population = Population(
            task,
            settings.hyperparams,
            meta_params,
            settings.fitness,
            chunk_size=run.chunk_size,
            num_devices=run.num_devices,
        )
        self.frames = self.population.frames
        self.trials_at_once = max(1, self.population.rows_at_once // self.sweep.seeds)
        if self.sweep.prunes:  # later rungs need fewer chunks
            self.trials_at_once = self.sweep.trials

    def evaluate(self, settings: Sequence[SweepSettings], purpose: Purpose, count: Count) -> Rungs:
        """Train agents for each setting, and continue to the next rung with those that are left."""
        population, is_search = self.population, purpose == Purpose.TUNING
        seeds = self.sweep.seeds if is_search else self.sweep.confirm_seeds
        keys = keys_for(settings[0].run.seed, purpose, seeds)
        agents = population.init(keys, [each.hyperparams for each in settings])
        steps = rungs(self.sweep) if is_search else [1]
        for step in steps:
            updates = max(1, round(step / steps[-1] * population.num_updates))
            agents = population.advance(agents, updates - agents.updates, count)
            left = yield Rung(
                population.scores(agents),
                population.diverged(agents).sum(axis=1),
                updates * population.frames_per_update * seeds,
            )
            if left is not None:
                agents = population.select(agents, left)
