"""Fill a slot from a setting: with a hand-written function or a function that a run has evolved."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaevo.components import discovery, learners, published, seen, zoo
from metaevo.components.seen import SeenTask
from metaevo.config import ConfigError, files
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from purerl.learners import HAND_WRITTEN


def slots_of(learner: str) -> list[str]:
    """Return the slots of a learner that a setting fills by name."""
    return [slot for slot in learners.find(learner).slots if slot in HAND_WRITTEN]


def describe(slot: str) -> str:
    """Return the allowed values of such a setting, in words."""
    known = ", ".join(HAND_WRITTEN[slot])
    others = "the directory of a run that evolved one, or zoo:NAME (metaevo zoo lists them)"
    if slot == published.SLOT:
        others = f"a file of published weights (docs/how-to/components.md), {others}"
    return f"{known}, {others}"


def fill(
    slot: str, name: str, learner: str, run_path: Path | None = None, *, trust_source: bool = False
) -> tuple[Callable[..., Any], Any]:
    """Return a function and its meta-parameters.

    Args:
        slot: to be filled.
        name: of a hand-written function, an entry of the zoo or a file of published weights, or the
            directory of a run.
        learner: the learner that has the slot.
        run_path: an existing run; its copy of the evolved function is used.
        trust_source: whether source code that a run has saved may be executed.

    Raises:
        ConfigError: if neither exists, or the learner cannot use the evolved function.
    """
    if name in HAND_WRITTEN[slot]:
        return HAND_WRITTEN[slot][name], None
    directory = Path(name)
    if run_path is not None and os.path.isdir(copy_of(run_path, slot)):
        directory = copy_of(run_path, slot)
    if zoo.is_name(name) and (str(directory) == name or zoo.is_same(name, directory)):
        try:
            return discovery.load(name, slot=slot, learner=learner)
        except ConfigError as error:
            raise ConfigError(f"{slot} = {name!r}: {error}") from error
    if str(directory) == name and published.is_file_name(name):
        try:
            return discovery.load(name, slot=slot, learner=learner)
        except ConfigError as error:
            raise ConfigError(f"{slot} = {name!r}: {error}") from error
    if not os.path.isdir(directory):  # of a Path, a name that is too long raises
        raise ConfigError(f"{slot} = {name!r}: must be one of {describe(slot)}")
    return discovery.load(directory, slot=slot, trust_source=trust_source, learner=learner)


def seen_by(slot: str, name: str, run_path: Path | None = None) -> list[SeenTask]:
    """Return the tasks that the function in a slot has seen, see `fill`."""
    if name in HAND_WRITTEN[slot]:
        return []
    if run_path is not None and os.path.isdir(copy_of(run_path, slot)):
        return seen.by_rule(copy_of(run_path, slot))
    return seen.by_rule(name)


def keep(run_path: Path, slot: str, name: str) -> None:
    """Copy an evolved function into the run that learns with it: a run needs no other one."""
    copy = RunDirectory(copy_of(run_path, slot))
    if name in HAND_WRITTEN[slot] or copy.meta_params.exists():
        return
    if published.is_file_name(name):
        found = published.find(name)
        evolved, meta_params = published.load(name)
        learner, about = published.LEARNER, published.seen(found)
        discovery.save(copy, evolved, meta_params, 0, learner, about)
        return
    source, sources = RunDirectory(Path(name)), {}
    if zoo.is_name(name):
        entry = zoo.find(name)
        if entry.function is not None:
            return
        source = RunDirectory(entry.path)
        content, path = entry.source()
        sources = {path.name.removesuffix(".txt"): content}
        copy.path.mkdir(parents=True, exist_ok=True)
        files.write_json_atomic(copy.path / zoo.CARD, entry.card)
    else:
        for path in sorted((source.path / discovery.SOURCES).glob("*.py")):
            sources[path.name] = files.read(path)
    for file, content in sources.items():
        (copy.path / discovery.SOURCES).mkdir(parents=True, exist_ok=True)
        files.write_atomic(copy.path / discovery.SOURCES / file, content)
    checkpoint.save_tree(copy.meta_params, *checkpoint.load_tree(source.meta_params))


def copy_of(run_path: Path, slot: str) -> Path:
    """Return where a run keeps the evolved function that it learned with, laid out as a run."""
    return run_path / "losses" / slot
