"""Strategies that are not of evosax, by the name or reference of their class."""

import dataclasses
import pkgutil
from typing import TYPE_CHECKING, Any

from metaevo.config import ConfigError, code, failure, show
from metaevo.evolution.strategy import Strategy

if TYPE_CHECKING:
    from metaevo.evolution.evosax import StrategyConfig

KEY = "strategy.algorithm"
"""The setting"""


def construct(config: "StrategyConfig", place: str | None) -> Strategy:
    """Return the strategy of metaevo's class at a place, or of the user's, with its settings.

    Raises:
        ConfigError: if there is none, or it lacks a setting.
    """
    name = config.algorithm
    kind: Any = pkgutil.resolve_name(place) if place else code.load_code(KEY, name)
    where = f"{KEY} = {show(name)}"
    if not (isinstance(kind, type) and issubclass(kind, Strategy)):
        raise ConfigError(f"{where}: must be a class that derives from metaevo.Strategy")
    names = [each.name for each in dataclasses.fields(kind)]
    known = {each.name for each in dataclasses.fields(config)}
    given = {key: getattr(config, key) for key in names if key in known}
    if unknown := sorted(config.settings.keys() - set(names)):
        allowed = ", ".join(name for name in names if name not in given) or "none"
        raise ConfigError(
            f"strategy.settings: {kind.__name__} has no setting {unknown[0]!r}; allowed: {allowed}"
        )
    try:
        return kind(**given | config.settings)
    except Exception as error:
        raise failure(f"{where}: cannot be made with its settings", error) from error
