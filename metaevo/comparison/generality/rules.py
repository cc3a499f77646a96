"""Rules to benchmark, by name: hand-written functions, zoo entries and evolved parts."""

import inspect
import os
from pathlib import Path
from typing import NamedTuple

from metaevo.comparison.comparison import digest, digest_of_text
from metaevo.comparison.generality.tasks import LEARNER
from metaevo.config import ConfigError, code, files, show, to_dict
from metaevo.config.code import is_name, load
from metaevo.config.hints import of_path, of_value
from metaevo.config.plain import PlainDict
from metaevo.config.references import short_name
from metaevo.parts import learners, published, resolve, seen, zoo
from metaevo.parts.part import HandWritten, Part
from metaevo.parts.published import Published
from purerl.custom import is_custom
from purerl.learners import LEARNERS, LearnerEntry
from purerl.types import Slot

WHOLE = "learner"
"""The slot of a rule that is a whole learner."""


class Rule(NamedTuple):
    """A rule that fills a slot of PPO or of another learner, or a whole learner."""

    text: str
    """name as in the settings: `adam`, `zoo:NAME`, a directory, a file of published weights, or
    `dqn`, `FILE.py:NAME`"""
    slot: str
    key: str
    """digest that identifies the rule: it changes with every number and every line of source"""
    seen: tuple[str, ...]
    """environments that the rule was evolved on"""
    learner: str = LEARNER
    """name of the learner that trains"""
    weights: Published | None = None
    """where it comes from, if its authors have published it"""

    @property
    def settings(self) -> PlainDict:
        """Settings of a training that name the rule."""
        return {} if self.slot == WHOLE else {self.slot: self.text}

    @property
    def name(self) -> str:
        """Short name, for tables and folders."""
        if self.weights is not None:
            return self.weights.name
        if self.slot == WHOLE:
            return short_name(self.text)
        return os.path.basename(os.path.normpath(self.text.removeprefix(zoo.PREFIX)))


def rule_of(text: str) -> Rule:
    """Return the rule with this name.

    Args:
        text: a hand-written function for a slot, `zoo:NAME`, a run's directory, a file of
            published weights, a learner, or a part's file, which is executed and has the
            meta-parameters that its `init` draws.

    Raises:
        ConfigError: if there is no such rule, or no learner has its slot.
    """
    slots = _slots()
    for name, (learner, slot) in slots.items():
        if text in slot.functions:
            return Rule(text, name, digest_of_text(f"{name} {text}"), (), learner)
    if text in LEARNERS or (is_custom(text) and isinstance(load("rule", text), LearnerEntry)):
        return Rule(text, WHOLE, _key_of_learner(text), (), text)
    weights = published.find(text) if published.is_file_name(text) else None
    if not (weights or zoo.is_name(text) or is_name(text) or os.path.isdir(text)):
        raise ConfigError(_unknown(text))
    part, meta_params = resolve.part_of(text)
    if part.slot not in slots:
        raise ConfigError(f"{text}: fills {part.slot}; the benchmark has: {', '.join(slots)}")
    learner, slot = slots[part.slot]
    resolve.fill(slot, text)
    key = key_of_weights(weights) if weights else _key_of_part(text, part, digest(meta_params))
    return Rule(text, slot.name, key, seen.environments(seen.by_rule(text)), learner, weights)


def _unknown(text: str) -> str:
    if os.sep in text:
        return f"{text}: there is no such run directory{of_path(text)}"
    slots = _slots()
    known = [name for _, slot in slots.values() for name in slot.functions]
    entries = map(zoo.find, zoo.names())
    known += [entry.name for entry in entries if entry.card["slot"] in slots]
    known += LEARNERS
    hint = of_value(text, known) or (
        "; it must be the directory of a run that evolved one, a file of published weights, a "
        f"part's file (FILE.py), a learner (FILE.py:NAME), or one of {', '.join(known)}"
    )
    return f"{show(text)} is no rule{hint}"


def _slots() -> dict[str, tuple[str, Slot]]:
    """Return the learner that trains with a rule, by slot: PPO if it has the slot."""
    order = [LEARNER, *(name for name in LEARNERS if name != LEARNER)]
    found: dict[str, tuple[str, Slot]] = {}
    for learner in order:
        for slot in LEARNERS[learner].slots:
            found.setdefault(slot.name, (learner, slot))
    return found


def key_of_weights(rule: Published) -> str:
    """Return the key of a published rule, for which its file is not needed."""
    return digest_of_text(str([to_dict(rule.part()), rule.sha256]))


def _key_of_learner(text: str) -> str:
    """Return the key of a learner: of its name, and of its file if it is none of purerl's."""
    entry, source = learners.find(text), b""
    if text not in LEARNERS:
        source = files.read(Path(inspect.getfile(inspect.unwrap(entry.make))))
    return digest_of_text(str([WHOLE, short_name(text), code.digest(source)]))


def _key_of_part(text: str, part: Part, weights: str) -> str:
    """Return the key of a part: of its class, settings, numbers and, if it has one, its file."""
    source = code.digest_of(text) if is_name(text) else None
    if isinstance(part, HandWritten):
        return digest_of_text(f"{part.slot} {text}")
    return digest_of_text(str([type(part).__name__, to_dict(part), weights, source]))
