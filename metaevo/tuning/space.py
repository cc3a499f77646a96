"""Search spaces over settings, declared in the config's section `space`.

    space:
      hyperparams.learning_rate: {log_uniform: [1e-4, 1e-2]}
      train.num_steps: {integer: [32, 128], step: 32}
      value_loss: [squared, huber] # short for {choice: [squared, huber]}

All user errors in the section are reported before training starts.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from annotated_types import Gt, MinLen
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from metaevo.config import ConfigError, from_dict, merge, show
from metaevo.config.plain import PlainMapping
from metaevo.tuning import ranges
from metaevo.tuning.config import OF_THE_SWEEP
from metaevo.tuning.ranges import Choice, Entry, Params, Range

NOT_SEARCHABLE = (*OF_THE_SWEEP, "evaluation", "seeds", "learner", "evolve")
"""Settings that belong to the sweep as a whole, not to a trial."""
TRACED = "hyperparams."
"""Prefix of the settings that are traced in a training."""
KINDS = ("uniform", "log_uniform", "integer", "log_integer", "choice")
SOMEWHERE = 1 / math.pi
"""Fraction of a range of real numbers that is not a whole number, which some settings refuse."""


@dataclass(frozen=True)
class _Rule:
    """The rule of a setting; exactly one of the kinds is given."""

    uniform: tuple[float, float] = (0.0, 1.0)
    log_uniform: tuple[float, float] = (0.0, 1.0)
    integer: tuple[int, int] = (0, 1)
    log_integer: tuple[int, int] = (0, 1)
    choice: Annotated[list[Any], MinLen(1)] = field(default_factory=list)
    step: Annotated[int, Gt(0)] = 1


@dataclass(frozen=True)
class Space:
    """Searched settings by their dotted names, checked by `make_space`."""

    entries: dict[str, Entry]
    traced: tuple[str, ...] = (TRACED,)
    """settings whose values never recompile; the name of a section ends with a point"""

    @cached_property
    def distributions(self) -> dict[str, Range | CategoricalDistribution]:
        """The entries as Optuna's distributions."""
        return {key: ranges.distribution(entry) for key, entry in self.entries.items()}

    @property
    def static(self) -> tuple[str, ...]:
        """The searched settings that are not traced."""
        return tuple(key for key in self.entries if not self.is_traced(key))

    def is_traced(self, key: str) -> bool:
        """Whether another value of a setting needs no other compilation."""
        section, point, _ = key.partition(".")
        return key in self.traced or section + point in self.traced

    def decode(self, params: Params) -> Params:
        """Return values that Optuna kept, in the order of the space."""
        found = {key: params[key] for key in self.entries if key in params}
        for key, entry in self.entries.items():
            if isinstance(entry, Choice) and key in found:
                found[key] = entry.values[entry.kept().index(found[key])]
        return found

    def num_static(self) -> float:
        """Return the number of combinations of static values, which may be infinite."""
        return math.prod(ranges.count(self.entries[key]) for key in self.static)

    def axes(self, points: int) -> dict[str, list[Any]]:
        """Return the values of every setting in a grid, as Optuna keeps them.

        A range has at most `points` of them.
        """
        return {
            key: entry.kept() if isinstance(entry, Choice) else ranges.points(entry, points)
            for key, entry in self.entries.items()
        }


def make_space(raw_space: Params, settings_class: type, raw_settings: Params) -> Space:
    """Read the section `space`; raises `ConfigError` for anything wrong in it.

    Args:
        raw_space: the section.
        settings_class: the dataclass of the settings that it is about.
        raw_settings: plain data of these settings, to which the values of a trial are added.
    """
    for key in raw_space:
        if (section := key.partition(".")[0]) in NOT_SEARCHABLE:
            raise ConfigError(
                f"space.{key}: {section!r} belongs to the whole sweep, not to a trial"
            )
    space = free_space(raw_space)
    _check_values(space, settings_class, raw_settings)
    return space


