"""Finding runs: the latest, those in a folder, and the evolutions in one."""

import os
from collections.abc import Iterator
from pathlib import Path

from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory


def run_path(text: str) -> Path:
    """Return the directory of a run; `latest` is the one under runs/ that began or resumed last."""
    if text != "latest":
        return Path(text)
    began = {(path / "config.yaml").stat().st_mtime_ns: path for path in runs_below(Path("runs"))}
    if not began:
        raise ConfigError("latest: there is no run under runs/")
    return began[max(began)]


def runs_below(root: Path) -> Iterator[Path]:
    """Yield the run directories at or below a folder, in order, but none inside another run."""
    for folder, inside, names in os.walk(root):
        is_run = "config.yaml" in names
        inside[:] = [] if is_run else sorted(name for name in inside if not name.startswith("."))
        if is_run:
            yield Path(folder)


def evolutions_in(path: Path) -> list[Path]:
    """Return the directories of a run's evolutions, if it has several: `seed_0`, `seed_1`, ...

    None for a folder that is no run, in which runs may have such names.
    """
    if not os.path.lexists(path / "config.yaml"):
        return []
    numbers = (each.name.removeprefix("seed_") for each in path.glob("seed_*"))
    found = sorted(int(number) for number in numbers if number.isdecimal())
    folders = [path / f"seed_{number}" for number in found]
    return [each for each in folders if os.path.lexists(each / "config.yaml")]


def has_evolved(run: RunDirectory, generations: int) -> bool:
    """Return whether so many generations, or more, are recorded without a gap."""
    found = [record["generation"] for record in run.read_metrics("generation")]
    return found == list(range(len(found))) and len(found) >= generations


def is_finished(run: RunDirectory) -> bool:
    """Return whether a run has ended; one of several evolutions has no report of its own."""
    if run.report_path.is_file():
        return True
    if run.path not in evolutions_in(run.path.parent):
        return False
    return has_evolved(run, run.read_config()["config"]["evolution"]["generations"])
