"""How the settings of the trials are chosen.

Grid, random and Sobol points form a design: a list that is known before the first trial. TPE and
CMA-ES are samplers, which learn from finished trials.
"""

import itertools
import math
from typing import Any

import numpy as np
from optuna.samplers import BaseSampler, TPESampler

from metaevo.config import ConfigError
from metaevo.tuning.cma import CmaSampler
from metaevo.tuning.config import ADAPTIVE, SweepConfig
from metaevo.tuning.ranges import Choice
from metaevo.tuning.space import Space


def check_sampler(config: SweepConfig, space: Space) -> None:
    """Refuse a space that the sampler cannot search.

    Raises:
        ConfigError: naming the ranges that there are.
    """
    numeric = [key for key, entry in space.entries.items() if not isinstance(entry, Choice)]
    if config.sampler == "cma_es" and len(numeric) < 2:
        found = ", ".join(numeric) or "none"
        raise ConfigError(
            f"sweep.sampler = 'cma_es': needs at least 2 ranges in the space, not {found}; "
            "allowed: tpe, random, sobol, grid"
        )


def make_sampler(config: SweepConfig, space: Space, seed: int) -> BaseSampler:
    """Build the sampler `tpe` or `cma_es`.

    TPE chooses settings jointly and expects the worst of trials that still run, so that the
    suggestions of a batch differ.
    """
    if config.sampler == "cma_es":
        return CmaSampler(space, seed)
    return TPESampler(multivariate=True, constant_liar=True, seed=seed)


def num_trials(config: SweepConfig, space: Space) -> int:
    """Return the number of trials: at most as many as the grid has points."""
    if config.sampler != "grid":
        return config.trials
    axes = space.axes(config.grid_points).values()
    return min(config.trials, math.prod(len(axis) for axis in axes))


def design(config: SweepConfig, space: Space, seed: int) -> list[dict[str, Any]] | None:
    """Return the settings of every trial; None if a sampler chooses them."""
    count = num_trials(config, space)
    if config.sampler in ADAPTIVE:
        return None
    if config.sampler == "grid":
        axes = space.axes(config.grid_points)
        points = itertools.islice(itertools.product(*axes.values()), count)
        return [dict(zip(axes, point, strict=True)) for point in points]
    fractions = _sobol if config.sampler == "sobol" else _random
    return [
        {
            key: entry.at(float(fraction))
            for (key, entry), fraction in zip(space.entries.items(), row, strict=True)
        }
        for row in fractions(count, len(space.entries), seed)
    ]


def _random(count: int, dimensions: int, seed: int) -> np.ndarray:
    return np.array(
        [np.random.default_rng([seed, index]).random(dimensions) for index in range(count)]
    )


def _sobol(count: int, dimensions: int, seed: int) -> np.ndarray:
    from scipy.stats import qmc  # takes a second to import

    engine = qmc.Sobol(dimensions, scramble=True, rng=seed)
    points: np.ndarray = engine.random_base2(max((count - 1).bit_length(), 6))[:count]
    return points
