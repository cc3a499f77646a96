"""Python API of the generality benchmark: `metaevo.generality`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from metaevo import statistics
from metaevo.comparison.generality import result
from metaevo.comparison.generality.measure import Bench, key_of, measure, rates_of
from metaevo.comparison.generality.rules import Rule, rule_of
from metaevo.comparison.generality.tasks import LEARNER, Benchmark, benchmark, read_references
from metaevo.config import ConfigError, files
from metaevo.config.code import use
from metaevo.config.plain import PlainDict, PlainMapping, listed
from metaevo.runs.progress import Progress
from metaevo.statistics import Estimate


@dataclass(frozen=True)
class TaskScore:
    """The scores of a rule on one task of the benchmark."""

    task: str
    family: str
    """control, grids or arcade"""
    horizon: str
    """length of training: short, medium or long"""
    seen: bool
    """whether the rule was evolved on this environment; such tasks are left out of the score"""
    learning_rate: float
    """tuned learning rate"""
    score: Estimate
    """interquartile mean over the agents, normalised: 0 is random play, 1 is tuned PPO"""
    normalised: tuple[float, ...] = field(repr=False)
    """[agents] normalised scores"""


@dataclass(frozen=True)
class GeneralityResult:
    """The result of `metaevo.generality`."""

    rule: str
    slot: str
    score: Estimate | None
    """normalised interquartile mean over the unseen tasks of version 1; None if there are none"""
    complete: bool
    """whether all tasks of the benchmark were measured"""
    better_than_ppo: float
    """share of the agents that score more than the mean of tuned PPO"""
    tasks: tuple[TaskScore, ...]
    content: PlainMapping = field(repr=False)
    """content of result.json: a row of the benchmark's table"""

    def table(self) -> list[PlainDict]:
        """Return a record for each task."""
        records = [statistics.flat_record(vars(each)) for each in self.tasks]
        for each in records:
            del each["normalised"]
        return records

    def draw(self, folder: str | Path) -> list[Path]:
        """Draw the score of every task, and the performance profile.

        Args:
            folder: directory for the figure; created if it does not exist.

        Returns:
            the PNG file.
        """
        path = files.make_folder(folder) / "scores.png"
        return [result.draw(self.content, path)]


class Job(NamedTuple):
    """A rule and the tasks to evaluate it on."""

    benchmark: Benchmark
    tasks: list[str]
    rule: Rule
    rates: list[float]
    """learning rates that the rule is tuned over"""
    references: PlainMapping
    """scores of random play and tuned PPO by task"""
    unable: Sequence[str] = ()
    """tasks on which the rule's learner cannot be trained"""


def generality(
    rule: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    learning_rates: Sequence[float] | None = None,
    other_keys: bool = False,
    code: Any = (),
) -> GeneralityResult:
    """Measure how well a rule trains PPO, or how well a learner trains, on a list of small tasks.

    The rule's learning rate is tuned on each task; fresh agents are then trained and scored. The
    results are not saved; use the command `metaevo generality` to keep finished tasks.

    Examples:
        >>> result = metaevo.generality("dpo", tasks=["cartpole", "grid"])
        >>> result.score
        >>> pandas.DataFrame(result.table())

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
    job = prepare(
        str(rule),
        tasks=names,
        learning_rates=learning_rates,
        other_keys=other_keys,
    )
    return judge(job)


def prepare(
    rule: str,
    *,
    tasks: Sequence[str] | None,
    learning_rates: Sequence[float] | None,
    other_keys: bool = False,
) -> Job:
    """Find the rule and the tasks, and check without compiling that they are compatible.

    Raises:
        ConfigError: if they are not, or if the rule was evolved on all tasks.
    """
    found = benchmark()
    chosen = found.chosen(tasks)
    bound = rule_of(rule)
    rates = rates_of(found, bound, learning_rates)
    references = read_references()["tasks"]
    for task in chosen:
        kept = references.get(task)
        if kept is None or kept["key"] != key_of(found, task):
            raise ConfigError(f"{task}: the references are of another list of tasks")
    unable = _unable(found, chosen, bound)
    able = [task for task in chosen if task not in unable]
    if all(found.tasks[task].env in bound.seen for task in able):
        raise ConfigError(
            f"tasks = {', '.join(able)}: {rule} was evolved on all of these, so it would have no "
            "score; add a task that it has not seen"
        )
    measured = found.with_other_keys() if other_keys else found
    return Job(measured, able, bound, rates, references, unable)


def _unable(found: Benchmark, tasks: Sequence[str], rule: Rule) -> list[str]:
    """Return the tasks that a learner other than PPO cannot be trained on, such as continuous ones.

    Raises:
        ConfigError: if it can be trained on none, or if PPO cannot be trained on one.
    """
    unable = []
    for task in tasks:
        try:
            Bench(found, task, rule)
        except ConfigError:
            unable.append(task)
            if rule.learner == LEARNER or len(unable) == len(tasks):
                raise
    return unable


def judge(
    job: Job, folder: Path | None = None, check_stop: Callable[[], None] = lambda: None
) -> GeneralityResult:
    """Measure the rule on every task.

    Args:
        job: the job from `prepare`.
        folder: directory for a file per finished task; by default no files are written.
        check_stop: called between chunks of agents; raises an exception to stop.
    """
    benchmark, specs = job.benchmark, job.benchmark.tasks
    agents = len(job.rates) * benchmark.tuning_seeds + benchmark.seeds
    frames_of = {task: benchmark.frames[specs[task].horizon] for task in job.tasks}
    measured: PlainDict = {}
    done = 0
    with Progress(
        total=sum(frames_of.values()) * agents,
        desc="", unit="frame", unit_scale=True, check_stop=check_stop,
    ) as bar:  # fmt: skip
        for number, task in enumerate(job.tasks, start=1):
            bar.stage(f"{task}, {number} of {len(job.tasks)}")
            check_stop()
            bench = Bench(benchmark, task, job.rule)
            file = folder and folder / f"{task}.json"
            measured[task] = measure(bench, job.rates, file, bar.update)
            done += frames_of[task] * agents
            bar.update(done - bar.n)  # of a kept result, all at once
    content = result.result(benchmark, job.rule, job.rates, measured, job.references, job.unable)
    return GeneralityResult(
        content["rule"],
        content["slot"],
        _estimate(content["score"]),
        content["complete"],
        content["better_than_ppo"],
        tuple(
            TaskScore(
                task,
                specs[task].family,
                specs[task].horizon,
                task in content["seen"],
                row["learning_rate"],
                Estimate(row["iqm"], tuple(row["interval"])),
                tuple(row["normalised"]),
            )
            for task, row in content["tasks"].items()
        ),
        content,
    )


def _estimate(part: PlainMapping | None) -> Estimate | None:
    return None if part is None else Estimate(part["iqm"], tuple(part["interval"]))
