"""The directory of a run, which is sufficient to continue it, and where to find such directories.

`config.yaml` contains settings and environment, `metrics.jsonl` one JSON object per line with a
`kind` (`generation`, `update`, ...) and an index under that name. Both may have other keys than
those that are checked here.
"""

import contextlib
import errno
import importlib.metadata
import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, NotRequired, Required

from filelock import FileLock, Timeout
from pydantic import GetPydanticSchema
from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.config import ConfigError, DiskError, PlainDict, dump_yaml, files, load_yaml
from metaevo.config.checks import Count, Index, Measure, Seconds, Text, check

SCORES, UNSEEN = "scores", "unseen"
"""Names of the judgements of an evolution: on its own tasks, and on tasks that it has not seen."""
RECORDS = "records"
"""Metadata of a checkpoint: size and CRC-32 of metrics.jsonl with all records before it."""
_NAME_ERRORS = (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST)
"""errors if a name is taken by another kind of file"""
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "evosax", "gymnax", "numpy")


class _Resolved(TypedDict, total=False):
    run_id: Text
    job_type: Text
    chunk_size: Count
    log_every: Count


class SavedConfig(TypedDict):
    """config.yaml."""

    config: PlainDict
    """all settings"""
    resolved: Annotated[PlainDict, GetPydanticSchema(lambda _, make: make(_Resolved))]
    """values chosen from them when the run began"""
    environment: PlainDict
    """versions, devices, git commit, command line"""
    resumed: NotRequired[list[PlainDict]]
    """the environment of every continuation"""


class _Record(TypedDict, total=False):
    kind: Required[Text]
    frames: Index
    seconds: Seconds
    returns: list[Measure] | None
    evaluation_returns: list[Measure] | None


