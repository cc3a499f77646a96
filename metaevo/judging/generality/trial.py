"""A rule measured on one task: its learning rate tuned, then fresh agents trained and scored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from annotated_types import Len

from metaevo import statistics
from metaevo.config import ConfigError, files, from_dict, to_dict
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.judging.generality.rules import Rule
from metaevo.judging.generality.tasks import LEARNER, Benchmark, Reference, digest
from metaevo.parts import learners, resolve
from metaevo.parts.part import of_key
from metaevo.statistics import FloatArray
from metaevo.tasks.arguments import Setup
from metaevo.tasks.binding import TaskConfig, check_part, make_environment, make_learner
from metaevo.tasks.bound import Bound
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population

T = TypeVar("T")
CheckStop = Callable[[], None]
"""Called between chunks of agents; raises an exception to stop."""


@dataclass(frozen=True)
class TaskScores:
    """The scores of a rule on a task."""

    learning_rate: float
    """tuned"""
    scores: Annotated[tuple[float | None, ...], Len(2)]
    """[seeds] of the agents; None where one diverged"""
    tuning: tuple[float | None, ...] = ()
    """[learning rates] mean scores, if known; None where no agent has one"""


class Trial:
    """A rule on a task; compiled once for tuning, scoring and random play."""

    def __init__(self, benchmark: Benchmark, task: str, rule: Rule, rates: Sequence[float]):
        """Build the environment and the learner without compiling them.

        Raises:
            ConfigError: naming the task, if it cannot be built.
        """
        self.benchmark, self.task, self.rule, self.rates = benchmark, task, rule, rates
        try:
            bound, meta_params = _bind(benchmark, task, rule)
        except ConfigError as error:
            raise ConfigError(f"task {task}: {error}") from None
        self.hyperparams = bound.hyperparams
        self.population = Population(
            bound, bound.hyperparams, meta_params, FitnessConfig(), agents=benchmark.seeds
        )

    def measure(self, folder: Path | None, check_stop: CheckStop = lambda: None) -> TaskScores:
        """Return the scores of fresh agents; a folder keeps them for the same measurement."""
        learner = self.benchmark.key(self.task, self.rule.learner)
        key = digest(str([learner, self.rule.slot, self.rule.key, *self.rates]))

        def work() -> TaskScores:
            rate, tuning = self._tune(check_stop)
            scores = self.train(Purpose.HELD_OUT, self.benchmark.seeds, [rate], check_stop)[0]
            return TaskScores(rate, _plain(scores), tuning)

        return _kept(folder and folder / f"{self.task}-{key}.json", TaskScores, work)

    def reference(self, folder: Path, check_stop: CheckStop) -> Reference:
        """Return the ends of the scale, if the rule is PPO's default."""
        key, seeds = self.benchmark.key(self.task), self.benchmark.seeds

        def work() -> Reference:
            rate, tuning = self._tune(check_stop)
            tuned = self.train(Purpose.NORMALISATION, seeds, [rate], check_stop)[0]
            keys = keys_for(self.benchmark.seed(self.task), Purpose.NORMALISATION, seeds)
            random = self.population.train(keys, [self.hyperparams.random_play()]).scores[0]
            ends = statistics.fill_missing({"random": np.asarray(random), "tuned": tuned})
            plain = {name: _plain(scores) for name, scores in ends.items()}
            return Reference(key, tuple(self.rates), rate, tuning, **plain)

        return _kept(folder / f"{self.task}-{key}.json", Reference, work)

    def train(
        self,
        purpose: Purpose,
        seeds: int,
        rates: Sequence[float],
        check_stop: CheckStop = lambda: None,
    ) -> FloatArray:
        """Return the scores [rates, seeds] of agents; NaN where one diverged."""
        settings = [self.hyperparams.replace(learning_rate=rate) for rate in rates]
        keys = keys_for(self.benchmark.seed(self.task), purpose, seeds)
        trained = self.population.train(keys, settings, progress=lambda frames: check_stop())
        return np.asarray(trained.scores)

    def _tune(self, check_stop: CheckStop) -> tuple[float, tuple[float | None, ...]]:
        """Return the best learning rate, and the mean score of each; the first if none has one."""
        scores = self.train(Purpose.TUNING, self.benchmark.tuning_seeds, self.rates, check_stop)
        filled = statistics.fill_missing({"": scores.T})[""].mean(axis=0)
        means = np.where(np.isfinite(scores).any(axis=1), filled, np.nan)
        return self.rates[int(np.argmax(np.nan_to_num(means, nan=-np.inf)))], _plain(means)


def _bind(benchmark: Benchmark, task: str, rule: Rule) -> tuple[Bound, dict[str, Any]]:
    """Return the learner with the rule on a task, and the meta-parameters of its slots."""
    settings, entry = benchmark.settings(task, rule.learner), learners.find(rule.learner)
    setup: Any = Setup(
        rule.learner,
        from_dict(entry.config, settings["train"]),
        from_dict(entry.hyperparams, settings["hyperparams"]),
    )
    environment = make_environment(TaskConfig(**settings["task"]), rule.learner)
    fixed = benchmark.functions if rule.learner == LEARNER else {}
    functions, meta_params = {}, {}
    for slot in entry.slots:
        name = slot.name
        reference = rule.text if name == rule.slot else fixed.get(name, next(iter(slot.functions)))
        part, meta_params[name] = resolve.fill(slot, reference)
        if reference not in slot.functions:
            where = f"{name} = {reference!r}"
            check_part(where, part, meta_params[name], setup, environment)
        functions[name] = of_key(name, part.apply)
    _, env, params = environment
    learner = make_learner(setup, env, params, meta_params, **functions)
    return Bound(task, learner, params, setup.hyperparams), meta_params


def _plain(scores: FloatArray) -> tuple[Any, ...]:
    """Return scores as numbers of Python, None for NaN."""
    return tuple(files.plain(scores))


def _kept(file: Path | None, kind: type[T], work: Callable[[], T]) -> T:
    """Return the content of a file if there is one; otherwise do the work and write it there."""
    if file is not None and file.exists():
        return from_dict(kind, files.read_json(file))
    found = work()
    if file is not None:
        files.write_json_atomic(file, to_dict(found))
    return found
