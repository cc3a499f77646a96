"""Sweeps over trainings: trials x seeds are trained side by side, as one vmapped population."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from metaevo.config import merge
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts import learners
from metaevo.tasks.binding import LearnerConfig, LearnerSettings, TaskConfig
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.memory import check_training
from metaevo.tasks.population import Population
from metaevo.training.settings import default_function, make_task
from metaevo.tuning.config import ADAPTIVE, ADAPTIVE_BATCH, PRUNED, SearchSettings
from metaevo.tuning.objective import SettingsObjective, Watch, statistic
from metaevo.tuning.ranges import Params
from metaevo.tuning.samplers import rungs
from metaevo.tuning.space import Space
from metaevo.tuning.study import Trial
from purerl.learners import num_frames
from purerl.types import Hyperparams


@dataclass(frozen=True, kw_only=True)
class SweepSettings(SearchSettings, LearnerSettings):
    """Settings of a sweep over trainings, and of each trial."""

    learner: str
    task: TaskConfig = field(default_factory=TaskConfig)
    train: LearnerConfig
    hyperparams: Hyperparams
    fitness: FitnessConfig = field(default_factory=FitnessConfig)


class Trainings(SettingsObjective[SweepSettings, Population]):
    """The trials of a sweep over a learner's settings; a population for each static group."""

    def __init__(self, settings: SweepSettings, space: Space):
        """Bind the sweep's settings."""
        super().__init__(settings, space)
        self.keys = keys_for(settings.run.seed, Purpose.TUNING, self.config.seeds)

    def build(self, settings: SweepSettings) -> Population:
        """Return the population of a static group; it compiles when it first trains."""
        task, meta_params = make_task(settings)
        check_training(
            "sweep.seeds",
            task,
            settings.hyperparams,
            meta_params,
            kept=self.config.seeds,
            at_once=settings.run.chunk_size or 1,
        )
        return Population(
            task,
            settings.hyperparams,
            meta_params,
            settings.fitness,
            chunk_size=settings.run.chunk_size,
            num_devices=settings.run.num_devices,
        )

    def seed_frames(self, settings: SweepSettings) -> int:
        """Return the environment steps of one agent."""
        return num_frames(settings.train)

    def batch_size(self) -> int:
        """All at once, unless trials are to learn from those before."""
        if self.config.batch is not None:
            return self.config.batch
        if self.config.scheduler in PRUNED:
            return rungs(self.config)[-1]  # of which one is expected to be left
        return ADAPTIVE_BATCH if self.config.sampler in ADAPTIVE else self.config.trials

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train group by group, as many trials at once as the devices take."""
        groups = self.groups(batch, watch)
        for number, group in enumerate(groups, 1):
            text = f"group {number}/{len(groups)} " if len(groups) > 1 else ""
            watch.stage(f"{text}{self.name_of(group[0][0])}")
            population = self.program(group[0][1])
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

    def confirm(self, params: Params, seeds: int, watch: Watch) -> tuple[np.ndarray, int]:
        """Train settings on seeds that no search has seen."""
        settings = self.settings_of(params)
        population = self.program(settings)
        keys = keys_for(self.settings.run.seed, Purpose.HELD_OUT, seeds)
        agents = population.init(keys, [settings.hyperparams])
        agents = population.advance(agents, population.num_updates, watch.progress)
        return population.scores(agents)[0], int(population.diverged(agents).sum())

    def configs(self, params: Params) -> dict[str, Params]:
        """Return a config for `metaevo train` and `evolve`, or for `evolve` alone.

        An evolution fills a slot itself: if the settings name functions that are not the default,
        best_evolve.yaml is the same without them.
        """
        everything = super().configs(params)["best.yaml"]
        learner = self.settings.learner
        slots = learners.find(learner).slots
        chosen = {slot: everything.pop(slot.name) for slot in slots}
        named = {s.name: n for s, n in chosen.items() if n != default_function(learner, s)}
        found = {"best.yaml": merge(everything, named)}
        return found | ({"best_evolve.yaml": everything} if named else {})
