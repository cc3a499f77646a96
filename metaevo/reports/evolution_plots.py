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
) -> Path:
    """Draw the fitness of every evolution over the generations; return the path.

    Shows the fitness on the validation seeds if available, otherwise the population's mean. The
    `chosen` evolution is thick, and `baseline` gives dashed lines, such as that of squared error.
    """
    figure = plots.new_figure(5.0)
    axes = plots.style_axes(figure.subplots(), "generation", "fitness")
    for name, records in evolutions.items():
        generation = plots.read_column(records, "generation")
        values = plots.read_column(records, "fitness_of_mean")
        if not np.isfinite(values).any():
            values = plots.read_column(records, "fitness_mean")
        known = np.isfinite(values)
        is_chosen = name == chosen
        plots.draw_line(
            axes,
            generation[known],
            values[known],
            color=plots.LEARNED if is_chosen else plots.SKY,
            linewidth=3.0 if is_chosen else 1.6,
            zorder=4 if is_chosen else 3,
            alpha=1.0 if is_chosen else 0.9,
            label=f"{name}, the best on validation seeds" if is_chosen else "the other evolutions",
        )
    plots.draw_baselines(axes, baseline or {})
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    plots.add_legend(figure, axes)
    return plots.save_figure(figure, path)


def plot_metrics(
    records: Sequence[PlainMapping], names: Sequence[str], path: plots.PathLike
) -> Path:
    """Draw a problem's own metrics, means over the candidates, in a panel each; return the path."""
    figure = plots.new_figure(2.2 * len(names) + 0.8)
    generation = plots.read_column(records, "generation")
    panels = figure.subplots(len(names), sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        last = name == names[-1]
        plots.style_axes(axes, "generation" if last else "", name)
        plots.draw_line(axes, generation, plots.read_column(records, name), color=plots.SKY)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return plots.save_figure(figure, path)


def plot_numbers(numbers: Mapping[str, float], path: plots.PathLike) -> Path:
    """Draw evolved numbers as bars, with at most `MOST_LABELS` names; return the path."""
    figure = plots.new_figure(4.5)
    axes = plots.style_axes(figure.subplots(), "", "value")
    places = np.arange(len(numbers))
    axes.bar(places, list(numbers.values()), color=plots.LEARNED, width=0.7)
    axes.axhline(0, color=plots.GREY, linewidth=0.8)
    step = -(-len(numbers) // MOST_LABELS)
    names = [plots.plain_text(name) for name in numbers][::step]
    tilt = 0 if sum(map(len, names)) < 80 else 40
    side = "right" if tilt else "center"
    axes.set_xticks(places[::step], names, rotation=tilt, ha=side, rotation_mode="anchor")
    axes.set_xlim(-0.7, len(numbers) - 0.3)
    return plots.save_figure(figure, path)
