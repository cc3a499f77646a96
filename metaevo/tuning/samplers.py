"""Optuna's samplers, which choose the settings of trials, and its pruners, which stop some."""

import math
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.pruners import BasePruner, HyperbandPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, GridSampler, QMCSampler, RandomSampler, TPESampler

from metaevo.config import ConfigError
from metaevo.config.space import Entry, Space
from metaevo.tuning.cma import CmaSampler
from metaevo.tuning.config import MOST, SweepConfig


def make_sampler(config: SweepConfig, space: Space, seed: int, own_seed: int | None) -> BaseSampler:
    """Build a sampler for the next trial.

    All processes of a study share `seed`, of a grid's order and of Sobol's scrambling; `own_seed`
    is of other random numbers. TPE chooses settings jointly and expects the worst of trials that
    still run, so that the suggestions of a batch differ.
    """
    match config.sampler:
        case "grid":
            return GridSampler({key: _axis(each) for key, each in space.items()}, seed)
        case "random":
            return RandomSampler(own_seed)
        case "sobol":
            first = RandomSampler(own_seed)  # whose trial tells Optuna the space
            return QMCSampler(
                scramble=True, seed=seed, independent_sampler=first, warn_independent_sampling=False
            )
        case "cma_es":
            return CmaSampler(space, own_seed)
        case "tpe":
            return TPESampler(multivariate=True, constant_liar=True, seed=own_seed)


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
    if config.scheduler == "none":
        return [1]
    count = math.floor(math.log(1 / config.min_fraction, config.eta) + 1e-9)
    return [config.eta**rung for rung in range(count + 1)]


def num_trials(config: SweepConfig, space: Space) -> int:
    """Return the number of trials: at most as many as the grid has points.

    Raises:
        ConfigError: if the sampler cannot search the space.
    """
    where, entries = f"sweep.sampler = {config.sampler!r}", space.values()
    if config.sampler == "cma_es":
        count = sum(not isinstance(each, CategoricalDistribution) for each in entries)
        if count < 2:
            raise ConfigError(f"{where}: needs at least 2 ranges in the space, not {count}")
        if config.scheduler != "none":  # it would see complete trials only
            raise ConfigError(f"{where}: needs sweep.scheduler = 'none', not {config.scheduler!r}")
    if config.sampler != "grid":
        return config.trials
    if any(isinstance(each, FloatDistribution) for each in entries):
        raise ConfigError(f"{where}: all of the space must be choices and integers")
    size = math.prod(len(_axis(each)) for each in entries)
    if size > MOST:
        raise ConfigError(f"{where}: the space has {size} points; at most {MOST} are allowed")
    return min(config.trials, size)


def _axis(entry: Entry) -> Any:
    """Return the values of a setting in a grid."""
    if isinstance(entry, CategoricalDistribution):
        return entry.choices
    assert not isinstance(entry, FloatDistribution)
    return range(entry.low, entry.high + 1, entry.step)
