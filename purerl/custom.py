"""User-defined objects by name: `my_env.py:Corridor`, `my_package.envs:Corridor`, or passed.

`my_loss.py` is the name of a file's module.
"""

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_GIVEN: dict[str, Any] = {}
"""Objects that a caller has passed, by their names in settings."""
_LOADED: set[str] = set()
"""Names of objects whose files this process has executed."""
EXECUTED: dict[str, ModuleType] = {}
"""Executed modules by the digests of their files."""
MOVED: dict[str, str] = {}
"""Files that take the place of others that names refer to."""


def give(name: str, given: Any) -> str:
    """Return a name under which `load` finds an object that a caller passes.

    A number is added to `MODULE:NAME` if another object has that name.
    """
    unique, count = name, 1
    while _GIVEN.setdefault(unique, given) is not given:
        count += 1
        unique = f"{name}_{count}"
    return unique


def is_given(name: str) -> bool:
    """Return whether a caller has passed the object with this name."""
    return name in _GIVEN


def is_loaded(name: str) -> bool:
    """Return whether this process has the object already: passed, or loaded by this name."""
    return name in _GIVEN or name in _LOADED


def is_custom(name: str) -> bool:
    """Return whether a name has the form `FILE.py:NAME` or `MODULE:NAME`; `zoo:NAME` has not."""
    where, colon, kind = name.rpartition(":")
    is_module = all(map(str.isidentifier, where.split(".")))
    is_place = where.endswith(".py") or (is_module and where != "zoo")
    return bool(colon) and kind.isidentifier() and is_place


def where_of(name: str) -> str:
    """Return the file or module that a name refers to."""
    return name if name.endswith(".py") else name.rpartition(":")[0]


def source(name: str) -> bytes:
    """Return the file that defines an object, without executing it.

    Raises:
        ValueError: if there is no such file or module.
    """
    return _path(name).read_bytes()


def source_digest(name: str) -> str:
    """Return the SHA-256 of the file that defines an object.

    Raises:
        ValueError: if there is no such file or module.
    """
    return hashlib.sha256(source(name)).hexdigest()


def load(name: str) -> Any:
    """Return an object, or the module of a file; its module is executed once.

    Raises:
        ValueError: if there is no such file, module or object, or if its module raises.
    """
    if name in _GIVEN:
        return _GIVEN[name]
    where = where_of(name)
    kind = name.removeprefix(where)[1:]
    digest = source_digest(name)
    module = EXECUTED[digest] = _load_module(MOVED.get(where, where), digest)
    if not kind:
        _LOADED.add(name)
        return module
    if not hasattr(module, kind):
        own = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__
        ]
        close = difflib.get_close_matches(kind, vars(module), n=2)
        shown = ", ".join(dict.fromkeys([*close, *own])) or "nothing"
        raise ValueError(f"{where} has no {kind!r}; it has: {shown}")
    _LOADED.add(name)
    return getattr(module, kind)


@cache
def _load_module(where: str, digest: str) -> ModuleType:
    try:
        if not where.endswith(".py"):
            return importlib.import_module(where)
        name = f"own_{Path(where).stem}_{digest[:8]}"
        spec = importlib.util.spec_from_file_location(name, where)
        if spec is None or spec.loader is None:
            raise ImportError(where)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look up their annotations there
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{where} cannot be imported: {reason}") from error


def _path(name: str) -> Path:
    where = MOVED.get(where_of(name), where_of(name))
    if where.endswith(".py"):
        path = Path(where)
    else:
        if os.getcwd() not in sys.path:  # which a console script has not
            sys.path.append(os.getcwd())
        try:
            spec: ModuleSpec | None = importlib.util.find_spec(where)
        except Exception:  # of a parent package
            spec = None
        if spec is None or spec.origin is None:
            raise ValueError(f"{name}: there is no module {where!r}")
        path = Path(spec.origin)
    if not path.is_file():
        raise ValueError(f"{name}: there is no file {str(path)!r}")
    return path
