"""The run that `latest` stands for on a command line, and the evolutions inside a run."""

import argparse
import os
from pathlib import Path

from metaevo.config import ConfigError, files

LATEST = "latest"


def run_path(text: str) -> Path:
    """Return the directory that a text names; of `latest`, the newest run under runs/.

    Raises:
        ConfigError: if there is none, or no file can have that name.
    """
    if text != LATEST:
        path = Path(text)
        try:
            path.is_dir()
        except OSError as error:
            raise files.unreadable(path, error) from None
        return path
    newest = newest_run(Path("runs"))
    if newest is None:
        raise ConfigError("latest: there is no run under runs/")
    return newest


def run_argument(text: str) -> Path:
    """Do the same as the type of an argument, of which argparse hides any other error's message."""
    try:
        return run_path(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def newest_run(root: Path) -> Path | None:
    """Return the run under a folder that began, or went on, last; None if there is none.

    What lies inside a run (the copy of a loss, a comparison on another task) is no run of its own.
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
    candidates = filter(files.is_seed, path.glob("seed_*"))
    found = [each for each in candidates if os.path.lexists(each / "config.yaml")]
    return sorted(found, key=lambda each: int(each.name.removeprefix("seed_")))
