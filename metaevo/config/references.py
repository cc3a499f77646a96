"""References to objects in settings: metaevo's own names, and code of the user's.

resolve(PART, "value_loss")              # a name of metaevo's, imported when it is used
resolve(PART, "my_loss.py:Tilted")       # or my_package.losses:Tilted
resolve(PART, "my_loss.py")              # the only part in the file

Only a run with code of the user's imports `metaevo.config.code`, which loads it.
"""

import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from metaevo.config.plain import ConfigError, is_name, of_value, show


def name_of(given: Any) -> str:
    """Return a name that a caller passes, or the name of a passed object."""
    if isinstance(given, str):
        return given
    from metaevo.config import code

    return code.give(given)


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


def resolve(kind: Kind, reference: Any) -> Any:
    """Return the object that a setting refers to; the user's file is executed.

    Raises:
        ConfigError: if there is none, or it is of another kind.
    """
    if isinstance(reference, str) and reference in kind.names:
        found = kind.names[reference]
        return pkgutil.resolve_name(found) if isinstance(found, str) else found
    check_name(kind.key, reference, kind.names)
    from metaevo.config import code

    return code.resolve(kind, reference)


def check_name(key: str, reference: Any, names: Collection[str]) -> None:
    """Raise `ConfigError` unless a setting is one of the names, or may name code of the user's."""
    if not (isinstance(reference, str) and reference in names) and not is_name(reference):
        allowed = ", ".join([*names, "FILE.py:NAME or MODULE:NAME"])
        hint = of_value(reference, names)
        raise ConfigError(f"{key} = {show(reference)} is not known{hint}; allowed: {allowed}")


def reference_of(kind: Kind, given: Any, place: str = "") -> str:
    """Return a reference to an object that a caller passes; its `place` is MODULE:NAME.

    Raises:
        ConfigError: if it is of another kind.
    """
    if complaint := kind.complaint(given):
        raise ConfigError(f"{kind.key} = {show(given)}: {complaint}")
    named = given if hasattr(given, "__name__") else type(given)
    place = place or f"{named.__module__}:{named.__name__.strip('<>')}"  # a lambda has no name
    shipped = [name for name, known in kind.names.items() if known in (given, place)]
    if shipped:
        return shipped[0]
    from metaevo.config import code

    return code.reference_to(given, place)
