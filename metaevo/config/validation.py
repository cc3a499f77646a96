"""Settings: plain data in, validated frozen dataclasses out, and back.

The dataclasses do not import this module; `metaevo.config.checks` describes what they may contain.
"""

import dataclasses
from typing import Any, TypeVar

from metaevo.config.checks import validate
from metaevo.config.plain import PlainDict
from metaevo.config.sections import default_of

T = TypeVar("T")


def from_dict(cls: type[T], data: Any) -> T:
    """Build a dataclass from nested plain data; omitted keys keep their defaults.

    `metaevo.config.checks.validate` describes the conversions. Scalars of NumPy and JAX count as
    Python's.

    Raises:
        ConfigError: describing the first problem.
    """
    settings: T = validate(cls, _completed(cls, to_dict(data)), extra="forbid")
    return settings


def _completed(default: Any, data: Any) -> Any:
    """Return the data of a dataclass with sections completed from their defaults.

    A section's default may differ from what its own class has as defaults. `default` is the class,
    or for a section the default.
    """
    if not isinstance(data, dict):
        return data
    is_root = isinstance(default, type)
    known = {
        field.name: default_of(field) if is_root else getattr(default, field.name)
        for field in dataclasses.fields(default)
        if field.init
    }
    given = {
        name: _completed(known[name], value) if dataclasses.is_dataclass(known.get(name)) else value
        for name, value in data.items()
    }
    return given if is_root else known | given


def to_dict(config: Any) -> Any:
    """Convert a config to plain data for YAML; `from_dict(type(config), ...)` is the inverse.

    Python's numbers replace scalars of NumPy and JAX.
    """
    if dataclasses.is_dataclass(config):
        fields = dataclasses.fields(config)
        return {field.name: to_dict(getattr(config, field.name)) for field in fields if field.init}
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [to_dict(value) for value in config]
    is_scalar = getattr(config, "ndim", None) == 0 and hasattr(config, "item")
    return config.item() if is_scalar else config


def merge(base: PlainDict, override: PlainDict) -> PlainDict:
    """Merge two nested dicts; `override` wins where both have a value."""
    merged = dict(base)
    for key, new in override.items():
        old = merged.get(key)
        merged[key] = merge(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return merged


def changed_keys(old: PlainDict, new: PlainDict) -> dict[str, tuple[Any, Any]]:
    """Return the dotted keys with different values, and both values; None if a key is missing."""
    before, after = flatten(old), flatten(new)
    pairs = {key: (before.get(key), after.get(key)) for key in before | after}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def flatten(data: PlainDict, prefix: str = "") -> PlainDict:
    """Flatten nested dicts to one dict with dotted keys; an empty dict remains a value."""
    flat: PlainDict = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        flat |= flatten(value, path + ".") if isinstance(value, dict) and value else {path: value}
    return flat
