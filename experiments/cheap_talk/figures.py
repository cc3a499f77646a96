"""Figures of cheap talk."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COORDINATES = {"CartPole-v1": ("cart position", "cart velocity", "pole angle", "pole velocity")}
"""Names of the coordinates of an observation, by environment."""
SIDE, SHOWN = 61, 4
"""Points along an axis of a picture, and pictures at most."""


def plot_messages(
    say: Callable[[np.ndarray], np.ndarray],
    middle: np.ndarray,
    ends: np.ndarray,
    env: str,
    path: Path,
) -> None:
    """Draw messages over the two coordinates of the observation along which they change most.

    Args:
        say: function from observations [samples, obs_size] to messages [samples, width].
        middle: [obs_size] values of the other coordinates.
        ends: [2, obs_size] lower and upper ends of the axes.
        env: name of the environment.
        path: output path of the PNG.
    """
    low, high = ends
    high = np.where(high > low, high, low + 1.0)  # a number that never changes
    lines = []
    for place in range(len(middle)):
        line = np.tile(middle, (SIDE, 1)).astype(np.float32)
        line[:, place] = np.linspace(low[place], high[place], SIDE)
        lines.append(line)
    changes = [float(np.std(say(each), axis=0).sum()) for each in lines]
    across, up = sorted(np.argsort(changes)[-2:]) if len(middle) > 1 else (0, 0)
    grid = np.tile(lines[across], (SIDE, 1))
    if up != across:
        grid[:, up] = np.repeat(lines[up][:, up], SIDE)
    said = say(grid).reshape(SIDE, SIDE, -1)
    count = min(SHOWN, said.shape[-1])
    names = COORDINATES.get(env, [f"observation {place}" for place in range(len(middle))])
    figure = Figure(figsize=(3.6 * count + 1.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    limit = float(np.abs(said).max()) or 1.0
    for place, axes in enumerate(panels):
        axes.set(xlabel=names[across], ylabel="" if place else names[up])
        axes.set_title(f"message {place + 1}")
        image = axes.imshow(
            said[..., place],
            origin="lower",
            extent=(low[across], high[across], low[up], high[up]),
            aspect="auto",
            cmap="RdBu_r",
            vmin=-limit,
            vmax=limit,
        )
    figure.colorbar(image, ax=list(panels), shrink=0.9)
    figure.savefig(path, dpi=110)
