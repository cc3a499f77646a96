"""Animations of the learned function over the generations, next to its fitness."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from metaevo.config import files
from metaevo.config.plain import PlainMapping
from metaevo.reports import plots

FRAMES = 24
"""Pictures of a film, at most."""
SECONDS = 15.0
"""Drawing takes about so long, at most: slow figures make a film of fewer pictures."""
DPI = 72
_FITNESS_WIDTH = 4.2  # inches
_MILLISECONDS, _LAST = 250, 2500


def animate(
    draw: Callable[[int], None],
    generations: Sequence[int],
    records: Sequence[PlainMapping],
    folder: Path,
) -> list[Path]:
    """Write a GIF for every figure of the learned function.

    Args:
        draw: draws the figures of one point, given its index, with `plots`; they are collected,
            not written.
        generations: generations done at each point, ascending.
        records: records of the generations, for the fitness next to the figure.
        folder: output directory; a film has the figure's name with the ending `.gif`.

    Returns:
        the films; none if there are fewer than two points or no figures.
    """
    if len(generations) < 2 or not records:
        return []
    drawn = sorted(_drawn(draw, len(generations)), key=lambda each: each[0])
    if not drawn:
        return []
    shown = [generations[index] for index, _ in drawn]
    fitness = [_fitness(records, generation) for generation in shown]
    paths = []
    for name in drawn[0][1]:
        figures = [found[name] for _, found in drawn]
        _share_limits(figures)
        pictures = [_beside(figure, panel) for figure, panel in zip(figures, fitness, strict=True)]
        paths.append(_save(pictures, folder / f"{Path(name).stem}.gif"))
    return paths


def _drawn(draw: Callable[[int], None], points: int) -> Iterator[tuple[int, Mapping[str, Figure]]]:
    """Yield figures of the last and the first point, then of as many between as time allows."""
    seconds = 0.0
    for index in (points - 1, 0):
        began = time.monotonic()
        with plots.collected() as figures:
            draw(index)
        seconds = time.monotonic() - began
        if not figures:
            return
        yield index, figures
    between = min(FRAMES, points, max(2, int(SECONDS / seconds))) - 2
    chosen = np.linspace(0, points - 1, between + 2).round().astype(int)[1:-1]
    for index in sorted(set(chosen.tolist()) - {0, points - 1}):
        with plots.collected() as figures:
            draw(index)
        yield index, figures


def _share_limits(figures: Sequence[Figure]) -> None:
    """Give the same axes of all figures the same limits, so that only the curves move."""
    for axes in zip(*(figure.axes for figure in figures), strict=False):
        for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
            ends = np.array([getattr(each, get)() for each in axes])
            if ends[0, 0] > ends[0, 1]:  # an inverted axis
                low, high = ends[:, 0].max(), ends[:, 1].min()
            else:
                low, high = ends[:, 0].min(), ends[:, 1].max()
            for each in axes:
                getattr(each, put)(low, high)


def _fitness(records: Sequence[PlainMapping], generation: int) -> Figure:
    """Draw the fitness until a generation, with the rest of the curve in grey."""
    figure = plots.new_figure(5.0, _FITNESS_WIDTH, title=f"generation {generation}")
    axes = plots.style_axes(figure.subplots(), "generation", "fitness")
    number = plots.read_column(records, "generation") + 1
    of_mean, mean = (plots.read_column(records, f"fitness_{key}") for key in ("of_mean", "mean"))
    known = np.isfinite(of_mean)
    for x, y, colour, label in (
        (number, mean, plots.BLUE, "candidates"),
        (number[known], of_mean[known], plots.LEARNED, "found (validation)"),
    ):
        if not np.isfinite(y).any():
            continue
        axes.plot(x, y, color=plots.LIGHT, linewidth=1.5)
        past = x <= max(generation, 1)
        axes.plot(x[past], y[past], color=colour, linewidth=2.2, label=label)
        if past.any():
            axes.plot(x[past][-1], y[past][-1], "o", color=colour, markersize=6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    plots.add_legend(figure, axes)
    return figure


def _pixels(figure: Figure) -> np.ndarray:
    """Return a figure as uint8 [height, width, 3]."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _beside(figure: Figure, panel: Figure) -> np.ndarray:
    """Return a figure and the panel of the fitness, equally high."""
    panel.set_size_inches(_FITNESS_WIDTH, figure.get_figheight())
    left, right = _pixels(figure), _pixels(panel)
    height = min(len(left), len(right))
    return np.concatenate([left[:height], right[:height]], axis=1)


def _save(pictures: Sequence[np.ndarray], path: Path) -> Path:
    """Write a film with one palette, which makes it small; it stays longer on the last picture."""
    palette = Image.fromarray(pictures[-1]).quantize(64, dither=Image.Dither.NONE)
    first, *others = (
        Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE)
        for each in pictures
    )
    durations = [*[_MILLISECONDS] * (len(pictures) - 1), _LAST]
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as file:
        first.save(
            file, "GIF", save_all=True, append_images=others, duration=durations, loop=0,
            optimize=False,
        )  # fmt: skip
    return path
