"""20,000 compiled steps of DQN on CartPole-v1."""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.tables import Cell
from experiments.reproductions.comparison import Comparison

DECENT, AVERAGED = 195.0, 10


def episodes_until(returns: np.ndarray, level: float, over: int = AVERAGED) -> float:
    """Return the number of the first episode at which the last `over` average at least `level`."""
    if len(returns) < over:
        return np.nan
    means = np.convolve(returns, np.ones(over) / over, mode="valid")
    reached = np.flatnonzero(means >= level)
    return float(reached[0] + over) if len(reached) else np.nan


def _measure(rows: Any, measures: Any) -> tuple[Cell, ...]:
    ended = zip(rows.episodes.episodes, rows.episodes.returns, strict=True)
    returns = [sums[count > 0] for count, sums in ended]  # an update is one step
    until = np.array([episodes_until(each, DECENT) for each in returns])
    there = until[np.isfinite(until)]
    median = float(np.median(there)) if len(there) else "none"
    last = [each[-AVERAGED:].mean() for each in returns if len(each)]
    return median, f"{len(there)} of {len(returns)}", float(np.mean(last)) if last else None


COMPARISON = Comparison(
    title="DQN on CartPole-v1",
    published="20,000 steps at 15,800 steps/s; a decent policy after about 45 episodes.",
    config=Path(__file__).with_suffix(".yaml"),
    agents=(1, 8),
    columns=(
        f"episodes until {AVERAGED} average {DECENT:.0f} (median)",
        "agents that got there",
        f"return of the last {AVERAGED} episodes",
    ),
    measure=_measure,
)
