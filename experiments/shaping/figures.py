"""Figures of opponent shaping."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

SITUATIONS = ("start", "CC", "CD", "DC", "DD")
COLORS = ("0.5", "tab:green", "tab:blue", "tab:orange", "tab:purple")


def plot_meta_episode(
    probabilities: np.ndarray, payoffs: np.ndarray, path: Path, *, opponent: str
) -> None:
    """Draw the policies and payoffs of both players over a meta-episode.

    `probabilities` of cooperating are [steps, 2, 5] and `payoffs` [steps, 2], ours first.
    """
    steps = np.arange(1, len(probabilities) + 1)
    figure = Figure(figsize=(7.2, 7.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(3, sharex=True)
    for player, (axes, who) in enumerate(zip(panels[:2], ("we", opponent), strict=True)):
        axes.set(ylabel=f"{who}: P(cooperate)", ylim=(-0.03, 1.03))
        for place, (name, color) in enumerate(zip(SITUATIONS, COLORS, strict=True)):
            label = name if name == "start" else f"after {name}"
            axes.plot(steps, probabilities[:, player, place], color=color, label=label)
    panels[0].legend(ncols=5, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0))
    panels[2].plot(steps, payoffs[:, 0], color="tab:red", linewidth=2.4, label="we earn")
    panels[2].plot(steps, payoffs[:, 1], color="black", linestyle="--", label=f"{opponent} earns")
    panels[2].set(xlabel="joint move", ylabel="payoff a step")
    panels[2].legend(fontsize="small")
    figure.savefig(path, dpi=110)
