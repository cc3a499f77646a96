"""Figures of an evolution: several seeds, evolved numbers, and the metrics of a problem."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator

from metaevo.config.plain import PlainMapping
from metaevo.reports import plots

MOST_LABELS = 16
"""Names below bars, at most."""


def plot_evolutions(
    evolutions: Mapping[str, Sequence[PlainMapping]],
    path: plots.PathLike,
    *,
    chosen: str,
    baseline: Mapping[str, float] | None = None,
    ylabel: str = "fitness",
) -> Path:
    """Draw the fitness of every evolution over the generations; returns `path`.

    Shows the fitness on the validation seeds if available, otherwise the population's mean.

    Args:
        evolutions: records of the generations by name of the evolution.
        path: output path of the PNG.
        chosen: name of the evolution to draw with a thick line.
        baseline: dashed horizontal lines, such as the fitness of squared error.
        ylabel: name of the fitness.

    Raises:
        ValueError: no record of a generation.
    """
    if not any(evolutions.values()):
        raise ValueError("no generation to plot")
    figure = plots._figure(5.0)
    axes = plots._style(figure.subplots(), "generation", ylabel)
    for name, records in evolutions.items():
        generation, key = plots._column(records, "generation"), "fitness_of_mean"
        values = plots._column(records, key)
        if not np.isfinite(values).any():
            values = plots._column(records, "fitness_mean")
        known = np.isfinite(values)
        is_chosen = name == chosen
        axes.plot(
            generation[known],
            values[known],
            color=plots.LEARNED if is_chosen else plots.SKY,
            linewidth=3.0 if is_chosen else 1.6,
            marker=plots._visible(generation[known], values[known]),
            zorder=4 if is_chosen else 3,
            alpha=1.0 if is_chosen else 0.9,
            label=f"{name}, the best on validation seeds" if is_chosen else "the other evolutions",
        )
    plots._baselines(axes, baseline or {})
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    plots._legend(figure, axes)
    return plots._save(figure, path)


def plot_metrics(
    records: Sequence[PlainMapping], names: Sequence[str], path: plots.PathLike
) -> Path:
    """Draw a problem's own metrics over the generations, a panel for each; returns `path`.

    Args:
        records: records of the generations; each metric is a mean over the candidates.
        names: names of the metrics, at least one.
        path: output path of the PNG.
    """
    figure = plots._figure(2.2 * len(names) + 0.8)
    generation = plots._column(records, "generation")
    panels = figure.subplots(len(names), sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        last = name == names[-1]
        plots._style(axes, "generation" if last else "", name)
        values = plots._column(records, name)
        axes.plot(generation, values, color=plots.SKY, marker=plots._visible(generation, values))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return plots._save(figure, path)


def plot_numbers(numbers: Mapping[str, float], path: plots.PathLike) -> Path:
    """Draw evolved numbers as bars; returns `path`.

    Args:
        numbers: numbers by name, at least one; with many numbers, some labels are left out.
        path: output path of the PNG.
    """
    figure = plots._figure(4.5)
    axes = plots._style(figure.subplots(), "", "value")
    places = np.arange(len(numbers))
    axes.bar(places, list(numbers.values()), color=plots.LEARNED, width=0.7)
    axes.axhline(0, color=plots.GREY, linewidth=0.8)
    step = -(-len(numbers) // MOST_LABELS)
    names = [plots._plain(name) for name in numbers][::step]
    tilt = 0 if sum(map(len, names)) < 80 else 40
    side = "right" if tilt else "center"
    axes.set_xticks(places[::step], names, rotation=tilt, ha=side, rotation_mode="anchor")
    axes.set_xlim(-0.7, len(numbers) - 0.3)
    return plots._save(figure, path)
