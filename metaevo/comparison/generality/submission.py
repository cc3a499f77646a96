"""Submissions to the leaderboard: a row with what is needed to check it, and the check."""

import math
import platform
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from typing_extensions import TypedDict

from metaevo import statistics
from metaevo.comparison.generality import result
from metaevo.comparison.generality.measure import Bench, key_of, rates_of, settings_of
from metaevo.comparison.generality.rows import Part, Row, TaskRow
from metaevo.comparison.generality.rules import Rule
from metaevo.comparison.generality.tasks import LEARNER, Benchmark
from metaevo.config import ConfigError, files, show
from metaevo.config.checks import Text
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs.run_directory import commit

FILE = "submission.json"
REPEATED = 10
"""A check trains again on a random tenth of the tasks."""
SAME = 1e-4
"""Relative difference below which scores are the same."""


class Submission(TypedDict):
    """submission.json."""

    row: Row
    """result.json"""
    tasks: dict[str, Text]
    """digests of the tasks' settings"""
    command: Text
    versions: dict[str, Text]


def submission(
    benchmark: Benchmark, row: PlainMapping, command: str, learner: str = LEARNER
) -> PlainDict:
    """Return a submission.

    Args:
        benchmark: on which the row was measured.
        row: content of result.json.
        command: which measured it.
        learner: which trained.
    """
    return {
        "row": row,
        "tasks": {name: key_of(benchmark, name, learner) for name in row["tasks"]},
        "command": command,
        "versions": {
            "commit": commit(),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "processor": platform.machine(),
        },
    }


def read(path: Path) -> Submission:
    """Return a submission, of which only the shape is checked.

    Raises:
        ConfigError: if it cannot be read, or something is missing.
    """
    content: Submission = files.read_json(path, Submission)
    return content


def check(
    content: Submission,
    where: str,
    benchmark: Benchmark,
    rule: Rule,
    references: PlainMapping,
    unable: Sequence[str] = (),
) -> None:
    """Check that a submission is complete, of this benchmark and of this rule.

    Args:
        content: from `read`.
        where: the file, for messages.
        benchmark: as it is now.
        rule: which the checker has named.
        references: scores of random play and tuned PPO by task.
        unable: tasks on which the rule, a whole learner, cannot be trained.

    Raises:
        ConfigError: naming the first key that is wrong.
    """

    def refuse(key: str, found: object, allowed: str) -> None:
        raise ConfigError(f"{where}: {key} = {show(found)}: must be {allowed}")

    row, tasks = content["row"], content["row"]["tasks"]
    rates = rates_of(benchmark, rule, row["learning_rates"])
    if row["version"] not in range(1, benchmark.version + 1):
        refuse("row.version", row["version"], f"at most {benchmark.version}: measure again")
    names = benchmark.of_version(row["version"])
    if missing := [name for name in names if name not in (*tasks, *unable)]:
        refuse("row.tasks", list(tasks), f"the whole list; missing: {', '.join(missing)}")
    for name in tasks:
        if name not in benchmark.tasks:
            refuse("row.tasks", name, "a task of the list")
        if content["tasks"].get(name) != key_of(benchmark, name, rule.learner):
            refuse(f"tasks.{name}", content["tasks"].get(name), "the digest of the task's settings")
    tuned = _tuned(row)
    if tuned and tuned.keys() != tasks.keys():
        refuse("row.tuned.by_task", list(tuned), "the tasks of row.tasks")
    for at, part in (("row.tasks", tasks), ("row.tuned.by_task", tuned)):
        for name, task in part.items():
            if len(task["scores"]) != benchmark.seeds:
                refuse(f"{at}.{name}.scores", task["scores"], f"{benchmark.seeds} scores")
            allowed = settings_of(benchmark, name, rates, all_tuned=part is tuned)
            if _setting(task) not in allowed:
                refuse(f"{at}.{name}", _setting(task), f"one of {allowed}")
    if (row["slot"], row["key"]) != (rule.slot, rule.key):
        refuse("row.key", row["key"], f"{rule.key}, the digest of {rule.name} in {rule.slot}")
    anew = result.result(benchmark, rule, rates, tasks, references, unable, tuned or None)
    if row["seen"] != anew["seen"]:
        refuse("row.seen", row["seen"], f"{anew['seen']}: the environments that the rule has seen")
    parts: dict[str, Part | None] = {"score": row["score"], "tuned": row.get("tuned")}
    for name, said in parts.items():
        iqm = math.nan if anew.get(name) is None else anew[name]["iqm"]
        if said is not None and not np.isclose(iqm, said["iqm"], rtol=1e-6):
            refuse(f"row.{name}.iqm", said["iqm"], f"{iqm}, of the scores of its tasks")


def _tuned(row: Row) -> dict[str, TaskRow]:
    """Return the tasks of a row with all hyperparameters tuned, if it has them."""
    return row["tuned"]["by_task"] if "tuned" in row else {}


def _setting(task: TaskRow) -> dict[str, float]:
    """Return the hyperparameters of the agents that were scored on a task."""
    return {"learning_rate": task["learning_rate"], **task.get("others", {})}


def repeat(
    content: Submission,
    where: str,
    benchmark: Benchmark,
    rule: Rule,
    rng: np.random.Generator,
) -> None:
    """Train a random tenth of the tasks again, with the submission's learning rates.

    On the same processor and versions the scores are the same; on another one, rounding makes
    other agents of the same keys, which are compared as samples.

    Raises:
        ConfigError: if scores differ by more than chance.
    """
    row = content["row"]
    kepts = [*row["tasks"].items(), *_tuned(row).items()]
    for number in rng.choice(len(kepts), math.ceil(len(kepts) / REPEATED), replace=False):
        name, kept = kepts[number]
        again = Bench(benchmark, name, rule).score(_setting(kept))
        before = np.array(kept["scores"], dtype=np.float64)
        if np.allclose(again, before, rtol=SAME, equal_nan=True):
            print(f"{name}: the same scores")
            continue
        tables = statistics.fill_missing({"again": again, "before": before})
        found = statistics.compare(tables["again"], tables["before"])
        low, high = found.difference_interval
        about = f"{name}: {found.difference:+.3g} [{low:.3g}, {high:.3g}] when trained again"
        if found.conclusion in ("better", "worse"):
            raise ConfigError(f"{where}: {about}: more than chance")
        print(f"{about}: within chance, but not the same (another processor or version?)")
