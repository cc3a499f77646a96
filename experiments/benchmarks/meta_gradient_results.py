"""Results of the benchmark of meta-gradients, as tables and a figure."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from experiments.benchmarks.tables import Table
from metaevo.reports import plots
from metaevo.reports.numbers import estimate


@dataclass(frozen=True)
class Estimate:
    """The quality of an estimate of the gradient."""

    window: int | None
    """updates; None: evolution's estimate"""
    noise: float
    """agents for which the mean is as long as its standard error"""
    cosine: float
    """cosine to the gradient through the whole training"""
    norm: float
    """median length of one agent's gradient"""
    clipped: float
    """share of the agents"""
    step: float
    """the best length in `STEPS`"""
    gain: float
    """gain in fitness of that step"""
    error: float
    """1.96 standard errors of the gain"""


@dataclass(frozen=True)
class Evolved:
    """Evolutions with one strategy."""

    scores: list[float]
    """[seeds] scores of the means on fresh agents"""
    trained: float
    """number of agents in an evolution"""


def table_of_estimates(found: dict[str, list[Estimate]]) -> Table:
    """Print the estimates of each component."""
    columns = "window", "agents until signal = noise", "cosine to the whole", "median norm"
    table = Table("component", *columns, "clipped", "a step gains [95%]", "its length")
    for name, each in found.items():
        for row in each:
            evolution = row.window is None
            gain = row.gain, row.gain - row.error, row.gain + row.error
            table.row(
                name.replace("_", " "),
                "evolution" if row.window is None else row.window,
                f"{row.noise:,.0f}" if np.isfinite(row.noise) else "more than measured",
                "" if evolution else f"{row.cosine:.2f}",
                f"{row.norm:.2g}",
                "" if evolution else f"{row.clipped:.0%}",
                estimate(*gain, sign=True),
                f"{row.step:g}",
            )
    return table


def add_scores(table: Table, name: str, starts: list[float], found: dict[str, Evolved]) -> None:
    """Print the scores of each strategy, and the differences from the first strategy."""
    first, *others = found.values()
    cells = [f"{np.mean(starts):.1f}"]
    for each in found.values():
        several = ", ".join(f"{score:.0f}" for score in each.scores)
        cells.append(f"{np.mean(each.scores):.1f}: {several} ({each.trained:,.0f})")
    for other in others:
        cells.append(_difference(np.subtract(other.scores, first.scores)))
    table.row(name, *cells)


def _difference(differences: np.ndarray) -> str:
    """Return the mean with Student's t interval, because there are few seeds."""
    middle = float(differences.mean())
    if len(differences) < 2:
        return f"{middle:+.1f}"
    ends = stats.t.interval(0.95, len(differences) - 1, middle, stats.sem(differences))
    return estimate(middle, *map(float, ends), sign=True)


def draw(found: dict[str, list[Estimate]], path: Path) -> None:
    """Draw the noise, the truncation's bias and the gain of a step over the window."""
    figure = plots.new_figure(4.2)
    panels = figure.subplots(1, 3)
    columns = {
        "noise": "agents until signal = noise",
        "cosine": "cosine to the whole training",
        "gain": "gain of a step",
    }
    colors = plots.BLUE, plots.LEARNED, plots.GREEN
    for axes, (key, label) in zip(panels, columns.items(), strict=True):
        plots.style_axes(axes, "window (updates)", label).set_xscale("log", base=2)
        for (name, (*rows, evolution)), color in zip(found.items(), colors, strict=False):
            name = name.replace("_", " ")
            windows = [row.window for row in rows]
            values = np.array([getattr(row, key) for row in rows])
            values[~np.isfinite(values)] = np.nan
            errors = [row.error if key == "gain" else 0.0 for row in rows]
            axes.errorbar(windows, values, yerr=errors, fmt="o-", color=color, label=name)
            if np.isfinite(level := getattr(evolution, key)):
                dashes = (0, (3, 3))
                axes.axhline(level, color=color, linestyle=dashes, label=f"{name}, evolution")
            axes.set_xticks(windows, [str(window) for window in windows])
        axes.minorticks_off()
    panels[0].set_yscale("log")
    panels[2].axhline(0, color=plots.GREY, linewidth=0.8)
    plots.add_legend(figure, *panels)
    plots.save_figure(figure, path)
