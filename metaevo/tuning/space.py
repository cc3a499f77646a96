"""Search spaces over settings, declared in the config's section `space`.

    space:
      hyperparams.learning_rate: {log_uniform: [1e-4, 1e-2]}
      train.num_steps: {integer: [32, 128], step: 32}
      value_loss: [squared, huber] # short for {choice: [squared, huber]}
      hyperparams.vf_coef: {fixed: 0.5}

All user errors in the section are reported before training starts.
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import Gt, MinLen
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from metaevo.config import ConfigError, from_dict, hints, merge, show
from metaevo.config.plain import PlainMapping
from metaevo.tuning import ranges
from metaevo.tuning.config import OF_THE_SWEEP
from metaevo.tuning.ranges import Choice, Entry, Params, Range

NOT_SEARCHABLE = (*OF_THE_SWEEP, "evaluation", "seeds", "learner", "evolve")
"""Settings that belong to the sweep as a whole, not to a trial."""
TRACED = "hyperparams."
"""Prefix of the settings that are traced in a training."""
FREE = "task.env_params."
"""Prefix of the settings that depend on the environment."""
KINDS = ("uniform", "log_uniform", "integer", "log_integer", "choice", "fixed")
FEW = 3
"""Values that represent a range of real numbers where every combination is tried."""
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


class Space:
    """Searched and fixed settings; see `make_space`."""

    def __init__(
        self, entries: dict[str, Entry], fixed: Params, traced: tuple[str, ...] = (TRACED,)
    ) -> None:
        """Take checked entries and fixed values by the dotted names of their settings.

        Values of `traced` settings never recompile; the name of a section ends with a point.
        """
        self.entries, self.fixed, self.traced = entries, fixed, traced
        self.distributions = {
            key: CategoricalDistribution(entry.kept()) if isinstance(entry, Choice) else entry
            for key, entry in entries.items()
        }
        self.static = tuple(key for key in entries if not self.is_traced(key))

    def is_traced(self, key: str) -> bool:
        """Whether another value of a setting needs no other compilation."""
        section, point, _ = key.partition(".")
        return key in self.traced or section + point in self.traced

    def settings(self, params: Params) -> Params:
        """Return a trial's settings and the fixed ones, nested for `metaevo.config.merge`."""
        return _nested({**self.fixed, **params})

    def decode(self, params: Params) -> Params:
        """Return values that Optuna kept, in the order of the space.

        Raises:
            ConfigError: if a value is none of a choice, as of the study of another space.
        """
        found: Params = {}
        for key, entry in self.entries.items():
            if key not in params:
                continue
            found[key] = params[key]
            if isinstance(entry, Choice):
                kept = entry.kept()
                if params[key] not in kept:
                    raise ConfigError(
                        f"space.{key}: the study has {show(params[key])}, no value of it"
                    )
                found[key] = entry.values[kept.index(params[key])]
        return found

    def num_static(self) -> int | None:
        """Return the number of combinations of static values; None if it has no bound."""
        counts = [ranges.count(self.entries[key]) for key in self.static]
        return None if None in counts else math.prod(count for count in counts if count)

    def static_grid(self, limit: int) -> list[Params]:
        """Return combinations of static values, `limit` at most; a few of a real range."""
        counts = {key: ranges.count(self.entries[key]) for key in self.static}
        axes = {
            key: ranges.points(self.entries[key], min(count, limit) if count else FEW)
            for key, count in counts.items()
        }
        combinations = itertools.islice(itertools.product(*axes.values()), limit)
        return [dict(zip(axes, values, strict=True)) for values in combinations]

    def axes(self, points: int) -> dict[str, list[Any]]:
        """Return the values of every setting in a grid, as Optuna keeps them.

        A range has at most `points` of them.
        """
        return {
            key: entry.kept() if isinstance(entry, Choice) else ranges.points(entry, points)
            for key, entry in self.entries.items()
        }

    def to_plain(self) -> Params:
        """Return the space as a YAML has it; two spaces are the same if these are."""
        plain: Params = {key: ranges.to_plain(entry) for key, entry in self.entries.items()}
        return plain | {key: {"fixed": value} for key, value in self.fixed.items()}


