"""Films as GIF files: of what was found over the generations, and of episodes."""

import io
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
"""For drawing them, so that slow figures have fewer."""
FPS, LAST = 4.0, 9
"""Frames per second, and how often the last one is repeated."""
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
    last, paths = len(generations) - 1, list[Path]()
    first = _drawn(draw, 0)
    began = time.monotonic()
    end = _drawn(draw, last)
    count = min(FRAMES, last + 1, max(2, int(SECONDS / (time.monotonic() - began))))
    points = np.linspace(0, last, count).round().astype(int).tolist()
    drawn = [first, *(_drawn(draw, point) for point in points[1:-1]), end]
    for name in drawn[0]:
        pictures = [found[name] for found in drawn]
        if not isinstance(pictures[0], Image.Image):
            _share_limits(pictures)
            pictures = [_image(figure) for figure in pictures]
        height = pictures[-1].height
        times = _times(records, [generations[point] for point in points], height)
        frames = []
        for picture, fitness in zip(pictures, times, strict=True):
            frames.append(Image.new("RGB", (picture.width + fitness.width, height)))
            frames[-1].paste(picture)
            frames[-1].paste(fitness, (picture.width, 0))
        palette = frames[-1].quantize(64, dither=Image.Dither.NONE)
        small = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in frames]
        paths.append(folder / f"{Path(name).stem}.gif")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(paths[-1]) as file:
            save_gif(file, [*small, *small[-1:] * LAST], fps=FPS)
    return paths


def save_gif(
    path: plots.PathLike | IO[bytes],
    frames: "Sequence[np.ndarray | Image.Image]",
    fps: float = 8.0,
) -> None:
    """Write a GIF that loops forever.

    Args:
        path: of the file.
        frames: images, or arrays uint8 [height, width, 3]; equal ones become a longer one.
        fps: frames per second.

    Raises:
        ValueError: if there are no frames, or `fps` is not between 0 and 100 (the format counts
            hundredths of a second).
    """
    if not frames:
        raise ValueError("a film needs at least one frame")
    if not 0 < fps <= 100:
        raise ValueError(f"fps = {fps!r} must be above 0 and at most 100")
    first, *others = (
        Image.fromarray(each) if isinstance(each, np.ndarray) else each for each in frames
    )
    options: Any = {"save_all": True, "loop": 0, "optimize": False}
    first.save(path, "GIF", append_images=others, duration=round(1000 / fps), **options)


def _drawn(draw: Callable[[int, Path], None], point: int) -> dict[str, Picture]:
    """Return the pictures of a point, by the names of their files."""
    with tempfile.TemporaryDirectory() as folder, plots.collected() as figures:
        draw(point, Path(folder))
        images = {}  # not drawn with `plots`
        for path in sorted(Path(folder).glob("*.png")):
            with Image.open(path) as image:
                size = round(image.width * HEIGHT / image.height), HEIGHT
                images[path.name] = image.convert("RGB").resize(size)
    return {**figures, **images}


def _share_limits(figures: "Sequence[Figure]") -> None:
    """Give the same axes of all figures the same limits, so that only the curves move."""
    for axes in zip(*(figure.axes for figure in figures), strict=False):
        for name in ("xlim", "ylim"):
            ends = np.array([getattr(each, f"get_{name}")() for each in axes])
            for each in axes:
                each.set(**{name: (ends[:, 0].min(), ends[:, 1].max())})


def _times(
    records: Sequence[PlainMapping], generations: Sequence[int], height: int
) -> list[Image.Image]:
    """Return pictures of the fitness, each with a line at one of the generations."""
    with plots.collected() as figures:
        plots.plot_fitness({"": records}, "fitness.png")
    figure = figures["fitness.png"]
    figure.set_size_inches(plots.WIDTH, height / DPI)
    now, found = figure.axes[0].axvline(0, color=plots.INK), []
    for generation in generations:
        now.set_xdata([max(generation - 1, 0)] * 2)  # the record of what was found
        figure.axes[0].set_title(f"generation {generation}", fontsize=12)
        found.append(_image(figure))
    return found


def _image(figure: "Figure") -> Image.Image:
    file = io.BytesIO()
    figure.savefig(file, dpi=DPI)
    return Image.open(file).convert("RGB")
