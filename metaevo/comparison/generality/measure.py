"""A rule measured on one task: its learning rate tuned, then fresh agents trained and scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Len

from metaevo import statistics
from metaevo.comparison.cache import cached_in
from metaevo.comparison.comparison import digest_of_text
from metaevo.comparison.generality.rules import Rule
from metaevo.comparison.generality.tasks import DEFAULT, LEARNER, Benchmark
from metaevo.config import ConfigError, from_dict
from metaevo.config.checks import Measure, Number, Text
from metaevo.config.plain import PlainDict
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.tasks.population import Population
from metaevo.training.settings import make_task, training_class
from metaevo.tuning.objective import Progress
from purerl.types import Hyperparams


@dataclass(frozen=True)
class _Kept:
    key: Text
    learning_rate: Number
    tuning: list[Measure]
    scores: Annotated[list[Measure], Len(2)]


class Bench:
    """A rule bound to a task; compiled once for tuning, scoring and random play."""

    def __init__(self, benchmark: Benchmark, task: str, rule: Rule):
        """Build the environment and the learner without compiling them.

        Raises:
            ConfigError: naming the task, if it cannot be built.
        """
        self.benchmark, self.task, self.rule = benchmark, task, rule
        self._keys = benchmark.keys_of(task)
        raw = {**benchmark.settings(task, rule.learner), **rule.settings}
        try:
            settings: Any = from_dict(training_class(raw), raw)
            bound, meta_params = make_task(settings)
        except ConfigError as error:
            raise ConfigError(f"task {task}: {error}") from None
        self.hyperparams: Hyperparams = settings.hyperparams
        self.population = Population(
            bound,
            settings.hyperparams,
            meta_params,
            settings.fitness,
            agents=benchmark.seeds,
        )

    def tune(self, rates: Sequence[float], progress: Progress | None = None) -> np.ndarray:
        """Return the mean score of every learning rate [rates]; NaN where no agent has one."""
        keys = keys_for(self._keys, Purpose.TUNING, self.benchmark.tuning_seeds)
        scores = self._train(keys, rates, progress)
        filled = statistics.fill_missing({"": scores.T})[""]
        return np.where(np.isfinite(scores).any(axis=1), filled.mean(axis=0), np.nan)

    def score(
        self,
        rate: float,
        purpose: Purpose = Purpose.HELD_OUT,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """Return the scores of fresh agents [seeds]; NaN where one diverged."""
        keys = keys_for(self._keys, purpose, self.benchmark.seeds)
        return self._train(keys, [rate], progress)[0]

    def random(self) -> np.ndarray:
        """Return the scores [seeds] of agents that never learn."""
        keys = keys_for(self._keys, Purpose.NORMALISATION, self.benchmark.seeds)
        return np.asarray(self.population.train(keys, [self.hyperparams.random_play()]).scores)[0]

    def _train(self, keys: Any, rates: Sequence[float], progress: Progress | None) -> np.ndarray:
        settings = [self.hyperparams.replace(learning_rate=rate) for rate in rates]
        return np.asarray(self.population.train(keys, settings, progress=progress).scores)


def rates_of(benchmark: Benchmark, rule: Rule, given: Sequence[float] | None) -> list[float]:
    """Return the learning rates that a rule is tuned over: the user's or the benchmark's.

    Published optimizers do not use the learning rate, so there is one.

    Raises:
        ConfigError: if their number differs from the defaults, or one is not positive and finite.
    """
    table = benchmark.learning_rates
    count = len(table[DEFAULT]) if rule.weights is None else 1
    rates = list(given or table.get(rule.text, table[DEFAULT])[:count])
    if len(rates) != count or not all(0 < rate < np.inf for rate in rates):
        raise ConfigError(
            f"learning_rates = {rates}: must be {count} positive numbers, as many as {rule.name} "
            "may try"
        )
    return rates


def measure(
    bench: Bench,
    rates: Sequence[float],
    file: Path | None,
    progress: Progress | None = None,
) -> PlainDict:
    """Return the scores of a rule on a task, from an earlier measurement if the file has one.

    Returns:
        the best `learning_rate`, `tuning` (the mean score of each rate) and `scores` [seeds], null
        for agents without a score.
    """
    rule = bench.rule
    about = [key_of(bench.benchmark, bench.task, rule.learner), rule.slot, rule.key, *rates]
    key = digest_of_text(str(about))

    def work() -> PlainDict:
        tuned = bench.tune(rates, progress)
        best = best_of(rates, tuned)
        return {
            "learning_rate": best,
            "tuning": tuned,
            "scores": bench.score(best, progress=progress),
        }

    found: PlainDict = cached_in(file, _Kept, key, work)
    return found


def best_of(rates: Sequence[float], tuned: np.ndarray) -> float:
    """Return the rate with the highest mean score [rates]; the first if none has one."""
    return rates[int(np.argmax(np.where(np.isnan(tuned), -np.inf, tuned)))]


def key_of(benchmark: Benchmark, task: str, learner: str = LEARNER) -> str:
    """Return a digest of everything in the benchmark that trainings on a task depend on."""
    settings = benchmark.settings(task, learner)
    about = [benchmark.keys_of(task), benchmark.seeds, benchmark.tuning_seeds, settings]
    return digest_of_text(str(about))
