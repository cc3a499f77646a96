"""Films as GIF files: of what was found over the generations, and of episodes."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from metaevo.config import PlainMapping, files
from metaevo.reports import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST, FRAMES = 3, 24
"""Pictures of a film of the generations, at least and at most."""
SECONDS = 15.0
"""Drawing takes about so long, at most: slow figures make a film of fewer pictures."""
DPI, HEIGHT = 64, 400
"""Of figures, and of other pictures in pixels."""
Picture = Any
"""A figure, or an image that a problem has saved itself."""


def animate(
    draw: Callable[[int, Path], None],
    generations: Sequence[int],
    records: Sequence[PlainMapping],
    folder: Path,
) -> list[Path]:
    """Write a GIF for every figure of what was found, with the fitness next to it.

    Args:
        draw: draws the figures of one point, given its index, into a folder.
        generations: generations done at each point, ascending.
        records: records of the generations, for the fitness.
        folder: output directory; a film has the figure's name with the ending `.gif`.

    Returns:
        the films; none if there are fewer than `FEWEST` points or no figures.
    """
    if len(generations) < FEWEST:
        return []
    points = _drawn(draw, len(generations))
    fitness = [_fitness_until(records, generations[index]) for index in points]
    _share_limits(fitness)
    paths = []
    for name in next(iter(points.values())):
        pictures = [found[name] for found in points.values()]
        _share_limits(pictures)
        frames = [_side_by_side(*pair) for pair in zip(pictures, fitness, strict=True)]
        palette = Image.fromarray(frames[-1]).quantize(64, dither=Image.Dither.NONE)
        small = [Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE)
                 for each in frames]  # fmt: skip
        paths.append(folder / f"{Path(name).stem}.gif")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(paths[-1]) as file:
            save_gif(file, small, fps=4.0, last=2.5)
    return paths


def save_gif(
    path: plots.PathLike | IO[bytes],
    frames: "Sequence[np.ndarray | Image.Image]",
    fps: float = 8.0,
    *,
    last: float | None = None,
) -> None:
    """Write a GIF that loops forever.

    Args:
        path: of the file.
        frames: images, or arrays uint8 [height, width, 3].
        fps: frames per second.
        last: seconds of the last frame, by default like the others.

    Raises:
        ValueError: if there are no frames, or `fps` is not between 0 and 100 (the format counts
            hundredths of a second).
    """
    if not frames:
        raise ValueError("a film needs at least one frame")
    if not 0 < fps <= 100:
        raise ValueError(f"fps = {fps!r} must be above 0 and at most 100")
    pictures = [Image.fromarray(each) if isinstance(each, np.ndarray) else each for each in frames]
    durations = [round(1000 / fps)] * len(pictures)
    durations[-1] = durations[-1] if last is None else round(1000 * last)
    pictures[0].save(
        path, "GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0,
        optimize=False,
    )  # fmt: skip


def _drawn(draw: Callable[[int, Path], None], points: int) -> dict[int, dict[str, Picture]]:
    """Return the pictures of the first and the last point, and of those between as time allows."""

    def pictures(point: int) -> dict[str, Picture]:
        with tempfile.TemporaryDirectory() as folder, plots.collected() as found:
            draw(point, Path(folder))
            own = {}  # not drawn with this module
            for path in sorted(Path(folder).glob("*.png")):
                with Image.open(path) as image:
                    size = round(image.width * HEIGHT / image.height), HEIGHT
                    own[path.name] = image.convert("RGB").resize(size)
        return {**found, **own}

    drawn = {points - 1: pictures(points - 1)}  # compiles
    began = time.monotonic()
    drawn[0] = pictures(0)
    most = int(SECONDS / max(time.monotonic() - began, 1e-3))
    chosen = np.linspace(0, points - 1, max(2, min(FRAMES, points, most))).round().astype(int)
    return {point: drawn.get(point) or pictures(point) for point in chosen.tolist()}


def _share_limits(pictures: Sequence[Picture]) -> None:
    """Give the same axes of all figures the same limits, so that only the curves move."""
    figures = [each for each in pictures if not isinstance(each, Image.Image)]
    for axes in zip(*(figure.axes for figure in figures), strict=False):
        for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
            ends = np.array([getattr(each, get)() for each in axes])
            for each in axes:
                getattr(each, put)(ends[:, 0].min(), ends[:, 1].max())


def _fitness_until(records: Sequence[PlainMapping], generation: int) -> "Figure":
    until = [each for each in records if each["generation"] < max(generation, 1)]
    with plots.collected() as figures:
        plots.plot_fitness({"": until}, "fitness.png")
    figure = figures["fitness.png"]
    figure.axes[0].set_title(f"generation {generation}", fontsize=12)
    return figure


def _side_by_side(picture: Picture, fitness: "Figure") -> np.ndarray:
    """Return a picture and the fitness, equally high, as uint8 [height, width, 3]."""
    left = np.asarray(picture) if isinstance(picture, Image.Image) else _pixels(picture)
    fitness.set_size_inches(plots.WIDTH, len(left) / DPI)
    right = _pixels(fitness)
    height = min(len(left), len(right))
    return np.concatenate([left[:height], right[:height]], axis=1)


def _pixels(figure: "Figure") -> np.ndarray:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
