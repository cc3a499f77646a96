"""Learners by their names in settings: `purerl`'s learners, and the user's own."""

import sys
from typing import Any

from metaevo.config import ConfigError, show
from metaevo.config.code import Kind, give, resolve
from purerl.types import LearnerEntry, Slot


def _complaint(entry: Any) -> str:
    if not isinstance(entry, LearnerEntry):
        return f"must be a purerl.types.LearnerEntry, not {type(entry).__name__}"
    if not isinstance(entry.slots, tuple) or not all(isinstance(s, Slot) for s in entry.slots):
        return "slots: must be a tuple of purerl.types.Slot"
    return ""


LEARNERS = {name: f"purerl.{name}:LEARNER" for name in ("ppo", "dqn", "q_learning", "lpg")}
"""The learners of purerl, each imported when it is used."""
LEARNER = Kind("learner", "a purerl.types.LearnerEntry", _complaint, LEARNERS)


def find(name: Any) -> LearnerEntry:
    """Return a learner by its name; the file of a user's own learner is executed.

    Raises:
        ConfigError: if there is none.
    """
    found: LearnerEntry = resolve(LEARNER, name)
    return found


def slot_of(learner: str, name: str) -> Slot:
    """Return a slot of a learner.

    Raises:
        ConfigError: if the learner does not have it.
    """
    entry = find(learner)
    if (slot := entry.slot(name)) is not None:
        return slot
    able = [each for each in LEARNERS if find(each).slot(name) is not None]
    own = ", ".join(slot.name for slot in entry.slots)
    raise ConfigError(
        f"learner = {show(learner)} has no slot {name!r}"
        + (f", only {own}" if own else " and no other")
        + (f"; learners that have it: {', '.join(able)}" if able else "")
    )


def name_of(learner: str | LearnerEntry) -> str:
    """Return the name in settings of a learner that a caller passes.

    Raises:
        ConfigError: if it is no learner.
    """
    if isinstance(learner, str):
        return learner
    if complaint := _complaint(learner):
        raise ConfigError(f"learner = {show(learner)}: {complaint}")
    module = learner.make.__module__
    for name, known in LEARNERS.items():
        if known == f"{module}:LEARNER":
            return name
    variables = vars(sys.modules[module]) if module in sys.modules else {}
    variable = next((key for key, value in variables.items() if value is learner), None)
    own = variable or getattr(learner.make, "__name__", "learner")
    return give(learner, f"{module}:{own}")
