"""Files: JSON, YAML that cannot execute code, and atomic replacement.

A reader of a replaced file finds the old content or the new content, complete.
"""

import contextlib
import errno
import json
import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import yaml
from pydantic_core import from_json, to_jsonable_python

from metaevo.config.checks import check
from metaevo.config.plain import ConfigError, DiskError, PlainDict, of_value, show

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE)


def make_folder(path: str | Path) -> Path:
    """Create a folder, unless it exists.

    Raises:
        ConfigError: if it cannot be created.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from error
    return folder


def unusable(path: Path | str, error: Exception, use: str = "written") -> ConfigError:
    """Return the error to raise for a file that cannot be read or written."""
    kind = DiskError if is_of_disk(error) else ConfigError
    return kind(f"{path} cannot be {use}: {reason(error)}")


def is_of_disk(error: Exception) -> bool:
    """Whether an error is caused by the disk instead of the file."""
    return getattr(error, "errno", None) in _DISK_ERRORS


def reason(error: Exception) -> str:
    """Return the message of an error without the path and the number of an OSError."""
    return getattr(error, "strerror", None) or str(error)


def read(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        ConfigError: if it cannot be read; DiskError if the disk is at fault.
    """
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise unusable(path, error, "read") from None


def read_json(path: Path, kind: Any = Any) -> Any:
    """Return the data of a JSON file of a kind for `metaevo.config.checks.check`.

    Raises:
        ConfigError: if it cannot be read, or is of another kind.
    """
    return check(kind, parse_json(read(path), str(path)), str(path))


def parse_json(text: str | bytes, where: str) -> Any:
    """Return the data of a JSON text; `where` names the file, and the line if it is one.

    Raises:
        ConfigError: if it is not JSON, or is nested more than 200 levels deep.
    """
    try:
        return from_json(text, cache_strings="keys")  # three times as fast as json.loads
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of `path` at the end; its folder is made.

    Raises:
        OSError: if it cannot be written; the old file is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # see remove_temporaries
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_temporaries(root: Path) -> None:
    """Remove the files that killed processes have not finished `replacing`."""
    for path in root.rglob(".*.[0-9]*.tmp"):
        with contextlib.suppress(OSError):
            path.unlink()


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file as `replacing` does, text as UTF-8."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_json_atomic(path: Path, obj: Any) -> None:
    """Write an indented JSON file as `replacing` does, with `plain` values."""
    write_atomic(path, json.dumps(plain(obj), indent=2, allow_nan=False) + "\n")


def append_line(path: Path, record: PlainDict) -> None:
    """Append a line of JSON, and remove an incomplete line that a killed process left."""
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    drop_unfinished_line(path)
    with open(path, "ab") as file:
        file.write(line)


def drop_unfinished_line(path: Path) -> None:
    """Remove an incomplete line that a killed process left at the end of a file."""
    with open(path, "a+b") as file:
        if size := file.tell():
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                end = content.rfind(b"\n") + 1
            if end < size:
                file.truncate(end)


def plain(value: Any) -> Any:
    """Convert NumPy and JAX values to plain ones, and non-finite numbers to None."""
    return to_jsonable_python(value, inf_nan_mode="null", fallback=lambda each: each.tolist())


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which may be endless, and with unique keys that are text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            problem = f"aliases are not supported: *{event.anchor}"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            text = isinstance(key, str)
            if not text or key in seen:
                problem = f"duplicate key {key!r}" if text else f"key {key!r} must be text"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):  # PyYAML takes 1e-3 for text
    _float = re.compile(r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _float, list("-+.0123456789"))


def parse_yaml(text: str, source: str) -> Any:
    """Return the plain data of a YAML text.

    Raises:
        ConfigError: if it is none; `source` names the file.
    """
    try:
        return _Loader(text).get_single_data()  # a safe one
    except Exception as error:  # it recurses, and converts dates, numbers and escapes
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or error
        raise ConfigError(f"{source}{where}: not valid YAML: {problem}") from None


def load_yaml(path: str | Path) -> PlainDict:
    """Return the mapping in a YAML file; an empty file is an empty mapping.

    Raises:
        ConfigError: if the file cannot be read, is not UTF-8 or YAML, or has a key twice.
    """
    try:
        text = read(Path(path)).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    data = parse_yaml(text, str(path))
    if data is not None and not isinstance(data, dict):
        raise ConfigError(f"{path}: must be a mapping of keys to values, not {show(data)}")
    return data or {}


def dump_yaml(data: Any, flow: bool = False) -> str:
    """Return plain data as YAML, in one line if `flow`."""
    return yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=2**30 if flow else 100,
        default_flow_style=flow,
    )


def _presets() -> Path:
    """Return the folder of the shipped settings: configs/ in a checkout, presets in a wheel."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "presets"
    return installed if installed.is_dir() else package.parent / "configs"


def preset_names() -> list[str]:
    """Return the names of the presets, such as `train/ppo_cartpole`."""
    folder = _presets()
    found = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found)


def find_preset(text: str | Path) -> Path:
    """Return the file of a `--config` option: a path, or a preset's name."""
    if os.path.exists(text):
        return Path(text)
    name, known = str(text).removeprefix("configs/").removesuffix(".yaml"), preset_names()
    if name in known:
        return _presets() / f"{name}.yaml"
    raise ConfigError(f"{text}: is no file, and no preset{of_value(name, known)}")
