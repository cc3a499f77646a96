"""Shapes and grids of colours, as pictures: uint8 [height, width, 3]."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
_WIDTH, _HEIGHT, _SCALE = 300, 200, 2
"""Pixels of a canvas, and the factor by which it is drawn larger to smooth edges."""
PAPER, INK, SOFT = (250, 250, 247), (60, 60, 68), (170, 170, 175)
BODY, POLE, GOAL = (38, 92, 204), (213, 94, 0), (0, 140, 100)
_PLANES = (
    BODY, POLE, (240, 190, 130), GOAL, (204, 121, 167), (86, 180, 233),
    (230, 159, 0), (120, 120, 128), (240, 228, 66), (150, 60, 60),
)  # fmt: skip
_CELL = 24
"""Pixels of a cell."""


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
