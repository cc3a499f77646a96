"""Read runs from directories, globs, wandb and MLflow, in any mixture."""

import dataclasses
import glob
from collections.abc import Sequence
from pathlib import Path

from metaevo.comparison.compare_runs import mlflow_runs, run_directories, wandb_runs
from metaevo.comparison.compare_runs.seed_run import SeedRun, Source, settings_of
from metaevo.config import ConfigError
from metaevo.reports.numbers import counted
from metaevo.runs.latest import run_path


def read_all(names: Sequence[str]) -> tuple[list[Source], list[str]]:
    """Return the runs, each once, and notes about seeds that are left out.

    A seed with the settings and the random numbers of another one is no second observation:
    the longer one counts.

    Raises:
        ConfigError: a name stands for no run, or one cannot be read.
    """
    sources: dict[str, Source] = {}
    for name in names:
        for source in _read(name):
            sources.setdefault(source.name, source)
    return _without_repeats(list(sources.values()))


def _read(name: str) -> list[Source]:
    if name.startswith(wandb_runs.PREFIX):
        return wandb_runs.read(name)
    if name.startswith(mlflow_runs.PREFIX):
        return mlflow_runs.read(name)
    paths = [run_path(name)]
    if not paths[0].exists() and glob.has_magic(name):
        paths = [Path(found) for found in sorted(glob.glob(name, recursive=True))]
        if not paths:
            raise ConfigError(f"{name}: matches nothing")
        paths = [path for path in paths if path.is_dir()]
    elif not paths[0].is_dir():
        raise ConfigError(f"{name}: there is no such run directory")
    found = [run for path in paths for run in run_directories.find(path)]
    if not found:
        raise ConfigError(f"{name}: holds no run (no config.yaml in it or below it)")
    return [run_directories.read(path) for path in found]


def _without_repeats(sources: list[Source]) -> tuple[list[Source], list[str]]:
    best: dict[str, tuple[int, SeedRun]] = {}
    for source in sources:
        for seed in source.seeds:
            key = repr((seed.seed, _identity(seed)))
            points = max((len(axis) for axis in seed.axes.values()), default=0)
            if key not in best or points > best[key][0]:
                best[key] = (points, seed)
    kept = {id(seed) for _, seed in best.values()}
    notes, result = [], []
    for source in sources:
        seeds = [seed for seed in source.seeds if id(seed) in kept]
        repeats = sum(id(seed) not in kept and not seed.is_mean for seed in source.seeds)
        if seeds and repeats:
            notes.append(
                f"{source.name}: {counted(repeats, 'seed')} with settings and random numbers of "
                "another run are left out, because they are no further observations"
            )
        elif repeats:
            notes.append(f"{source.name}: left out, because it repeats another run")
        result.append(dataclasses.replace(source, seeds=seeds, repeats=repeats))
    return result, notes


def _identity(seed: SeedRun) -> object:
    """Return the identity of a seed in addition to its name: the settings, or the run."""
    if not seed.has_own_seed:
        return seed.run
    return sorted(settings_of(seed).items()), seed.task
