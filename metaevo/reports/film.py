"""Films as GIF files: of what was found over the generations, and of episodes."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from metaevo.config import PlainMapping, files
from metaevo.reports import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST, FRAMES = 3, 24
"""Pictures of a film of the generations, at least and at most."""
FPS, LAST = 4.0, 9
"""Frames per second, and how often the last one is repeated."""
DPI, HEIGHT = 64, 400
"""Of figures, and of other pictures in pixels."""


def animate(
    draw: Callable[[int, Path], "Mapping[str, Figure]"],
    generations: Sequence[int],
    records: Sequence[PlainMapping],
    folder: Path,
) -> list[Path]:
    """Write a GIF for every picture of what was found, with the fitness next to it.

    Args:
        draw: draws a point, given its index: returns figures by the names of files, and writes
            other pictures into a folder.
        generations: generations done at each point, ascending.
        records: records of the generations, for the fitness.
        folder: output directory; a film has the picture's name with the ending `.gif`.

    Returns:
        the films; none if there are fewer than `FEWEST` points or no pictures.
    """
    if (count := min(FRAMES, len(generations))) < FEWEST:
        return []
    points = np.linspace(0, len(generations) - 1, count).round().astype(int).tolist()
    drawn, paths = [_drawn(draw, point) for point in points], list[Path]()
    for name in drawn[0]:
        pictures = _images([each[name] for each in drawn])
        fitness = _fitness(records, [generations[at] for at in points], len(pictures[0]))
        frames = [np.hstack(pair) for pair in zip(pictures, fitness, strict=True)]
        paths.append(folder / f"{Path(name).stem}.gif")
        save_gif(paths[-1], [*frames, *frames[-1:] * LAST], FPS)
    return paths


def save_gif(path: str | Path, frames: Sequence[np.ndarray], fps: float = 8.0) -> None:
    """Write a GIF that loops forever.

    Args:
        path: of the file.
        frames: uint8 [height, width, 3]; equal ones become a longer one.
        fps: frames per second, at most 100: the format counts hundredths of a second.
    """
    first, *others = map(Image.fromarray, frames)
    options: Any = {"save_all": True, "append_images": others, "loop": 0}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(Path(path)) as file:
        first.save(file, "GIF", duration=round(1000 / fps), **options)


def _drawn(draw: Callable[[int, Path], "Mapping[str, Figure]"], point: int) -> dict[str, Any]:
    """Return the figures and images of a point, by the names of their files."""
    with tempfile.TemporaryDirectory() as folder:
        pictures: dict[str, Any] = dict(draw(point, Path(folder)))
        for path in sorted(Path(folder).glob("*.png")):
            with Image.open(path) as image:
                size = round(image.width * HEIGHT / image.height), HEIGHT
                pictures[path.name] = np.asarray(image.convert("RGB").resize(size))
    return pictures


def _images(pictures: Sequence[Any]) -> list[np.ndarray]:
    """Return images; axes of figures get the same limits, so that only the curves move."""
    if isinstance(pictures[0], np.ndarray):
        return list(pictures)
    for axes in zip(*(figure.axes for figure in pictures), strict=False):
        for name in ("xlim", "ylim"):
            low, high = np.transpose([getattr(each, f"get_{name}")() for each in axes])
            for each in axes:
                each.set(**{name: (low.min(), high.max())})
    return [_image(figure) for figure in pictures]


def _fitness(
    records: Sequence[PlainMapping], generations: Sequence[int], height: int
) -> list[np.ndarray]:
    """Return images of the fitness, each with a line at one of the generations."""
    figure, images = plots.draw_fitness({"": records}), []
    figure.set_size_inches(plots.WIDTH, (height + 0.5) / DPI)
    now = figure.axes[0].axvline(0, color=plots.INK)
    for generation in generations:
        now.set_xdata([max(generation - 1, 0)] * 2)  # the record of what was found
        figure.axes[0].set_title(f"generation {generation}", fontsize=12)
        images.append(_image(figure))
    return images


def _image(figure: "Figure") -> np.ndarray:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]
