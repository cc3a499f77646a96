"""Rules on the tasks of the benchmark: measured now, or on record in rows.json."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from metaevo.config import PlainDict, files, from_dict, to_dict
from metaevo.judging.generality.tasks import CORE, FAMILIES, FOLDER, HORIZONS, benchmark
from metaevo.judging.scores import Scores
from metaevo.statistics import Estimate, flat_record

UNSEEN, ADDED = "unseen", "added"


@dataclass(frozen=True)
class TaskScores:
    """The scores of a rule on a task."""

    learning_rate: float
    """tuned"""
    scores: tuple[float | None, ...]
    """[seeds] of the agents; None where one diverged"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The result of `metaevo.generality`: the scores of a rule on tasks of the benchmark."""

    rule: str
    """name"""
    slot: str
    key: str
    """digest of the rule"""
    version: int
    """of the list of tasks"""
    seeds: int
    """agents of each task"""
    seen: tuple[str, ...]
    """tasks on environments that the rule was evolved on; no score includes them"""
    unable: tuple[str, ...]
    """tasks on which the rule's learner cannot be trained"""
    commit: str
    tasks: dict[str, TaskScores]
    """scores and tuned learning rates by task"""

    @property
    def scores(self) -> Scores:
        """The scores on all tasks, with the scale from random play, 0, to tuned PPO, 1.

        An agent that diverged has the worst score of the rule's agents and of random play.
        """
        return self.scores_on(list(self.tasks))

    def scores_on(self, tasks: Sequence[str]) -> Scores:
        """Return the scores on some tasks."""
        rows, scale = [], []
        for task in tasks:
            ends = benchmark().references[task]
            scores = np.array(self.tasks[task].scores, float)
            worst = np.nanmin([*scores, *ends.random])
            rows.append(np.where(np.isnan(scores), worst, scores))
            scale.append((np.mean(ends.random), np.mean(ends.tuned)))
        held_out = np.array(rows)[np.newaxis, :, np.newaxis]
        front = held_out.shape[:3]
        return Scores(
            contenders=(self.rule,),
            groups=("",),
            tasks=tuple(tasks),
            screening=np.empty((*front, 0)),
            finalists=np.zeros(front, int),
            selection=np.empty((*front, 0)),
            held_out=held_out,
            scale=np.array(scale),
        )

    @cached_property
    def parts(self) -> dict[str, list[str]]:
        """The tasks behind each score, without those that the rule's evolution has seen.

        `unseen` are all of version 1, which are divided into families (`control`, `grids`,
        `arcade`) and lengths of training (`short`, `medium`, `long`); `added` are those of later
        versions.
        """
        specs = {name: benchmark().tasks[name] for name in self.tasks if name not in self.seen}
        core = {name: spec for name, spec in specs.items() if spec.since == CORE}
        found = {UNSEEN: list(core)}
        for each in (*FAMILIES, *HORIZONS):
            found[each] = [name for name, s in core.items() if each in (s.family, s.horizon)]
        return {**found, ADDED: [name for name in specs if name not in core]}

    def score(self, part: str = UNSEEN) -> Estimate:
        """Return the scaled interquartile mean of a part, with its 95% interval; NaN if empty."""
        if not self.parts[part]:
            return Estimate(math.nan, (math.nan, math.nan))
        return self.scores_on(self.parts[part]).iqm(self.rule)

    def table(self) -> list[PlainDict]:
        """Return a record for each task."""
        specs = benchmark().tasks
        records = [
            {
                "task": name,
                "family": specs[name].family,
                "horizon": specs[name].horizon,
                "seen": name in self.seen,
                "learning_rate": each.learning_rate,
                "score": self.scores_on([name]).iqm(self.rule),
            }
            for name, each in self.tasks.items()
        ]
        return [flat_record(each) for each in records]

    def line(self) -> str:
        """Return the rule as a line of rows.json."""
        row = to_dict(self)
        return f"{json.dumps(row.pop('rule'))}: {json.dumps(row)}"


def recorded() -> list[Measured]:
    """Return the rules on record, the highest score first."""
    rows = files.read_json(FOLDER / "rows.json").items()
    found = [from_dict(Measured, {"rule": name, **row}) for name, row in rows]
    return sorted(found, key=lambda each: (-each.score().value, each.rule))
