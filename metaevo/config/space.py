"""Search spaces over settings, declared in the config's section `space`.

    space:
      hyperparams.learning_rate: {log_uniform: [1e-4, 1e-2]}
      train.num_steps: {integer: [32, 128], step: 32}
      value_loss: [squared, huber] # short for {choice: [squared, huber]}

All user errors in the section are reported before training starts.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import Gt, MinLen
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from metaevo.config import ConfigError, from_dict, show
from metaevo.config.plain import PlainDict, PlainMapping

KINDS = ("uniform", "log_uniform", "integer", "log_integer", "choice")

Entry = FloatDistribution | IntDistribution | CategoricalDistribution
Params = PlainDict
"""Values by the dotted names of settings"""


Space = dict[str, Entry]
"""Searched settings by their dotted names; a choice between lists or mappings is one between JSON
texts, because Optuna takes scalars only."""


def decoded(space: Space, params: Params) -> Params:
    """Return values that Optuna kept, in the order of the space."""
    return {key: _decoded(params[key]) for key in space if key in params}


def ends(entry: Entry) -> list[Any]:
    """Return the values that a setting must allow: every choice, or both ends of a range."""
    if isinstance(entry, CategoricalDistribution):
        return [_decoded(value) for value in entry.choices]
    return [entry.low, entry.high]


def free_space(rules: PlainMapping) -> Space:
    """Read a space in which any names are allowed; raises `ConfigError` for a wrong rule."""
    if not rules:
        raise ConfigError(f"space: nothing to try; add a setting with one of {', '.join(KINDS)}")
    return {key: _entry(key, rule) for key, rule in _dotted(rules, "")}


def _dotted(rules: PlainMapping, prefix: str) -> Iterator[tuple[str, object]]:
    """Yield dotted names of settings with their rules; YAML and the command line may nest them."""
    for key, rule in rules.items():
        if isinstance(rule, dict) and rule and not set(rule) & {*KINDS, "step"}:
            yield from _dotted(rule, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", rule


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
