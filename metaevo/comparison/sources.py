"""Read runs from directories, globs, wandb and MLflow, in any mixture."""

import dataclasses
import glob
import os
from collections.abc import Sequence
from pathlib import Path

from metaevo.comparison import run_directories, trackers
from metaevo.comparison.seed_run import SeedRun, Source
from metaevo.config import ConfigError
from metaevo.config.hints import of_path
from metaevo.reports.numbers import counted
from metaevo.runs.latest import run_path


def read_all(names: Sequence[str]) -> tuple[list[Source], list[str]]:
    """Return the runs and notes about seeds that are left out.

    Of several seeds with equal settings and random numbers, only the longest is kept.

    Raises:
        ConfigError: a name matches no run, or a run cannot be read.
    """
    sources: dict[str, Source] = {}
    for name in names:
        for source in _read(name):
            sources.setdefault(source.name, source)
    return _without_repeats(list(sources.values()))


def _read(name: str) -> list[Source]:
    if name.startswith((trackers.WANDB, trackers.MLFLOW)):
        return trackers.read(name)
    paths = [run_path(name)]
    if not paths[0].is_dir():
        if not glob.has_magic(name):
            raise ConfigError(f"{name}: there is no such run directory{of_path(name)}")
        paths = _matches(name)
    found = [run for path in paths for run in run_directories.find(path)]
    if not found:
        raise ConfigError(f"{name}: holds no run (no config.yaml in it or below it)")
    return [run_directories.read(path) for path in found]


def _matches(pattern: str) -> list[Path]:
    """Return the paths that match a pattern; leading folders that exist are taken literally."""
    folder, rest = Path(), list(Path(pattern).parts)
    while rest and (folder / rest[0]).is_dir():
        folder /= rest.pop(0)
    found = glob.glob(os.path.join(glob.escape(str(folder)), *rest), recursive=True)
    return [Path(path) for path in sorted(found)]


def _without_repeats(sources: list[Source]) -> tuple[list[Source], list[str]]:
    longest: dict[str, SeedRun] = {}
    for source in sources:
        for seed in source.seeds:
            first = longest.setdefault(_identity(seed), seed)
            if _points(seed) > _points(first):
                longest[_identity(seed)] = seed
    notes, kept = [], []
    for source in sources:
        seeds = [seed for seed in source.seeds if longest[_identity(seed)] is seed]
        if source.seeds and not seeds:
            notes.append(f"{source.name}: left out, because it repeats another run")
            continue
        kept.append(dataclasses.replace(source, seeds=seeds))
        repeats = sum(not each.is_mean for each in source.seeds if each not in seeds)
        if repeats:
            notes.append(
                f"{source.name}: {counted(repeats, 'seed')} left out, because another run has the "
                "same settings and random seeds"
            )
    return kept, notes


def _points(seed: SeedRun) -> int:
    return max((len(axis) for axis in seed.axes.values()), default=0)


def _identity(seed: SeedRun) -> str:
    return repr((seed.seed, sorted(seed.settings.items()), seed.task))
