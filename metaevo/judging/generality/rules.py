"""Rules to benchmark: what `metaevo.parts.resolve` puts into a slot, and whole learners."""

import os
from typing import NamedTuple

from metaevo.config import ConfigError, code, is_name, of_value, short_name, show, to_dict
from metaevo.judging.generality.tasks import LEARNER, digest
from metaevo.parts import learners, resolve, zoo
from metaevo.parts.part import Filling, HandWritten
from metaevo.tasks.problem import digest as digest_of_values
from purerl.types import LearnerEntry, Slot

WHOLE = "learner"
"""The slot of a rule that is a whole learner."""


class Rule(NamedTuple):
    """A rule that fills a slot of PPO or of another learner, or a whole learner."""

    text: str
    """reference as in the settings: `adam`, `zoo:NAME`, a directory, or `dqn`, `FILE.py:NAME`"""
    name: str
    """for tables"""
    slot: str
    key: str
    """digest that identifies the rule: it changes with every number and every line of source"""
    seen: tuple[str, ...] = ()
    """environments that the rule was evolved on"""
    learner: str = LEARNER
    """name of the learner that trains"""


def rule_of(text: str) -> Rule:
    """Return the rule with this name.

    Args:
        text: a hand-written function for a slot, `zoo:NAME`, a run's directory, a learner, or a
            part's file, which is executed and has the meta-parameters that its `init` draws.

    Raises:
        ConfigError: if there is no such rule, or no learner has its slot.
    """
    slots: dict[str, tuple[str, Slot]] = {}
    functions: dict[str, tuple[str, Slot]] = {}
    for learner in (LEARNER, *learners.LEARNERS):  # PPO trains with a rule if it has the slot
        for slot in learners.find(learner).slots:
            home = slots.setdefault(slot.name, (learner, slot))
            functions = dict.fromkeys(home[1].functions, home) | functions
    if text in functions:
        learner, slot = functions[text]
        return Rule(text, text, slot.name, digest(f"{slot.name} {text}"), learner=learner)
    is_learner = is_name(text) and isinstance(code.load_code("rule", text), LearnerEntry)
    if text in learners.LEARNERS or is_learner:
        name = short_name(text)
        source = code.digest_of(text) if is_learner else code.digest(b"")
        return Rule(text, name, WHOLE, digest(WHOLE, name, source), learner=text)
    if not (zoo.is_name(text) or is_name(text) or os.path.isdir(text)):
        names = [*functions, *learners.LEARNERS]
        hint = of_value(text, [*names, *(zoo.PREFIX + name for name in zoo.names())])
        raise ConfigError(
            f"rule = {show(text)}: must be the directory of a run, zoo:NAME, a part's file "
            "(FILE.py), a learner (FILE.py:NAME), or one of "
            f"{', '.join(names)}{hint}"
        )
    filling = resolve.part_of(text)
    if filling.part.slot not in slots:
        allowed = ", ".join(slots)
        raise ConfigError(f"{text}: fills {filling.part.slot}; the benchmark has: {allowed}")
    learner, slot = slots[filling.part.slot]
    environments = tuple(dict.fromkeys(each.env for each in resolve.seen_by(text)))
    name = text if zoo.is_name(text) else os.path.basename(os.path.normpath(text))
    return Rule(text, name, slot.name, _key_of_part(text, filling), environments, learner)


def _key_of_part(text: str, filling: Filling) -> str:
    """Return the key of a part: of its class, settings, numbers and, if it has one, its file."""
    part, meta_params = filling
    if isinstance(part, HandWritten):
        return digest(f"{part.slot} {text}")
    weights = digest_of_values(meta_params)[:16]
    source = code.digest_of(text) if is_name(text) else None
    settings = dict(sorted(to_dict(part).items()))
    return digest(type(part).__name__, settings, weights, source)
