"""Results of a sweep: tables of trials, importances, and the confirmation of the winner."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from metaevo import statistics
from metaevo.config import PlainDict, files
from metaevo.config.space import Params, Space
from metaevo.evolution.problem import Purpose
from metaevo.tuning.objective import Count, Objective
from metaevo.tuning.study import Trial

TRIALS, BEST = "trials.csv", "best.yaml"
WINNER, BEFORE = "best trial", "settings before the sweep"
"""Names of the finalists."""


@dataclass(frozen=True)
class SweepResult:
    """The result of `metaevo.sweep`.

    Example:
        >>> result.value, result.best.params
        >>> records = result.table()
    """

    value: float | None
    """the objective of the best trial's settings: on fresh seeds, unless `confirm_seeds` is 0 or
    the objective is a function"""
    best: Trial | None
    """the complete trial with the highest value, which is the luckiest of many: `best.value` is too
    high where scores are noisy"""
    trials: tuple[Trial, ...]
    """all trials that are decided, in the order of their numbers"""
    importance: dict[str, float]
    """share of the objective's variance that each setting explains; empty for few trials"""
    space: Space
    path: Path | None = None
    """the run directory, with trials.csv, best.yaml, figures and a report"""

    def table(self) -> list[Params]:
        """Return a record for each trial: settings, value, scores, frames."""
        return rows_of(self.trials, self.space)


def importance(study: optuna.Study) -> dict[str, float]:
    """Return the share of the variance that each setting explains (fANOVA, Hutter et al. 2014).

    The result is empty for less than four trials and for trials with equal values.
    """
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(complete) < 4 or len({trial.value for trial in complete}) < 2:
        return {}
    return dict(optuna.importance.get_param_importances(study))


def rows_of(trials: Sequence[Trial], space: Space) -> list[Params]:
    """Return a flat mapping for each trial: a table that pandas reads."""
    facts = ("outcome", "value", "frames", "diverged", "reason")
    return [
        {"trial": trial.number}
        | {name: getattr(trial, name) for name in facts}
        | {name: trial.params.get(name) for name in space}
        | {f"score_{seed}": score for seed, score in enumerate(trial.scores)}
        for trial in trials
    ]


def write_table(path: Path, trials: Sequence[Trial], space: Space) -> None:
    """Write all trials as CSV; lists become JSON."""
    text, rows = io.StringIO(), rows_of(trials, space)
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        lists = {key: json.dumps(each) for key, each in row.items() if isinstance(each, list)}
        writer.writerow(row | lists)
    files.write_atomic(path, text.getvalue())


def confirmation(objective: Objective[Any], best: Trial, count: Count) -> PlainDict:
    """Evaluate the winner and the settings before the sweep on the same fresh seeds.

    Returns:
        the content of evaluation.json: the finalists, and the comparison of their seeds in pairs.
    """
    params, rungs = {WINNER: best.params, BEFORE: dict[str, Any]()}, {}
    for name, each in params.items():
        settings = objective.settings_of(each)
        evaluation = objective.program(settings).evaluate([settings], Purpose.HELD_OUT, count)
        (rungs[name],) = evaluation
    scores = statistics.fill_missing([rung.scores[0] for rung in rungs.values()])
    variants = [
        {
            "name": name,
            "settings": params[name],
            **statistics.summarise(own),
            "diverged": rung.diverged[0],
            "frames": rung.frames,
        }
        for (name, rung), own in zip(rungs.items(), scores, strict=True)
    ]
    compared = statistics.compare(*scores, shared_seeds=True)
    value = variants[0][objective.config.statistic]
    found = {"value": value, "search_value": best.value, "best_trial": best.number}
    plain: PlainDict = files.plain({**found, "variants": variants, **compared._asdict()})
    return plain
