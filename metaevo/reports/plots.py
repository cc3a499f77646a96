"""The figures of a run, drawn from the same few elements.

They use matplotlib's object interface, which needs no display and has no global state. The palette
is by Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can distinguish;
learned curves are always vermilion and thick.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metaevo.config import PlainDict, PlainMapping, files
from metaevo.reports.page import counted
from metaevo.statistics import Estimate, FloatArray

if TYPE_CHECKING:  # a command that draws nothing does not import it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
LETTERS = 40  # of a name next to intervals; a longer one loses its beginning
DPI = 200


class Panel(NamedTuple):
    """Curves in one coordinate system."""

    curves: Mapping[str, Sequence[ArrayLike]]
    """x [points] and y [points] by name, with the ends of a band if there are any: low [points] and
    high [points]; y [seeds, points] is drawn as its mean and interval"""
    xlabel: str = ""
    ylabel: str = ""
    title: str = ""
    cross: float | None = None
    """thin lines through (cross, 0)"""
    behind: ArrayLike | None = None
    """values whose histogram is shaded"""
    styles: Mapping[str, PlainDict] = {}
    """of curves that do not look like a learned or a hand-written part"""


def draw_panels(
    panels: Sequence[Panel], *, columns: int = 1, height: float = 2.6, **shared: Any
) -> "Figure":
    """Draw panels row by row, with one legend.

    Args:
        panels: curves with equal names have equal styles.
        columns: panels side by side, at most.
        height: of a panel, in inches.
        shared: `sharex` and `sharey`, as for `Figure.subplots`.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(0.9 + height * rows)
    grid = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    styles = line_styles(name for panel in panels for name in panel.curves)
    for axes, panel in zip(grid, panels, strict=False):
        draw_panel(axes, panel, {**styles, **panel.styles})
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.align_ylabels()
    add_legend(figure)
    return figure


def draw_panel(axes: "Axes", panel: Panel, styles: Mapping[str, PlainDict]) -> None:
    """Draw one panel, with styles by the names of its curves."""
    style_axes(axes, panel.xlabel, panel.ylabel)
    axes.set_title(plain_text(panel.title), fontsize=11, color=INK)
    for name, (x, y, *band) in panel.curves.items():
        style, steps, values = {"label": name, **styles[name]}, np.asarray(x), np.asarray(y, float)
        if values.ndim == 2:
            from metaevo import statistics  # of several agents' curves only

            style["label"] = f"{name} ({counted(len(values), 'seed')})"
            values, *band = statistics.mean_curve(values)
        if band:
            low, high = np.asarray(band, float)
            seen = np.isfinite(low + high)
            look: PlainDict = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
            axes.fill_between(steps[seen], low[seen], high[seen], **look)
        known = np.isfinite(values)
        if known.any():
            style["marker"] = "o" if known.sum() == 1 else ""
            axes.plot(steps[known], values[known], **style)
        if np.issubdtype(steps.dtype, np.integer):
            axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    window = axes.get_xlim()
    if window[1] >= 1e4:
        from matplotlib.ticker import EngFormatter

        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.cross is not None:
        axes.axvline(panel.cross, color=GREY, linewidth=0.8, zorder=1)
        axes.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    if panel.behind is not None:
        behind = axes.twinx()
        values = np.ravel(panel.behind)
        look = {"histtype": "stepfilled", "color": LIGHT, "alpha": 0.75}
        behind.hist(values, bins=48, range=window, label="observed", **look)
        behind.margins(y=0.6)
        behind.axis("off")
        axes.set_zorder(behind.get_zorder() + 1)
        axes.patch.set_visible(False)


