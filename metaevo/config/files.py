"""Files of a run directory, which may come from somebody else.

A file is opened only if it is a regular one: no link is followed, and nothing waits at a pipe. What
is replaced is the old file or the new one at any time, and whole.
"""

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pydantic_core import from_json

from metaevo.config.checks import check
from metaevo.config.errors import ConfigError, DiskError
from metaevo.config.yaml_files import parse_json

_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE)
_OF_NAMES = (
    errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP, errno.ENXIO,
    errno.ENAMETOOLONG,
)  # fmt: skip
_BLOCK = 2**16
_FLAGS = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT}
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp")
"""names of files that `replacing` has not finished"""


class NotAFileError(OSError):
    """Something else than a regular file is in the place of one."""


# --- Errors -------------------------------------------------------------------------------------


def unreadable(path: Path | str, error: Exception) -> ConfigError:
    """Return what to raise for a file that cannot be read: a DiskError if the disk is at fault."""
    kind = DiskError if getattr(error, "errno", None) in _OF_DISKS else ConfigError
    return kind(f"{path}: cannot be read: {reason(error)}")


def unwritable(path: Path | str, error: Exception) -> ConfigError:
    """Return what to raise for a file that cannot be written: as for `unreadable`."""
    kind = DiskError if getattr(error, "errno", None) in _OF_DISKS else ConfigError
    return kind(f"{path} cannot be written: {reason(error)}")


def is_of_disk(error: OSError) -> bool:
    """Whether the disk is at fault, whatever the file is."""
    return error.errno in _OF_DISKS


def is_of_name(error: OSError) -> bool:
    """Whether what is at fault is a name: it is too long, or something else has it."""
    return isinstance(error, NotAFileError) or error.errno in _OF_NAMES


def reason(error: Exception) -> str:
    """Return an error in words, without the path and the number of an OSError."""
    return getattr(error, "strerror", None) or str(error)


def _explained(error: OSError, path: Path) -> OSError:
    """Return the error, or another one if what is wrong is the kind of the file."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        with contextlib.suppress(OSError):
            mode = os.lstat(path).st_mode
            if not stat.S_ISREG(mode):
                return _not_a_file(mode, path)
    if error.errno is None:
        return error
    return OSError(error.errno, error.strerror, str(path))


def _not_a_file(mode: int, path: Path) -> NotAFileError:
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    return NotAFileError(errno.EINVAL, f"is {kind}, not a regular file", str(path))


# --- Opening and locking --------------------------------------------------------------------------


def open_file(path: Path, mode: str = "rb") -> IO[bytes]:
    """Open a regular file, never a link to one, without waiting.

    Args:
        path: of the file.
        mode: `rb`, `r+b` or `a+b`, as for Python's `open`.

    Raises:
        OSError: NotAFileError if something else has that name.
    """
    return os.fdopen(_open(path, _FLAGS[mode]), mode)


def _open(path: Path, flags: int) -> int:
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise _explained(error, path) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _not_a_file(mode, path)
    return descriptor


def lock(path: Path, *, wait: bool) -> int:
    """Lock a file, created if need be; the kernel drops the lock when the descriptor is closed.

    Raises:
        BlockingIOError: if another process has it and this one does not `wait`.
        OSError: if the file cannot be opened or locked.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Keep other processes out, as `lock` does."""
    descriptor = lock(path, wait=wait)
    try:
        yield
    finally:
        os.close(descriptor)


# --- Reading --------------------------------------------------------------------------------------


MAX_BYTES = 2**28
"""size of a file that is read at once"""


def read(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises:
        ConfigError: if it cannot be read or is larger; DiskError if the disk is at fault.
    """
    try:
        with open_file(path) as file:
            check_size(path, os.fstat(file.fileno()).st_size, limit)
            return file.read()
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def check_size(path: Path, size: int, limit: int) -> None:
    """Refuse a file that is larger than any that a run writes.

    Raises:
        ConfigError: if `size` is over the limit.
    """
    if size > limit:
        raise ConfigError(f"{path}: larger than {limit} bytes: damaged, or not from a run")


def read_json(path: Path, kind: Any = Any) -> Any:
    """Return what write_json_atomic wrote, of a `kind` (see metaevo.config.checks).

    Raises:
        ConfigError: if it cannot be read.
    """
    try:
        content = parse_json(read(path))
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return check(kind, content, str(path))


