"""The samplers, which choose the settings of the trials."""

import math
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial

from metaevo.config import ConfigError
from metaevo.tuning.cma import CmaSampler
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.ranges import Choice
from metaevo.tuning.space import Space

RETRY_OF = "retry_of"
"""The attribute of a trial that repeats a lost one: the number of that one."""


def make_sampler(config: SweepConfig, space: Space, seed: int) -> BaseSampler:
    """Build a sampler.

    TPE chooses settings jointly and expects the worst of trials that still run, so that a batch of
    suggestions differs. CMA-ES knows numbers only: choices are drawn at random beside it.

    Raises:
        ConfigError: if the sampler cannot search the space.
    """
    if config.sampler == "tpe":
        return TPESampler(multivariate=True, constant_liar=True, seed=seed)
    if config.sampler == "cma_es":
        numeric = [key for key, entry in space.entries.items() if not isinstance(entry, Choice)]
        if len(numeric) < 2:
            found = ", ".join(numeric) or "none"
            raise ConfigError(
                f"sweep.sampler = 'cma_es': needs at least 2 ranges in the space, not {found}; "
                "allowed: tpe, random, sobol, grid"
            )
        return CmaSampler(space, seed)
    return DesignSampler(config, space, seed)


def num_trials(config: SweepConfig, space: Space) -> int:
    """Return how many trials a sweep has: as many as its settings say, or as a grid has points."""
    if config.sampler != "grid":
        return config.trials
    return min(config.trials, grid_size(config, space))


def grid_size(config: SweepConfig, space: Space) -> int:
    """Return the number of points of the grid."""
    return math.prod(len(axis) for axis in space.axes(config.grid_points).values())


def design_indices(trials: list[FrozenTrial]) -> list[int]:
    """Return the place in the design of every trial, which are all of a study in their order.

    A trial that repeats a lost one has the place of that one; others are counted without these.
    """
    indices: list[int] = []
    fresh = 0
    for trial in trials:
        lost = trial.user_attrs.get(RETRY_OF)
        indices.append(fresh if lost is None else indices[lost])
        fresh += lost is None
    return indices


class DesignSampler(BaseSampler):
    """Grid, random and Sobol points that are functions of the seed and the place in the design.

    Optuna's own grid and quasi-random samplers can give two workers the same point.
    """

    def __init__(self, config: SweepConfig, space: Space, seed: int) -> None:
        self._kind, self._space, self._seed = config.sampler, space, seed
        self._axes = space.axes(config.grid_points) if self._kind == "grid" else {}
        self._sobol = np.empty((0, len(space.entries)))

    def point(self, index: int) -> dict[str, Any]:
        """Return the values at a place in the design; a grid begins again after its end."""
        if self._kind == "grid":
            shape = [len(axis) for axis in self._axes.values()]
            places = np.unravel_index(index % math.prod(shape), shape)
            pairs = zip(self._axes.items(), places, strict=True)
            return {key: axis[int(place)] for (key, axis), place in pairs}
        fractions = self._fractions(index)
        pairs_of = zip(self._space.entries.items(), fractions, strict=True)
        return {key: entry.at(float(fraction)) for (key, entry), fraction in pairs_of}

    def _fractions(self, index: int) -> np.ndarray:
        dimensions = len(self._space.entries)
        if self._kind == "random":
            return np.random.default_rng([self._seed, index]).random(dimensions)
        if index >= len(self._sobol):  # a power of two of them, whose first ones never change
            from scipy.stats import qmc  # takes a second

            engine = qmc.Sobol(dimensions, scramble=True, rng=self._seed)
            self._sobol = engine.random_base2(max(index.bit_length(), 6))
        point: np.ndarray = self._sobol[index]
        return point

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the whole space: all values of a point are chosen together."""
        del study, trial
        return self._space.distributions

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the point of a trial."""
        del search_space
        earlier = study.get_trials(deepcopy=False)[: trial.number + 1]
        return self._space.encode(self.point(design_indices(earlier)[-1]))

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Refuse what is not in the space."""
        raise ValueError(f"{param_name} is not in the search space")
