"""The figures of a run, as PNG files.

They are drawn with matplotlib's object interface, which needs no display and has no global
state. The palette is by Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers
can distinguish; learned curves are always vermilion and thick.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.config import PlainDict, PlainMapping, files
from metaevo.reports.page import counted
from metaevo.statistics import FloatArray

if TYPE_CHECKING:  # a command that draws nothing does not import it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
WIDTH = 6.5  # inches: half of a report
DPI = 200


class Panel(NamedTuple):
    """Curves in one coordinate system."""

    curves: Mapping[str, tuple[ArrayLike, ArrayLike]]
    """x [points] and y [points] by name; y [seeds, points] is drawn as its mean and interval"""
    xlabel: str = ""
    ylabel: str = ""
    title: str = ""
    cross: float | None = None
    """thin lines through (cross, 0)"""
    behind: ArrayLike | None = None
    """values whose histogram is shaded"""


def plot_panels(
    panels: Sequence[Panel], path: PathLike, *, columns: int = 1, height: float = 2.6, **shared: Any
) -> Path:
    """Draw panels row by row, with one legend; return the path.

    Args:
        panels: curves with equal names have equal styles.
        path: output path of the PNG.
        columns: panels side by side.
        height: of a panel, in inches.
        shared: `sharex` and `sharey`, as for `Figure.subplots`.
    """
    rows = -(-len(panels) // columns)
    figure = new_figure(0.9 + height * rows)
    grid = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    styles = line_styles(dict.fromkeys(name for panel in panels for name in panel.curves))
    shown = list(grid[: len(panels)])
    for axes, panel in zip(grid, panels, strict=False):
        shown += _draw_panel(axes, panel, styles)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.align_ylabels()
    add_legend(figure, *shown)
    return save_figure(figure, path)


def _draw_panel(axes: "Axes", panel: Panel, styles: Mapping[str, PlainDict]) -> "list[Axes]":
    """Draw a panel; return the axes behind it, if any."""
    style_axes(axes, panel.xlabel, panel.ylabel)
    axes.set_title(plain_text(panel.title), fontsize=11, color=INK)
    ends: list[float] = []
    for name, (x, y) in panel.curves.items():
        steps, values = np.asarray(x), np.asarray(y, np.float64)
        label = name
        if values.ndim == 2:
            label = f"{name} ({counted(len(values), 'seed')})"
            from metaevo import statistics  # of several agents' curves only

            values, low, high = statistics.mean_curve(values)
            color = styles[name]["color"]
            axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)
        draw_line(axes, steps, values, label=label, **styles[name])
        ends += [float(np.nanmin(steps)), float(np.nanmax(steps))]
        if np.issubdtype(steps.dtype, np.integer):
            axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    if max(ends, default=0) >= 1e4:
        from matplotlib.ticker import EngFormatter

        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.cross is not None:
        axes.axvline(panel.cross, color=GREY, linewidth=0.8, zorder=1)
        axes.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    if panel.behind is None:
        return []
    return [_histogram_behind(axes, np.ravel(np.asarray(panel.behind)), (min(ends), max(ends)))]


def _histogram_behind(axes: "Axes", values: FloatArray, window: tuple[float, float]) -> "Axes":
    """Shade the histogram of values on a hidden axis; the label reports the share in view."""
    behind = axes.twinx()
    share = np.mean((values >= window[0]) & (values <= window[1]))
    label = "observed" + ("" if share > 0.995 else f" ({share:.0%} in view)")
    heights, edges = np.histogram(values, bins=48, range=window)
    behind.stairs(heights, edges, fill=True, color=LIGHT, alpha=0.75, label=label)
    behind.set_ylim(0, max(1, heights.max()) * 1.6)
    behind.axis("off")
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    return behind


def plot_fitness(
    evolutions: Mapping[str, Sequence[PlainMapping]],
    path: PathLike,
    *,
    chosen: str = "",
    baseline: Mapping[str, float] | None = None,
) -> Path:
    """Draw the fitness over the generations; return the path.

    Shows the candidates of the chosen evolution and what was found on validation seeds; of other
    evolutions only the latter or, without validation, the population's mean.

    Args:
        evolutions: records of the generations by name.
        path: output path of the PNG.
        chosen: one of the names.
        baseline: dashed horizontal lines, such as the fitness of squared error.
    """
    figure = new_figure(4.5)
    axes = style_axes(figure.subplots(), "generation", "fitness")
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    for name, records in evolutions.items():
        keys = "generation", "fitness_low", "fitness_high", "fitness_mean", "fitness_best"
        generation, low, high, mean, best = (read_column(records, key) for key in keys)
        found = read_column(records, "fitness_of_mean")
        if name != chosen:
            shown = found if np.isfinite(found).any() else mean
            draw_line(axes, generation, shown, color=SKY, linewidth=1.6, label="other evolutions")
            continue
        shade: PlainDict = {"color": SKY, "alpha": 0.3, "linewidth": 0, "label": "middle 80%"}
        axes.fill_between(generation, low, high, **shade)
        draw_line(axes, generation, mean, color=BLUE, linewidth=1.8, label="mean of candidates")
        draw_line(axes, generation, best, color=GREY, linewidth=1.0, label="best candidate (noisy)")
        label = f"{name or 'found'} (validation)"
        draw_line(axes, generation, found, color=LEARNED, linewidth=2.4, zorder=4, label=label)
    dashes = cycle(_BASELINE_STYLES[1:])
    for (name, value), (color, dash) in zip((baseline or {}).items(), dashes, strict=False):
        axes.axhline(value, color=color, linestyle=dash, linewidth=1.8, label=name)
    add_legend(figure, axes)
    return save_figure(figure, path)


# --- What all figures share ---------------------------------------------------------------------


def plain_text(text: str) -> str:
    """Text from configs, drawn as it is: matplotlib would read a formula between dollar signs."""
    known = (each if each.isprintable() or each == "\n" else "?" for each in text)
    return "".join(known).replace("$", r"\$")


def new_figure(height: float, width: float = WIDTH) -> "Figure":
    """Return an empty figure, in inches, with the layout of all plots."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.07)
    return Figure(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")


def style_axes(
    axes: "Axes", xlabel: str, ylabel: str, grid: Literal["both", "x"] = "both"
) -> "Axes":
    """The one look of all axes: two spines, a light grid behind the data, labels."""
    axes.set_facecolor("white")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=grid, color=LIGHT, linewidth=0.6)
    axes.tick_params(colors=GREY, labelcolor=INK, labelsize=10)
    axes.set_xlabel(plain_text(xlabel), fontsize=11, color=INK)
    axes.set_ylabel(plain_text(ylabel), fontsize=11, color=INK)
    axes.margins(x=0.02)
    return axes


