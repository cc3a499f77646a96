"""The user's own code, which settings name as `FILE.py:NAME`, `MODULE:NAME` or `FILE.py`.

Code runs if the user names it in the same command, or passes it as an object. The settings of a run
directory name code too, which is not enough: see `admit`.
"""

import argparse
import contextlib
import functools
import hashlib
import inspect
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from metaevo.config import files
from metaevo.config.errors import ConfigError, show
from metaevo.config.plain import PlainDict, PlainMapping
from purerl import custom

RECORDED = "code"
"""Key of the digests in the resolved part of config.yaml, and a run's folder with copies."""
_LOADED: PlainDict = {}
"""Objects by name; a file is not read again if it changes."""


def load(key: str, name: str) -> Any:
    """Return the object or module that a setting `key` names."""
    if name not in _LOADED:
        try:
            _LOADED[name] = custom.load(name)
        except ValueError as error:
            raise ConfigError(f"{key} = {show(name)}: {error}") from error
    return _LOADED[name]


def is_name(text: Any) -> bool:
    """Return whether a text may name code."""
    return isinstance(text, str) and (text.endswith(".py") or custom.is_custom(text))


def texts_in(settings: Any) -> set[str]:
    """Return all texts in settings, keys too."""
    if isinstance(settings, str):
        return {settings}
    if isinstance(settings, Mapping):
        settings = [*settings, *settings.values()]
    parts = settings if isinstance(settings, list | tuple) else []
    return set().union(*map(texts_in, parts))


def names_in(settings: PlainMapping) -> list[str]:
    """Return the texts in settings that may name code of the user's."""
    found = texts_in({key: settings[key] for key in settings if key != "run"})
    return sorted(filter(is_name, found))


def digests(settings: PlainMapping) -> dict[str, str]:
    """Return the SHA-256 of the code that settings name: of its file, or of a passed class."""
    found = {name: digest_of(name) for name in names_in(settings)}
    return {name: digest for name, digest in found.items() if digest is not None}


def digest_of(name: str) -> str | None:
    """Return the SHA-256 of the file that a name refers to, or of the class passed under it.

    None if there is no such file, or the class has no source.
    """
    if custom.is_given(name):
        source = class_source(custom.load(name))
        return None if source is None else digest(source)
    with contextlib.suppress(ValueError):  # no code, although it looks like some
        return custom.source_digest(name)
    return None


@functools.cache  # as the class is in this process, whatever happens to its file
def class_source(cls: object) -> bytes | None:
    """Return the source code of a user-defined class.

    None for a class without a file, as in a notebook, and for other objects than classes.
    """
    if not isinstance(cls, type) or cls.__module__.partition(".")[0] == "metaevo":
        return None
    try:
        return inspect.getsource(cls).encode()
    except (OSError, TypeError):
        return None


def digest(source: bytes) -> str:
    """Return the SHA-256 of source code."""
    return hashlib.sha256(source).hexdigest()


def keep(run_path: Path, settings: PlainMapping) -> None:
    """Copy the files of the code that settings name into a run, for the user to name later.

    Raises:
        ConfigError: if two of them have the same name.
    """
    copied: dict[str, bytes] = {}
    for name in names_in(settings):
        where = custom.where_of(name)
        if custom.is_given(name) or not where.endswith(".py"):
            continue
        try:
            source = custom.source(name)
        except ValueError:  # no file, although it looks like one
            continue
        if copied.setdefault(Path(where).name, source) != source:
            raise ConfigError(f"two files of code are called {Path(where).name}; rename one")
    for file, source in copied.items():
        (run_path / RECORDED).mkdir(exist_ok=True)
        files.write_atomic(run_path / RECORDED / file, source)


def use(code: Any, settings: PlainMapping | None = None) -> None:
    """Execute code that the user names or passes: `--code`, in Python `code`.

    A file takes the place of one with the same name that the settings refer to.

    Raises:
        ConfigError: if it cannot be imported.
    """
    given = code if isinstance(code, list | tuple) else [code]
    named = [str(each) for each in given if isinstance(each, str | Path)]
    _move(named, settings or {})
    for each in given:
        if not isinstance(each, str | Path):
            custom.give(f"{each.__module__}:{each.__name__}", each)
        elif is_name(str(each)):
            load("code", str(each))
        else:
            raise ConfigError(
                f"code = {show(str(each))}: must be FILE.py, FILE.py:NAME or MODULE:NAME"
            )


def _move(code: Sequence[str], settings: PlainMapping) -> None:
    """Let files take the place of others of the same name that settings refer to."""
    for there in map(custom.where_of, names_in(settings)):
        for here in map(custom.where_of, code):
            if here == there:
                custom.MOVED.pop(there, None)
            elif Path(here).name == Path(there).name:
                custom.MOVED[there] = here


def admit(
    run_path: Path,
    settings: PlainMapping,
    resolved: PlainMapping,
    given: Any,
    code: Sequence[str] = (),
) -> None:
    """Execute the named code of a run, if the user names all code that its settings name.

    Args:
        run_path: the run's directory.
        settings: taken from there.
        resolved: the resolved part of its config.yaml.
        given: the user's settings.
        code: names given by `--code`.

    Raises:
        ConfigError: with what to type, or if code has changed since the run began.
    """
    named = texts_in([given, list(code)])
    files_named = {Path(custom.where_of(name)).name for name in code}
    missing = [
        name
        for name in names_in(settings)
        if name not in named
        and not custom.is_loaded(name)
        and Path(custom.where_of(name)).name not in files_named
    ]
    if missing:
        flags = " ".join(f"--code {shlex.quote(name)}" for name in missing)
        raise ConfigError(
            f"{run_path}: its settings name code that this command does not name, so that it does "
            f"not run; to run it, add {flags} (in Python: code={missing})"
        )
    _move(code, settings)
    refuse_changes(settings, resolved)
    use(list(code), settings)


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


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names code."""
    parser.add_argument(
        "--code",
        action="append",
        default=[],
        metavar="FILE",
        help="code that a run directory names and that may run: my_loss.py, my_env.py:Corridor",
    )
