"""Read runs from directories, globs, wandb and MLflow, in any mixture."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from metaevo.comparison import run_directories, trackers
from metaevo.comparison.seed_run import SeedRun
from metaevo.config import ConfigError
from metaevo.runs.latest import run_path


def read_all(names: Sequence[str], notes: list[str]) -> list[SeedRun]:
    """Return the seeds of runs, and append to the notes.

    Of several seeds with equal settings and random numbers, only the longest is kept.

    Raises:
        ConfigError: a name matches no run, or a run cannot be read.
    """
    runs: dict[str, list[SeedRun]] = {}
    for name in names:
        if name.startswith((trackers.WANDB, trackers.MLFLOW)):
            for seed in trackers.read(name, notes):
                runs.setdefault(seed.run, []).append(seed)
            continue
        for path in _directories(name):
            if str(path) not in runs:
                runs[str(path)] = run_directories.read(path, notes)
    for name, seeds in runs.items():
        if not any(seed.metrics for seed in seeds):
            notes.append(f"{name}: left out, because it has no records yet")
    return _without_repeats([s for seeds in runs.values() for s in seeds if s.metrics], notes)


def _directories(name: str) -> list[Path]:
    """Return the run directories that a name on the command line stands for."""
    paths = [run_path(name)]
    if not paths[0].is_dir():
        if not glob.has_magic(name):
            raise ConfigError(f"{name}: there is no such run directory")
        paths = _matches(name)
    found = [run for path in paths for run in run_directories.find(path)]
    if not found:
        raise ConfigError(f"{name}: holds no run (no config.yaml in it or below it)")
    return found


def _matches(pattern: str) -> list[Path]:
    """Return the paths that match a pattern; leading folders that exist are taken literally."""
    folder, rest = Path(), list(Path(pattern).parts)
    while rest and (folder / rest[0]).is_dir():
        folder /= rest.pop(0)
    found = glob.glob(os.path.join(glob.escape(str(folder)), *rest), recursive=True)
    return [Path(path) for path in sorted(found)]


def _without_repeats(seeds: Sequence[SeedRun], notes: list[str]) -> list[SeedRun]:
    longest: dict[object, SeedRun] = {}
    for seed in seeds:
        key = (seed.seed, seed.origin)
        if _points(seed) > _points(longest.setdefault(key, seed)):
            longest[key] = seed
    kept = set(longest.values())
    for run in dict.fromkeys(seed.run for seed in seeds if seed not in kept):
        notes.append(f"{run}: left out where it repeats another run (same settings and seeds)")
    return [seed for seed in seeds if seed in kept]


def _points(seed: SeedRun) -> int:
    return max((len(axis) for axis in seed.axes.values()), default=0)