def draw_fitness(
    evolutions: Mapping[str, Sequence[PlainMapping]],
    *,
    chosen: str = "",
    baseline: Mapping[str, float] | None = None,
) -> "Figure":
    """Draw the fitness over the generations.

    Shows the candidates of the chosen evolution and what was found on validation seeds; of other
    evolutions only the latter or, without validation, the population's mean.

    Args:
        evolutions: records of the generations by name.
        chosen: one of the names.
        baseline: horizontal lines, such as the fitness of squared error.
    """
    curves: dict[str, Sequence[ArrayLike]] = {}
    noisy = "best candidate (noisy)"
    styles: dict[str, PlainDict] = {noisy: {"color": GREY, "linewidth": 1.0}}
    last = 0
    for name, records in evolutions.items():
        keys = "fitness_mean", "fitness_low", "fitness_high", "fitness_best", "fitness_of_mean"
        mean, low, high, best, found = (read_column(records, key) for key in keys)
        generation = read_column(records, "generation").astype(int)
        last = max([last, *generation])
        if name == chosen:
            curves["candidates: mean, middle 80%"] = generation, mean, low, high
            curves[noisy] = generation, best
            curves[f"learned {name}".strip() + " (validation)"] = generation, found
        else:
            curves[name] = generation, found if np.isfinite(found).any() else mean
            styles[name] = {"color": SKY, "linewidth": 1.6, "label": "other evolutions"}
    for name, value in (baseline or {}).items():
        curves[name] = (-0.5, last + 0.5), (value, value)
    return draw_panels([Panel(curves, "generation", "fitness", styles=styles)], height=3.6)


def draw_intervals(axes: "Axes", estimates: Mapping[str, Estimate | None], xlabel: str) -> None:
    """Draw an interval with its middle on a line for each name."""
    styles = line_styles(estimates)
    for at, (name, found) in enumerate(estimates.items()):
        if found is not None:
            color = styles[name]["color"]
            axes.plot(found.interval, [at] * 2, color=color, linewidth=3, solid_capstyle="round")
            axes.plot(found.value, at, "o", color=color, markersize=8)
    shown = [name if len(name) <= LETTERS else f"...{name[3 - LETTERS :]}" for name in estimates]
    axes.set_yticks(range(len(estimates)), map(plain_text, shown))
    axes.set_ylim(len(estimates) - 0.4, -0.6)
    style_axes(axes, xlabel, "", grid="x").margins(x=0.05)


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
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=grid, color=LIGHT, linewidth=0.6)
    axes.tick_params(colors=GREY, labelcolor=INK, labelsize=10)
    axes.set_xlabel(plain_text(xlabel), fontsize=11, color=INK)
    axes.set_ylabel(plain_text(ylabel), fontsize=11, color=INK)
    axes.margins(x=0.02)
    return axes


def add_legend(figure: "Figure") -> None:
    """One legend below all axes, each label once, in as many columns as fit the width."""
    entries: PlainDict = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(map(plain_text, labels), handles, strict=True))
    if entries:
        # An inch holds about 13 letters (of digits fewer); sample and gap take the room of 7.
        columns = int(figure.get_figwidth() * 13) // (max(map(len, entries)) + 7)
        look: PlainDict = {"fontsize": 10, "labelcolor": INK, "handlelength": 2.6}
        look |= {"frameon": False, "ncols": max(1, min(len(entries), columns))}
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", **look)


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Write the PNG atomically: a report or a viewer never sees half of a figure."""
    path = Path(path)
    with files.replacing(path) as file:
        # Without the version of matplotlib in the file, equal figures are equal bytes.
        figure.savefig(file, format="png", metadata={"Software": None})
    return path


def line_styles(names: Iterable[str]) -> dict[str, PlainDict]:
    """Return the line style of each variant; the learned variant is thick and on top.

    Learned are "learned", "learned seed 3", and from light to dark "learned at 0%" to 100%.
    """
    baselines, ages = cycle(_BASELINE_STYLES), iter(_EARLY_TO_LATE)
    styles: dict[str, PlainDict] = {}
    for name in dict.fromkeys(names):
        if name.startswith("learned at "):
            styles[name] = {"color": next(ages), "linewidth": 2.2, "zorder": 4}
        elif name.partition(" ")[0] == "learned":
            styles[name] = {"color": LEARNED, "linewidth": 3.0, "zorder": 4}
        else:
            color, dash = next(baselines)
            width, order = (2.8, 2.8) if dash == "solid" else (1.8, 3.0)
            styles[name] = {"color": color, "linestyle": dash, "linewidth": width, "zorder": order}
    return styles


def read_column(records: Sequence[PlainMapping], key: str) -> FloatArray:
    """A metric of all records [records]; NaN where it is missing, None or not finite."""
    column = np.array([record.get(key) for record in records], np.float64)
    return np.where(np.isfinite(column), column, np.nan)
