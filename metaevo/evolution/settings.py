"""The section `strategy` of a YAML file, and the strategy that it describes."""

import dataclasses
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

from annotated_types import Gt

from metaevo.config import ConfigError, code, show
from metaevo.config.plain import PlainDict, of_value
from metaevo.evolution.evosax import ALGORITHMS, UNPICKLING, AlgorithmSettings, Evosax
from metaevo.evolution.strategy import Strategy

GENETIC_PROGRAMMING = "genetic_programming"
PLACE = "metaevo.evolution.genetic", "GeneticProgramming"
"""Module and class of this algorithm, imported when it is used."""


@dataclass(frozen=True)
class StrategyConfig(AlgorithmSettings):
    """Settings of an evolutionary algorithm.

    Examples:
        >>> strategy = metaevo.StrategyConfig(algorithm="SNES", population_size=8)
        >>> found = metaevo.evolve(problem, strategy=strategy)
    """

    population_size: Annotated[int, Gt(1)] = 64
    """candidates per generation"""

    def build(self) -> Strategy:
        """Return the strategy.

        Raises:
            ConfigError: if there is no such algorithm, or it lacks a setting.
        """
        name = self.algorithm
        if code.is_name(name):
            return _construct(self, code.load("strategy.algorithm", name))
        if name == GENETIC_PROGRAMMING:
            return _construct(self, getattr(import_module(PLACE[0]), PLACE[1]))
        if name not in ALGORITHMS:
            known = [*ALGORITHMS, GENETIC_PROGRAMMING]
            reason = "loads a pickle, which is unsafe" if name in UNPICKLING else "is not known"
            raise ConfigError(
                f"strategy.algorithm = {name!r} {reason}{of_value(name, known)}; known: "
                f"{', '.join(known)}, or FILE.py:CLASS or MODULE:CLASS"
            )
        return Evosax(**_fields(self))


class GivenStrategy(StrategyConfig):
    """Settings of a strategy passed as an object, as config.yaml records them."""

    strategy: Strategy

    def build(self) -> Strategy:
        """Return the object."""
        return self.strategy


def config_of(strategy: Any) -> StrategyConfig:
    """Return the settings of a strategy that a caller passes."""
    if not isinstance(strategy, Strategy):
        hint = f", such as {strategy.__name__}(), not a class" if isinstance(strategy, type) else ""
        raise ConfigError(
            f"strategy = {show(strategy)}: must be an object that derives from "
            f"metaevo.Strategy{hint}"
        )
    own, kind = _fields(strategy), type(strategy)
    if isinstance(strategy, Evosax):
        return StrategyConfig(**own)
    place = kind.__module__, kind.__qualname__
    name = GENETIC_PROGRAMMING if place == PLACE else ":".join(place)
    named = {each.name for each in dataclasses.fields(StrategyConfig)} - {"settings", "algorithm"}
    known = {key: own.pop(key) for key in sorted(named & own.keys())}
    numbers = {key: value for key, value in own.items() if isinstance(value, bool | int | float)}
    config = GivenStrategy(**known | {"algorithm": name, "settings": numbers})
    object.__setattr__(config, "strategy", strategy)
    return config


def _fields(settings: Any) -> PlainDict:
    return {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}


def _construct(config: StrategyConfig, cls: Any) -> Strategy:
    """Return a strategy of another class than evosax's, with the settings that it has."""
    where = f"strategy.algorithm = {show(config.algorithm)}"
    if not (isinstance(cls, type) and issubclass(cls, Strategy)):
        raise ConfigError(f"{where}: must be a class that derives from metaevo.Strategy")
    names = [each.name for each in dataclasses.fields(cls)]
    given = {key: value for key, value in _fields(config).items() if key in names}
    if unknown := sorted(config.settings.keys() - set(names)):
        allowed = ", ".join(name for name in names if name not in given) or "none"
        raise ConfigError(
            f"strategy.settings: {cls.__name__} has no setting {unknown[0]!r}; allowed: {allowed}"
        )
    try:
        strategy: Strategy = cls(**given | config.settings)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{where}: cannot be made with its settings: {reason}") from error
    return strategy
