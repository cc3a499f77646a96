"""Unseen tasks: whether an evolution has seen a task, in its distributions too."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError
from metaevo.parts.records import SeenTask
from metaevo.tasks.task import Task, TaskConfig, make_environment


def check_unseen(
    tasks: Mapping[str, Task], seen: Mapping[str, Sequence[SeenTask]], learner: str
) -> None:
    """Raise `ConfigError`, naming the task, if one was used in the evolution.

    Args:
        tasks: the unseen tasks.
        seen: all tasks that a rule has seen, by the setting that names it; "" for this evolution.
        learner: name of the learner.
    """
    for name, task in tasks.items():
        own = _environment(task.env or name, task.env_params, learner)
        for rule, known in seen.items():
            for other, env, env_params, sample in known:
                if env != (task.env or name):
                    continue
                drawn: Mapping[str, Any] = {}
                if sample:
                    from metaevo.tasks.sampling import ENV_PARAMS, of_prefix, read

                    entries = read(sample, f"{rule}: tasks.{other}.sample")
                    drawn = of_prefix(entries, ENV_PARAMS)
                if _is_same(own, _environment(env, env_params, learner), drawn):
                    by = f"{rule} was evolved on" if rule else "evolution sees"
                    raise ConfigError(
                        f"evaluation.unseen.{name}: {by} this task (task.env = {own[0]})"
                    )


def _environment(env: Any, env_params: Mapping[str, Any], learner: str) -> tuple[str, Any, Any]:
    """Return an environment with default observations: its name, itself, its parameters."""
    bare = {key: value for key, value in env_params.items() if key != "observations"}
    return make_environment(TaskConfig(env, bare), learner)


def _is_same(
    own: tuple[str, Any, Any], seen: tuple[str, Any, Any], drawn: Mapping[str, Any]
) -> bool:
    """Return whether an evolution sees an environment, of which some parameters are drawn."""
    if own[0] != seen[0] or own[1] is not seen[1]:  # `envs.make` caches by its arguments
        return False
    for field in dataclasses.fields(own[2]):
        ours, theirs = getattr(own[2], field.name), getattr(seen[2], field.name)
        if field.name in drawn:
            same = _contains(drawn[field.name], ours)
        else:
            same = jax.tree.all(jax.tree.map(np.array_equal, ours, theirs))
        if not same:
            return False
    return True


def _contains(entry: Any, value: float) -> bool:
    """Return whether a number may be drawn."""
    choices = getattr(entry, "choices", None)
    return bool(entry.low <= value <= entry.high) if choices is None else value in choices
