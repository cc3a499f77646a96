"""Films of the learned function over the generations, next to its fitness."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from metaevo.config import files
from metaevo.config.plain import PlainMapping
from metaevo.reports import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAMES = 24
"""Pictures of a film, at most."""
SECONDS = 15.0
"""Drawing takes about so long, at most: slow figures make a film of fewer pictures."""
DPI, HEIGHT = 64, 400
"""Of figures, and of other pictures in pixels."""
_MILLISECONDS, _LAST = 250, 2500
Picture = Any
"""A figure, or an image of a picture that a problem has saved itself"""


def animate(
    draw: Callable[[int, Path], None],
    generations: Sequence[int],
    records: Sequence[PlainMapping],
    folder: Path,
) -> list[Path]:
    """Write a GIF for every figure of the learned function.

    Args:
        draw: draws the figures of one point, given its index, into a folder.
        generations: generations done at each point, ascending.
        records: records of the generations, for the fitness next to the figure.
        folder: output directory; a film has the figure's name with the ending `.gif`.

    Returns:
        the films; none if there are fewer than two points or no figures.
    """
    if len(generations) < 2 or not records:
        return []
    drawn = _drawn(draw, len(generations))
    names = list(next(iter(drawn.values())))
    if not names:
        return []
    fitness = [_fitness(records, generations[index]) for index in drawn]
    _share_limits(fitness)
    paths = []
    for name in names:
        pictures = [found[name] for found in drawn.values()]
        _share_limits(pictures)
        frames = [_beside(*pair) for pair in zip(pictures, fitness, strict=True)]
        paths.append(_save(frames, folder / f"{Path(name).stem}.gif"))
    return paths


def _drawn(draw: Callable[[int, Path], None], points: int) -> dict[int, dict[str, Picture]]:
    """Return the pictures of the first and the last point, and of those between as time allows."""
    chosen = np.linspace(0, points - 1, min(FRAMES, points)).round().astype(int).tolist()
    ends = 0, len(chosen) - 1
    # Then the middle, the quarters, ...
    order = sorted(range(len(chosen)), key=lambda place: (place not in ends, -(place & -place)))
    drawn: dict[int, dict[str, Picture]] = {}
    began = time.monotonic()
    for place in order:
        if len(drawn) >= 2 and time.monotonic() - began > SECONDS:
            break
        with tempfile.TemporaryDirectory() as folder, plots.collected() as figures:
            draw(chosen[place], Path(folder))
            own = {}  # not drawn with `plots`
            for path in Path(folder).glob("*.png"):
                with Image.open(path) as image:
                    size = round(image.width * HEIGHT / image.height), HEIGHT
                    own[path.name] = image.convert("RGB").resize(size)
        drawn[chosen[place]] = {**figures, **own}
    return dict(sorted(drawn.items()))


def _share_limits(pictures: Sequence[Picture]) -> None:
    """Give the same axes of all figures the same limits, so that only the curves move."""
    figures = [each for each in pictures if not isinstance(each, Image.Image)]
    for axes in zip(*(figure.axes for figure in figures), strict=False):
        for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
            ends = np.array([getattr(each, get)() for each in axes])
            for each in axes:
                getattr(each, put)(ends[:, 0].min(), ends[:, 1].max())


def _fitness(records: Sequence[PlainMapping], generation: int) -> "Figure":
    """Draw the fitness until a generation."""
    until = [each for each in records if each["generation"] < max(generation, 1)]
    with plots.collected() as figures:
        plots.plot_fitness({"": until}, "fitness.png")
    (figure,) = figures.values()
    figure.axes[0].set_title(f"generation {generation}", fontsize=12)
    return figure


def _beside(picture: Picture, fitness: "Figure") -> np.ndarray:
    """Return a picture and the fitness, equally high, as uint8 [height, width, 3]."""
    if not isinstance(picture, Image.Image):
        fitness.set_size_inches(plots.WIDTH, picture.get_figheight())
        left = _pixels(picture)
    else:
        left = np.asarray(picture)
        fitness.set_size_inches(plots.WIDTH, len(left) / DPI)
    right = _pixels(fitness)
    height = min(len(left), len(right))
    return np.concatenate([left[:height], right[:height]], axis=1)


def _pixels(figure: "Figure") -> np.ndarray:
    figure.set_dpi(DPI)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


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
