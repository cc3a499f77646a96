"""Rules on the tasks of the benchmark: measured now, or on record in rows.json."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from metaevo import statistics
from metaevo.config import files, from_dict, to_dict
from metaevo.config.plain import PlainDict
from metaevo.judging.generality.tasks import CORE, FAMILIES, FOLDER, HORIZONS, benchmark
from metaevo.judging.generality.trial import TaskScores
from metaevo.judging.scores import Scores
from metaevo.statistics import Estimate

UNSEEN, ADDED = "unseen", "added"
RANGE = -0.5, 2.0
"""Range of the scores in a figure."""


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
    weights: PlainDict | None = None
    """where a published rule comes from"""
    commit: str
    tasks: dict[str, TaskScores]
    """scores and tuned learning rates by task"""

    @cached_property
    def scores(self) -> Scores:
        """The scores on all tasks, with the scale from random play, 0, to tuned PPO, 1.

        An agent that diverged has the worst score of the rule's agents and of random play.
        """
        rows, scale = [], []
        for task, each in self.tasks.items():
            ends, scores = benchmark().references[task], np.array(each.scores, float)
            worst = np.nanmin([*scores, *ends.random])
            rows.append(np.where(np.isnan(scores), worst, scores))
            scale.append((np.mean(ends.random), np.mean(ends.tuned)))
        return Scores.of({self.rule: np.stack(rows)}, tasks=tuple(self.tasks), scale=scale)

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
        return self.scores.on(self.parts[part]).iqm(self.rule)

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
                "score": self.scores.on([name]).iqm(self.rule),
            }
            for name, each in self.tasks.items()
        ]
        return [statistics.flat_record(each) for each in records]

    def draw(self, folder: str | Path) -> list[Path]:
        """Draw the score of every task and its agents.

        Args:
            folder: directory for the figure; created if it does not exist.

        Returns:
            the PNG file.
        """
        from metaevo.reports import plots  # matplotlib takes a second

        figure = plots.new_figure(1.2 + 0.3 * len(self.tasks))
        axes = figure.subplots()
        plots.style_axes(axes, f"score of {self.rule}: 0 random play, 1 tuned PPO", "", grid="x")
        low, high = np.transpose(np.array(self.scores.scale))[..., np.newaxis]
        scaled = np.clip((self.scores.held_out[0, :, 0] - low) / (high - low), *RANGE)
        for at, (name, agents) in enumerate(zip(self.tasks, scaled, strict=True)):
            value, interval = self.scores.on([name]).iqm(self.rule)
            axes.plot(agents, np.full(len(agents), at), "|", color=plots.GREY, alpha=0.8)
            axes.plot(np.clip(interval, *RANGE), [at, at], color=plots.LEARNED, linewidth=3)
            axes.plot(np.clip(value, *RANGE), at, "o", color=plots.LEARNED)
        for end in (0.0, 1.0):
            axes.axvline(end, color=plots.INK, linewidth=1, linestyle=":")
        axes.set_yticks(range(len(self.tasks)), list(self.tasks))
        axes.set_ylim(len(self.tasks) - 0.5, -0.5)
        axes.set_xlim(*RANGE)
        return [plots.save_figure(figure, files.make_folder(folder) / "scores.png")]

    def line(self) -> str:
        """Return the rule as a line of rows.json."""
        row = {key: value for key, value in to_dict(self).items() if value is not None}
        return f"{json.dumps(row.pop('rule'))}: {json.dumps(row)}"


def recorded() -> list[Measured]:
    """Return the rules on record, the highest score first."""
    rows = files.read_json(FOLDER / "rows.json").items()
    found = [from_dict(Measured, {"rule": name, **row}) for name, row in rows]
    return sorted(found, key=lambda each: (-each.score().value, each.rule))
