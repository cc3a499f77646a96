"""What a sweep leaves: a table of trials, the best settings as a config, and how good they are."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from metaevo import statistics
from metaevo.components import filling
from metaevo.config import dump_yaml, merge, to_dict
from metaevo.runs.files import write_text_atomic
from metaevo.runs.run_directory import RunDirectory
from metaevo.sweep.settings import EvolutionSweepSettings
from metaevo.sweep.trials import AnyTrials
from metaevo.training.settings import default_function
from metaevo.tuning.study import Record

TRIALS, BEST, BEST_EVOLVE = "trials.csv", "best.yaml", "best_evolve.yaml"


def write_trials(run: RunDirectory, trials: AnyTrials, records: Sequence[Record]) -> None:
    """Write trials.csv: settings, objective and every seed's score, one row per trial."""
    names = list(trials.space.distributions)
    seeds = [f"score_{seed}" for seed in range(trials.config.seeds)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    facts = ["frames", "fraction", "diverged", "seconds", "reason"]
    writer.writerow(["trial", "outcome", "value", *names, *seeds, *facts])
    for record in records:
        scores = record.attributes.get("scores") or []
        scores = [*scores, *[None] * (len(seeds) - len(scores))]
        writer.writerow(
            [record.number, record.outcome, record.value]
            + [_cell(record.params.get(name)) for name in names]
            + scores
            + [record.attributes.get(fact) for fact in facts]
        )
    write_text_atomic(run.path / TRIALS, text.getvalue())


def _cell(value: Any) -> Any:
    return dump_yaml(value, flow=True).strip() if isinstance(value, list | tuple) else value


def write_best(run: RunDirectory, trials: AnyTrials, params: dict[str, Any], comment: str) -> None:
    """Write best.yaml, a config for `metaevo train` and `evolve`, or for `evolve` alone.

    An evolution fills a slot itself: if the best settings name functions that are not the default,
    best_evolve.yaml is the same without them.
    """
    settings = trials.settings_of(params)
    everything = to_dict(settings)
    for name in ("space", "sweep", "pbt", "run"):
        everything.pop(name)
    if isinstance(settings, EvolutionSweepSettings):
        write_text_atomic(run.path / BEST, f"# {comment}\n{dump_yaml(everything)}")
        return
    chosen = {name: everything.pop(name) for name in filling.slots_of(settings.learner)}
    learner = settings.learner
    named = {
        name: value for name, value in chosen.items() if value != default_function(learner, name)
    }
    write_text_atomic(run.path / BEST, f"# {comment}\n{dump_yaml(merge(everything, named))}")
    if named:
        write_text_atomic(run.path / BEST_EVOLVE, f"# {comment}\n{dump_yaml(everything)}")


def confirmation(
    scores: dict[str, np.ndarray],
    diverged: dict[str, int],
    settings: dict[str, dict[str, Any]],
    best: Record,
    frames: int,
) -> dict[str, Any]:
    """Return the content of evaluation.json: variants on fresh seeds, the first one the winner.

    Args:
        scores: of every variant [seeds]; the last one is where the sweep began.
        diverged: how many agents of every variant did.
        settings: of every variant, those that the sweep has chosen.
        best: the best trial of the search.
        frames: environment steps of the whole search.
    """
    rows = []
    for name, filled in statistics.fill_missing(scores).items():
        summary = statistics.summarise(filled)
        rows.append(
            {
                "name": name,
                "settings": settings[name],
                "tuning_frames": frames if settings[name] else 0,
                "seeds": summary.seeds,
                "scores": filled.tolist(),
                "iqm": summary.iqm,
                "interval": list(summary.interval),
                "mean": summary.mean,
                "diverged": diverged[name],
            }
        )
    winner, *others = rows
    pairs = [
        {
            "learned": winner["name"],
            "other": row["name"],
            **statistics.compare(winner["scores"], row["scores"])._asdict(),
        }
        for row in others
    ]
    return {
        "variants": rows,
        "pairs": pairs,
        "conclusion": pairs[-1]["conclusion"],
        "best_trial": best.number,
        "search_value": best.value,
    }
