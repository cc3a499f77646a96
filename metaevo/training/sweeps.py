"""Sweeps over trainings: trials x seeds are trained side by side, as one vmapped population."""

from collections.abc import Sequence
from typing import Any

from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.tasks.memory import check_training
from metaevo.tasks.population import Population
from metaevo.training.settings import make_task
from metaevo.tuning.objective import Count, Program, Rung, Rungs
from metaevo.tuning.samplers import rungs


class Trainings(Program[Any]):
    """Trainings that differ in their hyperparams: one population."""

    def __init__(self, settings: Any) -> None:
        """Build the population of a static group, which has the settings of a training and a sweep.

        It compiles when it first trains.
        """
        self.sweep, run = settings.sweep, settings.run
        devices.check_number("run.num_devices", run.num_devices)
        task, meta_params = make_task(settings)
        about = task, settings.hyperparams, meta_params
        check_training("sweep.seeds", *about, kept=self.sweep.seeds, at_once=run.chunk_size or 1)
        self.population = Population(
            *about, settings.fitness, chunk_size=run.chunk_size, num_devices=run.num_devices
        )
        self.frames = self.population.frames

    def evaluate(self, settings: Sequence[Any], purpose: Purpose, count: Count) -> Rungs:
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
