"""The arguments of `LearnerProblem`: settings, parts, functions and tasks, as users give them."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo.config import ConfigError, code, from_dict, merge, show, to_dict
from metaevo.parts import learners, resolve
from metaevo.parts.part import Filling, HandWritten, OneOf, Part, Parts
from metaevo.tasks.binding import Experiment, TaskConfig, make_environment
from metaevo.tasks.task import Task
from purerl.types import LearnerEntry, Slot


class Setup(NamedTuple):
    """A learner and its settings on a task."""

    learner: str
    train: Any
    hyperparams: Any


def settings_of(cls: type, given: Any, where: str) -> Any:
    """Return settings as an object of a class, from one or from a dict of changes."""
    if isinstance(given, cls):
        given = to_dict(given)
    if not (given is None or isinstance(given, Mapping)):
        raise ConfigError(f"{where} = {show(given)}: must be a {cls.__name__} or a dict")
    try:
        return from_dict(cls, dict(given or {}))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def parts_of(learner: str, given: Any) -> Parts:
    """Return parts in the slots of a learner."""
    by_slot: dict[str, Part] = {}
    for each in [given] if isinstance(given, Part | str) else given:
        part = learners.part_class(each)() if isinstance(each, str) else each
        if not isinstance(part, Part):
            hint = f", such as {part.__name__}()" if isinstance(part, type) else ""
            raise ConfigError(f"parts: {show(part)} must be an object of metaevo.Part{hint}")
        slot = getattr(part, "slot", None)
        if not isinstance(slot, str):
            raise ConfigError(f"parts: {type(part).__name__} has no slot")
        if slot in by_slot:
            names = f"{type(by_slot[slot]).__name__} and {type(part).__name__}"
            raise ConfigError(f"parts: {names} both fill the slot {slot}; evolve one of them")
        try:
            by_slot[slot] = part.in_slot(learners.slot_of(learner, slot))
        except ValueError as error:
            raise ConfigError(f"parts: {type(part).__name__}: {error}") from None
    if not by_slot:
        raise ConfigError("parts: must have at least one part to evolve")
    return Parts(by_slot)


def fillings_of(
    entry: LearnerEntry, learner: str, parts: Parts, given: Mapping[str, Any]
) -> dict[str, Filling]:
    """Return what fills the slots that are not evolved."""
    slots = {slot.name: slot for slot in entry.slots if slot.name not in parts.by_slot}
    if unknown := sorted(set(given) - set(slots)):
        raise ConfigError(
            f"fixed: {learner} has no slot {unknown[0]!r} that is not evolved; allowed: "
            f"{', '.join(slots) or 'none'}"
        )
    fillings = {}
    for name, slot in slots.items():
        filling = given.get(name, slot.compared[0])
        if isinstance(filling, Filling):
            pass
        elif isinstance(filling, Part):
            filling = Filling(filling.in_slot(slot), filling.init(jax.random.key(0)))
        elif callable(filling):
            filling = Filling(HandWritten(name, filling), None)
        else:
            filling = resolve.fill(slot, str(filling))
        fillings[name] = filling
    return fillings


def describe(slot: Slot, part: Part, meta_params: Any = None) -> Any:
    """Return what a part in a slot computes, as plain data; functions have their names there."""

    def name_of(function: Any) -> str:
        known = (name for name, each in slot.functions.items() if each is function)
        return next(known, getattr(function, "__qualname__", type(function).__qualname__))

    if isinstance(part, OneOf):
        return [name_of(each) for each in part.functions]
    if isinstance(part, HandWritten):
        return name_of(part.function)
    return type(part).__qualname__, to_dict(part), digest(meta_params)


def digest(tree: Any) -> str:
    """Return the SHA-256 of the values of a pytree."""
    leaves = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
    return hashlib.sha256(b"".join(leaves)).hexdigest()


@contextlib.contextmanager
def naming(where: str) -> Iterator[None]:
    """Name the task in an error."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from None


def named_tasks(tasks: Any) -> dict[str, Task]:
    """Return tasks by names: by default of their environments, with a number if there are two."""
    if isinstance(tasks, Mapping) and tasks:
        return {
            name: replace(task, env=code.name_of(task.env or name)) for name, task in tasks.items()
        }
    named: dict[str, Task] = {}
    for given in [tasks] if isinstance(tasks, str | Task) else tasks:
        task = given if isinstance(given, Task) else Task(given)
        env = code.name_of(task.env)
        name, number = env.rpartition(":")[2], 1
        while name in named:
            number += 1
            name = f"{env.rpartition(':')[2]}-{number}"
        named[name] = Task(env, task.env_params, task.train, task.hyperparams, task.sample)
    if not named:
        raise ConfigError("tasks: must have at least one task")
    return named


def experiment_of(
    setup: Setup, parts: Parts, functions: dict[str, Callable[..., Any]], task: Task
) -> Experiment:
    """Return the learner with its settings on a task."""
    own = Setup(
        setup.learner,
        settings_of(type(setup.train), merge(to_dict(setup.train), task.train), "train"),
        settings_of(
            type(setup.hyperparams), merge(to_dict(setup.hyperparams), task.hyperparams),
            "hyperparams",
        ),
    )  # fmt: skip
    environment = make_environment(TaskConfig(task.env, task.env_params), setup.learner)
    return Experiment(own, parts, functions, environment)
