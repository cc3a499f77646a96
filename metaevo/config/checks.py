"""Validation by pydantic: of settings, and of data read from files.

Annotations define the allowed values (`Annotated[float, annotated_types.Gt(0)]`, `Literal`, tuples,
`X | None`), and `__post_init__` checks the fields of a dataclass together. A mistake raises a
`ConfigError`: one line with the key, the value and the allowed values.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, cast

from annotated_types import Ge, Le
from pydantic import AllowInfNan, ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticKnownError, SchemaValidator, core_schema

from metaevo.config import hints
from metaevo.config.errors import ConfigError, show

T = TypeVar("T")
Place = tuple[str | int, ...]

LIMIT = 2**31 - 1
"""largest integer that devices represent"""

Text = Annotated[str, Strict()]
Index = Annotated[int, Strict(), Ge(0), Le(2**53)]
Count = Annotated[int, Strict(), Ge(1), Le(LIMIT)]
Number = Annotated[float, Strict(), AllowInfNan(False)]
Seconds = Annotated[Number, Ge(0)]
Measure = Number | None
"""a number, or null where it was not finite"""


def check(kind: type[T], data: object, where: str, key: str = "") -> T:
    """Check data read from a file, and return it unchanged; it may have other keys.

    `where` names the file, and optionally the line, for the error message; `key` is the data's.
    """
    try:
        validate(kind, data, key)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return cast(T, data)


def validate(
    kind: Any, data: object, key: str = "", *, extra: Literal["ignore", "forbid"] = "ignore"
) -> Any:
    """Return plain data as a `kind`, such as a dataclass.

    Numbers may be written in any way ("5e5" is an int) unless their annotation is strict, but types
    are not converted: a bool is not a number, a fraction is not an int, and NaN is rejected.

    Raises:
        ConfigError: describing the first problem; `key` is the data's.
    """
    try:
        return _validator(kind, extra).validate_python([data])[0]
    except ValidationError as error:
        raise _reworded(error, [data], key, kind) from None


# --- pydantic's schema --------------------------------------------------------------------------


@functools.lru_cache(maxsize=128)
def _validator(kind: Any, extra: Literal["ignore", "forbid"]) -> SchemaValidator:
    """Return the validator of a list of one `kind`, because a dataclass takes no configuration."""
    config = ConfigDict(extra=extra, arbitrary_types_allowed=True)
    schema: Any = TypeAdapter(list[kind], config=config).core_schema
    return SchemaValidator(_with_our_numbers(schema))


def _with_our_numbers(schema: Any) -> Any:
    """Return a schema of pydantic that takes numbers and booleans as `validate` does."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_with_our_numbers, schema))
    if not isinstance(schema, dict):
        return schema
    schema = {key: _with_our_numbers(each) for key, each in schema.items()}
    match schema.get("type"):
        case "int" | "float" as kind if not schema.get("strict"):
            return core_schema.no_info_before_validator_function(_NUMBERS[kind], cast(Any, schema))
        case "bool":
            return {**schema, "strict": True}
        case "union":
            return {**schema, "mode": "left_to_right"}
    return schema


def _number(kind: type[int] | type[float], value: Any) -> int | float:
    number = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            number = float(value)
        with contextlib.suppress(ValueError):
            number = int(value)  # exact, also if it is large
    if isinstance(number, int | float) and not isinstance(number, bool):
        with contextlib.suppress(ValueError, OverflowError):
            if number == (number if kind is float else int(number)):
                return kind(number)
    raise PydanticKnownError("int_type" if kind is int else "float_type")


_NUMBERS: dict[str, Callable[[object], int | float]] = {
    "int": functools.partial(_number, int),
    "float": functools.partial(_number, float),
}


# --- pydantic's errors --------------------------------------------------------------------------

_ALLOWED = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_type": "an integer",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "string_type": "text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}
"""The values that are allowed, by the type of an error."""


def _reworded(error: ValidationError, data: Any, key: str, kind: Any) -> ConfigError:
    """Return the first problem in our words; an unknown key comes before others."""
    problems = [(_place(each, data), each) for each in error.errors(include_url=False)]
    for place, problem in problems:
        if problem["type"] == "unexpected_keyword_argument":
            return hints.unknown_key(".".join(map(str, place)), kind)
    # Every option of a union has its own problem. A problem within a list is more precise.
    first = problems[0][0]
    place = max((each for each, _ in problems if each[: len(first)] == first), key=len)
    here = [problem for each, problem in problems if each == place]
    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    name = (key + "".join(parts)).removeprefix(".")
    if here[0]["type"] == "missing" and isinstance(here[0]["loc"][-1], str):
        return ConfigError(f"missing key {name!r}")
    if here[0]["type"] == "value_error":
        return ConfigError(f"{name}: {here[0]['ctx']['error']}".removeprefix(": "))
    allowed = {each["type"]: _allowed(each) for each in here}
    words = f"must be {' or '.join(allowed.values())}"
    shown = show(functools.reduce(lambda each, part: each[part], place, data[0]))
    return ConfigError(f"{name} = {shown}: {words}" if name else f"{words}, not {shown}")


def _place(problem: ErrorDetails, data: Any) -> Place:
    """Return the keys and indices that lead to a problem, without pydantic's names of options."""
    place: list[str | int] = []
    for part in problem["loc"]:
        is_index = isinstance(part, int) and isinstance(data, list | tuple) and part < len(data)
        if is_index or (isinstance(data, dict) and part in data):
            place.append(part)
            data = data[part]
    if problem["type"] == "missing" and isinstance(data, dict):
        place.append(problem["loc"][-1])
    return tuple(place[1:])


def _allowed(problem: ErrorDetails) -> str:
    if problem["type"] == "missing":
        return f"a list of at least {int(problem['loc'][-1]) + 1}"
    text = _ALLOWED.get(problem["type"])
    if text is None:
        return problem["msg"].removeprefix("Input should be ")
    return text.format(**problem.get("ctx", {}))