def free_space(raw_space: PlainMapping) -> Space:
    """Read a space in which any names are allowed; raises `ConfigError` for a wrong rule."""
    if not raw_space:
        raise ConfigError(f"space: nothing to try; add a setting with one of {', '.join(KINDS)}")
    return Space({key: _entry(key, rule) for key, rule in raw_space.items()})


def dotted_space(space: PlainMapping, prefix: str = "") -> Params:
    """Return a space with the dotted names of its settings, each with its rule.

    A YAML may nest them, and so does the command line (`--space.hyperparams.gamma "{...}"`), which
    comes last and wins.
    """
    found: Params = {}
    for key, rule in space.items():
        is_nested = isinstance(rule, dict) and rule and not set(rule) & {*KINDS, "step"}
        found |= dotted_space(rule, f"{prefix}{key}.") if is_nested else {f"{prefix}{key}": rule}
    return found


def _entry(key: str, given: object) -> Entry:
    """Read the rule of a setting."""
    allowed = f"a single one of {', '.join(KINDS)}"
    if isinstance(given, list | tuple):
        given = {"choice": given}
    if not isinstance(given, dict):
        raise ConfigError(
            f"space.{key} = {show(given)}: must be a list, or a mapping with {allowed}"
        )
    try:
        rule = from_dict(_Rule, given)
    except ConfigError as error:
        raise ConfigError(f"space.{key}: {error}") from None
    kinds = [name for name in given if name != "step"]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise ConfigError(f"space.{key}: must have {allowed}, not {found}")
    (kind,) = kinds
    if "step" in given and kind != "integer":
        raise ConfigError(f"space.{key}.step: only integer has a step, not {kind}")
    if kind == "choice":
        for index, each in enumerate(rule.choice):
            if each in rule.choice[:index]:
                raise ConfigError(f"space.{key}.choice: {show(each)} occurs twice")
        lists = (list(each) if isinstance(each, tuple) else each for each in rule.choice)
        return Choice(tuple(lists))
    low, high = getattr(rule, kind)
    where = f"space.{key}.{kind} = [{low}, {high}]"
    is_log = kind.startswith("log_")
    if not -math.inf < low < high < math.inf:
        raise ConfigError(f"{where}: low must be less than high, and both finite")
    if is_log and low <= 0:
        raise ConfigError(f"{where}: low must be greater than 0 for a logarithm")
    if not kind.endswith("integer"):
        return FloatDistribution(low, high, log=is_log)
    if (high - low) % rule.step:
        raise ConfigError(f"space.{key}.step = {rule.step}: must divide high - low = {high - low}")
    return IntDistribution(low, high, log=is_log, step=rule.step)


def _check_values(space: Space, settings_class: type, raw_settings: Params) -> None:
    """Raise if settings do not allow their choices, or numbers of their ranges.

    A value may need another value to go with it (as many minibatches as divide the batch): it is
    allowed if it goes with the settings as they are, or with one value of one other setting of the
    space.
    """

    def problem(params: Params) -> str | None:
        try:
            from_dict(settings_class, merge(raw_settings, nested(params)))
        except ConfigError as error:
            return str(error)
        return None

    for key, entry in space.entries.items():
        others = [
            {other: value}
            for other, another in space.entries.items()
            if other != key and other.split(".")[0] == key.split(".")[0]
            for value in ranges.ends(another)
        ]
        for value in [*ranges.ends(entry), ranges.at(entry, SOMEWHERE)]:
            found = problem({key: value})
            if found and all(problem({key: value, **other}) for other in others):
                shown = f"{key} = {show(value)}: "
                raise ConfigError(f"space.{shown}{found.removeprefix(shown)}")


def nested(params: Params) -> Params:
    """Return values by their dotted names as nested sections, for `metaevo.config.merge`."""
    found: Params = {}
    for key, value in params.items():
        for name in reversed(key.split(".")):
            value = {name: value}
        found = merge(found, value)
    return found
