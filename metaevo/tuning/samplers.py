"""Samplers choose the settings of trials; pruners stop trials early.

Grid, random and Sobol points form a design: a list that is fixed before the first trial. TPE and
CMA-ES are samplers, which learn from finished trials.
"""

import math

import numpy as np
from optuna.pruners import BasePruner, HyperbandPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, TPESampler

from metaevo.config import ConfigError
from metaevo.tuning.cma import CmaSampler
from metaevo.tuning.config import ADAPTIVE, PRUNED, SweepConfig
from metaevo.tuning.ranges import Choice, Params, at
from metaevo.tuning.space import Space


def check_sampler(config: SweepConfig, space: Space) -> None:
    """Raise `ConfigError` if the sampler cannot search a space."""
    ranges = [entry for entry in space.entries.values() if not isinstance(entry, Choice)]
    if config.sampler == "cma_es" and len(ranges) < 2:
        raise ConfigError(
            f"sweep.sampler = 'cma_es': needs at least 2 ranges in the space, not {len(ranges)}; "
            "allowed: tpe, random, sobol, grid"
        )


def make_sampler(config: SweepConfig, space: Space, seed: int) -> BaseSampler:
    """Build the sampler of the settings that no `design` fixes.

    TPE chooses settings jointly and expects the worst of trials that still run, so that the
    suggestions of a batch differ.
    """
    if config.sampler == "cma_es":
        return CmaSampler(space, seed)
    return TPESampler(multivariate=True, constant_liar=True, seed=seed)


def make_pruner(config: SweepConfig) -> BasePruner:
    """Build the pruner of the scheduler; it counts steps as `rungs` does."""
    if config.scheduler == "successive_halving":
        return SuccessiveHalvingPruner(min_resource=1, reduction_factor=config.eta)
    if config.scheduler == "hyperband":
        longest = rungs(config)[-1]
        return HyperbandPruner(min_resource=1, max_resource=longest, reduction_factor=config.eta)
    return NopPruner()


def rungs(config: SweepConfig) -> list[int]:
    """Return the steps at which trials may be stopped: 1, eta, eta ** 2, ...; the last is the end.

    A step is the training of the shortest rung. Without a pruner there is one step.
    """
    if config.scheduler not in PRUNED:
        return [1]
    count = math.floor(math.log(1 / config.min_fraction, config.eta) + 1e-9)
    return [config.eta**rung for rung in range(count + 1)]


def expected_share(config: SweepConfig) -> float:
    """Return the expected share of training all trials to their end, if one in eta goes on."""
    steps = np.array(rungs(config)) / rungs(config)[-1]
    going_on = 1.0 / config.eta ** np.arange(len(steps))
    shares = [
        np.dot(np.diff(steps[start:], prepend=0.0), going_on[: len(steps) - start])
        for start in range(len(steps))
    ]
    if config.scheduler != "hyperband":
        return float(shares[0])
    left = np.arange(len(steps))[::-1]  # rungs after the first rung of a bracket
    weights = np.ceil(len(steps) * config.eta**left / (left + 1))  # as Optuna's brackets
    return float(np.average(shares, weights=weights))


def num_trials(config: SweepConfig, space: Space) -> int:
    """Return the number of trials: at most as many as the grid has points."""
    if config.sampler != "grid":
        return config.trials
    return len(space.grid(config.grid_points, config.trials))


def design(config: SweepConfig, space: Space, seed: int) -> list[Params] | None:
    """Return the settings of every trial; None if a sampler chooses them."""
    if config.sampler in ADAPTIVE:
        return None
    if config.sampler == "grid":
        return space.grid(config.grid_points, config.trials)
    return [
        {
            key: at(entry, float(fraction))
            for (key, entry), fraction in zip(space.entries.items(), row, strict=True)
        }
        for row in _fractions(config, len(space.entries), seed)
    ]


def _fractions(config: SweepConfig, dimensions: int, seed: int) -> list[np.ndarray]:
    """Return random or Sobol points [dimensions] in the unit cube, one for each trial."""
    count = config.trials
    if config.sampler == "random":
        return [np.random.default_rng([seed, index]).random(dimensions) for index in range(count)]
    from scipy.stats import qmc  # takes a second to import

    engine = qmc.Sobol(dimensions, scramble=True, rng=seed)
    return list(engine.random_base2(max((count - 1).bit_length(), 6))[:count])
