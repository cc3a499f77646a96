"""Dataclasses of settings, and validation by pydantic: of settings, and of data read from files.

Annotations define the allowed values (`Annotated[float, annotated_types.Gt(0)]`, `Literal`, tuples,
`X | None`), and `__post_init__` checks the fields of a dataclass together. A mistake raises a
`ConfigError`: one line with the key, the value and the allowed values.
"""

import ast
import copy
import dataclasses
import difflib
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_type_hints

from annotated_types import Ge, Le
from pydantic import AllowInfNan, ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, SchemaValidator, core_schema

from metaevo.config.plain import ConfigError, show, to_dict

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


def check_given(cls: Any, data: Any) -> None:
    """Check plain data for a dataclass, some of whose keys may be missing; raises `ConfigError`."""
    _validated(cls, to_dict(data), "forbid")


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
        raise _reworded(error, [data], key, kind) from None


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


_ALLOWED = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
    "float_type": "a number",
    "greater_than_equal": "at least {ge}",
    "int_type": "an integer",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "string_type": "text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}
"""The values that are allowed, by the type of an error that pydantic words differently."""


def _reworded(error: ValidationError, data: Any, key: str, kind: Any) -> ConfigError:
    """Return a problem in our words: an unknown key, or the one at the deepest place."""
    problems = [(_place(each, data), each) for each in error.errors(include_url=False)]
    for place, problem in problems:
        if problem["type"] == "unexpected_keyword_argument":
            return unknown(".".join(map(str, place)), kind)
    place = max((each for each, _ in problems), key=len)
    here = [problem for each, problem in problems if each == place]  # of the options of a union
    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    name = (key + "".join(parts)).removeprefix(".")
    match here[0]:
        case {"type": "missing"}:
            return ConfigError(f"missing key {name!r}")
        case {"type": "value_error", "ctx": {"error": words}}:
            return ConfigError(f"{name}: {words}".removeprefix(": "))
    allowed = dict.fromkeys(
        _ALLOWED.get(each["type"], "").format(**each.get("ctx", {}))
        or each["msg"].removeprefix("Input should be ")
        for each in here
    )
    words = f"must be {' or '.join(allowed)}"
    shown = show(here[0]["input"])
    return ConfigError(f"{name} = {shown}: {words}" if name else f"{words}, not {shown}")


def unknown(key: str, root: Any, flags: Iterable[str] = ()) -> ConfigError:
    """Return the error for a dotted key that the settings do not have, with a suggestion.

    With the other `flags` of a command line the key is one of them.
    """
    section, _, name = key.rpartition(".")
    paths = [path for path, *_ in settings_of(root)]
    inside = {path.rpartition(".")[2]: path for path in paths if path.rpartition(".")[0] == section}
    ends = {path.rpartition(".")[2]: path for path in reversed(paths)}
    names = ends | {flag: flag for flag in flags} | inside
    close = difflib.get_close_matches
    near = [name] if name in ends else (section and close(name, inside, 1)) or close(name, names, 1)
    meant = [names[each] for each in near] or close(key, paths, 1)
    if flags:
        start, hint = f"unknown flag --{key}", "".join(f"--{each}" for each in meant)
    else:
        start, hint = f"unknown key {show(key)}", "".join(map(repr, meant))
    hint = hint and f" (did you mean {hint}?)"
    return ConfigError(f"{start}{hint}; allowed: {', '.join(sorted(inside)) or 'none'}")


def _place(problem: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """Return the keys and indices that lead to a problem, without pydantic's names of options."""
    place: list[str | int] = []
    for part in problem["loc"]:
        is_index = isinstance(part, int) and isinstance(data, list | tuple) and part < len(data)
        if is_index or (isinstance(data, dict) and part in data):
            place.append(part)
            data = data[part]
    if problem["type"] == "missing":
        place.append(problem["loc"][-1])
    return tuple(place[1:])


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


def settings_of(
    cls: Any, prefix: str = "", default: Any = dataclasses.MISSING
) -> Iterator[Setting]:
    """Yield the settings and sections of a dataclass; those of a section follow it."""
    kinds, texts = get_type_hints(cls, include_extras=True), _documentation(cls)
    for field in dataclasses.fields(cls):
        if field.init:
            key, kind = prefix + field.name, kinds[field.name]
            value = getattr(default, field.name) if isinstance(default, cls) else default_of(field)
            yield Setting(key, kind, value, texts.get(field.name, ""))
            if dataclasses.is_dataclass(kind):
                yield from settings_of(kind, f"{key}.", value)


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
        if "." not in key:
            fields.append((key, kind, dataclasses.field(**given)))
    made: type[T] = dataclasses.make_dataclass(
        base.__name__, fields, bases=(base,), frozen=True, kw_only=True
    )
    return made


@functools.lru_cache(maxsize=64)
def _documentation(cls: Any) -> dict[str, str]:
    """Return the string literals under the fields, also of base classes."""
    texts: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]
        except (OSError, TypeError, SyntaxError):
            continue
        for field, text in itertools.pairwise(body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    texts[name] = " ".join(words.split())
    given = {each.name: each.metadata.get("doc") for each in dataclasses.fields(cls)}
    return texts | {name: text for name, text in given.items() if text}
