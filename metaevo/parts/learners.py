"""Learners, and the parts that fill their slots, by their names in settings."""

import dataclasses
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from metaevo.config import ConfigError, short_name, show
from metaevo.config.references import Kind, reference_of, resolve
from metaevo.parts.part import Part, Parts
from purerl.types import LearnerEntry, Slot

# --- Learners -----------------------------------------------------------------------------------


def _no_learner(entry: Any) -> str:
    from metaevo.parts import conformance

    return conformance.complaint(entry)


NAMES = "ppo", "dqn", "pqn", "q_learning", "lpg", "sac"
LEARNERS = {name: f"purerl.{name}:LEARNER" for name in NAMES}
"""The learners of purerl, each imported when it is used."""
LEARNER = Kind("learner", "purerl.types.LearnerEntry", _no_learner, LEARNERS)


def find(name: Any) -> LearnerEntry:
    """Return a learner by its name; the file of a user's own learner is executed.

    Raises:
        ConfigError: if there is none.
    """
    return resolve(LEARNER, name)


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
    module = sys.modules.get(getattr(getattr(learner, "make", None), "__module__", ""))
    variables = vars(module).items() if module else ()
    own = next((key for key, value in variables if value is learner), "learner")
    return reference_of(LEARNER, learner, f"{module.__name__}:{own}" if module else "")


# --- Networks -----------------------------------------------------------------------------------


def _no_network(given: Any) -> str:
    if callable(given) or hasattr(given, "apply"):
        return ""
    return "must be a flax module, or a function or class of the action space that returns one"


NETWORK = Kind("train.network", "flax module, or function that returns one", _no_network)


def named_network(train: Any) -> Any:
    """Return static settings, an object or a dict, with the reference to a network that is given.

    Raises:
        ConfigError: if it is none.
    """
    is_dict = isinstance(train, Mapping)
    given = train.get("network") if is_dict else getattr(train, "network", None)
    if given is None or isinstance(given, str):
        return train
    change = {"network": reference_of(NETWORK, given)}
    return {**train, **change} if is_dict else dataclasses.replace(train, **change)


def with_network(train: Any) -> Any:
    """Return a learner's static settings with the network that they refer to.

    Raises:
        ConfigError: if there is none.
    """
    reference = getattr(train, "network", None)
    if reference is None:
        return train
    return dataclasses.replace(train, network=resolve(NETWORK, reference))


# --- Parts --------------------------------------------------------------------------------------


def _no_part(cls: Any) -> str:
    if not (isinstance(cls, type) and issubclass(cls, Part)):
        return "must be a class that derives from metaevo.Part"
    annotations = inspect.get_annotations(cls).items()
    settings = {name for name, kind in annotations if "ClassVar" not in str(kind)}
    if settings - {each.name for each in dataclasses.fields(cls)}:
        return f"{cls.__name__} has settings: decorate it with @dataclass(frozen=True)"
    if not isinstance(getattr(cls, "slot", None), str):
        return f"{cls.__name__}.slot: must name the learner's argument that it fills"
    return ""


PARTS = {
    "drift": "metaevo.parts.drift:Drift",
    "formula": "metaevo.parts.formula:Formula",
    "lpg": "metaevo.parts.lpg:LearnedUpdateRule",
    "optimizer": "metaevo.parts.optimizer:LearnedOptimizer",
    "program": "metaevo.parts.program:Program",
    "schedule": "metaevo.parts.schedule:Schedule",
    "targets": "metaevo.parts.targets:LearnedTargets",
    "value_loss": "metaevo.parts.value_loss:ValueLossNetwork",
}
"""The parts of metaevo, each imported when it is used."""
PART = Kind("evolve", "part (a class that derives from metaevo.Part)", _no_part, PARTS)


def part_class(reference: Any) -> type[Part]:
    """Return the class of a part; a file of the user's is executed.

    Raises:
        ConfigError: if there is none.
    """
    return resolve(PART, reference)


def reference_to(part: Part) -> str:
    """Return the reference to the class of a part, as settings have it."""
    return reference_of(PART, type(part))


def classes_to_evolve(
    evolve: Any, learner: str, settings: Any = None
) -> dict[str, tuple[str, type[Part]]]:
    """Return the slots and the classes of the parts in `evolve`, by short names or by slots.

    `settings` is the user's section `component`, valid or not, in which a formula has its slot.

    Raises:
        ConfigError: if it names no part, or two of the same name.
    """
    where = f"evolve = {show(evolve)}"
    single, by_slot = isinstance(evolve, str), isinstance(evolve, Mapping)
    references: Any = [evolve] if single else list(evolve.values()) if by_slot else evolve
    if not (isinstance(references, list | tuple) and references) or not all(
        isinstance(each, str) for each in references
    ):
        raise ConfigError(f"{where}: must be the name of a part, a list, or parts by their slots")
    found: dict[str, tuple[str, type[Part]]] = {}
    names = list(evolve) if by_slot else list(map(short_name, references))
    for short, reference in zip(names, references, strict=True):
        cls = part_class(reference)
        if short in found:
            hint = f"name them by their slots, {{SLOT: {reference}, ...}}"
            raise ConfigError(f"{where}: two are called {show(short)}: {hint}")
        sections = settings if isinstance(settings, Mapping) else {}
        own, slot = sections if single else sections.get(short), cls.slot
        if cls.has_any_slot():
            slot = short if by_slot else slot
            slot = own.get("slot", slot) if isinstance(own, Mapping) else slot
        if by_slot and slot != short:
            raise ConfigError(f"{where}: {reference} fills the slot {show(slot)}, not {short}")
        if not isinstance(slot, str):
            raise ConfigError(f"{where}: component.slot = {show(slot)}: must be a name")
        try:
            slot_of(learner, slot)
        except ConfigError as error:
            raise ConfigError(f"{where}: {short} fills {slot!r}: {error}") from None
        found[short] = slot, cls
    return found


def parts_of(learner: str, given: Any) -> Parts:
    """Return parts in the slots of a learner."""
    by_slot: dict[str, Part] = {}
    for each in [given] if isinstance(given, Part | str) else given:
        part = part_class(each)() if isinstance(each, str) else each
        if not isinstance(part, Part):
            hint = f", such as {part.__name__}()" if isinstance(part, type) else ""
            raise ConfigError(f"parts: {show(part)} must be an object of metaevo.Part{hint}")
        name, slot = type(part).__name__, getattr(part, "slot", "")
        if slot in by_slot:
            names = f"{type(by_slot[slot]).__name__} and {name}"
            raise ConfigError(f"parts: {names} both fill the slot {slot}; evolve one of them")
        try:
            by_slot[slot] = part.in_slot(slot_of(learner, slot))
        except ValueError as error:
            raise ConfigError(f"parts: {name}: {error}") from None
    if not by_slot:
        raise ConfigError("parts: must have at least one part to evolve")
    return Parts(by_slot)
