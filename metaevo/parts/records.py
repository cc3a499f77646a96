"""What is saved of evolved parts: their classes and settings, their tasks, and their code."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from metaevo.config import PlainDict, PlainMapping, is_name, to_dict
from metaevo.parts.learners import reference_to
from metaevo.parts.part import Parts
from metaevo.runs.checkpoint import check_tree, save_tree
from metaevo.runs.run_directory import RunDirectory
from purerl.types import MetaParams, Slot


def describe(slot: Slot) -> str:
    """Return the allowed values of the setting that fills a slot, in words."""
    return (
        f"{', '.join(slot.functions)}, the directory of a run that evolved one, a part's file "
        "(FILE.py), or zoo:NAME (metaevo zoo lists them)"
    )


def is_loadable(about: Any) -> bool:
    """Whether saved meta-parameters are parts of a learner, from their metadata."""
    return isinstance(about, dict) and "parts" in about


# --- On disk ------------------------------------------------------------------------------------


def write(
    folder: RunDirectory,
    parts: Parts,
    meta_params: MetaParams,
    generation: int = 0,
    seen: PlainMapping | None = None,
    references: Sequence[str] = (),
) -> None:
    """Write parts to a directory, with the code of the user's own.

    `seen` has the tasks of the evolution, as the section `task` or `tasks` of settings;
    `references` name the classes of the parts, by default as settings do.
    """
    described: PlainDict = {}
    each_part = references or map(reference_to, parts.by_slot.values())
    for (slot, part), reference in zip(parts.by_slot.items(), each_part, strict=True):
        described[slot] = {"part": reference, "settings": to_dict(part)}
    if own := {slot: each["part"] for slot, each in described.items() if is_name(each["part"])}:
        from metaevo.config import code

        code.keep(folder.path, own)
        for slot, reference in own.items():
            described[slot]["code"] = code.digest_of(reference)
    about: PlainDict = {"parts": described, **(seen or {}), "generation": generation}
    check_tree(meta_params)
    save_tree(folder.meta_params, jax.device_get(meta_params), about)


# --- Tasks that a part has seen -----------------------------------------------------------------


class SeenTask(NamedTuple):
    """A task of an evolution."""

    name: str
    env: str
    env_params: PlainDict
    """overrides of the environment's parameters"""
    sample: PlainDict
    """distributions by name, as in the settings"""


def tasks_in(saved: PlainMapping) -> list[SeenTask]:
    """Return the tasks of an evolution from its settings, or from the metadata of its parts."""
    tasks = saved.get("tasks") or ({"task": saved["task"]} if saved.get("task") else {})
    return [
        SeenTask(name, task.get("env") or name, task.get("env_params", {}), task.get("sample", {}))
        for name, task in tasks.items()
    ]
