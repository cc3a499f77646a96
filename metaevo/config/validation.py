"""Settings: plain data in, validated frozen dataclasses out, and back.

A config is a nested dataclass that does not import this module. Annotations define the allowed
values (`Annotated[float, annotated_types.Gt(0)]`, `Literal`, tuples, `PlainDict`, `X | None`),
and `__post_init__` checks fields together. A mistake raises a `ConfigError`: one line with the key,
the value and the allowed values.
"""

import contextlib
import dataclasses
import functools
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import annotated_types

from metaevo.config import hints
from metaevo.config.errors import ConfigError, show
from metaevo.config.plain import PlainDict

T = TypeVar("T")


def from_dict(cls: type[T], data: Any) -> T:
    """Build a dataclass from nested plain data; omitted keys keep their defaults.

    Numbers may be written in any way ("5e5" is an int), but types are not converted: a bool is not
    a number, a number is not text, a fraction is not an int, and NaN is rejected. Scalars of NumPy
    and JAX count as Python's.

    Raises:
        ConfigError: describing the first problem.
    """
    try:
        converted: T = _convert(cls, to_dict(data), "", dataclasses.MISSING)
        return converted
    except hints.UnknownKeyError as error:
        raise ConfigError(error.explained(cls)) from None


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


def _convert(kind: Any, value: Any, path: str, default: Any) -> Any:
    """Convert a value to the annotation `kind`; missing keys come from `default`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _convert_dataclass(kind, value, path, default)
    if origin is Annotated:
        result = _convert(arguments[0], value, path, default)
        for holds, limit in _limits(arguments[1:]):
            if result is not None and not holds(result):
                raise ConfigError(f"{path} = {show(value)}: must be {limit}")
        return result
    if origin in (Union, types.UnionType):
        for option in arguments:
            with contextlib.suppress(ConfigError):
                return _convert(option, value, path, default)
        options = [option for option in arguments if option is not type(None)]
        if len(options) == 1:  # its own message is more precise
            return _convert(options[0], value, path, default)
    elif origin in (tuple, list) and isinstance(value, list | tuple):
        kinds = arguments
        if origin is list or arguments[-1:] == (...,):
            kinds = arguments[:1] * len(value)
        if len(kinds) == len(value):
            pairs = enumerate(zip(kinds, value, strict=True))
            return origin(_convert(k, v, f"{path}[{i}]", default) for i, (k, v) in pairs)
    elif (kind is dict or origin is dict) and isinstance(value, dict):
        content = arguments[1] if arguments else Any
        return {k: _convert(content, v, f"{path}.{k}", default) for k, v in value.items()}
    elif origin is Literal:
        for choice in arguments:
            if type(choice) is type(value) and choice == value:
                return choice
    elif kind in (int, float):
        with contextlib.suppress(ValueError, OverflowError):
            return _number(kind, value)
    elif kind is Any or type(value) is kind:
        return value
    shown = f"{path} = {show(value)}" if path else "the config"
    raise ConfigError(f"{shown}: must be {describe(kind)}{hints.INSTEAD.get(path, '')}")


def _convert_dataclass(cls: Any, value: dict[Any, Any], path: str, default: Any) -> Any:
    kinds = get_type_hints(cls, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    prefix = f"{path}." if path else ""
    for key in value:
        if key not in fields:
            raise hints.UnknownKeyError(f"{prefix}{key}", [*fields])
    arguments = {}
    for name, field in fields.items():
        known = getattr(default, name) if isinstance(default, cls) else default_of(field)
        if name not in value:
            arguments[name] = known
            if known is dataclasses.MISSING:
                raise ConfigError(f"missing key '{prefix}{name}': {describe(kinds[name])}")
        else:
            arguments[name] = _convert(kinds[name], value[name], prefix + name, known)
    try:
        return cls(**arguments)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from None


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a dataclass field, or dataclasses.MISSING."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _number(kind: type[int] | type[float], value: Any) -> int | float:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = int(value)  # before float, which would round large ones
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ValueError("not a number")
    if kind is int and value != int(value):
        raise ValueError("not an integer")
    return kind(value)


_LIMITS: dict[type, tuple[str, Callable[[Any, Any], bool], str]] = {
    annotated_types.Gt: ("gt", operator.lt, "greater than"),
    annotated_types.Ge: ("ge", operator.le, "at least"),
    annotated_types.Lt: ("lt", operator.gt, "less than"),
    annotated_types.Le: ("le", operator.ge, "at most"),
    annotated_types.MultipleOf: ("multiple_of", lambda unit, x: x % unit == 0, "a multiple of"),
    annotated_types.MinLen: ("min_length", lambda least, x: len(x) >= least, "of length at least"),
    annotated_types.MaxLen: ("max_length", lambda most, x: len(x) <= most, "of length at most"),
}
"""Attribute of the bound, whether a value is allowed by (bound, value), and a description."""


def _limits(metadata: Iterable[Any]) -> Iterator[tuple[Callable[[Any], bool], str]]:
    for each in metadata:
        if isinstance(each, annotated_types.GroupedMetadata):
            yield from _limits(each)
        elif type(each) in _LIMITS:
            name, holds, words = _LIMITS[type(each)]
            bound = getattr(each, name)
            yield functools.partial(holds, bound), f"{words} {bound}"


_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "text", list: "a list"}


def describe(kind: Any) -> str:
    """Describe the values that an annotation allows."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = " and ".join(limit for _, limit in _limits(arguments[1:]))
        return f"{describe(arguments[0])} {limits}".strip()
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe, arguments))
    if origin is Literal:
        return "one of " + ", ".join(str(each) for each in arguments)
    if origin in (tuple, list):
        items = ["..." if each is ... else describe(each) for each in arguments]
        return f"a list [{', '.join(items + ['...'] * (origin is list))}]"
    if kind is type(None):
        return "null"
    return _WORDS.get(kind, "a mapping of keys to values")