def make_space(raw_space: Params, settings_class: type, raw_settings: Params) -> Space:
    """Read the section `space`; raises `ConfigError` for anything wrong in it.

    Args:
        raw_space: the section.
        settings_class: the dataclass of the settings that it is about.
        raw_settings: plain data of these settings, to which the values of a trial are added.
    """
    _check_names(raw_space, settings_class)
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
        elif kind == "choice":
            entries[key] = _make_choice(key, read.choice)
        else:
            entries[key] = _make_range(key, kind, read)
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


# --- Names ----------------------------------------------------------------------------------------


def _check_names(raw_space: Params, cls: type) -> None:
    """Raise if a setting cannot be searched."""
    dotted = list(hints.dotted(cls))
    sections = {FREE[:-1], *(key.rpartition(".")[0] for key in dotted)}
    for key in raw_space:
        section = key.split(".")[0]
        if section in NOT_SEARCHABLE:
            raise ConfigError(
                f"space.{key}: {section!r} belongs to the whole sweep, not to a trial"
            )
        is_free = key.startswith(FREE) and key.count(".") == FREE.count(".")
        if is_free or (key in dotted and key not in sections):
            continue
        names = [
            name
            for name in dotted
            if name not in sections and name.split(".")[0] not in NOT_SEARCHABLE
        ]
        hint = hints.of_key(key, names, cls)
        raise ConfigError(
            f"unknown setting {show(f'space.{key}')}{hint}; "
            f"allowed: {', '.join([*sorted(names), FREE + '*'])}"
        )


# --- Rules ----------------------------------------------------------------------------------------


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


def _make_choice(key: str, values: list[Any]) -> Choice:
    for index, each in enumerate(values):
        if each in values[:index]:
            raise ConfigError(f"space.{key}.choice: {show(each)} occurs twice")
    return Choice(tuple(list(each) if isinstance(each, tuple) else each for each in values))


def _make_range(key: str, kind: str, rule: _Rule) -> Range:
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


# --- Values ---------------------------------------------------------------------------------------


def _check_values(space: Space, settings_class: type, raw_settings: Params) -> None:
    """Raise if settings do not allow their fixed values, choices, or numbers of their ranges.

    A value may need another value to go with it (as many minibatches as divide the batch): it is
    allowed if it goes with the settings as they are, or with one value of one other setting of the
    space.
    """
    base = merge(raw_settings, space.settings({}))
    if space.fixed and (problem := _problem(settings_class, base, {})):
        raise ConfigError(f"space: a fixed value does not fit: {problem}")
    for key, entry in space.entries.items():
        others = [
            {other: value}
            for other, another in space.entries.items()
            if other != key and other.split(".")[0] == key.split(".")[0]
            for value in ranges.ends(another)
        ]
        values = ranges.ends(entry)
        if isinstance(entry, FloatDistribution):
            values.append(ranges.at(entry, SOMEWHERE))
        for value in values:
            problem = _problem(settings_class, base, {key: value})
            if problem and all(
                _problem(settings_class, base, {key: value, **other}) for other in others
            ):
                shown = f"{key} = {show(value)}: "
                raise ConfigError(f"space.{shown}{problem.removeprefix(shown)}")


def _problem(cls: type, base: Params, params: Params) -> str | None:
    """Return the error of the settings with some values changed, or None."""
    try:
        from_dict(cls, merge(base, _nested(params)))
    except ConfigError as error:
        return str(error)
    return None


def _nested(params: Params) -> Params:
    """Return values by their dotted names as nested sections."""
    found: Params = {}
    for key, value in params.items():
        for name in reversed(key.split(".")):
            value = {name: value}
        found = merge(found, value)
    return found
