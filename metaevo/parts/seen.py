"""The tasks on which a rule was evolved, as its run, its copy or its entry of the zoo has them."""

import os
from pathlib import Path
from typing import NamedTuple

from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.parts.saved import about_of, opened


class SeenTask(NamedTuple):
    """A task of an evolution."""

    name: str
    env: str
    env_params: PlainDict
    """overrides of the environment's parameters"""
    changes: PlainDict
    """changes of the learner's settings, by section"""
    sample: PlainDict
    """distributions by name, as in the settings"""


def in_settings(saved: PlainMapping) -> list[SeenTask]:
    """Return the tasks of an evolution from what was saved: its settings, or their section."""
    if saved.get("tasks"):
        return [
            SeenTask(
                name,
                task.get("env") or name,
                task.get("env_params", {}),
                {each: task[each] for each in ("train", "hyperparams") if task.get(each)},
                task.get("sample", {}),
            )
            for name, task in saved["tasks"].items()
        ]
    task = saved.get("task", {})
    env, params = task.get("env", []), task.get("env_params", {})
    if isinstance(env, str):
        return [SeenTask(env, env, params, {}, {})]
    return [SeenTask(name, name, {}, {}, {}) for name in env]


def by_rule(rule: str | Path) -> list[SeenTask]:
    """Return the tasks that a rule has seen, as far as known.

    Args:
        rule: `zoo:NAME`, or the directory of a run, of a copy or of a saved part.

    Raises:
        ConfigError: if the entry or the directory cannot be read.
    """
    try:
        found = _read(rule)
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"{rule}: the tasks that it has seen are damaged: {error}") from None
    if not all(isinstance(each.env, str) for each in found):
        raise ConfigError(f"{rule}: the tasks that it has seen are damaged: envs must be names")
    return found


def _read(rule: str | Path) -> list[SeenTask]:
    run = opened(rule)
    if os.path.lexists(run.config_path):
        return in_settings(run.read_config()["config"])
    return in_settings(about_of(run) or {})


def environments(tasks: list[SeenTask]) -> tuple[str, ...]:
    """Return the environments of tasks by their names, each once."""
    return tuple(dict.fromkeys(each.env for each in tasks))
