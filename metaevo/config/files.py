"""Files of a run directory.

A file is replaced atomically, so a reader finds the old content or the new content, complete.
"""

import contextlib
import errno
import fcntl
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from metaevo.config.checks import check
from metaevo.config.errors import ConfigError, DiskError, show
from metaevo.config.plain import PlainDict
from metaevo.config.yaml_files import parse_json

MAX_BYTES = 2**28
"""size limit of files that are read into memory, in bytes"""
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE)
_BLOCK = 2**16
_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp")
"""names of files that `replacing` has not finished"""


def as_path(name: str, given: object) -> Path:
    """Return an argument as a path.

    Raises:
        ConfigError: naming the argument, if it is no path.
    """
    if isinstance(given, str | os.PathLike):
        return Path(given)
    raise ConfigError(f"{name} = {show(given)}: must be a path")


def make_folder(path: str | Path) -> Path:
    """Create a folder, unless it exists.

    Raises:
        ConfigError: if it cannot be created.
    """
    folder = as_path("folder", path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


# --- Errors -------------------------------------------------------------------------------------


def unreadable(path: Path | str, error: Exception) -> ConfigError:
    """Return the error to raise for a file that cannot be read."""
    return _explained(f"{path}: cannot be read: {reason(error)}", error)


def unwritable(path: Path | str, error: Exception) -> ConfigError:
    """Return the error to raise for a file that cannot be written."""
    return _explained(f"{path} cannot be written: {reason(error)}", error)


def _explained(message: str, error: Exception) -> ConfigError:
    return (DiskError if is_of_disk(error) else ConfigError)(message)


def is_of_disk(error: Exception) -> bool:
    """Whether an error is caused by the disk instead of the file."""
    return getattr(error, "errno", None) in _DISK_ERRORS


def reason(error: Exception) -> str:
    """Return the message of an error without the path and the number of an OSError."""
    return getattr(error, "strerror", None) or str(error)


# --- Locking --------------------------------------------------------------------------------------


def lock(path: Path, *, wait: bool) -> int:
    """Lock a file, creating it if necessary; closing the returned descriptor unlocks it.

    Raises:
        BlockingIOError: if another process holds the lock and this one does not `wait`.
        OSError: if the file cannot be opened or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the `lock` of a file."""
    descriptor = lock(path, wait=wait)
    try:
        yield
    finally:
        os.close(descriptor)


# --- Reading --------------------------------------------------------------------------------------


def read(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a file of at most `limit` bytes.

    Raises:
        ConfigError: if it cannot be read or is larger; DiskError if the disk is at fault.
    """
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size <= limit:
                return file.read()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    raise ConfigError(f"{path}: larger than {limit} bytes: damaged, or not from a run")


def read_json(path: Path, kind: Any = Any) -> Any:
    """Return the data of a JSON file of a kind for `metaevo.config.checks.check`.

    Raises:
        ConfigError: if it cannot be read, or is of another kind.
    """
    return check(kind, parse_line(read(path), str(path)), str(path))


def parse_line(line: bytes, where: str) -> Any:
    """Return the data of a line of JSON.

    Raises:
        ConfigError: if it is not JSON; `where` names the file and the line.
    """
    try:
        return parse_json(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None


# --- Writing --------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of `path` at the end.

    Raises:
        OSError: if it cannot be written; the old file is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # see _TEMPORARY
    try:
        temporary.unlink(missing_ok=True)  # left by a killed process with the same number
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename in (temporary, str(temporary)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file as `replacing` does."""
    with replacing(path) as file:
        file.write(content)


def write_text_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 file as `replacing` does."""
    write_atomic(path, text.encode())


def write_json_atomic(path: Path, obj: Any) -> None:
    """Write an indented JSON file as `replacing` does, with `plain` values."""
    write_text_atomic(path, json.dumps(plain(obj), indent=2, allow_nan=False) + "\n")


def append_line(path: Path, record: PlainDict) -> None:
    """Append a line of JSON, and remove an incomplete line that a killed process left."""
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    with open(path, "a+b") as file:
        file.truncate(_end_of_lines(file))
        file.write(line)


def _end_of_lines(file: IO[bytes]) -> int:
    """Return the position after the last newline, searched backwards from the end."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        if (newline := file.read(end - start).rfind(b"\n")) >= 0:
            return start + newline + 1
        end = start
    return 0


def drop_unfinished_line(path: Path) -> None:
    """Remove an incomplete line that a killed process left at the end of a file."""
    with open(path, "r+b") as file:
        end = _end_of_lines(file)
        if end != file.seek(0, os.SEEK_END):
            file.truncate(end)


def plain(value: Any) -> Any:
    """Convert NumPy and JAX values to plain ones, and non-finite numbers to None."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# --- Folders --------------------------------------------------------------------------------------


def remove_temporaries(root: Path) -> None:
    """Remove the unfinished files of killed processes."""
    for folder, _, names in os.walk(root):
        for name in filter(_TEMPORARY.fullmatch, names):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
