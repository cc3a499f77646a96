"""Ways in which a saved tree (a checkpoint, a component, policies) can be damaged."""

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.works import state_file

FILES = ("state.npz", "metadata.json")
REGIONS = 64
"""of a file in which every byte is flipped"""


class Bomb:
    """Leaves a file in the working directory if it is ever unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("exploded"),)


def truncations(size: int) -> list[int]:
    """Return lengths to cut a file of a size to."""
    return sorted({0, 1, size // 2, size - 1})


def flipped(content: bytes, region: int, mask: int) -> bytes:
    """Return the content with the bytes of one of `REGIONS` regions changed."""
    start, end = (len(content) * each // REGIONS for each in (region, region + 1))
    changed = bytes(byte ^ mask for byte in content[start:end])
    return content[:start] + changed + content[end:]


def contents(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what may be found in the place of a file's content, and what it is called."""
    for length in truncations(len(content)):
        yield f"truncated to {length}", content[:length]
    for region in range(REGIONS):
        yield f"region {region} inverted", flipped(content, region, 0xFF)
        yield f"region {region} with its lowest bits flipped", flipped(content, region, 0x01)
    yield "zeros", bytes(len(content))
    yield "a pickle", pickle.dumps(Bomb())
    yield "twice", content + content


def _replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _replace_by_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"000000")


def _empty(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()


def _half_written(path: Path) -> None:
    (path / "metadata.json").unlink()
    content = state_file(path).read_bytes()
    state_file(path).write_bytes(content[: len(content) // 3])


def _pickle(path: Path) -> None:
    state_file(path).write_bytes(pickle.dumps(Bomb()))


STRUCTURAL: dict[str, Callable[[Path], None]] = {
    "state.npz missing": lambda path: state_file(path).unlink(),
    "metadata.json missing": lambda path: (path / "metadata.json").unlink(),
    "an empty directory": _empty,
    "half written": _half_written,
    "a directory for state.npz": lambda path: _replace_by_directory(state_file(path)),
    "a directory for metadata.json": lambda path: _replace_by_directory(path / "metadata.json"),
    "a file for the directory": _replace_by_file,
    "a pickle for state.npz": _pickle,
}
"""of a directory; none of them leaves anything that could be used"""
