"""Where a study is kept: a journal in the run directory, or a database that machines share.

The journal is text, one JSON object per line. No pickle in either is loaded: Optuna unpickles only
the snapshots of its Redis backend and the state of its own CMA-ES, for which `cma` stands in here.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy.exc
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url

from metaevo.config import ConfigError
from metaevo.runs import files, schema
from metaevo.tuning.sampling import RETRY_OF
from metaevo.tuning.space import Space

RESULT = "result"
"""The attribute of a trial that holds its outcome."""
JOURNAL = "study.journal"
_ATTEMPTS = 4
_BLOCK = 4096


def open_storage(path: Path, url: str | None) -> BaseStorage:
    """Open, or begin, the storage of a study.

    Args:
        path: the run directory, where the journal is kept.
        url: of a database, as SQLAlchemy writes it; None for the journal.

    Raises:
        ConfigError: if it cannot be opened; the message never shows a password.
    """
    return _open_journal(path / JOURNAL) if url is None else _open_database(url)


def close_connections(storage: BaseStorage) -> None:
    """Close the connections to a database; it makes new ones when it is used again."""
    backend = getattr(storage, "_backend", None)  # behind Optuna's cache
    if isinstance(backend, RDBStorage):
        backend.remove_session()
        backend.engine.dispose()


def _open_journal(path: Path) -> BaseStorage:
    try:
        with contextlib.suppress(FileNotFoundError):  # Optuna's own `open` would wait at a pipe
            files.open_file(path, "r+b").close()
        return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be opened: {error.strerror or error}") from None
    except Exception as error:  # Optuna replays it: what somebody made up can raise anything there
        reason = f"{error or repr(error)}"
        raise ConfigError(f"{path}: is not the journal of a study: {reason}") from None


def check_trials(name: str, trials: list[FrozenTrial], space: Space) -> None:
    """Refuse a study whose trials no sweep of ours could have kept.

    Args:
        name: of the study.
        trials: all of them.
        space: of the sweep.

    Raises:
        ConfigError: naming the first one that is none.
    """
    for trial in trials:
        where = f"study {name!r}, trial {trial.number}"
        result = schema.check(schema.Result, trial.user_attrs.get(RESULT, {}), where, RESULT)
        lost = schema.check(schema.Index, trial.user_attrs.get(RETRY_OF, 0), where, RETRY_OF)
        values = [*trial.intermediate_values.values(), *(trial.values or ())]
        if not (
            (RETRY_OF not in trial.user_attrs or lost < trial.number)
            and all(type(value) in (int, float) for value in values)
            and all(type(step) is int for step in trial.intermediate_values)
            and (trial.state != TrialState.COMPLETE or result.get("value") is not None)
            and (result.get("outcome") != "complete" or result.get("value") is not None)
            and all(_fits(space, trial, key) for key in trial.params)
        ):
            raise ConfigError(f"{where}: is not what a sweep keeps of a trial")


def _fits(space: Space, trial: FrozenTrial, key: str) -> bool:
    """Whether a setting of a trial is one that the space has."""
    distribution = space.distributions.get(key)
    try:
        return (
            distribution is not None
            and distribution == trial.distributions.get(key)
            and distribution._contains(distribution.to_internal_repr(trial.params[key]))
        )
    except (TypeError, ValueError):
        return False


class JournalLock(JournalFileOpenLock):
    """A lock that the kernel drops with the process, however that ends; it also repairs the file.

    Optuna's own locks are files that a killed process leaves behind, and others wait for them for
    half a minute. A killed process can leave half a line, too. The next one with the lock removes
    it before it writes its own line. No reader has used it, as it has no end.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock and repair the journal."""
        descriptor = files.lock(self._path.with_name(f"{self._path.name}.lock"), wait=True)
        try:
            drop_unfinished_line(self._path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is None:
            raise RuntimeError("the lock was not acquired")
        os.close(self._descriptor)
        self._descriptor = None


def drop_unfinished_line(path: Path) -> None:
    """Cut off an unfinished last line."""
    with files.open_file(path, "r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - _BLOCK, 0)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end != size:
            file.truncate(end)


def _open_database(url: str) -> BaseStorage:
    try:
        parsed = make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # the text is not shown: it may be secret
        raise ConfigError(
            "sweep.storage: must be a URL like sqlite:///FILE or "
            "postgresql+psycopg://USER@HOST/DATABASE"
        ) from None
    arguments: dict[str, Any] = {"pool_pre_ping": True}  # a server may close what has been idle
    if parsed.get_backend_name() == "sqlite":
        arguments["connect_args"] = {"timeout": 60}  # seconds to wait for another writer
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            # With the cache that Optuna puts before databases: finished trials never change.
            return optuna.storages.get_storage(RDBStorage(url, engine_kwargs=arguments))
        except (
            ImportError,
            ValueError,
            RuntimeError,
            sqlalchemy.exc.SQLAlchemyError,
            optuna.exceptions.OptunaError,
        ) as error:
            # Two workers that create the tables at once can hinder each other.
            if attempt < _ATTEMPTS and isinstance(error, sqlalchemy.exc.DBAPIError):
                time.sleep(0.3 * attempt)
                continue
            shown = parsed.render_as_string(hide_password=True)
            raise ConfigError(
                f"sweep.storage = {shown!r}: cannot be opened: {_reason(error, parsed.password)}"
            ) from None
    raise AssertionError("the last attempt returns or raises")


def _reason(error: Exception, password: str | None) -> str:
    """Return what a driver says, without what it should not say."""
    original = getattr(error, "orig", None) or error
    text = str(original).strip().splitlines()[0] if str(original).strip() else repr(original)
    return text.replace(str(password), "***") if password else text
