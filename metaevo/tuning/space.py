"""Search spaces over settings, declared in the config's section `space`.

    space:
      hyperparams.learning_rate: {log_uniform: [1e-4, 1e-2]}
      train.num_steps: {integer: [32, 128], step: 32}
      value_loss: [squared, huber] # short for {choice: [squared, huber]}
      hyperparams.vf_coef: {fixed: 0.5}

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
KINDS = ("uniform", "log_uniform", "integer", "log_integer", "choice", "fixed")
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
    fixed: Any = None
    step: Annotated[int, Gt(0)] = 1


@dataclass(frozen=True)
class Space:
    """Searched and fixed settings by their dotted names, checked by `make_space`."""

    entries: dict[str, Entry]
    fixed: Params
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

    def settings(self, params: Params) -> Params:
        """Return a trial's settings and the fixed ones, nested for `metaevo.config.merge`."""
        return _nested({**self.fixed, **params})

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
    entries: dict[str, Entry] = {}
    fixed: Params = {}
    for key, rule in raw_space.items():
        kind, read = _read_rule(key, rule)
        if kind == "fixed":
            fixed[key] = read.fixed
        else:
            entries[key] = _make_entry(key, kind, read)
    if not entries:
        raise ConfigError(
            f"space: nothing to try; add a setting with one of {', '.join(KINDS[:5])}"
        )
    return Space(entries, fixed)


def dotted_space(space: PlainMapping, prefix: str = "") -> Params:
    """Return a space with the dotted names of its settings, each with its rule.

    A YAML may nest them, and so does the command line (`--space.hyperparams.gamma "{...}"`), which
    comes last and wins.
    """
    found: Params = {}
    for key, rule in space.items():
        nested = isinstance(rule, dict) and rule and not set(rule) & {*KINDS, "step"}
        found |= dotted_space(rule, f"{prefix}{key}.") if nested else {f"{prefix}{key}": rule}
    return found


def _read_rule(key: str, rule: object) -> tuple[str, _Rule]:
    """Return the kind of a rule, and its values."""
    allowed = f"a single one of {', '.join(KINDS)}"
    if isinstance(rule, list | tuple):
        rule = {"choice": rule}
    if not isinstance(rule, dict):
        raise ConfigError(
            f"space.{key} = {show(rule)}: must be a list, or a mapping with {allowed}"
        )
    try:
        read = from_dict(_Rule, rule)
    except ConfigError as error:
        raise ConfigError(f"space.{key}: {error}") from None
    kinds = [name for name in rule if name != "step"]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise ConfigError(f"space.{key}: must have {allowed}, not {found}")
    if "step" in rule and kinds[0] != "integer":
        raise ConfigError(f"space.{key}.step: only integer has a step, not {kinds[0]}")
    return kinds[0], read


def _make_entry(key: str, kind: str, rule: _Rule) -> Entry:
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
    """Raise if settings do not allow their fixed values, choices, or numbers of their ranges.

    A value may need another value to go with it (as many minibatches as divide the batch): it is
    allowed if it goes with the settings as they are, or with one value of one other setting of the
    space.
    """
    base = merge(raw_settings, space.settings({}))

    def problem(params: Params) -> str | None:
        try:
            from_dict(settings_class, merge(base, _nested(params)))
        except ConfigError as error:
            return str(error)
        return None

    if space.fixed and (found := problem({})):
        raise ConfigError(f"space: a fixed value does not fit: {found}")
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


def _nested(params: Params) -> Params:
    """Return values by their dotted names as nested sections."""
    found: Params = {}
    for key, value in params.items():
        for name in reversed(key.split(".")):
            value = {name: value}
        found = merge(found, value)
    return found
