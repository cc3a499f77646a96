"""20,000 compiled steps of DQN on CartPole-v1."""

import argparse
from pathlib import Path

import jax
import numpy as np

from experiments.reproductions.comparison import Comparison, Row, Trained, mean_returns

DECENT, AVERAGED = 195.0, 10
SMOOTH = 1000
"""Steps of a point of the learning curve: longer than two episodes."""


def episodes_until(returns: np.ndarray, level: float, over: int = AVERAGED) -> float:
    """Return the number of the first episode at which the last `over` average at least `level`."""
    if len(returns) < over:
        return np.nan
    means = np.convolve(returns, np.ones(over) / over, mode="valid")
    reached = np.flatnonzero(means >= level)
    return float(reached[0] + over) if len(reached) else np.nan


def _measure(trained: Trained, options: argparse.Namespace) -> Row:
    episodes = trained.episodes
    counts = zip(episodes.episodes, episodes.returns, strict=True)
    returns = [of_agent[count > 0] for count, of_agent in counts]
    until = np.array([episodes_until(each, DECENT) for each in returns])
    there = until[np.isfinite(until)]
    median = float(np.median(there)) if len(there) else "none"
    last = [each[-AVERAGED:].mean() for each in returns if len(each)]
    results = median, f"{len(there)} of {len(returns)}", float(np.mean(last)) if last else None
    starts = np.arange(0, options.frames, SMOOTH)
    sums = jax.tree.map(lambda leaf: np.add.reduceat(leaf, starts, axis=1), episodes)
    curve = np.minimum(starts + SMOOTH, options.frames), mean_returns(sums)
    return trained.row._replace(results=results, curve=curve)


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
    measure=_measure,
    points=0,
)
