"""Files of a finished sweep: trials.csv, best.yaml, evaluation.json."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from metaevo import statistics
from metaevo.config import dump_yaml
from metaevo.config.files import write_text_atomic
from metaevo.config.plain import PlainDict
from metaevo.tuning.ranges import Params
from metaevo.tuning.space import Space
from metaevo.tuning.study import Record

TRIALS, BEST = "trials.csv", "best.yaml"
FACTS = ("frames", "fraction", "diverged", "seconds", "reason")
"""Fields of a record that have a column."""


@dataclass(frozen=True)
class SweepResult:
    """The result of `metaevo.sweep`.

    Example:
        >>> records = result.table()
    """

    trials: tuple[Record, ...]
    """all trials that are decided, in the order of their numbers"""
    best: Record | None
    """the complete trial with the highest value"""
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

    Settings that have one value only are left out. The result is empty for less than four trials
    and for trials with equal values.
    """
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    varying = varying_settings(complete)
    if len(complete) < 4 or not varying or len({trial.value for trial in complete}) < 2:
        return {}
    return dict(optuna.importance.get_param_importances(study, params=varying))


def varying_settings(trials: Sequence[FrozenTrial]) -> list[str]:
    """Return the settings that have several values."""
    names = sorted({name for trial in trials for name in trial.params})
    return [name for name in names if len({trial.params.get(name) for trial in trials}) > 1]


def rows_of(records: Sequence[Record], space: Space) -> list[Params]:
    """Return a flat mapping for each trial: a table that pandas reads."""
    rows = []
    for record in records:
        row = {"trial": record.number, "outcome": record.outcome, "value": record.value}
        row |= {name: record.params.get(name) for name in space.distributions}
        row |= {f"score_{seed}": score for seed, score in enumerate(record.scores)}
        rows.append(row | {fact: getattr(record, fact) for fact in FACTS})
    return rows


def write_trials(path: Path, space: Space, records: Sequence[Record], seeds: int) -> None:
    """Write trials.csv: settings, objective and the score of each seed, one row per trial."""
    scores = [f"score_{seed}" for seed in range(seeds)]
    columns = ["trial", "outcome", "value", *space.distributions, *scores, *FACTS]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for row in rows_of(records, space):
        lists = {key: each for key, each in row.items() if isinstance(each, list | tuple)}
        writer.writerow(row | {k: dump_yaml(each, flow=True).strip() for k, each in lists.items()})
    write_text_atomic(path, text.getvalue())


def confirmation(
    scores: dict[str, np.ndarray], diverged: dict[str, int], best: Record, frames: int
) -> PlainDict:
    """Return the content of evaluation.json.

    Args:
        scores: [seeds] scores of the winner, and of the settings before the sweep.
        diverged: number of diverged agents of both.
        best: the best trial of the search.
        frames: environment steps of the whole search.
    """
    rows: list[PlainDict] = []
    for name, filled in statistics.fill_missing(scores).items():
        summary = statistics.summarise(filled)
        rows.append(
            {
                "name": name,
                "settings": best.params if not rows else {},
                "tuning_frames": frames if not rows else 0,
                "seeds": summary.seeds,
                "scores": filled.tolist(),
                "iqm": summary.iqm,
                "interval": list(summary.interval),
                "mean": summary.mean,
                "diverged": diverged[name],
            }
        )
    winner, before = rows
    compared = statistics.compare(winner["scores"], before["scores"])
    return {
        "variants": rows,
        "pairs": [{"learned": winner["name"], "other": before["name"], **compared._asdict()}],
        "conclusion": compared.conclusion,
        "best_trial": best.number,
        "search_value": best.value,
    }
