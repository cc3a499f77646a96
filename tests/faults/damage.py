"""Ways in which the file of a saved tree (a checkpoint, a part, policies) can be damaged."""

import pickle
from collections.abc import Iterator
from pathlib import Path

REGIONS = 64
"""of a file in which every byte is flipped"""


class Bomb:
    """Creates a file if it is ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def flipped(content: bytes, region: int, mask: int) -> bytes:
    start, end = (len(content) * each // REGIONS for each in (region, region + 1))
    changed = bytes(byte ^ mask for byte in content[start:end])
    return content[:start] + changed + content[end:]


def contents(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what may be found in the place of a file's content, and what it is called."""
    size = len(content)
    for length in (0, 1, size // 2, size - 1):
        yield f"truncated to {length}", content[:length]
    yield "zeros", bytes(size)
    yield "a pickle", pickle.dumps(Bomb(Path("exploded")))
    yield "twice", content + content
    for region in range(REGIONS):
        yield f"region {region} inverted", flipped(content, region, 0xFF)
        yield f"region {region} with its lowest bits flipped", flipped(content, region, 0x01)
