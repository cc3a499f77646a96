"""One rule that turns a reference in settings into an object of a kind.

resolve(PART, "value_loss")              # a name of metaevo's, imported when it is used
resolve(PART, "my_loss.py:Tilted")       # or my_package.losses:Tilted
resolve(PART, "my_loss.py")              # the only part in the file
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from metaevo.config import code
from metaevo.config.errors import ConfigError, failure, show
from metaevo.config.hints import of_value
from purerl import custom


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of objects that a setting refers to."""

    key: str
    """the setting"""
    what: str
    """description of the objects"""
    complaint: Callable[[Any], str]
    """why an object is not of this kind; empty if it is"""
    names: Mapping[str, Any] = field(default_factory=dict)
    """metaevo's own by name: objects, or their places as MODULE:NAME"""


_NAMED: dict[int, tuple[str, Any]] = {}
"""Objects in files of the user's, with the references by which they were found"""


def resolve(kind: Kind, reference: Any) -> Any:
    """Return the object that a setting refers to; the user's file is executed.

    Raises:
        ConfigError: if there is none, or it is of another kind.
    """
    where = f"{kind.key} = {show(reference)}"
    if isinstance(reference, str) and reference in kind.names:
        found = kind.names[reference]
        if isinstance(found, str):
            module, name = found.split(":")
            found = getattr(import_module(module), name)
        return found
    if not code.is_name(reference):
        hint = of_value(reference, kind.names) if isinstance(reference, str) else ""
        allowed = ", ".join([*kind.names, "FILE.py:NAME or MODULE:NAME"])
        raise ConfigError(f"{where} is not known{hint}; allowed: {allowed}")
    try:
        found = code.load(kind.key, reference)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(f"{where} cannot be imported", error) from error
    if isinstance(found, ModuleType):
        found = _only(kind, where, found)
    if complaint := kind.complaint(found):
        raise ConfigError(f"{where}: {complaint}")
    if custom.where_of(reference).endswith(".py"):
        _NAMED.setdefault(id(found), (reference, found))
    return found


def _only(kind: Kind, where: str, module: ModuleType) -> Any:
    """Return the only object of a kind that a module defines."""
    own = {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and not kind.complaint(value)
    }
    if len(own) != 1:
        has = ", ".join(own) or "none"
        raise ConfigError(
            f"{where}: must define one {kind.what}, or be FILE.py:NAME; it has: {has}"
        )
    return next(iter(own.values()))


def reference_of(kind: Kind, given: Any) -> str:
    """Return a reference to an object that a caller passes, or the reference that is passed.

    Raises:
        ConfigError: if the object is of another kind.
    """
    if isinstance(given, str):
        return given
    if complaint := kind.complaint(given):
        raise ConfigError(f"{kind.key} = {show(given)}: {complaint}")
    if id(given) in _NAMED:
        return _NAMED[id(given)][0]
    place = f"{given.__module__}:{given.__name__}"
    for name, known in kind.names.items():
        if known is given or known == place:
            return name
    return custom.give(place, given)


def short_name(reference: str) -> str:
    """Return the last part of a reference: a name, or that of a file or an object in it."""
    last = reference.rpartition(":")[2].rpartition("/")[2]
    return last.removesuffix(".py")
