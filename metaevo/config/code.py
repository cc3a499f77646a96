"""The user's code: files, modules and objects that settings or callers name.

Code runs if the user names it in the same command, or passes it as an object. The settings of a run
directory name code too, which is not enough: see `admit`.
"""

import difflib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from metaevo.config import files
from metaevo.config.plain import (
    RECORDED,
    ConfigError,
    PlainDict,
    PlainMapping,
    is_name,
    names_in,
    show,
    texts_in,
)

if TYPE_CHECKING:
    from metaevo.config.references import Kind

_GIVEN: PlainDict = {}
"""Objects that a caller has passed, by their names in settings"""
_LOADED: PlainDict = {}
"""Objects by name; a file is not read again if it changes"""
EXECUTED: dict[str, ModuleType] = {}
"""Executed modules by the digests of their files"""
_NAMED: dict[int, tuple[str, Any]] = {}
"""Objects in files of the user's, with the references by which they were found"""
_MOVED: dict[str, str] = {}
"""Files that take the place of others that names refer to"""


def where_of(name: str) -> str:
    """Return the file or module that a name refers to."""
    return name if name.endswith(".py") else name.rpartition(":")[0]


def give(given: Any, name: str | None = None) -> str:
    """Return the name in settings of an object that a caller passes, by default of its class.

    A number is added to `MODULE:NAME` if another object has that name. Equal flax modules are one.
    """
    kind = given if hasattr(given, "__name__") else type(given)
    name = name or f"{kind.__module__}:{kind.__name__}"
    unique, count = name, 1
    while (known := _GIVEN.setdefault(unique, given)) is not given:
        if _is_flax_module(given) and repr(known) == repr(given):
            break
        count += 1
        unique = f"{name}_{count}"
    return unique


def is_given(name: str) -> bool:
    """Return whether a caller has passed the object with this name."""
    return name in _GIVEN


def is_loaded(name: str) -> bool:
    """Return whether this process has the object already: passed, or loaded by this name."""
    return name in _GIVEN or name in _LOADED


def load_code(key: str, name: str) -> Any:
    """Return the object that a setting `key` names, or the module of a file; it is executed once.

    Examples:
        >>> sqrt = metaevo.load_code("my_setting", "math:sqrt")

    Raises:
        ConfigError: if there is no such file, module or object, or if its module raises.
    """
    if name in _GIVEN:
        return _GIVEN[name]
    if name not in _LOADED:
        try:
            _LOADED[name] = _found(name)
        except ValueError as error:
            raise ConfigError(f"{key} = {show(name)}: {error}") from error
    return _LOADED[name]


def resolve(kind: "Kind", reference: str) -> Any:
    """Return the user's object that a setting refers to; the only one of its kind in a file."""
    where = f"{kind.key} = {show(reference)}"
    found = load_code(kind.key, reference)
    if isinstance(found, ModuleType):
        own = {name: each for name, each in _own(found).items() if not kind.complaint(each)}
        if len(own) != 1:
            raise ConfigError(
                f"{where}: must define one {kind.what}, or be FILE.py:NAME; it has: "
                f"{', '.join(own) or 'none'}"
            )
        (found,) = own.values()
    if complaint := kind.complaint(found):
        raise ConfigError(f"{where}: {complaint}")
    if where_of(reference).endswith(".py"):
        _NAMED.setdefault(id(found), (reference, found))
    return found


def _own(module: ModuleType) -> PlainDict:
    """Return what a module defines, by name."""
    found, name = vars(module), module.__name__
    return {key: each for key, each in found.items() if getattr(each, "__module__", "") == name}


def reference_to(given: Any, place: str) -> str:
    """Return the reference to an object that a caller passes, by default its `place`."""
    return _NAMED[id(given)][0] if id(given) in _NAMED else give(given, place)


def _found(name: str) -> Any:
    """Return an object or module; raises `ValueError` if there is none."""
    where = where_of(name)
    kind, source = name.removeprefix(where)[1:], digest(_path(name).read_bytes())
    module = EXECUTED[source] = _module(_MOVED.get(where, where), source)
    if not kind:
        return module
    if not hasattr(module, kind):
        close = difflib.get_close_matches(kind, vars(module), n=2)
        shown = ", ".join(dict.fromkeys([*close, *_own(module)])) or "nothing"
        raise ValueError(f"{where} has no {kind!r}; it has: {shown}")
    return getattr(module, kind)


@functools.cache
def _module(where: str, source: str) -> ModuleType:
    """Execute a file or module, whose file has the digest `source`."""
    try:
        if not where.endswith(".py"):
            return importlib.import_module(where)
        name = f"own_{Path(where).stem}_{source[:8]}"
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
    """Return the file that a name refers to, without executing it."""
    where = _MOVED.get(where_of(name), where_of(name))
    if where.endswith(".py"):
        path = Path(where)
    else:
        if os.getcwd() not in sys.path:  # which a console script has not
            sys.path.append(os.getcwd())
        try:
            spec = importlib.util.find_spec(where)
        except Exception:  # of a parent package
            spec = None
        if spec is None or spec.origin is None:
            raise ValueError(f"there is no module {where!r}")
        path = Path(spec.origin)
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}")
    return path


