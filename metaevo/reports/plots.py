"""The figures of a run, as PNG files.

They are drawn with matplotlib's object interface, never with pyplot, so that drawing touches no
global state, needs no display and can happen between two blocks of a run. The palette is by
Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can distinguish; learned
curves are always vermilion and thick. Figures are 9 inches wide at 200 dots an inch: shown at
900 pixels, their text has the size of a web page's. Narrow ones are for two side by side.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from metaevo.config import files
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.reports.numbers import counted
from metaevo.statistics import FloatArray, mean_curve

PathLike = str | os.PathLike[str]

BLUE, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
LEARNED = "#D55E00"  # vermilion, only for learned curves
_EARLY_TO_LATE = "#F7C9A9", "#F09A5E", LEARNED, "#933F00", "#4D2100"  # of learned curves
INK, GREY, LIGHT = "#222222", "#767676", "#DDDDDD"
# Baselines often coincide: narrow dashes over a broad solid line leave both visible.
_BASELINE_STYLES: list[tuple[str, Any]] = [
    (BLUE, "solid"),
    (PURPLE, (0, (3.5, 3))),
    (GREEN, (0, (7, 2, 1.2, 2))),
    (ORANGE, (0, (1.2, 1.2))),
    (SKY, (0, (7, 2))),
]

WIDTH, NARROW = 9.0, 6.5  # inches
DPI = 200


def plain_text(text: str) -> str:
    """Text from configs, drawn as it is: matplotlib would read a formula between dollar signs."""
    return text.replace("$", r"\$")


def new_figure(height: float, width: float = WIDTH, title: str = "") -> Figure:
    """Return an empty figure, in inches, with the layout of all plots."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.07)
    figure = Figure(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")
    if title:
        figure.suptitle(plain_text(title), fontsize=13, fontweight="bold", color=INK, wrap=True)
    return figure


def style_axes(axes: Axes, xlabel: str, ylabel: str, grid: Literal["both", "x"] = "both") -> Axes:
    """The one look of all axes: two spines, a light grid behind the data, labels."""
    axes.set_facecolor("white")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=grid, color=LIGHT, linewidth=0.6)
    axes.tick_params(colors=GREY, labelcolor=INK, labelsize=10)
    axes.set_xlabel(plain_text(xlabel), fontsize=11, color=INK)
    axes.set_ylabel(plain_text(ylabel), fontsize=11, color=INK)
    axes.margins(x=0.01)
    return axes


