"""Sweeps over trainings, whole evolutions, and functions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError, PlainDict, PlainMapping, from_dict, to_dict
from metaevo.evolution import devices
from metaevo.evolution.evaluation import evaluate
from metaevo.evolution.loop import Evolution
from metaevo.evolution.problem import Purpose, key_for, keys_for
from metaevo.runs.run import RecordConfig
from metaevo.studies.reading import sweep_class
from metaevo.studies.study import Study as EvolutionStudy
from metaevo.training.settings import TrainSettings, with_task
from metaevo.tuning.config import SweepConfig, SweepSettings
from metaevo.tuning.objective import (
    Count,
    Objective,
    Program,
    Rung,
    Rungs,
    function_objective,
    settings_objective,
)
from metaevo.tuning.results import SweepResult
from metaevo.tuning.run import result_of, run_sweep
from metaevo.tuning.samplers import rungs


class Trainings(Program[Any]):
    """Trainings that differ in their hyperparams: one population."""

    traced = ("hyperparams.",)
    batch = 16

    def __init__(self, settings: Any) -> None:
        """Build the population of a static group; it compiles when it first trains."""
        self.sweep, run = settings.sweep, settings.run
        devices.check_number("run.num_devices", run.num_devices)
        *_, last = shares = rungs(self.sweep)
        updates = settings.train.num_updates
        self.steps = [max(1, round(share / last * updates)) for share in shares]
        self.population = settings.population(agents=None, log_every=None, rungs=self.steps)
        task, example = self.population.task, self.population.meta_params
        at_once = run.chunk_size or 1
        task.check_memory("sweep.seeds", example, kept=self.sweep.seeds, at_once=at_once)
        self.frames = self.population.frames
        self.work = self.frames, "frame"

    def evaluate(self, settings: Sequence[Any], purpose: Purpose, count: Count) -> Rungs:
        """Train agents for each setting, and continue to the next rung with those that are left."""
        population, is_search = self.population, purpose == Purpose.TUNING
        seeds = self.sweep.seeds if is_search else self.sweep.confirm_seeds
        keys = keys_for(settings[0].run.seed, purpose, seeds)
        agents = population.init(keys, [each.hyperparams for each in settings])
        for updates in self.steps if is_search else self.steps[-1:]:
            agents = population.advance(agents, updates - agents.updates, count)
            left = yield Rung(
                population.scores(agents),
                agents.diverged.sum(axis=1),
                population.frames_after(updates) * seeds,
            )
            if left is not None:
                agents = agents.select(left)


class Evolutions(Program[Any]):
    """Evolutions that differ in sigma and the learning rate, one after another.

    The score on one seed is the fitness of the meta-parameters that were found, on fresh agents.
    """

    traced = ("strategy.sigma.", "strategy.learning_rate.")

    def __init__(self, settings: Any) -> None:
        """Build the evolution of a static group; it compiles at its first block."""
        config = settings.evolution
        if not config.validation_seeds:
            raise ConfigError(
                "evolution.validation_seeds = 0: a sweep judges an evolution by that many agents"
            )
        settings = replace(settings, evaluation=replace(settings.evaluation, seeds=0))
        study = EvolutionStudy(settings.build(), settings)
        problem = study.problem
        if len(problem.tasks) > 1:
            raise ConfigError(f"tasks: {', '.join(problem.tasks)}: a sweep takes a single one")
        study.check()
        self.evolution = Evolution(problem, settings.strategy.build(), config)
        self.frames = config.generations * self.evolution.frames
        self.work = (self.frames, "frame") if self.frames else (config.generations, "gen")

    def evaluate(self, settings: Sequence[Any], purpose: Purpose, count: Count) -> Rungs:
        """Evolve with each seed, and judge each result."""
        seed, sweep = settings[0].run.seed, settings[0].sweep
        seeds = sweep.seeds if purpose == Purpose.TUNING else sweep.confirm_seeds
        drawn = jax.device_get(jax.vmap(jax.random.bits)(keys_for(seed, purpose, seeds))).tolist()
        judging_key = jax.random.fold_in(key_for(seed, purpose), 2**31)
        scores = np.array(
            [[self._score(each, one, judging_key, count) for one in drawn] for each in settings]
        )
        yield Rung(scores, np.sum(~np.isfinite(scores), axis=1), seeds * self.frames)

    def _score(self, settings: Any, seed: int, judging_key: jax.Array, count: Count) -> float:
        """Evolve with one seed, and return the mean fitness of the result; NaN for a failure."""
        evolution, before = self.evolution, 0
        state = evolution.start(seed, settings.strategy.build())
        for block in evolution.blocks(state):
            if block.records:
                count(block.records[-1]["frames"] - before or len(block.records))
                before = block.records[-1]["frames"]
        found = jax.tree.map(lambda leaf: leaf[None], evolution.result(block.state))
        keys = jax.random.split(judging_key, settings.evolution.validation_seeds)
        return float(evaluate(evolution.problem, found, keys).fitness[0])


def sweep(
    objective: Callable[[PlainDict], float] | PlainMapping,
    space: PlainMapping,
    *,
    trials: int | None = None,
    sampler: str | None = None,
    config: SweepConfig | None = None,
    seed: int = 0,
    run_dir: str | Path | None = None,
    resume: bool = False,
) -> SweepResult:
    """Search for the best settings of a function, of a learner or of an evolution.

    Example:
        >>> result = metaevo.sweep(
        ...     lambda params: -((params["x"] - 1) ** 2), {"x": {"uniform": [0, 3]}}, trials=20
        ... )
        >>> result.value, result.best.params
        >>> ppo = {"learner": "ppo", "env": "CartPole-v1"}
        >>> rates = {"hyperparams.learning_rate": {"log_uniform": [1e-4, 1e-1]}}
        >>> result = metaevo.sweep(ppo, rates, trials=32, run_dir="runs/sweep/ppo")

    Args:
        objective: a function from the settings of a trial to its value, higher is better; or the
            settings of a training or an evolution: the arguments of `metaevo.train` or
            `metaevo.LearnerProblem`, or a config of `metaevo sweep`.
        space: the rule of each setting: uniform, log_uniform, integer, log_integer, choice.
        trials: number of trials, instead of the one in `config`.
        sampler: grid, random, sobol, tpe or cma_es, instead of the one in `config`.
        config: batch, seeds, scheduler, confirmation: the section `sweep` of a config.
        seed: seed of all randomness.
        run_dir: a new directory, which makes the sweep durable and gets figures and a report; or
            with `resume` the directory of the sweep to continue.
        resume: continue the sweep in `run_dir`.

    Raises:
        ConfigError: if the settings are invalid.
        KeyboardInterrupt: if a signal stopped the sweep; finished trials are in the run directory.
    """
    given = {"trials": trials, "sampler": sampler}
    overrides = {name: value for name, value in given.items() if value is not None}
    chosen = from_dict(SweepConfig, to_dict(config or SweepConfig()) | overrides)
    rules, seed = to_dict(dict(space)), to_dict(seed)
    settings: SweepSettings
    this: Objective[Any]
    if callable(objective):
        settings = SweepSettings(space=rules, sweep=chosen, run=RecordConfig(seed=seed))
        this = function_objective(objective, rules, chosen)
    else:
        run = {**objective.get("run", {}), "seed": seed}
        raw = {**with_task(objective), "space": rules, "sweep": to_dict(chosen), "run": run}
        settings = from_dict(sweep_class(raw), raw)
        this = make_objective(settings)
    path = None if run_dir is None else Path(run_dir)
    if path is not None and run_sweep(this, settings, run_dir=path, resume=resume):
        raise KeyboardInterrupt
    return result_of(this, seed, path)


def make_objective(settings: SweepSettings) -> Objective[Any]:
    """Return the objective of a sweep, whose class is made by `sweep_class`.

    Raises:
        ConfigError: for a space that cannot be searched, or an evolution with a scheduler.
    """
    if isinstance(settings, TrainSettings):
        return settings_objective(settings, Trainings)
    if settings.sweep.scheduler != "none":
        raise ConfigError(
            f"sweep.scheduler = {settings.sweep.scheduler!r}: an evolution is run to its end; "
            "allowed: none"
        )
    return settings_objective(settings, Evolutions)