class RunDirectory:
    """The files of one run; see `create` and `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.yaml"
        self.metrics_path = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.meta_params = path / "meta_params.npz"
        self.others_path = path / "others.json"
        self.figures = path / "figures"
        self.evaluation_path = path / "evaluation.json"
        self.scores_path = path / f"{SCORES}.npz"
        self.unseen_path = path / f"{UNSEEN}.npz"
        self.report_path = path / "report.html"
        self._had_files = True
        """whether anything was there before the run"""

    @classmethod
    def create(cls, path: Path | None, experiment: str) -> "RunDirectory":
        """Make a new directory: `path`, or one named after the time under `runs/experiment`."""
        where = path or Path("runs", experiment)
        try:
            if path is None:
                path = _make_unique(where)
            path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise files.unusable(f"run directory {where}", error) from None
        run = cls(path)
        if os.path.lexists(run.config_path):
            with run.locked():  # a run that goes on is another mistake
                raise ConfigError(
                    f"run directory {path} already holds a run: "
                    "name another directory or, where possible, continue it (--resume, resume=True)"
                )
        run._had_files = any(path.iterdir())
        return run

    @classmethod
    def open(cls, path: Path | None) -> "RunDirectory":
        """Return the directory of an existing run."""
        if path is None:
            raise ConfigError("--resume needs --run-dir: the directory of the run to continue")
        run = cls(path)
        if not os.path.lexists(run.config_path):
            raise ConfigError(f"run directory {path} holds no run (it has no config.yaml)")
        return run

    def discard(self) -> None:
        """Make the directory free for another run, unless this one has finished any work."""
        saved = (path for path in self.path.rglob("checkpoints/*") if path.stem.strip("0"))
        if any(self.path.rglob(self.metrics_path.name)) or any(saved):
            return
        if self._had_files:
            self.config_path.unlink(missing_ok=True)
        else:
            shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self, resume_hint: str = "") -> Iterator[None]:
        """Exclude other processes from the directory while a run writes to it.

        `resume_hint` is added to the message after a disk error.

        Raises:
            DiskError: if the directory can no longer be written.
            ConfigError: if another run holds the lock.
        """
        path = self.path / ".lock"
        # The kernel drops the lock with the process, however that ends: no stale lock is left.
        lock = FileLock(path, timeout=0, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            holder = files.read(path)[:20].decode(errors="replace") or "unknown"
            message = f"run directory {self.path} is in use by another run (process {holder})"
            raise ConfigError(message) from None
        except OSError as error:
            raise files.unusable(path, error) from None
        try:
            path.write_text(str(os.getpid()), encoding="utf-8")
            files.remove_temporaries(self.path)
            yield
        except OSError as error:
            where = error.filename or self.path
            is_own = isinstance(where, str | Path) and Path(where).is_relative_to(self.path)
            if not files.is_of_disk(error) and not (error.filename and is_own):
                raise
            kind = ConfigError if error.errno in _NAME_ERRORS else DiskError
            reason = f"{where} cannot be written: {files.reason(error)}"
            raise kind(f"{reason}; {resume_hint}".removesuffix("; ")) from error
        finally:
            lock.release()

    def write_config(
        self, config: PlainDict, resolved: PlainDict, earlier: SavedConfig | None = None
    ) -> None:
        """Write config.yaml: settings, values chosen from them, versions and devices.

        A resumed run keeps the environment of its `earlier` file and adds its own to `resumed`.
        """
        import jax  # takes a second, and commands that only read need none

        environment = {
            "started": datetime.now().astimezone().isoformat(timespec="seconds"),
            "command_line": shlex.join(sys.orig_argv),
            "commit": commit(),
            "devices": [f"{each.platform}:{each.id} {each.device_kind}" for each in jax.devices()],
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        }
        content: SavedConfig = {
            "config": config,
            "resolved": files.plain(resolved),
            "environment": earlier["environment"] if earlier else environment,
        }
        if earlier:
            content["resumed"] = [*earlier.get("resumed", []), environment]
        files.write_atomic(self.config_path, dump_yaml(content))

    def read_config(self) -> SavedConfig:
        """Return the content of config.yaml."""
        return check(SavedConfig, load_yaml(self.config_path), str(self.config_path))

    def update_resolved(self, changes: PlainDict) -> None:
        """Change values of `resolved` in config.yaml."""
        content = self.read_config()
        content["resolved"] |= changes
        files.write_atomic(self.config_path, dump_yaml(content))

    def append_metrics(self, record: PlainDict) -> PlainDict:
        """Add a line to metrics.jsonl, and return it; non-finite numbers become null."""
        record = files.plain(record)
        files.append_line(self.metrics_path, record)
        return record

    def sync(self) -> bytes:
        """Write metrics.jsonl through to the disk, for power failures; return its content."""
        try:
            with open(self.metrics_path, "rb") as file:
                os.fsync(file.fileno())
                return file.read()
        except FileNotFoundError:
            return b""

    def lines(self) -> Iterator[tuple[bytes, PlainDict]]:
        """Yield each line of metrics.jsonl with its record, without an incomplete last line."""
        try:
            with open(self.metrics_path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.endswith(b"\n"):  # else left by a killed process
                        where = f"{self.metrics_path}, line {number}"
                        record = files.parse_json(line, where)
                        kind = check(_Record, record, where)["kind"]
                        check(Index, record.get(kind), where, kind)
                        yield line, record
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.unusable(self.metrics_path, error, "read") from None

    def read_metrics(self, kind: str) -> list[PlainDict]:
        """Return the records of a kind in metrics.jsonl."""
        return [record for _, record in self.lines() if record["kind"] == kind]


def _make_unique(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    name = f"{datetime.now():%Y%m%d-%H%M%S}"
    for number in itertools.count(1):
        path = parent / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            break
    return path


def commit(digits: int = 40) -> str:
    """Return the commit of this checkout, with a + if it has changes; unknown if installed."""
    git = ["git", "-C", str(Path(__file__).parent)]
    own = [*git, "ls-files", "--error-unmatch", Path(__file__).name]  # not in another repository
    head, changes = [*git, "rev-parse", "HEAD"], [*git, "status", "--porcelain"]
    try:
        done = [
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
            for command in (own, head, changes)
        ]
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done[1].stdout[:digits].strip() + "+" * bool(done[2].stdout)
