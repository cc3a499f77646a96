"""What a sweep is going to do, known before anything is compiled: `--dry-run` prints it."""

from dataclasses import dataclass

from metaevo.config import ConfigError
from metaevo.reports.page import Table
from metaevo.sweep.evolutions import Evolutions
from metaevo.sweep.halving import brackets
from metaevo.sweep.population_based import dims
from metaevo.sweep.settings import EvolutionSweepSettings, SearchSettings, SweepSettings
from metaevo.sweep.trainings import Trainings
from metaevo.sweep.trials import AnyTrials, S, Trials
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.space import Space

MAX_CHECKED = 256
"""Static combinations that are tried out before a sweep begins."""


@dataclass(frozen=True)
class Plan:
    """The size of a sweep."""

    trials: int
    groups: int | None
    """static combinations, one compilation each; None if they are unlimited"""
    invalid: tuple[str, ...]
    """why some combinations cannot be trained; their trials will be reported as failed"""
    search_frames: int
    """environment steps of all trials, at most"""
    full_frames: int
    """the same if every trial were trained to its end"""
    confirm_frames: int
    chunk_size: int | None
    """agents trained at once on a device"""
    num_devices: int | None
    chunk_bytes: int | None
    """what a chunk keeps in memory"""

    def compilations(self) -> str:
        """Say in words how many compilations to expect."""
        if self.groups is None:
            return f"up to {self.trials} (a static setting has a continuous range)"
        return str(min(self.groups, self.trials))

    def table(self, settings: SearchSettings, space: Space) -> Table:
        """Return what `--dry-run` shows."""
        config = settings.sweep
        rows: list[list[object]] = [
            ["trials", f"{self.trials} x {config.seeds} seeds, {config.sampler}"],
            ["scheduler", config.scheduler],
            ["static groups", self.groups if self.groups is not None else "unbounded"],
            ["compilations", self.compilations()],
            ["frames of the search", self.search_frames],
        ]
        if self.search_frames < self.full_frames:
            share = self.search_frames / self.full_frames
            rows.append(["share of training all to the end", f"{share:.0%}"])
        rows.append(["frames of the confirmation", self.confirm_frames])
        if self.chunk_size is not None and self.chunk_bytes is not None:
            rows.append(["agents at once", f"{self.chunk_size} on each of {self.num_devices}"])
            rows.append(["memory of a chunk", f"{self.chunk_bytes / 2**20:,.1f} MiB"])
        return Table("Plan", ["", ""], rows, note=f"Searched: {', '.join(space.distributions)}")


def trials_of(settings: SearchSettings, space: Space) -> AnyTrials:
    """Return what the trials of a sweep are: trainings or, where something is evolved, evolutions.

    Args:
        settings: of the sweep.
        space: what is tried.
    """
    if isinstance(settings, EvolutionSweepSettings):
        return Evolutions(settings, space)
    assert isinstance(settings, SweepSettings)
    return Trainings(settings, space)


def make_plan(trials: AnyTrials) -> Plan:
    """Work out the size of a sweep, and refuse one that cannot run.

    Raises:
        ConfigError: if not a single static combination can be trained, or if the settings of the
            sweep contradict each other.
    """
    space, config = trials.space, trials.config
    _check_scheduler(trials)
    count = config.trials
    if config.sampler == "grid":
        count = min(count, len(space.grid(config.grid_points)))
    longest, invalid = _longest(trials)
    if config.confirm_seeds:
        _check_base(trials)
    full = count * config.seeds * trials.frames(longest)
    chunk_size = num_devices = chunk_bytes = None
    if isinstance(trials, Trainings):
        population = trials.population(longest)
        chunk_size, num_devices = population.chunk_size, population.num_devices
        chunk_bytes = population.memory_bytes
    return Plan(
        trials=count,
        groups=space.num_static(),
        invalid=tuple(invalid),
        search_frames=round(full * _share(config)),
        full_frames=full,
        confirm_frames=2 * config.confirm_seeds * trials.frames(longest),
        chunk_size=chunk_size,
        num_devices=num_devices,
        chunk_bytes=chunk_bytes,
    )


def _check_scheduler(trials: AnyTrials) -> None:
    config, space = trials.config, trials.space
    if isinstance(trials, Evolutions) and config.scheduler != "none":
        raise ConfigError(
            f"sweep.scheduler = {config.scheduler!r}: an evolution is run to its end; allowed: none"
        )
    if config.scheduler == "pbt" and space.static:
        raise ConfigError(
            f"sweep.scheduler = 'pbt' changes agents in mid-training, which static settings do "
            f"not allow: {', '.join(space.static)}; allowed: hyperparams.*"
        )
    if config.scheduler == "pbt":
        dims(space)
        updates, rounds = trials.settings.train.num_updates, trials.settings.pbt.rounds
        if rounds > updates:
            raise ConfigError(f"pbt.rounds = {rounds}: must be at most the {updates} updates")
        if config.trials < 2:
            raise ConfigError(f"sweep.trials = {config.trials}: pbt needs at least 2 members")
    if config.scheduler == "pbt" and config.sampler not in ("random", "sobol"):
        raise ConfigError(
            f"sweep.sampler = {config.sampler!r}: pbt begins with settings that are independent "
            "of each other; allowed: random, sobol"
        )


def _longest(trials: Trials[S]) -> tuple[S, list[str]]:
    """Return the settings of the static combination with most frames, and why some do not fit."""
    valid, invalid = [], []
    for params in trials.space.static_grid(MAX_CHECKED):
        try:
            settings = trials.settings_of(params)
            valid.append((trials.frames(settings), settings))
        except ConfigError as error:
            invalid.append(str(error))
    # Whether learner and environment fit takes longer to find out: one that does is enough.
    for _, settings in sorted(valid, key=lambda each: -each[0]):
        try:
            trials.check(settings)
        except ConfigError as error:
            invalid.append(str(error))
        else:
            return settings, invalid
    raise ConfigError(f"space: no combination of static settings can be trained: {invalid[0]}")


def _check_base(trials: Trials[S]) -> None:
    """Refuse now what the confirmation would find out when the search is over."""
    try:
        trials.check(trials.settings_of({}))
    except ConfigError as error:
        raise ConfigError(
            f"the settings before the sweep, with which sweep.confirm_seeds compares its winner, "
            f"cannot be trained: {error}"
        ) from None


def _share(config: SweepConfig) -> float:
    """Return the share of full training that a scheduler uses, at most."""
    if config.scheduler not in ("successive_halving", "hyperband"):
        return 1.0
    cycle = brackets(config)
    trained = sum(bracket.cost() for bracket in cycle)
    return float(trained / sum(bracket.trials for bracket in cycle))
