"""Where a study is kept: a journal in the run directory, a database, or memory.

The journal is text, one JSON object per line. No pickle is loaded: Optuna unpickles only the
snapshots of its Redis backend and the state of its own CMA-ES, for which `cma` stands in here.

Optuna knows by heartbeats which trials of a database lost their worker. A journal has none: there
each worker holds a lock file, and the kernel drops the lock when the worker ends, however it does.
"""

import contextlib
import os
import re
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy.exc
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.storages import (
    BaseStorage,
    InMemoryStorage,
    JournalStorage,
    RDBStorage,
    RetryHeartbeatStaleTrialCallback,
)
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url

from metaevo.config import ConfigError, checks, files
from metaevo.runs import schema
from metaevo.tuning.space import Space

RESULT = "result"
"""Attribute of a trial: its outcome."""
INDEX = "index"
"""Attribute of a trial: its place in the queue."""
WORKER = "worker"
"""Attribute of a trial in a journal: the worker that began it."""
RETRY_OF = "retry_of"
"""Attribute by which earlier versions marked a trial that repeats another one."""
FAILED_TRIAL = "failed_trial"
"""System attribute by which Optuna marks them."""
JOURNAL = "study.journal"
BEAT_SECONDS = 10
"""between two heartbeats in a database"""
DEAD_SECONDS = 60
"""without a heartbeat, after which a worker counts as dead"""
_ATTEMPTS = 4
_BLOCK = 4096


