"""Rows of numbers from wandb and MLflow as seeds, whichever program logged them."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metaevo.comparison.compare_runs.seed_run import (
    AGENT,
    RUN_ID,
    SEED_KEYS,
    FloatArray,
    SeedRun,
    Source,
    column,
)
from metaevo.config import flatten

_KINDS = ("update", "generation", "trial", "evaluation")
_STEPS = (
    "frames", "global_step", "env_steps", "environment_steps", "total_timesteps", "timesteps",
    "total_steps", "_step",
)  # fmt: skip
_GENERATIONS = ("generation", "index", "epoch", "iteration", "_step")
_SECONDS = ("seconds", "_runtime", "_timestamp")
_DEFAULTS = (
    "mean_return", "fitness_of_mean", "best_value", "value", "episodic_return", "episode_return",
    "charts/episodic_return", "return", "reward", "rollout/ep_rew_mean", "fitness",
)  # fmt: skip


def seed_run(
    name: str, config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], identity: str
) -> SeedRun | None:
    """A run as one seed; None if it has no numbers yet.

    Args:
        name: of the run.
        config: its settings, nested or dotted.
        rows: of its history; names of our own trackers (`update/mean_return`) lose their kind.
        identity: what distinguishes it from others if its settings name no seed.
    """
    settings = {key: literal(value) for key, value in flatten(dict(config)).items()}
    kind = _kind(rows)
    metrics = _columns(rows, kind)
    axes = {
        axis: metrics[found[0]]
        for axis, names in (("steps", _STEPS), ("generations", _GENERATIONS), ("seconds", _SECONDS))
        if (found := [one for one in names if one in metrics])
    }
    if not axes:
        return None
    if "_timestamp" in metrics and axes.get("seconds") is metrics["_timestamp"]:
        axes["seconds"] = axes["seconds"] - np.nanmin(axes["seconds"])
    agents = settings.get("seeds")
    if kind == "update" and isinstance(agents, int) and agents > 0:
        axes["steps"] = axes["steps"] / agents  # our frames count all agents
    used = {"index", *(one for one in metrics if one.startswith("_"))}
    metrics = {key: values for key, values in metrics.items() if key not in used}
    default = next((one for one in _DEFAULTS if one in metrics), None)
    seeds = [settings[key] for key in sorted(settings) if key.rpartition(".")[2] in SEED_KEYS[:1]]
    if RUN_ID in settings and AGENT in settings:  # as in the run directory that it mirrors
        seeds.append(settings[AGENT])
    seed = "/".join(map(str, seeds)) if seeds else identity
    return SeedRun(name, seed, settings, axes, metrics, default, has_own_seed=bool(seeds))


def without_means(sources: list[Source]) -> list[Source]:
    """Leave out our own trackers' runs that are the mean of agents which are there singly, too."""

    def run_id(source: Source) -> Any:
        return source.seeds[0].config.get(RUN_ID) if source.seeds else None

    single = {run_id(each) for each in sources if each.seeds and AGENT in each.seeds[0].config}
    single.discard(None)
    return [each for each in sources if run_id(each) not in single or AGENT in each.seeds[0].config]


def _kind(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the kind of record, if the run mirrors a run directory."""
    prefixes = {key.partition("/")[0] for row in rows for key in row if "/" in key}
    return next((kind for kind in _KINDS if kind in prefixes), None)


def _columns(rows: Sequence[Mapping[str, Any]], kind: str | None) -> dict[str, FloatArray]:
    """Return the numeric columns: one kind of our own records, or all of another program."""
    if kind is not None:
        rows = [row for row in rows if any(key.startswith(f"{kind}/") for key in row)]
    names = {key: key.removeprefix(f"{kind}/") for row in rows for key in row}
    columns = {name: column([row.get(key) for row in rows]) for key, name in names.items()}
    return {name: values for name, values in columns.items() if np.isfinite(values).any()}


def literal(value: Any) -> Any:
    """A setting as plain data: MLflow keeps all as text, so that "0.1" has to equal 0.1."""
    if not isinstance(value, str):
        return value
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return read if isinstance(read, int | float | bool | list | dict | None) else value
