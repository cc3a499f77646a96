"""20,000 compiled steps of DQN on CartPole-v1."""

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.reproductions.comparison import Comparison, Rows, train
from metaevo.config.plain import PlainDict
from metaevo.reports.plots import plot_learning_curves
from metaevo.tasks.fitness import Windows, mean_returns

DECENT, AVERAGED = 195.0, 10


def episode_returns(episodes: Any) -> list[np.ndarray]:
    """Return each agent's episode returns in order, from sums per step [A, steps]."""
    pairs = zip(episodes.episodes, episodes.returns, strict=True)
    return [returns[count > 0] for count, returns in pairs]


def episodes_until(returns: np.ndarray, level: float, over: int = AVERAGED) -> float:
    """Return the number of the first episode at which the last `over` average at least `level`."""
    if len(returns) < over:
        return np.nan
    means = np.convolve(returns, np.ones(over) / over, mode="valid")
    reached = np.flatnonzero(means >= level)
    return float(reached[0] + over) if len(reached) else np.nan


def _rows(raw: PlainDict, options: argparse.Namespace, figures: Path) -> Rows:
    windows, curves = Windows(1000, options.frames), {}  # longer than two episodes
    for agents in options.agents:
        trained = train(raw, agents=agents, seed=options.seed, points=options.frames)
        returns = episode_returns(trained.episodes)
        until = np.array([episodes_until(each, DECENT) for each in returns])
        there = until[np.isfinite(until)]
        last = [each[-AVERAGED:].mean() for each in returns if len(each)]
        median = float(np.median(there)) if len(there) else "none"
        mean = float(np.mean(last)) if last else None
        yield trained.timing, (median, f"{len(there)} of {agents}", mean)
        curves[trained.timing.variant] = mean_returns(jax.vmap(windows.pooled)(trained.episodes))
    plot_learning_curves(curves, windows.ends(), figures / "learning_curves.png")


COMPARISON = Comparison(
    title="DQN on CartPole-v1",
    published="20,000 steps at 15,800 steps/s; a decent policy after about 45 episodes.",
    columns=(
        f"episodes until {AVERAGED} average {DECENT:.0f} (median)",
        "agents that got there",
        f"return of the last {AVERAGED} episodes",
    ),
    config=Path(__file__).with_suffix(".yaml"),
    agents=(1, 8),
    quick={"frames": 6_000, "agents": [1, 2]},
    rows=_rows,
)
