"""Storage of a study: a journal in the run directory, a database, or memory.

The journal is text, one JSON object per line. Optuna unpickles only the snapshots of its Redis
backend and the state of Optuna's CMA-ES sampler, which `metaevo.tuning.cma` replaces.
"""

import contextlib
import os
import time
import warnings
from pathlib import Path

import optuna
import sqlalchemy.exc
from optuna.exceptions import ExperimentalWarning
from optuna.storages import (
    BaseStorage,
    InMemoryStorage,
    JournalStorage,
    RDBStorage,
    RetryHeartbeatStaleTrialCallback,
)
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from sqlalchemy.engine import make_url

from metaevo.config import ConfigError, files

JOURNAL = "study.journal"
BEAT_SECONDS = 10
"""between two heartbeats in a database"""
DEAD_SECONDS = 60
"""without a heartbeat, after which Optuna counts a worker as dead"""
_ATTEMPTS = 4


def open_storage(path: Path | None, url: str | None) -> BaseStorage:
    """Open the storage of a study, or create it.

    Args:
        path: the run directory with the journal; None for a study in memory.
        url: SQLAlchemy URL of a database; None for the journal.

    Raises:
        ConfigError: if it cannot be opened; the message never shows a password.
    """
    if url is not None:
        return _open_database(url)
    return _open_journal(path / JOURNAL) if path is not None else InMemoryStorage()


class JournalLock(JournalFileOpenLock):
    """A lock on the journal that the kernel releases when the process ends, however it ends.

    Optuna's own lock is a file that a killed process leaves behind, for which others wait half a
    minute. A killed process can also leave an unfinished line, which is removed with the lock held.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock and repair the journal."""
        descriptor = files.lock(self._path.with_name(f"{self._path.name}.lock"), wait=True)
        try:
            files.drop_unfinished_line(self._path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock."""
        assert self._descriptor is not None
        os.close(self._descriptor)
        self._descriptor = None


def _open_journal(path: Path) -> BaseStorage:
    try:
        with contextlib.suppress(FileNotFoundError):  # Optuna's own `open` would wait at a pipe
            files.open_file(path, "r+b").close()
        return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be opened: {error.strerror or error}") from None
    except Exception as error:  # Optuna replays it: a forged line can raise anything
        raise ConfigError(
            f"{path}: is not the journal of a study: {error or repr(error)}"
        ) from None


def _open_database(url: str) -> BaseStorage:
    try:
        parsed = make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # the text may contain a password
        raise ConfigError(
            "sweep.storage: must be a URL like sqlite:///FILE or "
            "postgresql+psycopg://USER@HOST/DATABASE"
        ) from None
    arguments: dict[str, object] = {"pool_pre_ping": True}  # a server may close idle connections
    if parsed.get_backend_name() == "sqlite":
        arguments["connect_args"] = {"timeout": 60}  # seconds to wait for another writer
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                backend = RDBStorage(
                    url,
                    engine_kwargs=arguments,
                    heartbeat_interval=BEAT_SECONDS,
                    grace_period=DEAD_SECONDS,
                    heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
                )
            # With the cache that Optuna puts before databases: finished trials never change.
            return optuna.storages.get_storage(backend)
        except Exception as error:  # of SQLAlchemy, its driver or Optuna
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
    """Return the first line of a driver's message, without the password."""
    original = getattr(error, "orig", None) or error
    text = (str(original).strip() or repr(original)).splitlines()[0]
    return text.replace(str(password), "***") if password else text
