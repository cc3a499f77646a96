"""Storage of a study: a journal in the run directory, a database, or memory.

The journal is text, one JSON object per line. Optuna unpickles only the snapshots of its Redis
backend and the state of Optuna's CMA-ES sampler, which `metaevo.tuning.cma` replaces.
"""

import contextlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import optuna
import sqlalchemy.exc
from filelock import FileLock
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
URL = "must be a URL like sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
BEAT_SECONDS = 10
"""between two heartbeats in a database"""
DEAD_SECONDS = 60
"""without a heartbeat, after which Optuna counts a process as dead"""
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ExperimentalWarning)
    queue_again = RetryHeartbeatStaleTrialCallback()
    """queues the settings of a trial that failed with its process"""


def open_storage(path: Path | None, url: str | None) -> BaseStorage:
    """Open or create the database at a URL, else the journal in a directory, else memory.

    Raises:
        ConfigError: if it cannot be opened.
    """
    if url is not None:
        return _open_database(url)
    if path is None:
        return InMemoryStorage()
    journal = path / JOURNAL
    try:
        return JournalStorage(JournalFileBackend(str(journal), lock_obj=JournalLock(journal)))
    except Exception as error:  # Optuna replays it: a forged line can raise anything
        reason = str(error) or repr(error)
        raise ConfigError(
            f"{journal}: cannot be opened, or is not the journal of a study: {reason}"
        ) from None


class JournalLock(JournalFileOpenLock):
    """A lock on the journal that the kernel releases when the process ends, however it ends.

    Optuna's own lock is a file that a killed process leaves behind, for which others wait half a
    minute. A killed process can also leave an unfinished line, which is removed with the lock held.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path, self._lock = path, FileLock(f"{path}.lock", poll_interval=0.01)

    def acquire(self) -> bool:
        """Wait for the lock and repair the journal."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            files.drop_unfinished_line(self._path)
            stack.pop_all()
        return True

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()


def check_url(url: str) -> None:
    """Raise `ValueError` unless a text is the URL of a kind of database that SQLAlchemy knows."""
    try:
        make_url(url).get_dialect()
    except (ImportError, sqlalchemy.exc.ArgumentError) as error:
        raise ValueError(f"storage: {error}; {URL}") from None


def _open_database(url: str) -> BaseStorage:
    try:
        try:
            return _connect(url)
        except sqlalchemy.exc.DBAPIError:  # another process may be creating the tables
            time.sleep(1.0)
            return _connect(url)
    except Exception as error:  # of SQLAlchemy, its driver or Optuna; none has the password
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise ConfigError(f"sweep.storage: cannot be opened: {reason}; {URL}") from None


@contextlib.contextmanager
def taking_turns(url: str | None) -> Iterator[None]:
    """Let one process at a time take trials from a shared SQLite file.

    Optuna locks the trial that it fails, queues or takes; SQLite ignores that.
    """
    with contextlib.ExitStack() as stack:
        if url is not None and url.startswith("sqlite") and (file := make_url(url).database):
            stack.enter_context(FileLock(f"{file}.lock"))
        yield


def _connect(url: str) -> BaseStorage:
    arguments: dict[str, object] = {"pool_pre_ping": True}  # a server may close idle connections
    if url.startswith("sqlite"):
        arguments["connect_args"] = {"timeout": 60}  # seconds to wait for another writer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        backend = RDBStorage(
            url,
            engine_kwargs=arguments,
            heartbeat_interval=BEAT_SECONDS,
            grace_period=DEAD_SECONDS,
            heartbeat_stale_trial_callback=queue_again,
        )
    # With the cache that Optuna puts before databases: finished trials never change.
    return optuna.storages.get_storage(backend)
