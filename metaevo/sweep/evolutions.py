"""Trials that are whole evolutions: sweeps over sigma, the learning rate, the population, ...

The score of a trial on one seed is what its evolution found at the end, judged by fresh agents. A
generation fills the devices, so evolutions follow one another; those that differ in sigma, learning
rate or seed only share what is compiled.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax
import numpy as np

from metaevo.config import ConfigError, to_dict
from metaevo.evolution import devices
from metaevo.evolution.checks import check_population
from metaevo.evolution.evolution import BLOCK_CAPACITY, Evolution
from metaevo.evolution.seeding import Purpose, key_for, keys_for
from metaevo.studies import registry
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.study import Study
from metaevo.sweep.settings import EvolutionSweepSettings
from metaevo.sweep.trials import Progress, Trials, Watch, by_static_settings
from metaevo.tuning.space import Space
from metaevo.tuning.study import Trial

T = TypeVar("T")

TRACED = ("strategy.sigma", "strategy.learning_rate")
"""Settings that need no compilation of their own; a learner's hyperparams do in an evolution."""
MAX_PROGRAMS = 16
"""Compiled static groups that are kept for later trials."""


class Evolutions(Trials[EvolutionSweepSettings]):
    """The trials of a sweep over an evolution's settings, and their executor."""

    def __init__(self, settings: EvolutionSweepSettings, space: Space):
        """Bind the sweep's settings; nothing is built yet.

        Args:
            settings: of the sweep.
            space: what is tried.
        """
        super().__init__(settings, space.traced_only(*TRACED))
        self._programs: dict[str, tuple[Evolution, devices.RowMap]] = {}
        self._studies: dict[str, Study] = {}

    def batch_size(self, first_index: int, remaining: int) -> int:
        """One by one, unless the settings say otherwise."""
        del first_index, remaining
        return self.config.batch or 1

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Evolve trial after trial, those that share a program together."""
        groups = by_static_settings(self, batch, watch)
        for number, group in enumerate(groups):
            watch.group(number, len(groups), group.name)
            for trial, settings in zip(group.trials, group.settings, strict=True):
                scores = self.scores(settings, Purpose.TUNING, self.config.seeds, watch.progress)
                failed = int(np.sum(~np.isfinite(scores)))
                watch.done(trial, self.finished(scores, settings, failed))

    def confirm(
        self, params: Sequence[dict[str, Any]], seeds: int, progress: Progress
    ) -> list[tuple[np.ndarray, int]]:
        """Evolve with some settings on seeds that the search has not seen; scores, who failed."""
        found = [
            self.scores(self.settings_of(each), Purpose.HELD_OUT, seeds, progress)
            for each in params
        ]
        return [(scores, int(np.sum(~np.isfinite(scores)))) for scores in found]

    def static_key(self, settings: EvolutionSweepSettings) -> str:
        """Everything but sigma and the learning rate is static."""
        everything = to_dict(settings)
        for name in ("space", "sweep", "pbt", "run"):
            everything.pop(name)
        for name in TRACED:
            section, _, setting = name.partition(".")
            everything[section].pop(setting)
        return json.dumps(everything, sort_keys=True)

    def check(self, settings: EvolutionSweepSettings) -> None:
        """Find out before anything compiles whether the parts of a trial fit.

        Raises:
            ConfigError: if they do not.
        """
        if not settings.evolution.validation_seeds:
            raise ConfigError(
                "evolution.validation_seeds = 0: a sweep judges an evolution by that many agents"
            )
        study = self._study(settings)
        if isinstance(study, LearnerStudy) and len(study.tasks) > 1:
            names = [each.name for each in study.tasks]
            raise ConfigError(f"task.env = {names!r}: must be a single environment")
        study.check()

    def scores(
        self, settings: EvolutionSweepSettings, purpose: Purpose, seeds: int, progress: Progress
    ) -> np.ndarray:
        """Evolve with `seeds` seeds, and judge what each of them found; NaN where it failed."""
        evolution, judges = self._program(settings)
        drawn = jax.device_get(
            jax.vmap(jax.random.bits)(keys_for(settings.run.seed, purpose, seeds))
        )
        judging_key = jax.random.fold_in(key_for(settings.run.seed, purpose), 2**31)
        keys = jax.random.split(judging_key, settings.evolution.validation_seeds)
        scores = []
        for seed in drawn.tolist():
            this = evolution.with_settings(seed, settings.strategy)
            state, done = this.init(), 0
            while done < settings.evolution.generations:
                count = min(BLOCK_CAPACITY, settings.evolution.generations - done)
                state, _ = this.run_block(state, count)
                progress(this.frames(done + count) - this.frames(done))
                done += count
            found = jax.device_get(this.result(state))
            rows = {
                "key": keys,
                "meta_params": jax.tree.map(
                    lambda leaf: np.broadcast_to(leaf, (len(keys), *np.shape(leaf))), found
                ),
            }
            scores.append(float(np.mean(judges(rows))))
        return np.asarray(scores)

    def frames(self, settings: EvolutionSweepSettings) -> int:
        """Return the environment steps of one evolution."""
        return self._program(settings)[0].frames(settings.evolution.generations)

    def _program(self, settings: EvolutionSweepSettings) -> tuple[Evolution, devices.RowMap]:
        key = self.static_key(settings)
        if key not in self._programs:
            problem = self._study(settings).problem({})
            check_population(settings.strategy, jax.eval_shape(problem.init, jax.random.key(0)))
            chunk_size = settings.run.chunk_size or settings.evolution.chunk_size
            config = replace(
                settings.evolution,
                chunk_size=chunk_size,
                num_devices=settings.run.num_devices or settings.evolution.num_devices,
            )
            evolution = Evolution(problem, settings.strategy, config, seed=0)
            judges = devices.RowMap(
                lambda row: problem.evaluate(row["key"], row["meta_params"]).fitness,
                chunk_size=evolution.chunk_size,
                num_devices=evolution.num_devices,
            )
            _keep(self._programs, key, (evolution, judges))
        return self._programs[key]

    def _study(self, settings: EvolutionSweepSettings) -> Study:
        key = self.static_key(settings)
        if key not in self._studies:
            evolution = settings.of_evolution()
            _keep(self._studies, key, registry.find(to_dict(evolution)).make(evolution))
        return self._studies[key]


def _keep(known: dict[str, T], key: str, value: T) -> None:
    if len(known) >= MAX_PROGRAMS:
        del known[next(iter(known))]
    known[key] = value
