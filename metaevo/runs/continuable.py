"""Work that keeps its results in a directory as it goes, so the same command continues it."""

import sys
from collections.abc import Callable
from pathlib import Path

from metaevo.config import files
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.signals import PATIENCE, StopOnSignal, StopRequestedError


def work_in(folder: Path, subfolder: str, work: Callable[[Callable[[], None]], None]) -> int:
    """Lock a directory and work in it until the end or a signal.

    Args:
        folder: directory of the results.
        subfolder: folder to create in it.
        work: called with a function that raises `StopRequestedError` after a signal.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: if the directory cannot be created, or another process works in it.
    """
    try:
        (folder / subfolder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise files.unwritable(f"run directory {folder}", error) from None
    way_on = "the same command continues with what is done"
    with RunDirectory(folder).held(way_on), StopOnSignal(way_on, PATIENCE) as stop:
        print(f"results: {folder}", file=sys.stderr, flush=True)
        try:
            work(stop.check)
        except StopRequestedError:
            print(f"stopped; {way_on}", file=sys.stderr)
        return stop.exit_code
