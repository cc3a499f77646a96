"""Rules to benchmark, by name: hand-written functions, zoo entries and evolved parts."""

import inspect
import os
from pathlib import Path
from typing import NamedTuple

from metaevo.config import ConfigError, code, files, show, to_dict
from metaevo.config.hints import of_value
from metaevo.config.references import short_name
from metaevo.judging.generality.tasks import LEARNER, digest
from metaevo.parts import learners, published, resolve, seen, zoo
from metaevo.parts.part import Filling, HandWritten
from metaevo.parts.published import Published
from metaevo.tasks import arguments
from purerl.custom import is_custom
from purerl.learners import LEARNERS, LearnerEntry
from purerl.types import Slot

WHOLE = "learner"
"""The slot of a rule that is a whole learner."""


class Rule(NamedTuple):
    """A rule that fills a slot of PPO or of another learner, or a whole learner."""

    text: str
    """reference as in the settings: `adam`, `zoo:NAME`, a directory, a file of published weights,
    or `dqn`, `FILE.py:NAME`"""
    name: str
    """for tables"""
    slot: str
    key: str
    """digest that identifies the rule: it changes with every number and every line of source"""
    seen: tuple[str, ...] = ()
    """environments that the rule was evolved on"""
    learner: str = LEARNER
    """name of the learner that trains"""
    weights: Published | None = None
    """where it comes from, if its authors have published it"""


def rule_of(text: str) -> Rule:
    """Return the rule with this name.

    Args:
        text: a hand-written function for a slot, `zoo:NAME`, a run's directory, a file of
            published weights, a learner, or a part's file, which is executed and has the
            meta-parameters that its `init` draws.

    Raises:
        ConfigError: if there is no such rule, or no learner has its slot.
    """
    slots: dict[str, tuple[str, Slot]] = {}
    for learner in (LEARNER, *LEARNERS):  # PPO trains with a rule if it has the slot
        for slot in LEARNERS[learner].slots:
            slots.setdefault(slot.name, (learner, slot))
    for learner, slot in slots.values():
        if text in slot.functions:
            return Rule(text, text, slot.name, digest(f"{slot.name} {text}"), learner=learner)
    is_learner = is_custom(text) and isinstance(code.load("rule", text), LearnerEntry)
    if text in LEARNERS or is_learner:
        return Rule(text, short_name(text), WHOLE, _key_of_learner(text), learner=text)
    weights = published.find(text) if published.is_file_name(text) else None
    if not (weights or zoo.is_name(text) or code.is_name(text) or os.path.isdir(text)):
        functions = [name for _, slot in slots.values() for name in slot.functions]
        entries = [zoo.PREFIX + name for name in zoo.names()]
        hint = of_value(text, [*functions, *LEARNERS, *entries])
        raise ConfigError(
            f"rule = {show(text)}: must be the directory of a run, zoo:NAME, a part's file "
            "(FILE.py), a file of published weights, a learner (FILE.py:NAME), or one of "
            f"{', '.join([*functions, *LEARNERS])}{hint}"
        )
    filling = resolve.part_of(text)
    if filling.part.slot not in slots:
        allowed = ", ".join(slots)
        raise ConfigError(f"{text}: fills {filling.part.slot}; the benchmark has: {allowed}")
    learner, slot = slots[filling.part.slot]
    resolve.fill(slot, text)
    environments = seen.environments(seen.by_rule(text))
    if weights:
        key = key_of_weights(weights)
        return Rule(text, weights.name, slot.name, key, environments, learner, weights)
    name = text if zoo.is_name(text) else os.path.basename(os.path.normpath(text))
    return Rule(text, name, slot.name, _key_of_part(text, filling), environments, learner)


def key_of_weights(rule: Published) -> str:
    """Return the key of a published rule, for which its file is not needed."""
    return digest(str([to_dict(rule.part()), rule.sha256]))


def _key_of_learner(text: str) -> str:
    """Return the key of a learner: of its name, and of its file if it is none of purerl's."""
    entry, source = learners.find(text), b""
    if text not in LEARNERS:
        source = files.read(Path(inspect.getfile(inspect.unwrap(entry.make))))
    return digest(str([WHOLE, short_name(text), code.digest(source)]))


def _key_of_part(text: str, filling: Filling) -> str:
    """Return the key of a part: of its class, settings, numbers and, if it has one, its file."""
    part, meta_params = filling
    if isinstance(part, HandWritten):
        return digest(f"{part.slot} {text}")
    weights = arguments.digest(meta_params)[:16]
    source = code.digest_of(text) if code.is_name(text) else None
    return digest(str([type(part).__name__, to_dict(part), weights, source]))