def add_legend(figure: "Figure", *axes: "Axes") -> None:
    """One legend below all axes, each label once, in as many columns as fit the width."""
    entries: PlainDict = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    # An inch holds about 13 letters (of digits fewer); sample and gap take the room of 7.
    columns = int(figure.get_figwidth() * 13) // (max(map(len, entries)) + 7)
    figure.legend(
        list(entries.values()),
        [plain_text(label) for label in entries],
        loc="outside lower center",
        ncols=max(1, min(len(entries), columns)),
        frameon=False,
        fontsize=10,
        labelcolor=INK,
        handlelength=2.6,
        borderaxespad=0.2,
    )


_COLLECTED: "ContextVar[dict[str, Figure] | None]" = ContextVar("collected", default=None)


@contextmanager
def collected() -> "Iterator[dict[str, Figure]]":
    """Collect the figures that are drawn inside, by their file names, and write no files."""
    figures: dict[str, Figure] = {}
    token = _COLLECTED.set(figures)
    try:
        yield figures
    finally:
        _COLLECTED.reset(token)


def save_figure(figure: "Figure", path: PathLike) -> Path:
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


def line_styles(names: Iterable[str]) -> dict[str, PlainDict]:
    """Return the line style of each variant; the learned variant is thick and on top.

    Learned are "learned", "learned seed 3", and from light to dark "learned at 0%" to 100%.
    """
    baselines = cycle(_BASELINE_STYLES)
    styles: dict[str, PlainDict] = {}
    names = list(names)
    times = [name for name in names if name.startswith("learned at ")]
    for name in names:
        if name in times:
            color = _EARLY_TO_LATE[times.index(name) * (len(_EARLY_TO_LATE) - 1) // len(times[1:])]
            styles[name] = {"color": color, "linestyle": "-", "linewidth": 2.2, "zorder": 4}
        elif name.partition(" ")[0] == "learned":
            styles[name] = {"color": LEARNED, "linestyle": "-", "linewidth": 3.0, "zorder": 4}
        else:
            color, dash = next(baselines)
            width, order = (2.8, 2.8) if dash == "solid" else (1.8, 3.0)
            styles[name] = {"color": color, "linestyle": dash, "linewidth": width, "zorder": order}
    return styles


def draw_line(axes: "Axes", x: ArrayLike, y: ArrayLike, **style: Any) -> None:
    """Draw a line without its missing points; a single point gets a marker."""
    steps, values = np.asarray(x), np.asarray(y)
    known = np.isfinite(steps) & np.isfinite(values)
    if known.any():
        marker = "o" if known.sum() == 1 else ""
        axes.plot(steps[known], values[known], marker=marker, **style)


def read_column(records: Sequence[PlainMapping], key: str) -> FloatArray:
    """A metric of all records [records]; NaN where it is missing, None or not finite."""
    column = np.array([record.get(key) for record in records], np.float64)
    return np.where(np.isfinite(column), column, np.nan)
