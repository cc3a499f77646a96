"""What a judgement gives every contender: settings, fixed before any training, and seeds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval
from numpy.typing import ArrayLike
from optuna.distributions import CategoricalDistribution, FloatDistribution

from metaevo.config import ConfigError
from metaevo.config.space import KINDS, Entry, free_space
from metaevo.statistics import FloatArray

DIMENSIONS = 64
"""Maximum number of hyperparameters in a space."""
MOST = 100_000
"""Maximum number of settings, and of seeds of a setting."""


@dataclass(frozen=True)
class Budget:
    """The same for every contender, on every task.

    Every setting trains on the screening seeds. The best ones and the untuned setting are the
    finalists. They train on fresh selection seeds, which alone choose the winner, and on the
    held-out seeds, on which it is compared.

    Examples:
        >>> metaevo.Budget(settings=64, seeds=256).agents
        2816
    """

    settings: Annotated[int, Interval(ge=0, le=MOST)] = 256
    """points of the space that every contender tries besides the untuned setting; 0: no tuning"""
    screening_seeds: Annotated[int, Interval(ge=1, le=MOST)] = 2
    """seeds of every setting"""
    finalists: Annotated[int, Interval(ge=2, le=MOST)] = 8
    """the best settings and the untuned one, which train on all other seeds"""
    selection_seeds: Annotated[int, Interval(ge=1, le=MOST)] = 64
    """seeds that choose among the finalists"""
    seeds: Annotated[int, Interval(ge=1, le=MOST)] = 128
    """held-out seeds of every finalist"""

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Settings, screening seeds, finalists, selection seeds and held-out seeds.

        Without tuning the untuned setting is the only one, and trains on the held-out seeds only.
        """
        if not self.settings:
            return 1, 0, 1, 0, self.seeds
        count = self.settings + 1
        finalists = min(self.finalists, count)
        return count, self.screening_seeds, finalists, self.selection_seeds, self.seeds

    @property
    def agents(self) -> int:
        """Number of agents that are trained for each contender on each task."""
        settings, screening, finalists, selection, held_out = self.shape
        return settings * screening + finalists * (selection + held_out)

    def points(self, space: Mapping[str, Any], seed: int) -> FloatArray:
        """Return the settings to try [settings, hyperparameters]: points with low discrepancy.

        A scrambled Sobol sequence (Owen 1998). Its columns depend on the seed and on their position
        only, so contenders with other ranges, or with further hyperparameters at the end, try
        settings at the same quantiles of their ranges.

        Args:
            space: ranges by names, as in a YAML file: `{"learning_rate": {"log_uniform": [1e-3,
                1]}, "epsilon": [0.0, 0.05]}`.
            seed: of the sequence.

        Raises:
            ConfigError: for an invalid range, a choice that is no number, or too many names.
        """
        from scipy.stats import qmc  # takes half a second, which scripts that train need not wait

        entries = free_space(space)
        if len(entries) > DIMENSIONS:
            raise ConfigError(f"space: {len(entries)} hyperparameters; at most {DIMENSIONS}")
        for name, entry in entries.items():
            if name not in space:
                raise ConfigError(f"space.{name}: must be one of {', '.join(KINDS)}")
            choices = entry.choices if isinstance(entry, CategoricalDistribution) else ()
            if not all(isinstance(each, int | float) for each in choices):
                raise ConfigError(f"space.{name} = {list(choices)}: must be numbers")
        bits = math.ceil(math.log2(max(self.settings, 1)))
        fractions = qmc.Sobol(DIMENSIONS, seed=seed).random_base2(bits)[: self.settings]
        columns = zip(entries.values(), fractions.T, strict=False)
        return np.stack([_values(entry, column) for entry, column in columns], axis=1)

    def best(self, screening: ArrayLike) -> np.ndarray:
        """Return the indices of the settings in the final, the untuned setting first.

        The others have the highest mean scores on the screening seeds, best first. A setting under
        which an agent has no score comes last.

        Args:
            screening: scores [settings, seeds]; setting 0 is untuned, NaN is no score.
        """
        totals = np.asarray(screening, dtype=np.float64).sum(axis=1)
        totals = np.where(np.isfinite(totals), totals, -np.inf)
        order = 1 + np.argsort(-totals[1:], kind="stable")
        return np.concatenate([[0], order[: self.shape[2] - 1]])


QUICK = Budget(256, screening_seeds=1, finalists=6, selection_seeds=16, seeds=48)
"""Enough for a verdict on a large difference."""


def _values(entry: Entry, fractions: FloatArray) -> FloatArray:
    """Return the values of a hyperparameter at fractions in [0, 1) of its range."""
    if isinstance(entry, CategoricalDistribution):
        values = np.array(entry.choices, dtype=np.float64)
        return values[(fractions * len(values)).astype(int)]
    step = 0 if isinstance(entry, FloatDistribution) else entry.step
    low, high = entry.low - step / 2, entry.high + step / 2  # equal shares for all integers
    if entry.log:
        found = np.exp(np.log(low) + fractions * np.log(high / low))
    else:
        found = low + fractions * (high - low)
    if not step:
        return found
    whole = entry.low + step * np.floor((found - entry.low) / step + 0.5)
    return np.clip(whole, entry.low, entry.high)
