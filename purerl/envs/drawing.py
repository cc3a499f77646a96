"""Shapes, grids of colours and boards of numbers, as pictures: uint8 [height, width, 3]."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
_WIDTH, _HEIGHT, _SCALE = 300, 200, 2
"""Pixels of a canvas, and the factor by which it is drawn larger to smooth edges."""
PAPER, INK, SOFT = (250, 250, 247), (60, 60, 68), (170, 170, 175)
BODY, POLE, GOAL = (38, 92, 204), (213, 94, 0), (0, 140, 100)
_PLANES = (
    BODY, POLE, (240, 190, 130), GOAL, (204, 121, 167), (86, 180, 233),
    (230, 159, 0), (120, 120, 128), (240, 228, 66), (150, 60, 60),
)  # fmt: skip
_CELL, _TILE = 24, 48
"""Pixels of a cell without and with a number."""
_GAP = 2
"""Pixels between tiles."""


class Canvas:
    """A picture in coordinates of the environment: x to the right, y upwards."""

    def __init__(self, left: float, right: float, bottom: float):
        self._left, self._bottom = left, bottom
        self._unit = _WIDTH * _SCALE / (right - left)
        self._image = Image.new("RGB", (_WIDTH * _SCALE, _HEIGHT * _SCALE), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def _at(self, point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        bottom = _HEIGHT * _SCALE
        return (x - self._left) * self._unit, bottom - (y - self._bottom) * self._unit

    @property
    def pixels_per_unit(self) -> float:
        """Pixels of a unit of the coordinates."""
        return self._unit / _SCALE

    def line(self, points: Sequence[tuple[float, float]], colour: Colour, width: float) -> None:
        """Draw a line with round ends; the width is in pixels."""
        places = [self._at(point) for point in points]
        self._draw.line(places, fill=colour, width=round(width * _SCALE), joint="curve")
        for end in (points[0], points[-1]):
            self.disc(end, colour, width / 2)

    def disc(self, centre: tuple[float, float], colour: Colour, radius: float) -> None:
        """Draw a disc; the radius is in pixels."""
        (x, y), size = self._at(centre), radius * _SCALE
        self._draw.ellipse((x - size, y - size, x + size, y + size), fill=colour)

    def box(self, centre: tuple[float, float], width: float, height: float, colour: Colour) -> None:
        """Draw a box; width and height are in pixels."""
        (x, y), across, up = self._at(centre), width * _SCALE / 2, height * _SCALE / 2
        self._draw.rounded_rectangle((x - across, y - up, x + across, y + up), 4, fill=colour)

    def pixels(self) -> np.ndarray:
        """Return the picture, uint8 [height, width, 3]."""
        return np.asarray(self._image.resize((_WIDTH, _HEIGHT), Image.Resampling.BOX))


def planes(cells: np.ndarray, colours: Sequence[Colour] = _PLANES) -> np.ndarray:
    """Draw cells [rows, columns, channels], each in the colour of its first positive channel."""
    channel = np.argmax(cells > 0, axis=-1)
    table = np.array([*colours, PAPER], np.uint8)
    index = np.where((cells > 0).any(axis=-1), channel, len(colours))
    frame = table[index].repeat(_CELL, axis=0).repeat(_CELL, axis=1)
    frame[::_CELL] = frame[:, ::_CELL] = (225, 225, 222)
    return frame


def tiles(labels: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """Draw a board of square tiles with texts [rows, columns] and colours [rows, columns, 3]."""
    rows, columns = labels.shape
    image = Image.new("RGB", (columns * _TILE, rows * _TILE), PAPER)
    draw = ImageDraw.Draw(image)
    for row, column in np.ndindex(rows, columns):
        text, (x, y) = str(labels[row, column]), (column * _TILE, row * _TILE)
        colour = tuple(int(each) for each in colours[row, column])
        draw.rectangle((x + _GAP, y + _GAP, x + _TILE - _GAP, y + _TILE - _GAP), fill=colour)
        font = ImageFont.load_default(_TILE / max(2.2, 0.75 * len(text)))
        middle = (x + _TILE / 2, y + _TILE / 2)
        draw.text(middle, text, fill=PAPER if sum(colour) < 380 else INK, font=font, anchor="mm")
    return np.asarray(image)


def board_2048(exponents: np.ndarray) -> np.ndarray:
    """Draw a board of 2048: [rows, columns] exponents, 0 for an empty tile."""
    labels = np.where(exponents > 0, (2 ** exponents.astype(int)).astype(str), "")
    full = np.minimum(exponents / 11, 1.0)[..., None]  # 2048 and more have the full colour
    colours = (1 - full) * np.array([236, 232, 224]) + full * np.array(POLE)
    return tiles(labels, colours)
