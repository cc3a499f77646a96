"""Pictures and findings of evolved parts: of every part of a slot, and the part's own."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from metaevo.parts.part import Evolved, Part

SLOTS = "value_loss", "policy_loss", "make_optimizer", "update_rule", "schedule"
"""The slots with pictures, in modules of the same names."""


def _of_slot(part: Part) -> ModuleType | None:
    known = part.slot in SLOTS
    return import_module(f"metaevo.reports.parts.{part.slot}") if known else None


def captions(part: Part) -> dict[str, str]:
    """Return the captions of a part's pictures, by file name."""
    module = _of_slot(part)
    return {**(module.CAPTIONS if module else {}), **part.captions}


def draw(found: Evolved, figures: Path) -> None:
    """Draw the pictures of an evolved part into a folder."""
    if module := _of_slot(found.part):
        module.draw(found, figures)
    found.part.draw(found, figures)


def observe(found: Evolved) -> dict[str, float]:
    """Return numbers that describe an evolved part."""
    module = _of_slot(found.part)
    observe_slot = getattr(module, "observe", None)
    return {} if observe_slot is None else dict(observe_slot(found))


def findings(found: Evolved, observed: Mapping[str, float]) -> list[str]:
    """Return sentences about an evolved part, from the results of `observe`."""
    module = _of_slot(found.part)
    return found.part.findings(found) + (module.findings(found, observed) if module else [])
