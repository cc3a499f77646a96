"""The tables and the figure of `experiments.benchmarks.meta_gradients`."""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.comparison import Table
from metaevo.reports import plots


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw noise, the truncation's bias and what a step gains over the window."""
    figure = plots._figure(4.2)
    panels = figure.subplots(1, 3)
    words = "agents until signal = noise", "cosine to the whole training", "gain of a step"
    for axes, ylabel in zip(panels, words, strict=True):
        plots._style(axes, "window (updates)", ylabel)
        axes.set_xscale("log", base=2)
    panels[0].set_yscale("log")
    colors = plots.BLUE, plots.LEARNED, plots.GREEN
    ticks: set[int] = set()
    for (name, each), color in zip(found.items(), colors, strict=False):
        rows = [row for row in each["rows"] if row["window"] is not None]
        evolution = each["rows"][-1]
        windows = [row["window"] for row in rows]
        ticks |= set(windows)
        for axes, key in zip(panels, ("noise", "cosine", "gain"), strict=True):
            values = [row[key] if np.isfinite(row[key]) else np.nan for row in rows]
            axes.plot(windows, values, "o-", color=color, label=name.replace("_", " "))
        for row in rows:
            panels[2].plot([row["window"]] * 2, row["interval"], color=color, alpha=0.4)
        for axes, key in ((panels[0], "noise"), (panels[2], "gain")):
            if np.isfinite(evolution[key]):
                label = f"{name.replace('_', ' ')}, evolution"
                axes.axhline(evolution[key], color=color, linestyle=(0, (3, 3)), label=label)
    panels[2].axhline(0, color=plots.GREY, linewidth=0.8)
    for axes in panels:
        axes.set_xticks(sorted(ticks), [str(each) for each in sorted(ticks)])
        axes.minorticks_off()
    plots._legend(figure, *panels)
    plots._save(figure, path)


def table_of_estimates(found: dict[str, dict[str, Any]]) -> Table:
    """Print and return what the figure shows, with intervals."""
    columns = "window", "agents until signal = noise", "cosine to the whole", "median norm"
    table = Table("component", *columns, "clipped", "a step gains [95%]", "its length")
    for name, each in found.items():
        for row in each["rows"]:
            low, high = row["interval"]
            evolution = row["window"] is None
            table.row(
                name.replace("_", " "),
                "evolution" if evolution else row["window"],
                f"{row['noise']:,.0f}" if np.isfinite(row["noise"]) else "more than measured",
                "" if evolution else f"{row['cosine']:.2f}",
                f"{row['norm']:.2g}",
                "" if evolution else f"{row['clipped']:.0%}",
                f"{row['gain']:+.1f} [{low:+.1f}, {high:+.1f}]",
                f"{row['step']:g}",
            )
    return table


def table_of_scores(found: dict[str, dict[str, Any]]) -> Table:
    """Print and return what the strategies made of equal compute."""
    strategies = [name for name in next(iter(found.values())) if name != "start"]
    columns = ["start", *(f"{name} (trainings)" for name in strategies)]
    first, *others = strategies
    differences = [f"{name}, from {first} [95% over seeds]" for name in others]
    table = Table("component, steps", *columns, *differences)
    for name, each in found.items():
        cells = [f"{np.mean(each['start']['scores']):.1f}"]
        for strategy in strategies:
            scores = each[strategy]["scores"]
            several = ", ".join(f"{score:.0f}" for score in scores)
            cells.append(f"{np.mean(scores):.1f}: {several} ({each[strategy]['trained']:,.0f})")
        for other in others:
            gains = np.subtract(each[other]["scores"], each[first]["scores"])
            cells.append(_difference(gains))
        table.row(name.replace("_", " "), *cells)
    return table


def _difference(differences: np.ndarray) -> str:
    """Student's interval: there are few seeds."""
    if len(differences) < 2:
        return f"{float(differences.mean()):+.1f}"
    from scipy import stats

    low, high = stats.t.interval(
        0.95, len(differences) - 1, differences.mean(), stats.sem(differences)
    )
    return f"{float(differences.mean()):+.1f} [{low:+.1f}, {high:+.1f}]"
