"""Tables of a judgement for a report and for the terminal."""

import jax
import numpy as np

from metaevo.judging import figure
from metaevo.judging.scores import Scores
from metaevo.reports import layout, page
from metaevo.reports.numbers import estimate
from metaevo.studies.verdict import verdict_of
from purerl.types import MetaParams

FEW = 12
"""Maximum count of evolved numbers that are listed."""


def names_of(scores: Scores) -> tuple[str, ...]:
    """Return the discoveries, of which each may be several evolutions, and then the baselines."""
    return (*scores.discoveries, *scores.baselines)


def contenders(scores: Scores, heading: str = "Held-out comparison") -> page.Table:
    """Return a table of all contenders on one task, or over all tasks."""
    found = verdict_of(scores)
    best = None if isinstance(found, str) else found.baseline
    rows = []
    for name in names_of(scores):
        score = scores.iqm(name)
        cells: list[object] = [name, score.value, score.interval]
        if best is not None:
            cells.append("" if name == best else _difference(scores, name, best))
        if scores.tried:
            cells.append(_expected(scores, name))
        rows.append(cells)
    columns = ["contender", "IQM", "95% interval"]
    columns += [f"difference from {best}"] * (best is not None)
    columns += [f"with half of {scores.tried} settings"] * bool(scores.tried)
    note = (
        f"IQM: interquartile mean over {scores.seeds} held-out seeds"
        + (" of the setting that won the tuning" if scores.tried else "")
        + ". The intervals carry the luck of tuning and of seeds."
    )
    return page.Table(heading, columns, rows, note=note, highlight=[0])


def by_task(scores: Scores, heading: str, *, is_unseen: bool) -> page.Table:
    """Return the scores of contenders by task; the last row pools all tasks, scaled."""
    names, rows = names_of(scores), []
    is_pooled = len(scores.tasks) > 1 and bool(scores.pooled)
    for task in (*scores.tasks, *[None] * is_pooled):
        cells = [task or ("all" if scores.scale is None else "all, scaled")]
        for name in names:
            score = scores.iqm(name, task)
            cells.append(estimate(score.value, *score.interval))
        judged = verdict_of(scores, task, is_unseen=is_unseen)
        if isinstance(judged, str):
            cells.append(judged)
        else:
            difference = estimate(judged.difference, *judged.interval, sign=True)
            cells.append(f"{judged.word}: {difference} against {judged.baseline}")
        rows.append(cells)
    note = "Interquartile mean, with its 95% interval."
    if scores.scale is not None:
        note += " Scaled: 0 is the mean of random play, 1 of the tuned reference, on other seeds."
    if left_out := [task for task in scores.tasks if task not in scores.pooled]:
        note += (
            f" Left out of all: {', '.join(left_out)}, where the tuned reference is not better "
            "than random play."
        )
    last = [len(rows) - 1] if is_pooled else []
    return page.Table(heading, ["task", *names, "verdict"], rows, note=note, highlight=last)


def tuned_settings(scores: Scores, heading: str) -> layout.Folded | None:
    """Return the tuned settings of all contenders on each task, folded; None without tuning."""
    if not scores.tried:
        return None
    tables = [
        page.Table(
            task if len(scores.tasks) > 1 else "",
            ["contender", "tuned to"],
            [[name, row.winner] for name, row in figure.rows(scores, task).items()],
        )
        for task in scores.tasks
    ]
    return layout.Folded(heading, tables)


def _difference(scores: Scores, name: str, other: str) -> str:
    found = scores.difference(name, other)
    return estimate(found.value, *found.interval, sign=True)


def _expected(scores: Scores, name: str) -> float:
    """Return the expected score of a contender for half of the settings; of a group the mean."""
    return float(scores.expected(name).half)


def evolved_numbers(meta_params: MetaParams, most: int = FEW) -> dict[str, float]:
    """Return the numbers in a tree of arrays by name; none if there are more than `most`."""
    leaves = jax.tree_util.tree_leaves_with_path(meta_params)
    arrays = [(jax.tree_util.keystr(path, simple=True, separator="."), np.asarray(leaf))
              for path, leaf in leaves]  # fmt: skip
    real = all(np.issubdtype(each.dtype, np.number) for _, each in arrays)
    if not real or not 0 < sum(each.size for _, each in arrays) <= most:
        return {}
    return {
        name + (f"[{', '.join(map(str, index))}]" if index else ""): float(value)
        for name, array in arrays
        for index, value in np.ndenumerate(array)
    }
