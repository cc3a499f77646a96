"""One rule that turns a reference in settings into an object of a kind.

resolve(PART, "value_loss")              # a name of metaevo's, imported when it is used
resolve(PART, "my_loss.py:Tilted")       # or my_package.losses:Tilted
resolve(PART, "my_loss.py")              # the only part in the file
"""

import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from metaevo.config import code
from metaevo.config.errors import ConfigError, show
from metaevo.config.hints import of_value


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
    if isinstance(reference, str) and reference in kind.names:
        found = kind.names[reference]
        return pkgutil.resolve_name(found) if isinstance(found, str) else found
    check_name(kind.key, reference, kind.names)
    where = f"{kind.key} = {show(reference)}"
    found = code.load(kind.key, reference)
    if isinstance(found, ModuleType):
        own = {
            name: each
            for name, each in vars(found).items()
            if getattr(each, "__module__", "") == found.__name__ and not kind.complaint(each)
        }
        if len(own) != 1:
            raise ConfigError(
                f"{where}: must define one {kind.what}, or be FILE.py:NAME; it has: "
                f"{', '.join(own) or 'none'}"
            )
        (found,) = own.values()
    if complaint := kind.complaint(found):
        raise ConfigError(f"{where}: {complaint}")
    if code.where_of(reference).endswith(".py"):
        _NAMED.setdefault(id(found), (reference, found))
    return found


def check_name(key: str, reference: Any, names: Collection[str]) -> None:
    """Raise `ConfigError` unless a setting is one of the names, or may name code of the user's."""
    if not (isinstance(reference, str) and reference in names) and not code.is_name(reference):
        allowed = ", ".join([*names, "FILE.py:NAME or MODULE:NAME"])
        hint = of_value(reference, names)
        raise ConfigError(f"{key} = {show(reference)} is not known{hint}; allowed: {allowed}")


def reference_of(kind: Kind, given: Any) -> str:
    """Return a reference to an object that a caller passes.

    Raises:
        ConfigError: if it is of another kind.
    """
    if complaint := kind.complaint(given):
        raise ConfigError(f"{kind.key} = {show(given)}: {complaint}")
    if id(given) in _NAMED:
        return _NAMED[id(given)][0]
    place = f"{given.__module__}:{given.__name__}"
    shipped = [name for name, known in kind.names.items() if known in (given, place)]
    return shipped[0] if shipped else code.give(given, place)


def short_name(reference: str) -> str:
    """Return the last part of a reference: a name, or that of a file or an object in it."""
    return reference.rpartition(":")[2].rpartition("/")[2].removesuffix(".py")
