"""Measure how general a rule is: `metaevo.generality`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metaevo.config import ConfigError, files, from_dict, to_dict
from metaevo.config.code import use
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.judging.generality.measured import Measured, TaskScores
from metaevo.judging.generality.rules import Rule, rule_of
from metaevo.judging.generality.tasks import LEARNER, Benchmark, benchmark, digest
from metaevo.parts import learners
from metaevo.runs.run_directory import commit
from metaevo.runs.terminal import Progress
from metaevo.statistics import FloatArray, fill_missing
from metaevo.tasks.population import Population
from metaevo.training.settings import training_class

CheckStop = Callable[[], None]
"""Called between chunks of agents; raises an exception to stop."""


def generality(
    rule: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    learning_rates: Sequence[float] | None = None,
    other_keys: bool = False,
    code: Any = (),
) -> Measured:
    """Measure how well a rule trains PPO, or how well a learner trains, on a list of small tasks.

    The rule's learning rate is tuned on each task; fresh agents are then trained and scored. The
    results are not saved; use the command `metaevo generality` to keep finished tasks.

    Examples:
        >>> measured = metaevo.generality("dpo", tasks=["cartpole", "grid"])
        >>> measured.score()
        >>> records = measured.table()

    Args:
        rule: the name of a hand-written function or of a learner, `FILE.py:NAME` of a learner,
            `zoo:NAME`, or the directory of a run or of a saved part.
        tasks: names of tasks; by default all.
        learning_rates: four values to tune over; defaults to the benchmark's values.
        other_keys: tune and score agents of other random keys, and score 32 of each task: a second
            measurement, because a high score can be due to the benchmark's keys.
        code: as for `metaevo.load`.

    Raises:
        ConfigError: before compilation, if a rule, a task or the learning rates are invalid, or if
            the rule was evolved on all tasks.
    """
    use(code)
    names = [tasks] if isinstance(tasks, str) else tasks
    return Measurement(str(rule), names, learning_rates, other_keys=other_keys).run()


def population_of(benchmark: Benchmark, task: str, rule: Rule) -> Population:
    """Return agents with the rule on a task; compiled once for tuning and scoring.

    Raises:
        ConfigError: naming the task, if the environment or the learner cannot be built.
    """
    slots = learners.find(rule.learner).slots
    fillings = {slot.name: next(iter(slot.functions)) for slot in slots}
    if rule.learner == LEARNER:
        fillings |= benchmark.functions
    if rule.slot in fillings:
        fillings[rule.slot] = rule.text
    raw = {**benchmark.settings(task, rule.learner), **fillings}
    try:
        return from_dict(training_class(raw), raw).population(agents=benchmark.seeds)
    except ConfigError as error:
        raise ConfigError(f"task {task}: {error}") from None


class Measurement:
    """A rule and the tasks to measure it on."""

    def __init__(
        self,
        rule: str,
        tasks: Sequence[str] | None = None,
        learning_rates: Sequence[float] | None = None,
        *,
        other_keys: bool = False,
    ):
        """Bind the rule to the tasks without compilation; the arguments are `generality`'s.

        Tasks that a learner other than PPO cannot be trained on, such as continuous ones, are left
        out.

        Raises:
            ConfigError: if it can be trained on none, or if PPO cannot be trained on one, or if the
                rule was evolved on all of them.
        """
        listed = benchmark()
        chosen = listed.chosen(tasks)
        self.benchmark = listed.with_other_keys() if other_keys else listed
        self.rule = rule_of(rule)
        self.rates = listed.rates(rule, learning_rates)
        self.populations: dict[str, Population] = {}
        self.unable: list[str] = []
        for task in chosen:
            try:
                self.populations[task] = population_of(self.benchmark, task, self.rule)
            except ConfigError:
                self.unable.append(task)
                if self.rule.learner == LEARNER or self.unable == chosen:
                    raise
        self.seen = [task for task in self.populations if listed.tasks[task].env in self.rule.seen]
        if self.seen == list(self.populations):
            raise ConfigError(
                f"tasks = {', '.join(self.seen)}: {rule} was evolved on all of these, so it would "
                "have no score; add a task that it has not seen"
            )

    def run(self, folder: Path | None = None, check_stop: CheckStop = lambda: None) -> Measured:
        """Measure the rule on every task.

        Args:
            folder: directory for a file per finished task, which is not measured again; by default
                no files are written.
            check_stop: called between chunks of agents; raises an exception to stop.
        """
        tasks = {}
        with Progress(self.populations, unit="task", check_stop=check_stop) as bar:
            for task in bar:
                bar.stage(task)
                check_stop()
                file = None if folder is None else folder / f"{task}-{self.key(task)}.json"
                if file is not None and file.exists():
                    tasks[task] = from_dict(TaskScores, files.read_json(file))
                    continue
                tasks[task] = self._measure(task, check_stop)
                if file is not None:
                    files.write_json_atomic(file, to_dict(tasks[task]))
        return Measured(
            rule=self.rule.name,
            slot=self.rule.slot,
            key=self.rule.key,
            version=self.benchmark.version,
            seeds=self.benchmark.seeds,
            seen=tuple(self.seen),
            unable=tuple(self.unable),
            commit=commit(9),
            tasks=tasks,
        )

    def key(self, task: str) -> str:
        """Return a digest of everything that the scores on a task depend on."""
        key = self.benchmark.key(task, self.rule.learner)
        return digest(key, self.rule.slot, self.rule.key, *self.rates)

    def _measure(self, task: str, check_stop: CheckStop) -> TaskScores:
        """Tune the learning rate, and return the scores of fresh agents.

        The first rate is used if no agent has a score.
        """
        population = self.populations[task]

        def train(purpose: Purpose, seeds: int, rates: Sequence[float]) -> FloatArray:
            settings = [population.task.hyperparams.replace(learning_rate=rate) for rate in rates]
            keys = keys_for(self.benchmark.seed(task), purpose, seeds)
            trained = population.train(keys, settings, progress=lambda frames: check_stop())
            return np.asarray(trained.scores)

        tuning = train(Purpose.TUNING, self.benchmark.tuning_seeds, self.rates)
        means = fill_missing(tuning, axis=1).mean(axis=1)
        best = int(np.argmax(np.where(np.isfinite(tuning).any(axis=1), means, -np.inf)))
        (scores,) = train(Purpose.HELD_OUT, self.benchmark.seeds, [self.rates[best]])
        return TaskScores(self.rates[best], tuple(files.plain(scores)))
