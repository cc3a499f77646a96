"""Ways in which a file of a run directory can be damaged, drawn at random."""

import copy
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from metaevo.config import dump_yaml, load_yaml
from metaevo.runs import checkpoint
from tests.faults.fuzzing import EDGES, FLOATS, WORDS


def _value(random: Random, old: Any) -> Any:
    """Another value: of a wrong type, at an extreme, or nearly the same."""
    choices = [
        lambda: random.choice(EDGES),
        lambda: random.choice(FLOATS),
        lambda: random.choice(WORDS),
        lambda: random.choice([None, True, False, [], {}, [None], [[]], {"a": 1}, [1, "2"], "7"]),
        lambda: str(old),
        lambda: [old],
        lambda: {"a": old},
    ]
    if isinstance(old, int | float) and not isinstance(old, bool):
        choices += [lambda: -old, lambda: old + 1, lambda: old * 10**6, lambda: old + 0.5]
    if isinstance(old, list):
        choices += [lambda: old[:-1], lambda: old + old]
    return random.choice(choices)()


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*path, key))


def change(random: Random, data: Any) -> Any:
    """Data with a value somewhere in it that is another, is gone, or has another name."""
    data = copy.deepcopy(data)
    places = list(_places(data)) if isinstance(data, dict | list) else []
    if not places or not random.randrange(20):
        return _value(random, data)
    *path, last = random.choice(places)
    inner = data
    for key in path:
        inner = inner[key]
    kind = random.randrange(6)
    if kind == 0:
        del inner[last]
    elif kind == 1 and isinstance(inner, dict):
        inner[random.choice(WORDS)] = inner.pop(last)
    else:
        inner[last] = _value(random, inner[last])
    return data


def _json(data: Any) -> bytes:
    return json.dumps(data, default=str).encode("utf-8", "backslashreplace")


def in_bytes(random: Random, content: bytes) -> bytes:
    """Bytes flipped, cut off, emptied, repeated, or zeros."""
    at = random.randrange(len(content) + 1)
    return random.choice(
        [
            lambda: bytes(b ^ (i == at) * random.randrange(1, 256) for i, b in enumerate(content)),
            lambda: content[:at],
            lambda: b"",
            lambda: content[:at] + bytes(len(content) - at),
            lambda: content[:at] + random.randbytes(8) + content[at:],
            lambda: content + content[at:],
            lambda: content[at:],
        ]
    )()


def in_lines(random: Random, content: bytes) -> bytes:
    """Lines dropped, doubled, swapped, or cut off."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return b"{}\n"
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    kind = random.randrange(4)
    if kind == 0:
        del lines[one : random.choice([one + 1, len(lines)])]
    elif kind == 1:
        lines.insert(other, lines[one])
    elif kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] = in_bytes(random, lines[one])
    return b"".join(lines)


def in_values(random: Random, path: Path, content: bytes) -> bytes:
    """A value of a YAML or JSON file, or of a line of one; of a saved tree with right digests."""
    if path.name == "metadata.json":
        data = json.loads(content)
        del data["sha256_of_metadata"]
        data = change(random, data)
        if isinstance(data, dict):
            data["sha256_of_metadata"] = checkpoint._digest(json.loads(_json(data)))
        return _json(data)
    if path.suffix == ".json":
        return _json(change(random, json.loads(content)))
    if path.suffix in (".jsonl", ".journal"):
        lines = content.splitlines()
        at = random.randrange(len(lines))
        lines[at] = _json(change(random, json.loads(lines[at])))
        return b"\n".join(lines) + b"\n"
    if path.suffix == ".yaml":
        text = dump_yaml(change(random, load_yaml(path)))
        return text.encode("utf-8", "backslashreplace")
    return in_bytes(random, content)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _directory(path: Path, outside: Path) -> None:
    _remove(path)
    path.mkdir()


def _fifo(path: Path, outside: Path) -> None:
    _remove(path)
    os.mkfifo(path)


def _symlink(path: Path, outside: Path) -> None:
    """To the same outside."""
    target = outside / path.name
    if path.is_dir():
        shutil.copytree(path, target)
    else:
        shutil.copy(path, target)
    _remove(path)
    path.symlink_to(target)


def _loop(path: Path, outside: Path) -> None:
    _remove(path)
    path.symlink_to(path.name)


def _dangling(path: Path, outside: Path) -> None:
    _remove(path)
    path.symlink_to(outside / "nothing")


def _socket(path: Path, outside: Path) -> None:
    _remove(path)
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket may not be long
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "nothing": lambda path, _: _remove(path),
    "a directory": _directory,
    "a FIFO": _fifo,
    "a symlink": _symlink,
    "a symlink loop": _loop,
    "a dangling symlink": _dangling,
    "a socket": _socket,
}
"""of files, in the place of another one"""


def damage(random: Random, run: Path, outside: Path, *, kinds: bool) -> str:
    """Damage a file of a run; what was done to it, in words."""
    paths = [path for path in sorted(run.rglob("*")) if path.suffix not in (".png", ".html")]
    files = [path for path in paths if path.is_file()]
    path = random.choice(paths if kinds else files)
    name = path.relative_to(run)
    if kinds:
        what = random.choice(list(KINDS))
        KINDS[what](path, outside)
        return f"{what} for {name}"
    content = path.read_bytes()
    what = random.choice(["bytes", "lines", "values", "values", "values"])
    if what == "values":
        content = in_values(random, path, content)
    else:
        content = (in_bytes if what == "bytes" else in_lines)(random, content)
    path.write_bytes(content)
    return f"{what} of {name}"
