"""Optuna's samplers, which choose the settings of trials, and its pruners, which stop some."""

import math

from optuna.pruners import BasePruner, HyperbandPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, GridSampler, QMCSampler, RandomSampler, TPESampler

from metaevo.config import ConfigError
from metaevo.tuning.cma import CmaSampler
from metaevo.tuning.config import MOST, SweepConfig
from metaevo.tuning.ranges import Choice
from metaevo.tuning.space import Space


def check_sampler(config: SweepConfig, space: Space) -> None:
    """Raise `ConfigError` if the sampler cannot search a space."""
    ranges = [entry for entry in space.entries.values() if not isinstance(entry, Choice)]
    if config.sampler == "cma_es" and len(ranges) < 2:
        raise ConfigError(
            f"sweep.sampler = 'cma_es': needs at least 2 ranges in the space, not {len(ranges)}; "
            "allowed: tpe, random, sobol, grid"
        )
    if config.sampler == "grid" and (size := _grid_size(config, space)) > MOST:
        raise ConfigError(
            f"sweep.sampler = 'grid': the space has {size} points, more than {MOST}; reduce "
            "sweep.grid_points, or use another sampler"
        )


def make_sampler(config: SweepConfig, space: Space, seed: int, own_seed: int | None) -> BaseSampler:
    """Build a sampler for the next trial.

    TPE chooses settings jointly and expects the worst of trials that still run, so that the
    suggestions of a batch differ.

    Args:
        config: names the sampler.
        space: the search space.
        seed: of a grid's order and of Sobol's scrambling, which all processes of a study share.
        own_seed: of the other random numbers; None for one from the operating system.
    """
    match config.sampler:
        case "grid":
            return GridSampler(space.axes(config.grid_points), seed)
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
    if not config.prunes:
        return [1]
    count = math.floor(math.log(1 / config.min_fraction, config.eta) + 1e-9)
    return [config.eta**rung for rung in range(count + 1)]


def num_trials(config: SweepConfig, space: Space) -> int:
    """Return the number of trials: at most as many as the grid has points."""
    if config.sampler != "grid":
        return config.trials
    return min(config.trials, _grid_size(config, space))


def _grid_size(config: SweepConfig, space: Space) -> int:
    return math.prod(len(values) for values in space.axes(config.grid_points).values())
