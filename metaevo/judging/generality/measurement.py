"""Measure how general a rule is: `metaevo.generality`."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, files, to_dict
from metaevo.config.code import use
from metaevo.config.plain import listed
from metaevo.judging.generality.measured import Measured
from metaevo.judging.generality.rules import rule_of
from metaevo.judging.generality.tasks import LEARNER, Reference, benchmark
from metaevo.judging.generality.trial import Trial
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import commit
from metaevo.statistics import compare

PPO = "adam"
"""PPO's default rule."""


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
            `zoo:NAME`, a file of published weights, or the directory of a run or of a saved
            part.
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
    names = None if tasks is None else listed(tasks)
    return Measurement(str(rule), names, learning_rates, other_keys=other_keys).run()


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
        count = 4 if self.rule.weights is None else 1  # published optimizers do not use the rate
        rates = listed.rates(rule, learning_rates, count)
        self.trials: dict[str, Trial] = {}
        self.unable: list[str] = []
        for task in chosen:
            try:
                self.trials[task] = Trial(self.benchmark, task, self.rule, rates)
            except ConfigError:
                self.unable.append(task)
                if self.rule.learner == LEARNER or self.unable == chosen:
                    raise
        self.seen = [task for task in self.trials if listed.tasks[task].env in self.rule.seen]
        if self.seen == list(self.trials):
            raise ConfigError(
                f"tasks = {', '.join(self.seen)}: {rule} was evolved on all of these, so it would "
                "have no score; add a task that it has not seen"
            )

    def run(
        self, folder: Path | None = None, check_stop: Callable[[], None] = lambda: None
    ) -> Measured:
        """Measure the rule on every task.

        Args:
            folder: directory for a file per finished task, which is not measured again; by default
                no files are written.
            check_stop: called between chunks of agents; raises an exception to stop.
        """
        names = _steps(list(self.trials), check_stop)
        tasks = {name: self.trials[name].measure(folder, check_stop) for name in names}
        weights = self.rule.weights
        return Measured(
            rule=self.rule.name,
            slot=self.rule.slot,
            key=self.rule.key,
            version=self.benchmark.version,
            seeds=self.benchmark.seeds,
            seen=tuple(self.seen),
            unable=tuple(self.unable),
            weights=None if weights is None else weights.source(),
            commit=commit(),
            tasks=tasks,
        )


def measure_references(folder: Path, save: Path, check_stop: Callable[[], None]) -> None:
    """Measure random play and tuned PPO on every task, and write them to a file.

    Finished tasks are kept in a folder, so that an interrupted measurement continues.

    Raises:
        ConfigError: if PPO is not significantly better than random play on a task, which leaves no
            scale.
    """
    listed, rule = benchmark(), rule_of(PPO)
    tasks: dict[str, Reference] = {}
    for name in _steps(list(listed.tasks), check_stop):
        trial = Trial(listed, name, rule, listed.rates(PPO))
        tasks[name] = trial.reference(folder, check_stop)
    comparisons = {name: compare(each.tuned, each.random) for name, each in tasks.items()}
    if flat := [name for name, each in comparisons.items() if each.conclusion != "better"]:
        raise ConfigError(f"PPO is no better than random play on {', '.join(flat)}: no scale")
    command = "metaevo generality --references metaevo/judging/generality/references.json"
    about = {"version": listed.version, "command": command, "commit": commit()}
    files.write_json_atomic(save, {**about, "tasks": to_dict(tasks)})


def _steps(tasks: list[str], check_stop: Callable[[], None]) -> Iterator[str]:
    """Yield the names of tasks, with a progress bar."""
    with Progress(total=len(tasks), unit="task", check_stop=check_stop) as bar:
        for task in tasks:
            bar.stage(task)
            check_stop()
            yield task
            bar.update(1)
