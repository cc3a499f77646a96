"""Run directories in a folder, the newest of them, and the evolutions inside a run."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from metaevo.config import ConfigError, files

LATEST = "latest"


def run_path(text: str) -> Path:
    """Return the run directory of a name; `latest` is the newest run under runs/."""
    path = newest_run(Path("runs")) if text == LATEST else Path(text)
    if path is None:
        raise ConfigError("latest: there is no run under runs/")
    try:
        path.is_dir()
    except OSError as error:
        raise files.unreadable(path, error) from None
    return path


def run_argument(text: str) -> Path:
    """Return the `run_path` for argparse, which hides the message of other errors."""
    try:
        return run_path(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def runs_below(root: Path) -> Iterator[Path]:
    """Yield the run directories at or below a folder, in order, but none inside another run."""
    for folder, inside, names in os.walk(root):
        is_run = "config.yaml" in names
        inside[:] = [] if is_run else sorted(name for name in inside if not name.startswith("."))
        if is_run:
            yield Path(folder)


def newest_run(root: Path) -> Path | None:
    """Return the run in a folder that was begun or resumed last, if any."""
    runs = {path: (path / "config.yaml").stat().st_mtime_ns for path in runs_below(root)}
    return max(runs, key=lambda path: (runs[path], path)) if runs else None


def evolutions_in(path: Path) -> list[Path]:
    """Return the directories of a run's evolutions, if it has several: `seed_0`, `seed_1`, ..."""
    numbers = (each.name.removeprefix("seed_") for each in path.glob("seed_*"))
    found = sorted(int(number) for number in numbers if number.isdecimal())
    folders = [path / f"seed_{number}" for number in found]
    return [each for each in folders if os.path.lexists(each / "config.yaml")]
