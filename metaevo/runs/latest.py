"""The newest run, `latest` on a command line, and the evolutions inside a run."""

import argparse
import os
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


def newest_run(root: Path) -> Path | None:
    """Return the run in a folder that was begun or resumed last, if any.

    Folders inside a run, such as a comparison on another task, do not count.
    """
    found = []
    for folder, inside, names in os.walk(root):
        if "config.yaml" in names:
            inside.clear()
            path = Path(folder)
            found.append(((path / "config.yaml").stat().st_mtime_ns, path))
    return max(found)[1] if found else None


def evolutions_in(path: Path) -> list[Path]:
    """Return the directories of a run's evolutions, if it has several: `seed_0`, `seed_1`, ..."""
    numbers = (each.name.removeprefix("seed_") for each in path.glob("seed_*"))
    found = sorted(int(number) for number in numbers if number.isdecimal())
    folders = [path / f"seed_{number}" for number in found]
    return [each for each in folders if os.path.lexists(each / "config.yaml")]
