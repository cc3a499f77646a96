"""Dataclasses of settings, and validation by pydantic: of settings, and of data read from files.

Annotations define the allowed values (`Annotated[float, annotated_types.Gt(0)]`, `Literal`, tuples,
`X | None`), and `__post_init__` checks the fields of a dataclass together. A mistake raises a
`ConfigError`: one line with the key, the value and the allowed values.
"""

import copy
import dataclasses
import functools
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, TypeVar, cast

from annotated_types import Ge, Le
from pydantic import AllowInfNan, ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema

from metaevo.config.plain import ConfigError, to_dict

T = TypeVar("T")

LIMIT = 2**31 - 1
"""largest integer that devices represent"""

Text = Annotated[str, Strict()]
Index = Annotated[int, Strict(), Ge(0), Le(2**53)]
Count = Annotated[int, Strict(), Ge(1), Le(LIMIT)]
Number = Annotated[float, Strict(), AllowInfNan(False)]
Seconds = Annotated[Number, Ge(0)]
Measure = Number | None
"""a number, or null where it was not finite"""


def from_dict(cls: type[T], data: Any) -> T:
    """Build a dataclass from nested plain data; omitted keys keep their defaults.

    A float without a fraction is an int too, and scalars of NumPy and JAX count as Python's. No
    other type is converted: a bool or a text is not a number.

    Raises:
        ConfigError: describing the first problem.
    """
    settings: T = _validated(cls, _completed(cls, to_dict(data)), "forbid")
    return settings


def check(kind: type[T], data: object, where: str, key: str = "") -> T:
    """Check data read from a file, and return it unchanged; it may have other keys.

    `where` names the file, and optionally the line, for the error message; `key` is the data's.
    """
    try:
        _validated(kind, data, "ignore", key)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return cast(T, data)


def _completed(cls: Any, data: Any) -> Any:
    """Return the data of a dataclass with each section completed from its default."""
    if not isinstance(data, dict):
        return data
    defaults = {each.name: default_of(each) for each in dataclasses.fields(cls)}
    return data | {
        name: to_dict(default) | _completed(type(default), data[name])
        for name, default in defaults.items()
        if dataclasses.is_dataclass(default) and isinstance(data.get(name), dict)
    }


def _validated(kind: Any, data: object, extra: Any, key: str = "") -> Any:
    try:
        return _validator(kind, extra).validate_python([data])[0]
    except ValidationError as error:
        from metaevo.config.wording import reworded

        raise reworded(error, [data], key, kind) from None


@functools.lru_cache(maxsize=128)
def _validator(kind: Any, extra: Any) -> SchemaValidator:
    """Return the validator of a list of one `kind`, because a dataclass takes no configuration."""
    config = ConfigDict(extra=extra, arbitrary_types_allowed=True)
    schema: Any = TypeAdapter(list[kind], config=config).core_schema
    return SchemaValidator(_without_conversions(schema))


def _without_conversions(schema: Any) -> Any:
    """Return a schema of pydantic that takes numbers and booleans as `from_dict` does."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_without_conversions, schema))
    if not isinstance(schema, dict):
        return schema
    schema = {key: _without_conversions(each) for key, each in schema.items()}
    match schema.get("type"):
        case "int" if not schema.get("strict"):
            strict: Any = {**schema, "strict": True}
            return core_schema.no_info_before_validator_function(_integer, strict)
        case "bool" | "float":
            return {**schema, "strict": True}
        case "union":
            return {**schema, "mode": "left_to_right"}
    return schema


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Setting(NamedTuple):
    """A setting, or a section of settings."""

    key: str
    """dotted, from the root"""
    kind: Any
    """the annotation; of a section its dataclass"""
    default: Any
    """or dataclasses.MISSING"""
    text: str = ""
    """documentation"""


def section(key: str, kind: type) -> Setting:
    """Return a section whose settings have the defaults of its dataclass."""
    try:
        return Setting(key, kind, kind())
    except (TypeError, ValueError):  # a setting without a default
        return Setting(key, kind, dataclasses.MISSING)


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a dataclass field, or dataclasses.MISSING."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def extended(base: type[T], settings: Iterable[Setting]) -> type[T]:
    """Return a subclass of a settings dataclass with more settings, or other kinds and defaults.

    Code is written, and checked by mypy, for the base, which is frozen and has `kw_only`.
    Validation and `--help` see the subclass.
    """
    fields = []
    for key, kind, default, text in settings:
        given: Any = {"metadata": {"doc": text}}
        if default is not dataclasses.MISSING:
            given["default_factory"] = functools.partial(copy.deepcopy, default)
        fields.append((key, kind, dataclasses.field(**given)))
    made: type[T] = dataclasses.make_dataclass(
        base.__name__, fields, bases=(base,), frozen=True, kw_only=True
    )
    return made
