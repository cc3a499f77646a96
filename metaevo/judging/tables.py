"""Tables, verdicts and figures of a judgement, for a report and for the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from metaevo.judging.verdicts import Verdict
from metaevo.reports import plots
from metaevo.reports.page import Table, Text, counted, estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from metaevo.judging.scores import Scores

NOT_WORSE = 0.1
"""On unseen tasks a rule is not worse if it loses less than this, on the scale from 0 (random play)
to 1 (the tuned reference)."""


def margin_of(scores: "Scores", *, is_unseen: bool) -> float:
    """Return the loss below which a contender is not worse; scores without a scale have none."""
    return NOT_WORSE if is_unseen and scores.scale is not None else 0.0


def verdict_of(
    scores: "Scores", task: str | None = None, *, is_unseen: bool = False
) -> Verdict | str:
    """Return the verdict on a task or over all, or the reason why there is none."""
    margin = 0.0 if task else margin_of(scores, is_unseen=is_unseen)
    try:
        return scores.verdict(task=task, margin=margin)
    except ValueError as error:
        return f"No verdict: {error}."


def verdict(scores: "Scores", *, is_unseen: bool = False) -> Text:
    """Return the verdict over all tasks as a coloured box, without the numbers of the tables."""
    found, count = verdict_of(scores, is_unseen=is_unseen), len(scores.pooled)
    if isinstance(found, str):
        return Text("", [found], "undecided")
    on = "" if len(scores.tasks) == 1 else f" on {count} tasks of the evolution"
    on = f" on {counted(count, 'unseen task')}" if is_unseen else on
    box = found.word if found.word in ("better", "worse") else "undecided"
    return Text(f"Verdict{on}", [str(found)], box)


def names_of(scores: "Scores") -> list[str]:
    """Return the discoveries, of which each may be several evolutions, and then the baselines."""
    alone = {group: name for name, group in zip(scores.contenders, scores.groups, strict=True)
             if scores.groups.count(group) == 1}  # fmt: skip
    return [*(alone.get(group, group) for group in scores.discoveries), *scores.baselines]


def contenders(
    scores: "Scores", task: str | None = None, heading: str = "Held-out comparison"
) -> Table:
    """Return a table of all contenders on one task, or over all tasks.

    Several evolutions of a discovery have one row. The tuned settings are shown of one task.
    """
    names = names_of(scores)
    found = verdict_of(scores, task)
    best = None if isinstance(found, str) else found.baseline
    is_tuned = bool(scores.tried) and (task is not None or len(scores.tasks) == 1)
    columns, rows = ["contender", "IQM", "95% interval"], []
    columns += [f"difference from {best}"] * (best is not None)
    columns += [f"with half of {scores.tried} settings"] * (scores.tried > 1)
    columns += ["tuned to"] * is_tuned
    for name in names:
        cells: list[object] = [name, *scores.iqm(name, task)]
        if best is not None:
            change = scores.difference(name, best, task)
            shown = estimate(change, sign=True)
            cells.append("" if name == best else shown)
        if scores.tried > 1:
            cells.append(float(scores.expected(name, task).half))
        if is_tuned:
            cells.append(setting_of(scores, name, task) if name in scores.contenders else "")
        rows.append(cells)
    note = (
        f"IQM: interquartile mean over {scores.seeds} held-out seeds"
        + (" of the setting that won the tuning" if scores.tried else "")
        + ". The intervals carry the luck of tuning and of seeds."
    )
    if not isinstance(found, str):
        numbers = estimate((found.difference, found.interval), sign=True)
        note += f" The verdict's, {numbers}, holds against every baseline."
    return Table(heading, columns, rows, note=note, highlight=[0])


def by_task(scores: "Scores", heading: str, *, is_unseen: bool) -> Table:
    """Return the scores of contenders by task; the last row pools all tasks, scaled."""
    names, rows = names_of(scores), []
    is_pooled = len(scores.tasks) > 1 and bool(scores.pooled)
    for task in (*scores.tasks, *[None] * is_pooled):
        where = task or ("all" if scores.scale is None else "all, scaled")
        cells = [where, *(estimate(scores.iqm(name, task)) for name in names)]
        judged = verdict_of(scores, task, is_unseen=is_unseen)
        if isinstance(judged, str):
            cells.append(judged)
        else:
            difference = estimate((judged.difference, judged.interval), sign=True)
            cells.append(f"{judged.label}: {difference} against {judged.baseline}")
        rows.append(cells)
    note = "Interquartile mean, with its 95% interval."
    if is_pooled and scores.scale is not None:
        note += " Scaled: 0 is the mean of random play, 1 of the tuned reference, on other seeds."
    if left_out := [task for task in scores.tasks if task not in scores.pooled]:
        note += (
            f" Left out of all: {', '.join(left_out)}, where the tuned reference is not better "
            "than random play."
        )
    last = [len(rows) - 1] if is_pooled else []
    return Table(heading, ["task", *names, "verdict"], rows, note=note, highlight=last)


def tuned_settings(scores: "Scores", heading: str) -> list[Table]:
    """Return the tuned settings of all contenders on each task, folded; none without tuning."""
    rows = [
        [task, name, setting_of(scores, name, task)]
        for task in scores.tasks
        for name in scores.contenders
    ]
    table = Table(heading, ["task", "contender", "tuned to"], rows, folded=True)
    return [table] if scores.tried else []


def setting_of(scores: "Scores", name: str, task: str | None) -> str:
    """Return the setting that a contender would use on a task, as text."""
    setting = scores.winner(name, task)
    if not setting or scores.settings is None:
        return f"setting {setting}" if setting else "untuned"
    values = scores.setting(scores.contenders.index(name), setting)
    return ", ".join(f"{key} {value:.3g}" for key, value in values.items())


def plot_scores(scores: "Scores", path: Path, task: str | None) -> Path:
    """Draw the scores on a task, or on all, with intervals, and those for fewer settings."""
    names, label = scores.contenders, "score"
    if scores.scale is not None and task is None:
        label = "scaled score"
    heights = [0.9 + 0.35 * len(names), *[2.8] * bool(scores.tried)]
    figure = plots.new_figure(sum(heights))
    above, *below = figure.subplots(len(heights), height_ratios=heights, squeeze=False)[:, 0]
    estimates = {name: scores.iqm(name, task) for name in names}
    plots.draw_intervals(above, estimates, label)
    for at, found in enumerate(estimates.values()):
        look: Any = {"va": "center", "fontsize": 9.5, "transform": above.get_yaxis_transform()}
        above.text(1.03, at, estimate(found), color=plots.INK, **look)
    for axes in below:
        curves = {}
        for name in names:
            settings, expected = scores.expected(name, task)
            start = min(1, len(settings) - 1)  # the untuned setting may be far below
            curves[name] = settings[start:], expected[start:]
        of = f"expected {label}" + ", mean over tasks" * (task is None and len(scores.tasks) > 1)
        panel = plots.Panel(curves, "settings tried", of)
        plots.draw_panel(axes, panel, plots.line_styles(names))
    plots.add_legend(figure)
    return plots.save_figure(figure, path)


def draw_curves(scores: "Scores") -> "Figure":
    """Draw the learning curves of the winners: mean returns against environment steps, by task."""
    assert scores.curves is not None
    assert scores.steps is not None
    panels = []
    for place, (task, steps) in enumerate(zip(scores.tasks, scores.steps, strict=True)):
        curves = {
            name: (steps, scores.curves[member, place, scores.winners[member, place]])
            for member, name in enumerate(scores.contenders)
        }
        panels.append(plots.Panel(curves, "environment steps", "mean return", task))
    return plots.draw_panels(panels, columns=2, height=3.6)
