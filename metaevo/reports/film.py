"""Films as GIF files: of what was found over the generations, and of episodes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from metaevo.config import PlainMapping, files
from metaevo.reports import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAMES, LAST = 24, 9
"""Maximum number of generations in a film, and how often the last one is repeated."""
DPI = 64


def animate(
    draw: Callable[[int], "Mapping[str, Figure]"],
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
    points = np.linspace(0, len(generations) - 1, min(FRAMES, len(generations))).round().astype(int)
    drawn = [draw(point) for point in points]
    for name in drawn[0]:
        figures = [each[name] for each in drawn]
        _share_limits(figures)
        pairs = zip(figures, points, strict=True)
        frames = [_framed(figure, records, generations[point]) for figure, point in pairs]
        frames = _of_one_shape(frames)
        save_gif(folder / f"{Path(name).stem}.gif", [*frames, *frames[-1:] * LAST])


def save_gif(path: str | Path, frames: Sequence[np.ndarray], fps: float = 4.0) -> None:
    """Write a GIF that loops forever, in 256 colours.

    Args:
        path: of the file.
        frames: uint8 [height, width, 3], of one shape; equal ones become a longer one.
        fps: frames per second, at most 100: the format counts hundredths of a second.

    Raises:
        ValueError: other frames.
    """
    film = np.stack(frames)
    if film.dtype != np.uint8 or film.shape[3:] != (3,):
        found = f"{film.dtype} {list(film.shape[1:])}"
        raise ValueError(f"frames (of `render`) are {found}: must be uint8 [height, width, 3]")
    count, height, width, _ = film.shape
    # As one picture, so that all frames have the same palette: the file is a third as large.
    strip = Image.fromarray(film.reshape(count * height, width, 3)).quantize()
    first, *others = (strip.crop((0, at * height, width, (at + 1) * height)) for at in range(count))
    with files.replacing(Path(path)) as file:
        first.save(
            file, "GIF", save_all=True, append_images=others, loop=0, duration=round(1000 / fps)
        )


def _share_limits(figures: "Sequence[Figure]") -> None:
    """Give the same axes of all figures the same limits, so that only the curves move."""
    for axes in zip(*(figure.axes for figure in figures), strict=False):
        for name in ("xlim", "ylim"):
            low, high = np.transpose([getattr(each, f"get_{name}")() for each in axes])
            for each in axes:
                each.set(**{name: (low.min(), high.max())})


def _framed(figure: "Figure", records: Sequence[PlainMapping], generation: int) -> np.ndarray:
    """Return the image of a figure next to the fitness, with a line at the generation."""
    image, fitness = _image(figure), plots.draw_fitness({"": records})
    fitness.set_size_inches(plots.WIDTH, (len(image) + 0.5) / DPI)
    axes = fitness.axes[0]
    axes.axvline(max(generation - 1, 0), color=plots.INK)  # the record of what was found
    axes.set_title(f"generation {generation}", fontsize=12)
    return np.hstack([image, _image(fitness)])


def _of_one_shape(frames: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return frames with white on the right and below, where others are larger."""
    most = np.max([frame.shape for frame in frames], axis=0)
    edges = ([(0, end) for end in most - frame.shape] for frame in frames)
    return [np.pad(*each, constant_values=255) for each in zip(frames, edges, strict=True)]


def _image(figure: "Figure") -> np.ndarray:
    """Return a figure's pixels, whatever the user's settings of saved figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]
