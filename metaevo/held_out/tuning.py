"""Tuning the contenders of the held-out comparison: a sweep of each, on the same seeds.

Every contender gets the same search: all combinations of `evaluation.grid`, or as many points of
`evaluation.space` as `evaluation.trials` says, from the same sampler with the same seed. The trials
lie in a journal of the run directory: an interrupted comparison goes on with what is missing.
"""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metaevo.config import ConfigError, to_dict
from metaevo.held_out.evaluation import Contender, EvaluationConfig, Progress
from metaevo.parallel.seeding import Purpose, keys_for
from metaevo.search.objective import objective
from metaevo.search.space import TRACED, Space, make_space
from metaevo.search.study import Study
from metaevo.sweep.settings import SweepConfig

ADAPTIVE_BATCH = 16
"""Trials at once of a sampler that learns from those before."""


class Tuned(NamedTuple):
    """What tuning a contender found."""

    best: dict[str, float]
    """the setting with the highest mean score, the first one of equals"""
    frames: int
    """environment steps that it took"""


def tuning_space(config: EvaluationConfig, settings: Any) -> Space:
    """Return what every contender is tuned over; nothing, if neither grid nor space is given.

    Args:
        config: the section `evaluation`.
        settings: of the experiment, whose hyperparams are to allow all values.

    Raises:
        ConfigError: naming what is wrong.
    """
    if config.grid and config.space:
        raise ConfigError(
            "evaluation.grid and evaluation.space: only one of them can be tuned over"
        )
    known, section = to_dict(settings.hyperparams), "grid" if config.grid else "space"
    rules = {name: {"choice": list(values)} for name, values in config.grid.items()} or config.space
    if unknown := set(rules) - set(known):
        raise ConfigError(
            f"evaluation.{section}: {sorted(unknown)} are no hyperparams; allowed: "
            f"{', '.join(known)}"
        )
    for name in rules:
        if known[name] is None:  # the variants that keep it would differ in structure
            raise ConfigError(
                f"evaluation.{section}.{name}: needs a value for hyperparams.{name} too"
            )
    if not rules:
        return Space({}, {})
    try:
        full = {TRACED + name: rule for name, rule in rules.items()}
        return make_space(full, type(settings), to_dict(settings))
    except ConfigError as error:
        text = str(error).replace(f"space.{TRACED}", f"evaluation.{section}.")
        raise ConfigError(text) from None


def tune(
    contender: Contender,
    meta_params: Any,
    space: Space,
    config: EvaluationConfig,
    *,
    directory: Path,
    seeds: int,
    seed: int,
    comparable: Callable[[np.ndarray], np.ndarray],
    progress: Progress | None = None,
) -> Tuned:
    """Try settings on the tuning seeds (the same settings and seeds for all contenders).

    Args:
        contender: what to tune.
        meta_params: of its function.
        space: over what.
        config: the sampler, and how many settings.
        directory: keeps the trials; whatever scores depend on is part of its name.
        seeds: of every setting.
        seed: of the experiment.
        comparable: from fitness [seeds, tasks] to scores that can be averaged over the tasks.
        progress: called with the number of frames just done, and of those done before.
    """
    sweep = SweepConfig(
        trials=config.combinations,
        sampler="grid" if config.grid else config.sampler,
        seeds=seeds,
    )
    frames = seeds * contender.frames_per_seed
    keys = keys_for(seed, Purpose.TUNING, seeds)
    batch = max(1, contender.rows_at_once // seeds)
    if sweep.sampler in ("tpe", "cma_es"):
        batch = ADAPTIVE_BATCH
    study = _open(directory, sweep, space, seed)
    if progress is not None:
        progress(len(study.records()) * frames)
    with study:
        while trials := study.ask(batch):
            settings = [_short(trial.params) for trial in trials]
            results = contender.run(keys, settings, [meta_params] * len(settings), progress)
            for trial, result in zip(trials, results, strict=True):
                # A setting under which any agent diverged is not one to recommend.
                value = None
                if not result.diverged:
                    value = objective(comparable(result.fitness).ravel(), sweep)
                attributes = {"frames": frames, "diverged": result.diverged}
                outcome: Any = "pruned" if value is None else "complete"
                study.tell(trial, value, outcome=outcome, attributes=attributes)
    records, best = study.records(), study.best()
    params = best.params if best is not None else records[0].params
    return Tuned(_short(params), len(records) * frames)


def _open(directory: Path, sweep: SweepConfig, space: Space, seed: int) -> Study:
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return Study.open(directory, sweep, space, seed=seed, name="tuning")
    except ConfigError as error:
        warnings.warn(f"tuning again: {error}", stacklevel=2)
        shutil.rmtree(directory)
        directory.mkdir()
        return Study.open(directory, sweep, space, seed=seed, name="tuning")


def _short(params: dict[str, Any]) -> dict[str, float]:
    return {name.removeprefix(TRACED): value for name, value in params.items()}
