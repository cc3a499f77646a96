"""The directory of a run: everything that a run leaves, and all that is needed to continue it.

`config.yaml` says what was run and with what, `metrics.jsonl` what happened: one JSON object a
line, each with a `kind` (`generation`, `update`, ...) and its index under that name.
`tracked.jsonl` says what else tracking servers are to show: nested runs and artifacts.
"""

import contextlib
import errno
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import jax

from metaevo.config import (
    MAX_BYTES,
    ConfigError,
    DiskError,
    consent,
    dump_yaml,
    files,
    mapping_of,
)
from metaevo.runs import metrics, schema
from metaevo.runs.metrics import Records
from metaevo.runs.schema import SavedConfig

_NAME_ERRORS = (errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST)
"""errors where another kind of file has the name of one of ours"""
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "evosax", "gymnax", "numpy")


class RunDirectory:
    """The files of one run; made by `create` for a new one and by `open` for an existing one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.yaml"
        self.metrics_path = path / "metrics.jsonl"
        self.tracked_path = path / "tracked.jsonl"
        self.checkpoints = path / "checkpoints"
        self.meta_params = path / "meta_params"
        self.figures = path / "figures"
        self.evaluation_path = path / "evaluation.json"
        self.report_path = path / "report.html"
        self._lock: int | None = None

    @classmethod
    def create(
        cls, path: Path | None, experiment: str, root: Path = Path("runs")
    ) -> "RunDirectory":
        """A new directory: `path`, or one named after the time under `root/experiment`.

        Raises ConfigError if `path` already holds a run or cannot be written to.
        """
        try:
            if path is None:
                path = _make_unique(root / experiment)
            else:
                path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except (OSError, ValueError) as error:
            where = path or root / experiment
            raise files.unwritable(f"run directory {where}", error) from None
        run = cls(path)
        if os.path.lexists(run.config_path):
            raise ConfigError(
                f"run directory {path} already holds a run: "
                "name another with --run-dir, or continue it (--resume) if the script can"
            )
        return run

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """The directory of an existing run. Raises ConfigError if there is none."""
        run = cls(path)
        try:
            os.lstat(run.config_path)
        except (OSError, ValueError) as error:
            if isinstance(error, PermissionError) or (
                isinstance(error, OSError) and files.is_of_disk(error)
            ):
                raise files.unreadable(run.config_path, error) from None
            message = f"run directory {path} holds no run (it has no config.yaml)"
            raise ConfigError(message) from None
        return run

    def lock(self) -> None:
        """Keep others from writing here until `unlock` or the end of this process.

        Raises ConfigError, naming the process that holds the lock, if there is one.
        """
        if self._lock is not None:
            return
        path = self.path / ".lock"
        try:
            # The kernel drops the lock with the process, however that ends: no stale lock is left.
            descriptor = files.lock(path, wait=False)
        except BlockingIOError:
            holder = files.read(path)[:20].decode(errors="replace") or "unknown"
            message = f"run directory {self.path} is in use by another run (process {holder})"
            raise ConfigError(message) from None
        except OSError as error:
            raise files.unwritable(path, error) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._lock = descriptor
        files.remove_temporaries(self.path)

    def unlock(self) -> None:
        """Let others write here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextlib.contextmanager
    def held(self, way_out: str, *, exclusively: bool = True) -> Iterator[None]:
        """Lock the directory while a run writes here.

        Raises DiskError, which ends with the `way_out`, if the disk is full or the directory can no
        longer be written, and ConfigError if another run holds the lock (`exclusively`) or a folder
        is a link.
        """
        try:
            files.refuse_links(self.path)
            if exclusively:
                self.lock()
            yield
        except OSError as error:
            if not files.is_of_disk(error) and not self._owns(error.filename):
                raise
            kind = ConfigError if error.errno in _NAME_ERRORS else DiskError
            where = error.filename or self.path
            raise kind(f"{where} cannot be written: {files.reason(error)}; {way_out}") from error
        finally:
            self.unlock()

    def _owns(self, path: Any) -> bool:
        return isinstance(path, str | Path) and Path(path).is_relative_to(self.path)

    def write_config(
        self,
        config: dict[str, Any],
        resolved: dict[str, Any],
        earlier: SavedConfig | None = None,
    ) -> None:
        """Write config.yaml: the config, what was resolved from it, and where it runs.

        `earlier` is what a resumed run has there: its beginning is kept, and where it goes on is
        added to the list `resumed`.
        """
        environment = {
            "started": datetime.now().astimezone().isoformat(timespec="seconds"),
            "command_line": shlex.join(sys.orig_argv),
            "git": git_commit(),
            "devices": [f"{each.platform}:{each.id} {each.device_kind}" for each in jax.devices()],
            "python": platform.python_version(),
            **{name: _version(name) for name in _PACKAGES},
        }
        content: SavedConfig = {
            "config": config,
            "resolved": files.plain(resolved),
            "environment": earlier["environment"] if earlier else environment,
        }
        if earlier:
            content["resumed"] = [*earlier.get("resumed", []), environment]
        files.write_text_atomic(self.config_path, dump_yaml(content))

    def read_config(self) -> SavedConfig:
        """What write_config wrote: `config`, `resolved` and `environment`. Raises ConfigError."""
        content = mapping_of(files.read(self.config_path, MAX_BYTES), self.config_path)
        checked = schema.check_config(content, str(self.config_path))
        consent.note_names(checked["config"])
        return checked

    def update_resolved(self, changes: dict[str, Any]) -> None:
        """Change what write_config wrote under `resolved`."""
        content = self.read_config()
        content["resolved"] |= changes
        files.write_text_atomic(self.config_path, dump_yaml(content))

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl and flush it; what is not finite becomes null.

        Raises ValueError if the record lacks its `kind` or the index under that name.
        """
        record = files.plain(record)
        if not isinstance(record.get(record.get("kind", "")), int):
            raise ValueError(f"a record needs a kind and its index under that name: {record}")
        files.append_line(self.metrics_path, record)

    def append_tracked(self, entry: dict[str, Any]) -> None:
        """Add a line to tracked.jsonl: what trackers mirror beside the metrics."""
        files.append_line(self.tracked_path, files.plain(entry))

    def sync(self) -> None:
        """Make sure that metrics.jsonl would survive a power failure."""
        with contextlib.suppress(FileNotFoundError), files.open_file(self.metrics_path) as file:
            os.fsync(file.fileno())

    def read_metrics(self, kind: str) -> Records:
        """Return the records of a kind in metrics.jsonl, without a last line cut short.

        Raises:
            ConfigError: if any other line is damaged, or the file is too large.
        """
        return self.read_kinds([kind])[kind]

    def read_kinds(self, kinds: Iterable[str]) -> dict[str, Records]:
        """Return the records of several kinds from one pass over the file."""
        return metrics.read(self.metrics_path, kinds)

    def truncate_metrics(self, kind: str, count: int) -> None:
        """Keep the first `count` records of `kind`, and drop a last line that was cut short.

        A resumed run computes and logs again what follows its checkpoint.

        Raises:
            ConfigError: as `read_metrics` does.
        """
        if not os.path.lexists(self.metrics_path):
            return
        left = count
        with files.replacing(self.metrics_path) as file:
            for line, record in metrics.lines(self.metrics_path):
                left -= record["kind"] == kind
                if record["kind"] != kind or left >= 0:
                    file.write(line)


def _make_unique(parent: Path) -> Path:
    name = datetime.now().strftime("%Y%m%d-%H%M%S")
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str:
    """The commit of this checkout, short, with a + where files were changed; or `unknown`."""
    git = git_commit()
    return "unknown" if git is None else git["commit"][:9] + "+" * git["dirty"]


def git_commit() -> dict[str, Any] | None:
    """The commit of the checkout that this file belongs to; None for an installed copy."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # not just inside some repository
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
