"""Learners by their names in settings: `purerl`'s learners, and the user's own."""

import sys
from typing import Any

from metaevo.config import ConfigError, code, show
from metaevo.config.hints import of_value
from purerl.custom import give, is_custom
from purerl.learners import HAND_WRITTEN, LEARNERS, LearnerEntry


def find(name: Any) -> LearnerEntry:
    """Return a learner by its name; the file of a user's own learner is executed.

    Args:
        name: ppo, dqn, ..., `FILE.py:NAME` or `MODULE:NAME` of a `purerl.learners.LearnerEntry`.

    Raises:
        ConfigError: if there is none.
    """
    if isinstance(name, str) and name in LEARNERS:
        return LEARNERS[name]
    if not isinstance(name, str) or not is_custom(name):
        raise ConfigError(
            f"learner = {show(name)} is not known{of_value(name, LEARNERS)}; allowed: "
            f"{', '.join(LEARNERS)}, FILE.py:NAME or MODULE:NAME"
        )
    return _checked(name, code.load("learner", name))


def name_of(learner: str | LearnerEntry) -> str:
    """Return the name in settings of a learner that a caller passes.

    Raises:
        ConfigError: if it is no learner.
    """
    if isinstance(learner, str):
        return learner
    entry = _checked(type(learner).__name__, learner)
    for name, known in LEARNERS.items():
        if known is entry:
            return name
    module = entry.make.__module__
    variables = vars(sys.modules[module]) if module in sys.modules else {}
    variable = next((key for key, value in variables.items() if value is entry), None)
    return give(f"{module}:{variable or getattr(entry.make, '__name__', 'learner')}", entry)


def short_name(name: str) -> str:
    """Return the name of a learner without its file or module."""
    return name.rpartition(":")[2]


def _checked(name: str, entry: Any) -> LearnerEntry:
    where = f"learner = {show(name)}"
    if not isinstance(entry, LearnerEntry):
        raise ConfigError(
            f"{where}: must be a purerl.learners.LearnerEntry, not {type(entry).__name__}"
        )
    for slot, names in entry.slots.items():
        known = HAND_WRITTEN.get(slot)
        if known is None:
            allowed = ", ".join(HAND_WRITTEN)
            raise ConfigError(f"{where}: slots: {slot!r} must be one of {allowed}")
        if bad := [name for name in names or [""] if name not in known]:
            raise ConfigError(
                f"{where}: slots.{slot} = {bad[0]!r}: must be names of hand-written functions: "
                f"{', '.join(known)}"
            )
    return entry
