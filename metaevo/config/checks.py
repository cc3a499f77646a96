"""Check data read from files with pydantic; report the first mismatch in one line."""

from functools import cache
from typing import Annotated, Any, TypeVar, cast

from annotated_types import Ge, Le
from pydantic import AllowInfNan, Strict, TypeAdapter, ValidationError

from metaevo.config.errors import ConfigError, show

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


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def check(kind: type[T], data: object, where: str, key: str = "") -> T:
    """Validate data read from a file with pydantic, and return it unchanged.

    `where` names the file, and optionally the line, for the error message; `key` is the data's.
    """
    try:
        _adapter(cast(Any, kind)).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in first["loc"])
        name = (key + "".join(parts)).removeprefix(".")
        if first["type"] == "missing" or (key and data is None):
            raise ConfigError(f"{where}: has no {name!r}") from None
        what = first["msg"].replace("Input should", "must").removeprefix("Value error, ")
        what = _WORDS.get(first["type"], what)
        shown = f"{name} = {show(first['input'])}" if name else show(first["input"])
        raise ConfigError(f"{where}: {shown}: {what}") from None
    return cast(T, data)


_WORDS = {
    "dataclass_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "list_type": "must be a list",
}
