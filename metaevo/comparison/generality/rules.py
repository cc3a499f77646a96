"""Rules to benchmark, by name: hand-written functions, zoo entries and evolved components."""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.comparison.comparison import digest, digest_of_text
from metaevo.comparison.generality.tasks import LEARNER
from metaevo.components import discovery, filling, learners, published, registry, seen, zoo
from metaevo.components.parts import Part
from metaevo.components.published import Published
from metaevo.config import ConfigError, files, show, to_dict
from metaevo.config.hints import of_path, of_value
from metaevo.config.plain import PlainDict
from purerl.custom import is_custom
from purerl.learners import HAND_WRITTEN, LEARNERS

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
    given: Mapping[str, tuple[Callable[..., Any], Any]] | None = None
    """of a component's file: its function and meta-parameters by its slot"""

    @property
    def settings(self) -> PlainDict:
        """Settings of a training that name the rule."""
        return {} if self.slot == WHOLE or self.given else {self.slot: self.text}

    @property
    def name(self) -> str:
        """Short name, for tables and folders."""
        if self.weights is not None:
            return self.weights.name
        if self.slot == WHOLE:
            return learners.short_name(self.text)
        return os.path.basename(os.path.normpath(self.text.removeprefix(zoo.PREFIX)))


def rule_of(text: str) -> Rule:
    """Return the rule with this name.

    Args:
        text: a hand-written function for a slot, `zoo:NAME`, a run's directory, a file of
            published weights, a learner, or a component's file, which is executed and has the
            meta-parameters that its `init` draws.

    Raises:
        ConfigError: if there is no such rule, or no learner has its slot.
    """
    slots = _slots()
    weights = given = None
    for slot, learner in slots.items():
        if text in HAND_WRITTEN[slot]:
            return Rule(text, slot, digest_of_text(f"{slot} {text}"), (), learner)
    if text in LEARNERS or is_custom(text):
        return Rule(text, WHOLE, _key_of_learner(text), (), text)
    if zoo.is_name(text):
        card = zoo.find(text).card
        slot, key = card["slot"], digest_of_text(card["digest"])
    elif published.is_file_name(text):
        weights = published.find(text)
        slot, key = published.SLOT, key_of_weights(weights)
    elif os.path.isdir(text) or text.endswith(".py"):
        evolved, meta_params = discovery.load_all(text)
        if evolved.is_dict:
            names = ", ".join(evolved.parts)
            raise ConfigError(f"{text} holds several parts ({names}); the benchmark takes one")
        (part,) = evolved.parts.values()
        slot, key = part.slot.name, _key_of_part(part, digest(meta_params))
        if text.endswith(".py"):
            given = {slot: (part.function, meta_params)}
    elif os.sep in text:
        raise ConfigError(f"{text}: there is no such run directory{of_path(text)}")
    else:
        known = [name for slot in slots for name in HAND_WRITTEN[slot]]
        entries = map(zoo.find, zoo.names())
        known += [entry.name for entry in entries if entry.card["slot"] in slots]
        known += LEARNERS
        hint = of_value(text, known) or (
            "; it must be the directory of a run that evolved one, a file of published weights, a "
            f"component's file (FILE.py), a learner (FILE.py:NAME), or one of {', '.join(known)}"
        )
        raise ConfigError(f"{show(text)} is no rule{hint}")
    if slot not in slots:
        raise ConfigError(f"{text}: fills {slot}; the benchmark has: {', '.join(slots)}")
    learner = slots[slot]
    if given is not None:
        return Rule(text, slot, key, (), learner, given=given)
    filling.fill(slot, text, learner)
    environments = seen.environments(seen.by_rule(text))
    return Rule(text, slot, key, environments, learner, weights)


def _slots() -> dict[str, str]:
    """Return the learner that trains with a rule, by slot: PPO if it has the slot."""
    slots = dict.fromkeys(filling.slots_of(LEARNER), LEARNER)
    for learner in LEARNERS:
        slots = dict.fromkeys(filling.slots_of(learner), learner) | slots
    return slots


def key_of_weights(rule: Published) -> str:
    """Return the key of a published rule, for which its file is not needed."""
    (part,) = published.part(rule).parts.values()
    return _key_of_part(part, rule.sha256)


def _key_of_learner(text: str) -> str:
    """Return the key of a learner: of its name, and of its file if it is none of purerl's."""
    entry, source = learners.find(text), b""
    if text not in LEARNERS:
        source = files.read(Path(inspect.getfile(inspect.unwrap(entry.make))))
    return digest_of_text(str([WHOLE, learners.short_name(text), registry.digest(source)]))


def _key_of_part(part: Part, weights: str) -> str:
    source = registry.source_of(part.module) or b""
    name = registry.short_name(part.source) if part.source.endswith(".py") else part.source
    about = [name, to_dict(part.config), weights, registry.digest(source)]
    return digest_of_text(str(about))
