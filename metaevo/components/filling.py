"""Fill a slot from a setting: with a hand-written function or a function that a run has evolved."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaevo.components import copies, discovery, learners, published, registry, seen, zoo
from metaevo.components.seen import SeenTask
from metaevo.config import ConfigError, hints
from metaevo.runs.run_directory import RunDirectory
from purerl.learners import HAND_WRITTEN


def slots_of(learner: str) -> list[str]:
    """Return the slots of a learner that a setting fills by name."""
    return [slot for slot in learners.find(learner).slots if slot in HAND_WRITTEN]


def describe(slot: str) -> str:
    """Return the allowed values of such a setting, in words."""
    known = ", ".join(HAND_WRITTEN[slot])
    others = (
        "the directory of a run that evolved one, a component's file (FILE.py), or zoo:NAME "
        "(metaevo zoo lists them)"
    )
    if slot == published.SLOT:
        others = f"a file of published weights (docs/how-to/components.md), {others}"
    return f"{known}, {others}"


def fill(
    slot: str, name: str, learner: str, run_path: Path | None = None
) -> tuple[Callable[..., Any], Any]:
    """Return a function and its meta-parameters.

    Args:
        slot: to be filled.
        name: of a hand-written function, an entry of the zoo, a component's file or a file of
            published weights, or the directory of a run.
        learner: the learner that has the slot.
        run_path: an existing run; its copy of the evolved function is used.

    Raises:
        ConfigError: if neither exists, or the learner cannot use the evolved function.
    """
    if name in HAND_WRITTEN[slot]:
        return HAND_WRITTEN[slot][name], None
    rule = rule_of(slot, name, run_path)
    if zoo.is_name(name) and rule != name and zoo.is_same(name, Path(rule)):
        rule = name  # whose source may be executed
    is_file = rule.endswith(".py") or published.is_file_name(rule)
    if not (is_file or zoo.is_name(rule) or os.path.isdir(rule)):
        hint = hints.of_value(name, HAND_WRITTEN[slot])
        raise ConfigError(f"{slot} = {name!r}: must be one of {describe(slot)}{hint}")
    try:
        if name.endswith(".py"):
            registry.find(name)
        return discovery.load(rule, slot=slot, learner=learner)
    except ConfigError as error:
        raise ConfigError(f"{slot} = {name!r}: {error}") from error


def seen_by(slot: str, name: str, run_path: Path | None = None) -> list[SeenTask]:
    """Return the tasks that the function in a slot has seen, see `fill`."""
    return [] if name in HAND_WRITTEN[slot] else seen.by_rule(rule_of(slot, name, run_path))


def keep(run_path: Path, slot: str, name: str) -> None:
    """Copy an evolved function into the run that learns with it: a run needs no other one."""
    copy = RunDirectory(copy_of(run_path, slot))
    if name in HAND_WRITTEN[slot] or copy.meta_params.exists():
        return
    if published.is_file_name(name):
        about = published.seen(published.find(name))
        discovery.save(copy, *published.load(name), 0, published.LEARNER, about)
    elif name.endswith(".py"):
        evolved, meta_params = discovery.load_all(name)
        discovery.save(copy, evolved, meta_params, 0)
        discovery.keep_sources(copy, evolved, discovery.digests_of(evolved))
    else:
        copies.keep(name, copy.path)


def rule_of(slot: str, name: str, run_path: Path | None) -> str:
    """Return the copy of a rule that an existing run has, or the name of the rule."""
    if run_path is not None and os.path.isdir(copy := copy_of(run_path, slot)):
        return str(copy)
    return name


def copy_of(run_path: Path, slot: str) -> Path:
    """Return where a run keeps the evolved function that it learned with, laid out as a run."""
    return run_path / "losses" / slot
