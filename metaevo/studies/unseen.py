"""Tasks that evolution has not seen: a task of `evaluation.unseen` must be none that it has."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from metaevo.config import ConfigError, show
from metaevo.config.space import Entry
from metaevo.parts.seen import SeenTask
from metaevo.tasks import sampling
from metaevo.tasks.binding import TaskConfig, make_environment
from metaevo.tasks.task import Task
from purerl.types import Environment, EnvParams

WHERE = "evaluation.unseen"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Seen(NamedTuple):
    """An environment that an evolution sees."""

    name: str
    env: Environment
    env_params: EnvParams
    sample: Mapping[str, Entry] = {}
    """distributions of its parameters, by their names"""
    rule: str = ""
    """the setting of a rule that was evolved there before; empty for this evolution"""


def check_names(tasks: Mapping[str, Task], where: str) -> None:
    """Raise `ConfigError` for a name of a task that cannot be part of a file's name."""
    for name in tasks:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"{where}: {show(name)} must have only letters, digits, '.', '_' and '-'; "
                "the environment may have another name: env: NAME"
            )


def check_unseen(tasks: Mapping[str, Task], seen: Sequence[Seen], learner: str) -> None:
    """Raise `ConfigError`, naming the task, if one was used in the evolution."""
    for name, task in tasks.items():
        this = _seen_in(TaskConfig(task.env or name, task.env_params), learner)
        for other in seen:
            if _same(this, other):
                by = f"{other.rule} was evolved on" if other.rule else "evolution sees"
                raise ConfigError(f"{WHERE}.{name}: {by} this task (task.env = {this.name})")


def seen_by(
    rule: str, tasks: Sequence[SeenTask], unseen: Mapping[str, Task], learner: str
) -> list[Seen]:
    """Return which environments of unseen tasks an evolution sees, or a rule has seen.

    Args:
        rule: the setting that names the rule, for the error message; empty for the evolution.
        tasks: all tasks that it has seen.
        unseen: the tasks that must not be among them.
        learner: name of the learner.
    """
    wanted = {task.env or name for name, task in unseen.items()}
    found = []
    for name, env, env_params, _, sample in tasks:
        if env not in wanted:
            continue
        entries = sampling.read(sample, f"{rule}: tasks.{name}.sample")
        drawn = sampling.of_prefix(entries, sampling.ENV_PARAMS)
        found.append(_seen_in(TaskConfig(env, env_params), learner, drawn)._replace(rule=rule))
    return found


def _seen_in(task: TaskConfig, learner: str, sample: Mapping[str, Entry] | None = None) -> Seen:
    """Return the environment of a task, with default observations."""
    bare = {key: value for key, value in task.env_params.items() if key != "observations"}
    return Seen(*make_environment(TaskConfig(task.env, bare), learner), sample or {})


def _same(this: Seen, seen: Seen) -> bool:
    """Return whether an evolution sees an environment; `envs.make` caches by its arguments."""
    if this.name != seen.name or this.env is not seen.env:
        return False
    fields = [field.name for field in dataclasses.fields(this.env_params)]
    return all(
        sampling.contains(seen.sample[name], getattr(this.env_params, name))
        if name in seen.sample
        else jax.tree.all(
            jax.tree.map(
                np.array_equal, getattr(this.env_params, name), getattr(seen.env_params, name)
            )
        )
        for name in fields
    )
