"""The figure of scores: every variant's, and how far each is from the strongest baseline."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.reports import plots
from metaevo.reports.numbers import estimate
from metaevo.statistics import Estimate

_DOT: PlainDict = {"markersize": 9, "markeredgewidth": 2}
"""Size of the dots, also in the legend."""
REACH = 2.0
"""Differences further out than so many times the learned one's reach are named, not drawn."""


def plot_scores(
    rows: Sequence[PlainMapping],
    path: plots.PathLike,
    *,
    xlabel: str,
    learned: str,
    pairs: Mapping[str, PlainMapping],
    reference: str,
) -> Path:
    """Draw a dot and an interval for each variant, the first row on top; returns `path`.

    A second panel below shows the differences from a reference variant around a zero line. A weak
    variant does not stretch its axis: an arrow points to its position.

    Args:
        rows: each variant's name, iqm, interval and tuning_frames (0: its dot is hollow), as in
            evaluation.json.
        path: path of the PNG.
        xlabel: name of the score.
        learned: the variant with the shaded interval.
        pairs: difference and difference_interval by variant name, also of the learned one.
        reference: the variant that the differences are measured from.
    """
    differences = {
        name: Estimate(pair["difference"], pair["difference_interval"])
        for name, pair in pairs.items()
    }
    below = [row for row in rows if row["name"] in differences]
    heights = [len(rows), len(below)]
    figure = plots.new_figure(2.6 + 0.42 * sum(heights), plots.NARROW)
    upper, lower = figure.subplots(2, height_ratios=heights)
    scores = [Estimate(row["iqm"], row["interval"]) for row in rows]
    _rows(upper, rows, learned, scores, estimate)
    plots.style_axes(upper, xlabel, "", grid="x").margins(x=0.05)
    found = [differences[row["name"]] for row in below]
    window = _window(found, differences[learned])
    lower.axvline(0, color=plots.INK, linewidth=1.2, zorder=2)
    _rows(lower, below, learned, found, partial(estimate, sign=True), window)
    plots.style_axes(lower, f"difference from {reference}", "", grid="x").set_xlim(*window)
    _explain(upper, rows, learned)
    plots.add_legend(figure, upper)
    return plots.save_figure(figure, path)


def _window(found: Sequence[Estimate], judged: Estimate) -> tuple[float, float]:
    """Return limits that show zero, the learned interval and others about as near."""
    spans = [max(abs(end) for end in (value, *interval)) for value, interval in found]
    reach = max(abs(end) for end in judged.interval)
    near = [each for each, span in zip(found, spans, strict=True) if span <= REACH * reach]
    ends = [end for _, interval in [*near, judged] for end in interval]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin


def _rows(
    axes: Axes,
    rows: Sequence[PlainMapping],
    learned: str,
    values: Sequence[Estimate],
    written: Callable[..., str],
    window: tuple[float, float] = (-np.inf, np.inf),
) -> None:
    """Draw a dot and an interval per row, with their numbers."""
    for at, (row, (middle, (low, high))) in enumerate(zip(rows, values, strict=True)):
        color = plots.LEARNED if plots.is_learned(row["name"]) else plots.BLUE
        if row["name"] == learned:
            axes.axvspan(low, high, color=plots.LEARNED, alpha=0.12, linewidth=0, zorder=0)
        if not window[0] <= middle <= window[1]:
            edge, arrow = (0.02, "<") if middle < window[0] else (0.98, ">")
            axes.plot(edge, at, arrow, color=color, markersize=9, clip_on=False,
                      transform=axes.get_yaxis_transform())  # fmt: skip
        else:
            axes.plot([low, high], [at, at], color=color, linewidth=3, solid_capstyle="round")
            face = color if row["tuning_frames"] else "white"
            axes.plot(middle, at, "o", color=color, markerfacecolor=face, **_DOT)
        text = written(middle, low, high)
        place = axes.get_yaxis_transform()
        axes.text(1.03, at, text, va="center", fontsize=9.5, color=plots.INK, transform=place)
    names = [plots.plain_text(row["name"]).replace(" (", "\n(") for row in rows]
    axes.set_yticks(np.arange(len(rows)), names)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row["name"] == learned else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _explain(axes: Axes, rows: Sequence[PlainMapping], learned: str) -> None:
    """Add legend entries for the marks that occur."""
    for tuned, label in ((True, "tuned"), (False, "not tuned")):
        if any(bool(row["tuning_frames"]) == tuned for row in rows):
            face, label = plots.GREY if tuned else "white", f"{label}: IQM and 95% interval"
            axes.plot([], [], "o-", color=plots.GREY, linewidth=3, markerfacecolor=face,
                      label=label, **_DOT)  # fmt: skip
    if any(row["name"] == learned for row in rows):
        name = f"interval of {learned}"
        axes.plot([], [], color=plots.LEARNED, alpha=0.2, linewidth=9, label=name)