@functools.cache  # as the class is in this process, whatever happens to its file
def class_source(cls: object) -> bytes | None:
    """Return the source code of a user-defined class or function.

    None for code without a file, as in a notebook, and for other objects.
    """
    if not isinstance(cls, type | FunctionType) or cls.__module__.partition(".")[0] == "metaevo":
        return None
    try:
        return inspect.getsource(cls).encode()
    except (OSError, TypeError):
        return None


def _is_flax_module(given: Any) -> bool:
    linen = sys.modules.get("flax.linen")  # imported here, it would import JAX
    return linen is not None and isinstance(given, linen.Module)


def _source(given: Any) -> bytes | None:
    """Return the source code of what a caller passed; of a flax module, its class and settings."""
    if not _is_flax_module(given):
        return class_source(given)
    kind: Any = type(given)
    source = class_source(kind)
    return None if source is None else source + repr(given).encode()


def digest(source: bytes) -> str:
    """Return the SHA-256 of source code."""
    return hashlib.sha256(source).hexdigest()


def digest_of(name: str) -> str | None:
    """Return the SHA-256 of the file or passed code that a name refers to; None if it has none."""
    try:
        source = _source(_GIVEN[name]) if name in _GIVEN else _path(name).read_bytes()
    except ValueError:  # no code, although it looks like some
        return None
    return None if source is None else digest(source)


def digests(settings: PlainMapping) -> dict[str, str]:
    """Return the SHA-256 of the code that settings name, by name."""
    found = {name: digest_of(name) for name in names_in(settings)}
    return {name: digest for name, digest in found.items() if digest is not None}


def keep(run_path: Path, settings: PlainMapping) -> None:
    """Copy the files of the code that settings name into a run, for the user to name later.

    Raises:
        ConfigError: if two of them have the same name.
    """
    copied: dict[str, bytes] = {}
    for name in digests(settings):
        where = where_of(name)
        if where.endswith(".py"):
            file, source = Path(where).name, _path(name).read_bytes()
            if copied.setdefault(file, source) != source:
                raise ConfigError(f"two files of code are called {file}; rename one")
            files.write_atomic(run_path / RECORDED / file, source)


def use(
    code: Any, settings: PlainMapping | None = None, resolved: PlainMapping | None = None
) -> None:
    """Execute code that the user names or passes: `--code`, in Python `code`.

    A file takes the place of one with the same name that a run's `settings` refer to; `resolved`
    is the resolved part of its config.yaml.

    Raises:
        ConfigError: if it cannot be imported, or has changed since the run began.
    """
    given = code if isinstance(code, list | tuple) else [code]
    settings, resolved = settings or {}, resolved or {}
    names = [str(each) for each in given if isinstance(each, str | Path)]
    for there in map(where_of, names_in(settings)):
        for here in map(where_of, names):
            if Path(here).name == Path(there).name:
                _MOVED[there] = here
    refuse_changes(settings, resolved)
    for name in names:
        if not is_name(name):
            raise ConfigError(f"code = {show(name)}: must be FILE.py, FILE.py:NAME or MODULE:NAME")
        load_code("code", name)
    for each in given:
        if not isinstance(each, str | Path):
            give(each)


def admit(
    run_path: Path,
    settings: PlainMapping,
    resolved: PlainMapping,
    given: Any,
    code: Sequence[str] = (),
) -> None:
    """`use` the named code of a run, if the user names all code that its settings name.

    The settings, and the resolved part of config.yaml, are those in the run's directory. The user
    has named code in the `given` settings and by `--code`.

    Raises:
        ConfigError: with what to type, or if code has changed since the run began.
    """
    named, files_named = texts_in(given), {Path(where_of(name)).name for name in code}
    missing = [
        name
        for name in names_in(settings)
        if name not in named
        and Path(where_of(name)).name not in files_named
        and not is_loaded(name)
    ]
    if missing:
        flags = " ".join(f"--code {shlex.quote(name)}" for name in missing)
        raise ConfigError(
            f"{run_path}: its settings name code that this command does not name, so that it does "
            f"not run; to run it, add {flags} (in Python: code={missing})"
        )
    use(list(code), settings, resolved)


def refuse_changes(settings: PlainMapping, resolved: PlainMapping) -> None:
    """Raise `ConfigError` if code that settings name has changed since their run began."""
    before, now = resolved.get(RECORDED) or {}, digests(settings)
    if changed := [name for name in now if before.get(name, now[name]) != now[name]]:
        raise other_code(changed)


def other_code(names: Collection[str]) -> ConfigError:
    """Return the error to raise if code has changed since a run began."""
    return ConfigError(
        f"cannot continue with other code: {', '.join(names)} changed since the run began; restore "
        f"it, name the run's copy (--code RUN/{RECORDED}/FILE.py), or start a new run"
    )
