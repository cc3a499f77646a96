"""Search spaces over settings, declared in the config's section `space`.

    space:
      hyperparams.learning_rate: {log_uniform: [1e-4, 1e-2]}
      train.num_steps: {integer: [32, 128], step: 32}
      value_loss: [squared, huber] # short for {choice: [squared, huber]}
      hyperparams.vf_coef: {fixed: 0.5}

All user errors in the section are reported before training starts.
"""

import contextlib
import dataclasses
import itertools
import math
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from optuna.distributions import FloatDistribution, IntDistribution

from metaevo.config import ConfigError, from_dict, hints, merge, show
from metaevo.tuning import ranges
from metaevo.tuning.ranges import Choice, Entry, Params, Range

NOT_SEARCHABLE = ("space", "sweep", "pbt", "run", "evaluation", "seeds", "learner", "evolve")
"""Settings that belong to the sweep as a whole, not to a trial."""
TRACED = "hyperparams."
"""Prefix of the settings that are traced in a training."""
FREE = "task.env_params."
"""Prefix of the settings that depend on the environment."""
KINDS = ("uniform", "log_uniform", "integer", "log_integer", "choice", "fixed")
FEW = 3
"""Values that represent a range of real numbers where every combination is tried."""


class Space:
    """Searched and fixed settings; see `make_space`."""

    def __init__(
        self, entries: dict[str, Entry], fixed: Params, traced: tuple[str, ...] = (TRACED,)
    ) -> None:
        """Take entries that have been checked.

        Args:
            entries: ranges and choices by the dotted names of their settings.
            fixed: values of other settings, by their names.
            traced: settings with values that never recompile; a section ends with a point.
        """
        self.entries, self.fixed, self.traced = entries, fixed, traced
        self.distributions = {key: ranges.distribution_of(entry) for key, entry in entries.items()}
        self.static = tuple(key for key in entries if not self.is_traced(key))

    def is_traced(self, key: str) -> bool:
        """Whether another value of a setting needs no other compilation."""
        section, point, _ = key.partition(".")
        return key in self.traced or section + point in self.traced

    def settings(self, params: Params) -> Params:
        """Return a trial's settings and the fixed ones, nested for `metaevo.config.merge`."""
        nested: Params = {}
        for key, value in {**self.fixed, **params}.items():
            nested = merge(nested, _nest(key, value))
        return nested

    def encode(self, params: Params) -> Params:
        """Return values as Optuna keeps them."""
        choices = {key: each for key, each in self.entries.items() if isinstance(each, Choice)}
        return {
            key: choices[key].encode(value) if key in choices else value
            for key, value in params.items()
        }

    def decode(self, params: Params) -> Params:
        """Return values that Optuna kept, in the order of the space."""
        return {
            key: entry.decode(params[key]) if isinstance(entry, Choice) else params[key]
            for key, entry in self.entries.items()
            if key in params
        }

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
        return _product(axes, limit)

    def axes(self, points: int) -> dict[str, list[Any]]:
        """Return the values of every setting in a grid; at most `points` for a range."""
        return {key: ranges.points(entry, points) for key, entry in self.entries.items()}

    def grid(self, points: int, limit: int | None = None) -> list[Params]:
        """Return combinations of `axes`, `limit` at most; the last setting changes fastest."""
        return _product(self.axes(points), limit)

    def to_plain(self) -> Params:
        """Return the space as a YAML has it; two spaces are the same if these are."""
        plain: Params = {key: ranges.to_plain(entry) for key, entry in self.entries.items()}
        return plain | {key: {"fixed": value} for key, value in self.fixed.items()}

    def to_wandb(self) -> Params:
        """Return the `parameters` of a wandb sweep."""
        searched: Params = {key: ranges.to_wandb(entry) for key, entry in self.entries.items()}
        return searched | {key: {"value": value} for key, value in self.fixed.items()}


def make_space(raw_space: Params, settings_class: type, raw_settings: Params) -> Space:
    """Read a search space.

    Args:
        raw_space: the section `space`.
        settings_class: the dataclass of the settings that it is about.
        raw_settings: plain data of these settings, to which the values of a trial are added.

    Raises:
        ConfigError: for anything wrong in the space.
    """
    leaves = dict(_leaves(settings_class))
    space = _read_space(raw_space, lambda key: _hint_of(key, leaves, settings_class))
    _check_values(space, settings_class, raw_settings)
    return space


