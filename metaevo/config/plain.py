"""Errors in one line, and data as YAML and JSON hold it: settings, records of a run, results."""

import dataclasses
import difflib
import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

PlainDict = dict[str, Any]
"""Dict from names to numbers, strings, booleans, None, and lists and dicts thereof."""
PlainMapping = Mapping[str, Any]
"""Read-only counterpart of `PlainDict`."""


_REPEATED = re.compile(r"(?<!\S)(\S+): (?=\1(?: =|:) )")
"""A key before a message that begins with the key itself."""


class ConfigError(ValueError):
    """A setting, an argument or a file is wrong; the message is a single line with a key once.

    Examples:
        >>> try:
        ...     metaevo.LearnerProblem("q_learnin")
        ... except metaevo.ConfigError as error:
        ...     message = str(error)
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(_REPEATED.sub("", " ".join(message.split())))


class DiskError(ConfigError):
    """A disk cannot be read or written; the message is a single line."""

    exit_code = os.EX_IOERR


class DeviceError(ConfigError):
    """A compiled program failed on a device; the message is a single line."""

    exit_code = 1


def failure(what: str, error: BaseException) -> ConfigError:
    """Return a one-line error for code of the user's that has raised another one."""
    text = textwrap.shorten(f"{type(error).__name__}: {error}", 500, placeholder=" ...")
    return ConfigError(f"{what}: {text}")


def show(value: Any) -> str:
    """Return the shortened repr of a value, for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]} ... {text[-15:]}"


def of_value(value: Any, allowed: Iterable[str]) -> str:
    """Return the suggestion for a name that is not allowed."""
    close = difflib.get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
    return f" (did you mean {close[0]}?)" if close else ""


class Whole(PlainDict):
    """A mapping that takes the place of another one in `merge`."""


def to_dict(config: Any) -> Any:
    """Convert a config to plain data; `metaevo.config.from_dict` is the inverse.

    Python's numbers replace scalars of NumPy and JAX, the shortest that is equal in float32.
    """
    if dataclasses.is_dataclass(config):
        fields = dataclasses.fields(config)
        return {field.name: to_dict(getattr(config, field.name)) for field in fields if field.init}
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [to_dict(value) for value in config]
    if getattr(config, "ndim", None) != 0 or not hasattr(config, "item"):
        return config
    is_short = getattr(config, "dtype", None) == "float32"
    return float(str(config)) if is_short else config.item()


def merge(base: PlainDict, override: PlainDict) -> PlainDict:
    """Merge two nested dicts; `override` wins where both have a value."""
    merged = dict(base)
    for key, new in override.items():
        old, is_part = merged.get(key), isinstance(new, dict) and not isinstance(new, Whole)
        merged[key] = merge(old, new) if isinstance(old, dict) and is_part else new
    return merged


def nested(key: str, value: Any) -> Any:
    """Return a value in nested dicts, by its dotted key."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def flatten(data: PlainDict, prefix: str = "") -> PlainDict:
    """Flatten nested dicts to one dict with dotted keys; an empty dict remains a value."""
    flat: PlainDict = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        flat |= flatten(value, path + ".") if isinstance(value, dict) and value else {path: value}
    return flat


# --- Code of the user's in settings ---------------------------------------------------------------

RECORDED = "code"
"""Key of the digests in the resolved part of config.yaml, and a run's folder with copies."""


def is_name(text: Any) -> bool:
    """Return whether a text may name code: `zoo:NAME` does not."""
    if not isinstance(text, str) or text.endswith(".py"):
        return isinstance(text, str)
    where, _, kind = text.rpartition(":")
    is_module = all(map(str.isidentifier, where.split("."))) and where != "zoo"
    return kind.isidentifier() and (where.endswith(".py") or is_module)


def names_in(settings: PlainMapping) -> list[str]:
    """Return the texts in settings, keys too, that may name code of the user's."""
    found = texts_in([[key, settings[key]] for key in settings if key != "run"])
    return sorted(filter(is_name, found))


def texts_in(value: Any) -> set[str]:
    """Return all texts in nested data, keys too."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    return set().union(*map(texts_in, value if isinstance(value, list | tuple) else []))


def short_name(reference: str) -> str:
    """Return the last part of a reference: a name, or that of a file or an object in it."""
    return reference.rpartition(":")[2].rpartition("/")[2].removesuffix(".py")
