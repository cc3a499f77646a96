"""Classes of parts, as `evolve` names them."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from metaevo.config import ConfigError, show
from metaevo.config.code import Kind, reference_of, resolve, short_name
from metaevo.parts import learners
from metaevo.parts.part import Part

SHIPPED = {
    "drift": "metaevo.parts.drift:Drift",
    "formula": "metaevo.parts.formula:Formula",
    "lpg": "metaevo.parts.lpg:LearnedUpdateRule",
    "optimizer": "metaevo.parts.optimizer:LearnedOptimizer",
    "program": "metaevo.parts.program:Program",
    "schedule": "metaevo.parts.schedule:Schedule",
    "value_loss": "metaevo.parts.value_loss:ValueLossNetwork",
}
"""The parts of metaevo, each imported when it is used."""


def _complaint(cls: Any) -> str:
    if not (isinstance(cls, type) and issubclass(cls, Part)):
        return "must be a class that derives from metaevo.Part"
    fields = {each.name for each in dataclasses.fields(cls)}
    annotated = {
        name for name, kind in inspect.get_annotations(cls).items() if "ClassVar" not in str(kind)
    }
    if annotated - fields:
        return f"{cls.__name__} has settings: decorate it with @dataclass(frozen=True)"
    if not isinstance(getattr(cls, "slot", None), str):
        return f"{cls.__name__}.slot: must name the learner's argument that it fills"
    return ""


PART = Kind("evolve", "part (a class that derives from metaevo.Part)", _complaint, SHIPPED)


def part_class(reference: Any) -> type[Part]:
    """Return the class of a part; a file of the user's is executed.

    Raises:
        ConfigError: if there is none.
    """
    found: type[Part] = resolve(PART, reference)
    return found


def chooses_slot(cls: type[Part]) -> bool:
    """Return whether the slot is a setting of the part, as a formula's is."""
    return any(each.name == "slot" for each in dataclasses.fields(cls))


def shipped_for(slot: str) -> list[str]:
    """Return the names of the parts of metaevo for this slot only."""
    classes = {name: part_class(name) for name in SHIPPED}
    return [name for name, cls in classes.items() if cls.slot == slot and not chooses_slot(cls)]


def classes_of(evolve: Any) -> dict[str, tuple[str, type[Part]]]:
    """Return the references in `evolve` with their classes, by short names.

    Raises:
        ConfigError: if it is empty, or two have the same short name.
    """
    given: Any = [evolve] if isinstance(evolve, str) else evolve
    references = list(given) if isinstance(given, list | tuple) else []
    if not references or not all(isinstance(each, str) for each in references):
        raise ConfigError(f"evolve = {show(evolve)}: must be the name of a part, or a list")
    found: dict[str, tuple[str, type[Part]]] = {}
    for reference in references:
        short = short_name(reference)
        if short in found:
            raise ConfigError(f"evolve = {show(evolve)}: two are called {show(short)}")
        found[short] = reference, part_class(reference)
    return found


def slots_of(evolve: Any, learner: str, settings: Any = None) -> dict[str, str]:
    """Return the slots that the parts in `evolve` fill, with their short names.

    `settings` is the user's section `component`, valid or not, which may choose the slot.

    Raises:
        ConfigError: if a part fits no slot of the learner, or the slot of another part.
    """
    taken: dict[str, str] = {}
    for short, (_, cls) in classes_of(evolve).items():
        own = settings
        if not isinstance(evolve, str):
            own = settings.get(short) if isinstance(settings, Mapping) else None
        slot = cls.slot
        if isinstance(own, Mapping) and chooses_slot(cls):
            slot = own.get("slot", slot)
        where = f"evolve = {show(evolve)}"
        if not isinstance(slot, str):
            raise ConfigError(f"{where}: component.slot = {show(slot)}: must be a name")
        try:
            learners.slot_of(learner, slot)
        except ConfigError as error:
            raise ConfigError(f"{where}: {short} fills {slot!r}: {error}") from None
        if slot in taken:
            raise ConfigError(
                f"{where}: {taken[slot]} and {short} both fill the slot {slot}; evolve one of them"
            )
        taken[slot] = short
    return taken


def reference_to(part: Part) -> str:
    """Return the reference to the class of a part, as settings have it."""
    return reference_of(PART, type(part))