def free_space(raw_space: Params) -> Space:
    """Read the search space of a function, for which any names are allowed.

    Raises:
        ConfigError: for anything wrong in the space.
    """
    return _read_space(raw_space, lambda key: Any)


def _read_space(raw_space: Params, hint_of: Callable[[str], object]) -> Space:
    """Read the rules of a space; `hint_of` returns the annotation of a setting."""
    entries: dict[str, Entry] = {}
    fixed: Params = {}
    for key, rule in raw_space.items():
        hint = hint_of(key)
        kind, value, step = _read_rule(key, rule)
        if kind == "fixed":
            fixed[key] = value
        elif kind == "choice":
            entries[key] = _make_choice(key, value)
        else:
            _check_numeric(key, kind, hint)
            entries[key] = _make_range(key, kind, value, step)
    if not entries:
        raise ConfigError(
            f"space: nothing to try; add a setting with one of {', '.join(KINDS[:5])}"
        )
    return Space(entries, fixed)


def dotted_space(space: Params, prefix: str = "") -> Params:
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


def _leaves(cls: type, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted names of all settings that may be searched, with their annotations."""
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        name, hint = prefix + field.name, hints[field.name]
        if not field.init or name in NOT_SEARCHABLE:
            continue
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from _leaves(hint, name + ".")
        elif name + "." != FREE:
            yield name, hint


def _hint_of(key: str, leaves: dict[str, object], cls: type) -> object:
    """Return the annotation of a setting; raise if the setting cannot be searched."""
    if key in leaves:
        return leaves[key]
    section = key.split(".")[0]
    if section in NOT_SEARCHABLE:
        raise ConfigError(f"space.{key}: {section!r} belongs to the whole sweep, not to a trial")
    if key.startswith(FREE) and key.count(".") == FREE.count("."):
        return Any
    inside = [leaf for leaf in leaves if leaf.startswith(key + ".")]
    if inside:
        raise ConfigError(f"space.{key}: is a section; name a setting: {', '.join(inside)}")
    hint = hints.of_key(key, leaves, cls)
    raise ConfigError(
        f"unknown setting {show(f'space.{key}')}{hint}; "
        f"allowed: {', '.join([*sorted(leaves), FREE + '*'])}"
    )


# --- Rules ----------------------------------------------------------------------------------------


def _read_rule(key: str, rule: object) -> tuple[str, object, object]:
    """Return kind, value and step from the rule of a setting."""
    allowed = f"a single one of {', '.join(KINDS)}"
    if isinstance(rule, list | tuple):
        return "choice", rule, 1
    if not isinstance(rule, dict):
        raise ConfigError(
            f"space.{key} = {show(rule)}: must be a list, or a mapping with {allowed}"
        )
    for name in rule:
        if name not in (*KINDS, "step"):
            hint = hints.of_value(name, KINDS)
            raise ConfigError(f"space.{key}: unknown kind {show(name)}{hint}; allowed: {allowed}")
    kinds = [name for name in rule if name != "step"]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise ConfigError(f"space.{key}: must have {allowed}, not {found}")
    if "step" in rule and kinds[0] != "integer":
        raise ConfigError(f"space.{key}.step: only integer has a step, not {kinds[0]}")
    return kinds[0], rule[kinds[0]], rule.get("step", 1)


def _make_choice(key: str, value: object) -> Choice:
    where = f"space.{key}.choice = {show(value)}"
    if not isinstance(value, list | tuple) or not value:
        raise ConfigError(f"{where}: must be a list of at least one value")
    for index, each in enumerate(value):
        if each in value[:index]:
            raise ConfigError(f"{where}: {show(each)} occurs twice")
    if key == "task.env" and not all(isinstance(each, str) for each in value):
        raise ConfigError(f"{where}: must be names, each of a single environment")
    return Choice(tuple(list(each) if isinstance(each, tuple) else each for each in value))


def _make_range(key: str, kind: Any, value: object, step: object) -> Range:
    where = f"space.{key}.{kind} = {show(value)}"
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ConfigError(f"{where}: must be a pair [low, high]")
    low, high = (_number(where, each, kind) for each in value)
    if low >= high:
        raise ConfigError(f"{where}: low must be less than high")
    if kind.startswith("log_") and low <= 0:
        raise ConfigError(f"{where}: low must be greater than 0 for a logarithm")
    if not isinstance(step, int) or isinstance(step, bool) or step <= 0:
        raise ConfigError(f"space.{key}.step = {show(step)}: must be an integer greater than 0")
    if kind.endswith("integer") and (high - low) % step:
        raise ConfigError(f"space.{key}.step = {step}: must divide high - low = {high - low}")
    is_log = kind.startswith("log_")
    if kind.endswith("integer"):
        return IntDistribution(int(low), int(high), log=is_log, step=step)
    return FloatDistribution(low, high, log=is_log)


def _number(where: str, value: object, kind: str) -> float:
    """Return a bound, which YAML may read as text ("1e-4")."""
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise ConfigError(f"{where}: both must be finite numbers")
    if not kind.endswith("integer"):
        return number
    if number != int(number):
        raise ConfigError(f"{where}: both must be integers")
    return int(number)


def _check_numeric(key: str, kind: str, hint: object) -> None:
    """Raise for a range over text, or over real numbers where only integers are possible."""
    kinds = set(_kinds(hint))
    if not kinds & {int, float, Any}:
        raise ConfigError(f"space.{key}: {kind} needs a setting that is a number; use choice")
    if not kinds & {float, Any} and not kind.endswith("integer"):
        allowed = "integer, log_integer, choice or fixed"
        raise ConfigError(f"space.{key}: {kind} over a whole number; allowed: {allowed}")


def _kinds(hint: object) -> Iterator[object]:
    """Yield the plain types that an annotation allows."""
    if get_origin(hint) is Annotated:
        yield from _kinds(get_args(hint)[0])
    elif get_origin(hint) in (Union, types.UnionType):
        for option in get_args(hint):
            yield from _kinds(option)
    else:
        yield hint


# --- Values ---------------------------------------------------------------------------------------


def _check_values(space: Space, settings_class: type, raw_settings: Params) -> None:
    """Raise if settings do not allow their fixed values, choices or ends of ranges.

    A value may need another value to go with it (as many minibatches as divide the batch): it is
    allowed if it goes with the settings as they are, or with one value of one other setting of the
    space.
    """
    base = merge(raw_settings, space.settings({}))
    for key, value in space.fixed.items():
        problem = _problem(settings_class, raw_settings, {key: value})
        is_cause = not _problem(settings_class, raw_settings, {})
        if problem and is_cause and _problem(settings_class, base, {}):
            raise ConfigError(_prefixed(key, value, problem))
    for key, entry in space.entries.items():
        others = [
            {other: value}
            for other, another in space.entries.items()
            if other != key and other.split(".")[0] == key.split(".")[0]
            for value in ranges.ends(another)
        ]
        for value in ranges.ends(entry):
            problem = _problem(settings_class, base, {key: value})
            if problem and all(
                _problem(settings_class, base, {key: value, **other}) for other in others
            ):
                raise ConfigError(_prefixed(key, value, problem))


def _problem(cls: type, base: Params, params: Params) -> str | None:
    """Return the error of the settings with some values changed, or None."""
    for key, value in params.items():
        base = merge(base, _nest(key, value))
    try:
        from_dict(cls, base)
    except ConfigError as error:
        return str(error)
    return None


def _prefixed(key: str, value: object, problem: str) -> str:
    if problem.startswith(key):
        return f"space.{problem}"
    return f"space.{key} = {show(value)}: {problem}"


def _product(axes: dict[str, list[Any]], limit: int | None) -> list[Params]:
    combinations = itertools.islice(itertools.product(*axes.values()), limit)
    return [dict(zip(axes, values, strict=True)) for values in combinations]


def _nest(key: str, value: object) -> Params:
    nested = value
    for name in reversed(key.split(".")):
        nested = {name: nested}
    assert isinstance(nested, dict)
    return nested