class Storage:
    """An Optuna storage for one worker in memory; the subclasses are shared."""

    def __init__(self, storage: BaseStorage) -> None:
        self.optuna = storage

    @staticmethod
    def open(path: Path | None, url: str | None) -> "Storage":
        """Open, or begin, the storage of a study.

        Args:
            path: the run directory, where the journal is kept; None for a study in memory.
            url: of a database, as SQLAlchemy writes it; None for the journal.

        Raises:
            ConfigError: if it cannot be opened; the message never shows a password.
        """
        if url is not None:
            return _Database(_open_database(url), _file_of(url))
        return _Journal(path / JOURNAL) if path is not None else Storage(InMemoryStorage())

    def begin_work(self) -> None:
        """Let other processes see that this one is alive."""

    def end_work(self) -> list[FrozenTrial]:
        """Let them see that this one no longer works; returns trials that it has not decided."""
        return []

    def close(self) -> None:
        """Close the connections; new ones are made when the storage is used again."""

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other workers from taking trials, where that is possible."""
        yield

    def take(self, trial: FrozenTrial) -> bool:
        """Begin a trial of the queue; False if another worker was faster."""
        try:
            return self.optuna.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
        except UpdateFinishedTrialError:
            return False

    def release(self, trial_id: int) -> None:
        """Note that a trial is decided."""

    def lost(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        """Return the running trials without a worker that Optuna does not find by itself."""
        del trials
        return []


class _Journal(Storage):
    """A file that processes of one file system share."""

    def __init__(self, path: Path) -> None:
        super().__init__(_open_journal(path))
        self._path = path
        self._worker = ""
        self._descriptor: int | None = None

    def begin_work(self) -> None:
        self._worker = uuid.uuid4().hex
        self._descriptor = files.lock(self._lock_of(self._worker), wait=False)

    def end_work(self) -> list[FrozenTrial]:
        if self._descriptor is not None:
            self._lock_of(self._worker).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None
        return []  # the others see that the lock is gone

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with files.locked(self._path.with_name(f"{self._path.name}.queue.lock")):
            yield

    def take(self, trial: FrozenTrial) -> bool:
        taken = super().take(trial)
        if taken:
            self.optuna.set_trial_user_attr(trial._trial_id, WORKER, self._worker)
        return taken

    def lost(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        running = [trial for trial in trials if trial.state == TrialState.RUNNING]
        workers = {trial._trial_id: str(trial.user_attrs.get(WORKER)) for trial in running}
        dead = {worker for worker in set(workers.values()) if self._is_dead(worker)}
        return [trial for trial in running if workers[trial._trial_id] in dead]

    def _is_dead(self, worker: str) -> bool:
        if not re.fullmatch("[0-9a-f]{32}", worker):
            return True  # of an earlier version, or ended between taking a trial and signing it
        path = self._lock_of(worker)
        if not path.exists():
            return True
        try:
            os.close(files.lock(path, wait=False))
        except BlockingIOError:
            return False
        path.unlink(missing_ok=True)
        return True

    def _lock_of(self, worker: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{worker}.lock")


class _Database(Storage):
    """A database that machines share; a thread writes the heartbeats of the trials in progress."""

    def __init__(self, storage: BaseStorage, file: Path | None) -> None:
        super().__init__(storage)
        self._file = file
        self._trials: set[int] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin_work(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def end_work(self) -> list[FrozenTrial]:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        left = [self.optuna.get_trial(trial_id) for trial_id in sorted(self._trials)]
        self._trials.clear()
        return left

    def close(self) -> None:
        backend = getattr(self.optuna, "_backend", None)  # behind Optuna's cache
        if isinstance(backend, RDBStorage):
            backend.remove_session()
            backend.engine.dispose()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        # SQLite has no SELECT FOR UPDATE, so that two workers could take the same trial.
        with files.locked(self._file.with_name(f"{self._file.name}.queue.lock")):
            yield

    def take(self, trial: FrozenTrial) -> bool:
        # Before it is taken, because Optuna never finds a trial without any heartbeat.
        self._record(trial._trial_id)
        taken = super().take(trial)
        if taken:
            self._trials.add(trial._trial_id)
        return taken

    def release(self, trial_id: int) -> None:
        self._trials.discard(trial_id)

    def _record(self, trial_id: int) -> None:
        self.optuna.record_heartbeat(trial_id)  # type: ignore[attr-defined]

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                for trial_id in tuple(self._trials):
                    self._record(trial_id)
            except Exception as error:  # a server that is away for a moment ends no training
                print(f"warning: no heartbeat in the study: {error!r}", file=sys.stderr)


def _open_journal(path: Path) -> BaseStorage:
    try:
        with contextlib.suppress(FileNotFoundError):  # Optuna's own `open` would wait at a pipe
            files.open_file(path, "r+b").close()
        return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be opened: {error.strerror or error}") from None
    except Exception as error:  # Optuna replays it: a forged line can raise anything
        reason = f"{error or repr(error)}"
        raise ConfigError(f"{path}: is not the journal of a study: {reason}") from None


def check_trials(name: str, trials: list[FrozenTrial], space: Space) -> None:
    """Refuse a study with trials that no sweep of metaevo keeps.

    Args:
        name: of the study.
        trials: all trials.
        space: of the sweep.

    Raises:
        ConfigError: naming the first one that is none.
    """
    for trial in trials:
        where = f"study {name!r}, trial {trial.number}"
        result = checks.check(schema.Result, trial.user_attrs.get(RESULT, {}), where, RESULT)
        lost = checks.check(checks.Index, trial.user_attrs.get(RETRY_OF, 0), where, RETRY_OF)
        checks.check(checks.Index, trial.user_attrs.get(INDEX, 0), where, INDEX)
        checks.check(checks.Index, trial.system_attrs.get(FAILED_TRIAL, 0), where, FAILED_TRIAL)
        values = [*trial.intermediate_values.values(), *(trial.values or ())]
        if not (
            (RETRY_OF not in trial.user_attrs or lost < trial.number)
            and trial.system_attrs.get(FAILED_TRIAL, -1) < trial.number
            and all(type(value) in (int, float) for value in values)
            and all(type(step) is int for step in trial.intermediate_values)
            and (trial.state != TrialState.COMPLETE or result.get("value") is not None)
            and (result.get("outcome") != "complete" or result.get("value") is not None)
            and all(_fits(space, trial, key) for key in trial.params)
        ):
            raise ConfigError(f"{where}: is not a trial of a sweep")


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


def _file_of(url: str) -> Path | None:
    """Return the file of an SQLite database."""
    parsed = make_url(url)
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (
        None,
        "",
        ":memory:",
    )
    return Path(str(parsed.database)) if is_file else None


def _open_database(url: str) -> BaseStorage:
    try:
        parsed = make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # the text is not shown: it may be secret
        raise ConfigError(
            "sweep.storage: must be a URL like sqlite:///FILE or "
            "postgresql+psycopg://USER@HOST/DATABASE"
        ) from None
    arguments: dict[str, Any] = {"pool_pre_ping": True}  # a server may close idle connections
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
    """Return the message of a driver without the password."""
    original = getattr(error, "orig", None) or error
    text = str(original).strip().splitlines()[0] if str(original).strip() else repr(original)
    return text.replace(str(password), "***") if password else text