def parse_line(line: bytes, where: str) -> Any:
    """Return the data of a line of JSON.

    Args:
        line: of a file.
        where: the file and the line number, for the message.

    Raises:
        ConfigError: if it is not JSON.
    """
    try:
        return from_json(line, cache_strings="keys")  # three times as fast as json.loads
    except ValueError:
        raise ConfigError(f"{where}: not a JSON object") from None


# --- Writing --------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of `path` at the end: a reader sees the old or the new one.

    A link there is replaced, and its target left alone.

    Raises:
        OSError: if the disk does not take it; then the old file is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # see _TEMPORARY
    try:
        temporary.unlink(missing_ok=True)  # of a killed process that had this one's number
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename not in (None, temporary, str(temporary)):
            raise
        raise _explained(error, path) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new one, never half of it."""
    with replacing(path) as file:
        file.write(content)


def write_text_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 file as `write_atomic` does."""
    write_atomic(path, text.encode())


def write_json_atomic(path: Path, obj: Any) -> None:
    """Write an indented JSON file as `write_atomic` does.

    NumPy and JAX values become plain ones, what is not finite becomes null.
    """
    write_text_atomic(path, json.dumps(plain(obj), indent=2, allow_nan=False) + "\n")


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Add a line of JSON; half a line that a killed process left is cut off before it."""
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    with open_file(path, "a+b") as file:
        file.truncate(_end_of_lines(file))
        file.write(line)


def _end_of_lines(file: IO[bytes]) -> int:
    """Return the position after the last newline, which is read backwards from the end."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        if (newline := file.read(end - start).rfind(b"\n")) >= 0:
            return start + newline + 1
        end = start
    return 0


def plain(value: Any) -> Any:
    """Return the value as JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):  # a NumPy or JAX scalar or array
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# --- Folders --------------------------------------------------------------------------------------


def refuse_linked_folders(root: Path) -> None:
    """Refuse a run directory that would lead a writer out of it. wandb keeps links in its folder.

    Raises:
        ConfigError: naming a symbolic link to a folder.
    """

    def fail(error: OSError) -> None:
        raise unreadable(Path(error.filename or root), error)

    for folder, names, _ in os.walk(root, onerror=fail):
        for name in names:
            if os.path.islink(path := os.path.join(folder, name)):
                raise ConfigError(
                    f"{path} is a symbolic link: nothing is written through it; "
                    "put the folder itself in its place"
                )
        is_run = Path(folder) == root or (Path(folder).parent == root and is_seed(Path(folder)))
        names[:] = [name for name in names if not (is_run and name == "wandb")]


def remove_temporaries(root: Path) -> None:
    """Remove the files that killed processes left half-written, also in the folders of a run."""
    for folder, _, names in os.walk(root):
        for name in filter(_TEMPORARY.fullmatch, names):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def is_seed(path: Path) -> bool:
    """Whether a folder has the name of one of several evolutions in a run: `seed_0`, ..."""
    return re.fullmatch(r"seed_[0-9]{1,10}", path.name) is not None


def inside(root: Path, name: Any) -> Path:
    """Return where a file or folder of a run directory really is.

    Args:
        root: the run directory.
        name: of the file, in the run directory or absolute.

    Raises:
        ConfigError: if that is anywhere but inside, itself or behind a link.
    """
    if isinstance(name, str) and "\0" not in name:
        real, base = os.path.realpath(root / name), os.path.realpath(root)
        if real.startswith(base + os.sep):
            return Path(real)
    raise ConfigError(f"{root}: {name!r} is not a file inside of the run directory; it is not sent")


def contents(path: Path) -> dict[str, Path]:
    """Return the files of a folder by their names in it, in order; of a file, itself.

    Raises:
        ConfigError: if there is a link, a pipe or the like among them, or a folder is unreadable.
    """

    def fail(error: OSError) -> None:
        raise unreadable(Path(error.filename or path), error)

    def checked(each: Path) -> Path:
        mode = os.lstat(each).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(f"{each} is not sent: it {reason(_not_a_file(mode, each))}")
        return each

    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return {path.name: checked(path)}
        found = {}
        for folder, names, files in os.walk(path, onerror=fail):
            for name in files + [name for name in names if os.path.islink(Path(folder, name))]:
                each = checked(Path(folder, name))
                if not _TEMPORARY.fullmatch(name):
                    found[each.relative_to(path).as_posix()] = each
    except OSError as error:
        raise unreadable(path, error) from None
    return dict(sorted(found.items(), key=lambda item: item[1]))
