"""CPU seconds of a training with a rule, next to PPO with Adam, measured in alternation."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Len

from metaevo.comparison.cache import cached_in
from metaevo.comparison.comparison import digest_of_text
from metaevo.comparison.generality.measure import Bench, key_of
from metaevo.comparison.generality.rules import Rule, rule_of
from metaevo.comparison.generality.tasks import Benchmark
from metaevo.config.checks import Number, Text
from metaevo.config.plain import PlainDict

REFERENCE = "adam"
REPEATS = 7
SETTING = {"learning_rate": 1.5e-3}
"""of both; the cost does not depend on it."""


@dataclass(frozen=True)
class _Cost:
    key: Text
    task: Text
    ratio: Number
    range: Annotated[list[Number], Len(2, 2)]


def measure_cost(benchmark: Benchmark, task: str, rule: Rule, folder: Path) -> PlainDict:
    """Return how much CPU a whole training takes with a rule; Adam's is 1.

    A training includes the environments and the networks. Each repeat trains the agents of a task
    with both rules, so a busy machine disturbs both; compilation is left out.

    Returns:
        `ratio`, the median over repeats, and their `range`, on `task`; from an earlier measurement
        if one is saved in the folder.
    """

    def work() -> PlainDict:
        benches = [Bench(benchmark, task, each) for each in (rule, rule_of(REFERENCE))]
        for bench in benches:
            bench.score(SETTING)  # compiles
        seconds = np.array([[_seconds(bench) for bench in benches] for _ in range(REPEATS)])
        ratios = seconds[:, 0] / seconds[:, 1]
        found = [float(ratios.min()), float(ratios.max())]
        return {"task": task, "ratio": float(np.median(ratios)), "range": found}

    key = digest_of_text(str([key_of(benchmark, task, rule.learner), rule.slot, rule.key]))
    kept: PlainDict = cached_in(folder / "cost.json", _Cost, key, work)
    return {name: kept[name] for name in ("task", "ratio", "range")}


def text(cost: PlainDict | None) -> str:
    """Return a cost with its range; nothing if it was not measured."""
    if cost is None:
        return ""
    low, high = cost["range"]
    return f"{cost['ratio']:.2f} [{low:.2f}, {high:.2f}]"


def _seconds(bench: Bench) -> float:
    start = time.process_time()
    bench.score(SETTING)
    return time.process_time() - start
