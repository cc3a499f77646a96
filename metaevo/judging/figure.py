"""The table and the figure of a judgement."""

from pathlib import Path

from metaevo.judging.scores import Scores
from metaevo.reports.numbers import estimate, number


def table(scores: Scores, task: str | None = None) -> str:
    """Return a Markdown table: contender, score, score after half of the settings, winner."""
    place = scores.tasks.index(task) if task else 0
    names, tuned = scores.contenders, scores.tried > 0
    single = task is not None or len(scores.tasks) == 1
    head = ["contender", "score [95%]"]
    head += [f"after {scores.tried // 2} settings"] * tuned + ["winner"] * (single and tuned)
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for index, name in enumerate(names):
        value, interval = scores.iqm(name, task)
        row = [name, estimate(value, *interval)]
        if tuned:
            row.append(number(float(scores.expected(name, task).half)))
        if tuned and single:
            winner = scores.winner(name, scores.tasks[place])
            row.append(_setting(scores, index, winner))
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _setting(scores: Scores, contender: int, setting: int) -> str:
    if not setting or scores.settings is None:
        return "untuned" if not setting else str(setting)
    values = scores.settings[contender, setting]
    pairs = zip(scores.hyperparams, values, strict=True)
    return ", ".join(f"{name} {value:.3g}" for name, value in pairs if value == value)


def plot(scores: Scores, path: Path, task: str | None = None) -> Path:
    """Draw a curve of expected scores for each contender, with the interval at its end."""
    from metaevo.reports import plots  # imports matplotlib

    figure = plots.new_figure(3.6, plots.NARROW)
    axes = figure.subplots()
    for index, name in enumerate(scores.contenders):
        curve = scores.expected(name, task)
        value, (low, high) = scores.iqm(name, task)
        (line,) = axes.plot(curve.settings, curve.scores, marker="o", markersize=3, label=name)
        end = curve.settings[-1] * (1 + 0.04 * index)  # intervals side by side
        axes.errorbar(end, value, [[value - low], [high - value]], color=line.get_color())
    axes.set_xscale("symlog", linthresh=1)
    plots.style_axes(axes, "settings tried", "score")
    axes.legend()
    return plots.save_figure(figure, path)
