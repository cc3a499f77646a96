"""Films of what was found over the generations."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from metaevo.config import PlainMapping
from metaevo.reports import plots

FRAMES, LAST = 24, 9
"""Maximum number of generations in a film, and how often the last one is repeated."""
DPI = 64


def animate(
    draw: Callable[[int], Mapping[str, Figure]],
    generations: Sequence[int],
    records: Sequence[PlainMapping],
    folder: Path,
) -> None:
    """Write a GIF for every figure of what was found, with the fitness next to it.

    Args:
        draw: returns the figures of a point, given its index, by the names of files.
        generations: generations done at each point, ascending.
        records: records of the generations, for the fitness.
        folder: output directory; a film has the figure's name with the ending `.gif`.
    """
    from metaevo.reports.policies import save_gif  # importing environments starts JAX

    points = np.linspace(0, len(generations) - 1, min(FRAMES, len(generations))).round().astype(int)
    drawn = [draw(point) for point in points]
    for name in drawn[0]:
        figures = [each[name] for each in drawn]
        _align(figures)
        pairs = zip(figures, points, strict=True)
        frames = [_framed(figure, records, generations[point]) for figure, point in pairs]
        save_gif(folder / f"{Path(name).stem}.gif", [*frames, *frames[-1:] * LAST])


def _align(figures: Sequence[Figure]) -> None:
    """Give all figures the same size, and their axes the same limits: only the curves move."""
    size = np.max([figure.get_size_inches() for figure in figures], axis=0)
    for figure in figures:
        figure.set_size_inches(size)
    for axes in zip(*(figure.axes for figure in figures), strict=False):
        for name in ("xlim", "ylim"):
            low, high = np.transpose([getattr(each, f"get_{name}")() for each in axes])
            for each in axes:
                each.set(**{name: (low.min(), high.max())})


def _framed(figure: Figure, records: Sequence[PlainMapping], generation: int) -> np.ndarray:
    """Return the image of a figure next to the fitness, with a line at the generation."""
    image, fitness = _image(figure), plots.draw_fitness({"": records})
    fitness.set_size_inches(plots.WIDTH, (len(image) + 0.5) / DPI)
    fitness.axes[0].axvline(max(generation - 1, 0), color=plots.INK)  # what was found then
    fitness.suptitle(f"generation {generation}", fontsize=12)
    return np.hstack([image, _image(fitness)])


def _image(figure: Figure) -> np.ndarray:
    """Return a figure's pixels, whatever the user's settings of saved figures."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]
