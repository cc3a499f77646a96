"""Search spaces over settings, declared in the config's section `space`.

    space:
      hyperparams.learning_rate: {log_uniform: [1e-4, 1e-2]}
      train.num_steps: {integer: [32, 128], step: 32}
      value_loss: [squared, huber] # short for {choice: [squared, huber]}

All user errors in the section are reported before training starts.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import Gt, MinLen
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from metaevo.config import ConfigError, from_dict, merge, show
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.tuning.config import OF_THE_SWEEP

NOT_SEARCHABLE = (*OF_THE_SWEEP, "learner", "evolve")
"""Settings that belong to the sweep as a whole, not to a trial."""
TRACED = "hyperparams."
"""Prefix of the settings that are traced in a training."""
KINDS = ("uniform", "log_uniform", "integer", "log_integer", "choice")

Entry = FloatDistribution | IntDistribution | CategoricalDistribution
Params = PlainDict
"""Values by the dotted names of settings"""


@dataclass(frozen=True)
class Space:
    """Searched settings by their dotted names, as Optuna's distributions.

    Optuna takes scalars only, so a choice between lists or mappings is one between JSON texts.
    """

    entries: dict[str, Entry]
    traced: tuple[str, ...] = (TRACED,)
    """settings whose values never recompile; the name of a section ends with a point"""

    def is_traced(self, key: str) -> bool:
        """Whether another value of a setting needs no other compilation."""
        section, point, _ = key.partition(".")
        return key in self.traced or section + point in self.traced

    def decode(self, params: Params) -> Params:
        """Return values that Optuna kept, in the order of the space."""
        return {key: _decoded(params[key]) for key in self.entries if key in params}


def ends(entry: Entry) -> list[Any]:
    """Return the values that a setting must allow: every choice, or both ends of a range."""
    if isinstance(entry, CategoricalDistribution):
        return [_decoded(value) for value in entry.choices]
    return [entry.low, entry.high]


def make_space(raw_space: PlainMapping, settings_class: type, raw_settings: Params) -> Space:
    """Read the section `space` of settings.

    Args:
        raw_space: the section, by dotted names.
        settings_class: the dataclass of the settings that it is about.
        raw_settings: plain data of these settings. They must allow every choice, and the ends of
            every range.

    Raises:
        ConfigError: for anything wrong in the section.
    """
    for key in raw_space:
        if (section := key.partition(".")[0]) in NOT_SEARCHABLE:
            raise ConfigError(
                f"space.{key}: {section!r} belongs to the whole sweep, not to a trial"
            )
    space = free_space(raw_space)
    for key, entry in space.entries.items():
        values = ends(entry)
        if isinstance(entry, FloatDistribution):  # a number that is not whole
            values.append(entry.low + (entry.high - entry.low) / math.pi)
        for value in values:
            try:
                from_dict(settings_class, merge(raw_settings, nested({key: value})))
            except ConfigError as error:
                shown = f"{key} = {show(value)}: "
                raise ConfigError(f"space.{shown}{str(error).removeprefix(shown)}") from None
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


def nested(params: Params) -> Params:
    """Return values by their dotted names as nested sections, for `metaevo.config.merge`."""
    found: Params = {}
    for key, value in params.items():
        for name in reversed(key.split(".")):
            value = {name: value}
        found = merge(found, value)
    return found


@dataclass(frozen=True)
class _Rule:
    """The rule of a setting; exactly one of the kinds is given."""

    uniform: tuple[float, float] = (0.0, 1.0)
    log_uniform: tuple[float, float] = (0.0, 1.0)
    integer: tuple[int, int] = (0, 1)
    log_integer: tuple[int, int] = (0, 1)
    choice: Annotated[list[Any], MinLen(1)] = field(default_factory=list)
    step: Annotated[int, Gt(0)] = 1


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
        return CategoricalDistribution([_encoded(each) for each in rule.choice])
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


def _encoded(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _decoded(value: Any) -> Any:
    is_json = isinstance(value, str) and value.startswith(("[", "{"))
    return json.loads(value) if is_json else value