def new_panels(
    count: int, height: float, width: float = WIDTH, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels in at most two columns; `height` is that of a panel."""
    columns = min(2, count)
    rows = -(-count // columns)
    figure = new_figure(0.9 + height * rows, width)
    grid = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, list(grid[:count])


def add_legend(figure: Figure, *axes: Axes, letters: int = 13) -> None:
    """One legend below all axes, each label once, in as many columns as fit the width."""
    entries: PlainDict = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    # An inch holds about 13 letters (of digits fewer); sample and gap take the room of 7.
    columns = int(figure.get_figwidth() * letters) // (max(map(len, entries)) + 7)
    columns = max(1, min(len(entries), columns))
    figure.legend(
        list(entries.values()),
        [plain_text(label) for label in entries],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=10,
        labelcolor=INK,
        handlelength=2.6,
        borderaxespad=0.2,
    )


_COLLECTED: ContextVar[dict[str, Figure] | None] = ContextVar("collected", default=None)


@contextmanager
def collected() -> Iterator[dict[str, Figure]]:
    """Collect the figures that are drawn inside, by their file names, and write no files."""
    figures: dict[str, Figure] = {}
    token = _COLLECTED.set(figures)
    try:
        yield figures
    finally:
        _COLLECTED.reset(token)


def save_figure(figure: Figure, path: PathLike) -> Path:
    """Write the PNG atomically: a report or a viewer never sees half of a figure."""
    path = Path(path)
    if (figures := _COLLECTED.get()) is not None:
        figures[path.name] = figure
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as file:
        # Without the version of matplotlib in the file, equal figures are equal bytes.
        figure.savefig(file, format="png", metadata={"Software": None})
    return path


def is_learned(name: str) -> bool:
    """Whether a variant's name marks it as the learned one: "learned", "learned (tuned)"."""
    return name.partition(" ")[0] == "learned"


def line_styles(names: Iterable[str]) -> dict[str, PlainDict]:
    """Return the line style of each variant; the learned variant is thick and on top."""
    baselines = cycle(_BASELINE_STYLES)
    styles: dict[str, PlainDict] = {}
    names = list(names)
    times = [name for name in names if name.startswith("learned at ")]
    for name in names:
        if name in times:
            color = _EARLY_TO_LATE[times.index(name) * (len(_EARLY_TO_LATE) - 1) // len(times[1:])]
            styles[name] = {"color": color, "linestyle": "-", "linewidth": 2.2, "zorder": 4}
        elif is_learned(name):
            styles[name] = {"color": LEARNED, "linestyle": "-", "linewidth": 3.0, "zorder": 4}
        else:
            color, dash = next(baselines)
            broad = dash == "solid"
            width, order = (2.8, 2.8) if broad else (1.8, 3.0)
            styles[name] = {"color": color, "linestyle": dash, "linewidth": width, "zorder": order}
    return styles


def draw_curves(axes: Axes, curves: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> None:
    """Draw the curve (x, y) of each variant in its style."""
    styles = line_styles(curves)
    for name, (x, y) in curves.items():
        axes.plot(np.asarray(x), np.asarray(y), label=name, **styles[name])


def draw_line(axes: Axes, x: FloatArray, y: FloatArray, **style: Any) -> None:
    """Draw a line; a single known point, which would not show, gets a marker."""
    marker = "o" if np.isfinite(x + y).sum() == 1 else ""
    axes.plot(x, y, marker=marker, **style)


def draw_mean(axes: Axes, x: ArrayLike, curves: ArrayLike, name: str, **style: Any) -> None:
    """Draw the mean of curves [seeds, points] and its 95% bootstrap interval."""
    mean, low, high = mean_curve(curves)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
    draw_line(axes, np.asarray(x, dtype=np.float64), mean, label=name, **style)


def draw_cross(axes: Axes, x: float = 0.0) -> None:
    """Draw thin lines through (x, 0)."""
    axes.axvline(x, color=GREY, linewidth=0.8, zorder=1)
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=1)


def draw_baselines(axes: Axes, values: Mapping[str, float]) -> None:
    """Draw dashed horizontal lines."""
    for (name, value), (color, dash) in zip(
        values.items(), cycle(_BASELINE_STYLES[1:]), strict=False
    ):
        axes.axhline(value, color=color, linestyle=dash, linewidth=1.8, label=name)


def read_column(records: Sequence[PlainMapping], key: str) -> FloatArray:
    """A metric of all records [records]; NaN where it is missing, None or not finite."""
    values = (record.get(key) for record in records)
    column = np.array([np.nan if value is None else float(value) for value in values])
    return np.where(np.isfinite(column), column, np.nan)


def plot_fitness(
    records: Sequence[PlainMapping],
    path: PathLike,
    *,
    baseline: Mapping[str, float] | None = None,
) -> Path:
    """Draw the population's fitness over the generations; return the path.

    `baseline` gives dashed horizontal lines, such as the fitness of squared error.
    """
    generation, mean = read_column(records, "generation"), read_column(records, "fitness_mean")
    best = read_column(records, "fitness_best")
    of_mean, diverged = read_column(records, "fitness_of_mean"), read_column(records, "diverged")
    any_diverged = bool(np.nansum(diverged) > 0)

    figure = new_figure(5.6 if any_diverged else 5.0)
    upper = figure.subplots(
        1 + any_diverged, sharex=True, squeeze=False, height_ratios=[6, 1][: 1 + any_diverged]
    )[:, 0]
    axes = style_axes(upper[0], "" if any_diverged else "generation", "fitness")
    low, high = read_column(records, "fitness_low"), read_column(records, "fitness_high")
    label = "middle 80% of candidates"
    axes.fill_between(generation, low, high, color=SKY, alpha=0.3, linewidth=0, label=label)
    draw_line(axes, generation, mean, color=BLUE, linewidth=1.8, label="population mean")
    draw_line(axes, generation, best, color=GREY, linewidth=1.0, label="best candidate (noisy)")
    shown = np.isfinite(of_mean)
    if shown.any():
        axes.plot(
            generation[shown],
            of_mean[shown],
            color=LEARNED,
            linewidth=1.8,
            marker="o",
            markersize=5,
            markevery=max(1, int(shown.sum()) // 40),
            zorder=4,
            label="strategy's mean, validation seeds",
        )
    draw_baselines(axes, baseline or {})
    if any_diverged:
        lower = style_axes(upper[1], "generation", "diverged")
        lower.fill_between(generation, np.nan_to_num(diverged), step="mid", color=PURPLE)
        lower.yaxis.set_major_locator(MaxNLocator(2, integer=True))
        lower.set_ylim(bottom=0)
        figure.align_ylabels()
    upper[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    add_legend(figure, axes)
    return save_figure(figure, path)


class LossCurve(NamedTuple):
    """A loss on a grid of errors; all arrays are [points]."""

    error: ArrayLike  # prediction - target
    loss: ArrayLike
    derivative: ArrayLike  # with respect to the prediction


def plot_losses(
    curves: Mapping[str, LossCurve],
    path: PathLike,
    *,
    density: ArrayLike | None = None,
) -> Path:
    """Draw losses, and below them their derivatives, against the error; return the path.

    Every loss is shifted to a minimum of 0: a constant has no effect. A positive derivative lowers
    the prediction. Each loss is scaled to a maximum of 1 in the window, and its derivative by the
    same factor, so that shapes compare: the scale is a coefficient, which tuning chooses anyway.
    `density` are observed errors of any shape, which are shaded in the background.
    """
    figure = new_figure(6.2, NARROW)
    upper, lower = figure.subplots(2, sharex=True)
    style_axes(upper, "", "loss, drawn equally high")
    style_axes(lower, "error: prediction - target", "slope of the curve above")
    styles = line_styles(curves)
    window = [np.inf, -np.inf]
    for name, curve in curves.items():
        error, loss, derivative = (np.asarray(part, dtype=np.float64) for part in curve)
        loss = loss - np.nanmin(loss)
        scale = np.nanmax(loss) if np.nanmax(loss) > 0 else 1.0
        upper.plot(error, loss / scale, label=name, **styles[name])
        lower.plot(error, derivative / scale, label=name, **styles[name])
        window = [min(window[0], error.min()), max(window[1], error.max())]
    backgrounds = []
    for axes in (upper, lower):
        draw_cross(axes)
        axes.set_xlim(*window)
        if density is not None:
            backgrounds.append(_background_histogram(axes, np.ravel(density), window))
    figure.align_ylabels((upper, lower))
    add_legend(figure, upper, *backgrounds)
    return save_figure(figure, path)


def _background_histogram(axes: Axes, values: NDArray[Any], window: Sequence[float]) -> Axes:
    """Shade the histogram of values on a hidden axis; the label reports the share in view."""
    behind = axes.twinx()
    values = values[np.isfinite(values)]
    inside = values[(values >= window[0]) & (values <= window[1])]
    share = len(inside) / max(1, len(values))
    label = "observed errors" + ("" if share > 0.995 else f" ({share:.0%} in view)")
    heights, edges = np.histogram(inside, bins=48, range=(window[0], window[1]))
    behind.stairs(heights, edges, fill=True, color=LIGHT, alpha=0.75, label=label)
    behind.set_ylim(0, max(1, heights.max()) * 1.6)
    behind.axis("off")
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    return behind


def plot_learning_curves(
    curves: Mapping[str, ArrayLike],
    frames: ArrayLike,
    path: PathLike,
    *,
    ylabel: str = "return of finished episodes",
    complete_from: float | None = None,
) -> Path:
    """Draw the mean over seeds and its 95% bootstrap interval, unsmoothed; returns ``path``.

    Args:
        curves: [seeds, points] curves by name; NaN where a seed had no finished episode.
        frames: [points] environment steps, shared by all curves.
        path: output path of the PNG.
        ylabel: name of the quantity.
        complete_from: environment steps before which the longest episodes cannot have ended. The
            mean covers only short episodes there, so this part is shaded. None: no shading.
    """
    steps = np.asarray(frames, dtype=np.float64)
    figure = new_figure(5.0)
    axes = style_axes(figure.subplots(), "environment steps", ylabel)
    styles = line_styles(curves)
    for name, curve in curves.items():
        scores = np.asarray(curve, dtype=np.float64)
        label = f"{name} ({counted(len(scores), 'seed')})"
        draw_mean(axes, steps, scores, label, **styles[name])
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if complete_from is not None and steps[0] < complete_from:
        axes.axvspan(
            0,
            min(complete_from, steps[-1]),
            color=GREY,
            alpha=0.15,
            linewidth=0,
            label="the longest episodes cannot have ended yet",
        )
        axes.set_xlim(left=min(0.9 * steps[0], steps[0] - 0.01 * np.ptp(steps)))
    add_legend(figure, axes)
    return save_figure(figure, path)
