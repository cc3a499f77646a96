"""What fills a slot, by reference.

fill(slot, "huber"), fill(slot, "runs/first"), fill(slot, "zoo:ppo-optimizer"),
fill(slot, "my_loss.py:Tilted")

Runs, entries of the zoo, what `save` writes, and the copies that a run keeps of the parts that it
uses are folders with `meta_params.npz`: arrays with the classes and settings of parts, and the
tasks that they have seen. Code in a folder is not executed: a part of the user's own needs its code
named or passed, with the digest that was recorded.
"""

import os
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, code, files, from_dict, show
from metaevo.config.plain import RECORDED, PlainDict, is_name, of_value
from metaevo.evolution.problem import outline
from metaevo.parts import zoo
from metaevo.parts.learners import part_class, slot_of
from metaevo.parts.part import Filling, HandWritten, Part, Parts
from metaevo.parts.records import SeenTask, describe, is_loadable, tasks_in, write
from metaevo.runs.checkpoint import CheckpointError, load_tree, save_tree
from metaevo.runs.finding import evolutions_in
from metaevo.runs.run_directory import RunDirectory
from purerl.types import Slot


def fill(slot: Slot, given: Any, run_path: Path | None = None) -> Filling:
    """Return the part that a caller or a setting puts into a slot, with its meta-parameters.

    Args:
        slot: of a learner.
        given: a function, a pair of function and meta-parameters, a part, a `Filling`, the result
            of an evolution, the name of a hand-written function, `zoo:NAME`, the directory of a
            run, or code of the user's (with the meta-parameters of its `init`).
        run_path: an existing run; its copy of an evolved part is used.

    Raises:
        ConfigError: if there is none, or it is for another slot.
    """
    if isinstance(given, Filling):
        return given
    if hasattr(given, "contender"):  # the result of an evolution
        given = given.part(slot.name)
    if isinstance(given, Part):
        return Filling(given.in_slot(slot), given.init(jax.random.key(0)))
    if isinstance(given, str) and given in slot.functions:
        given = slot.functions[given]
    function, meta_params = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if callable(function):
        return Filling(HandWritten(slot.name, function), meta_params)
    if isinstance(given, tuple):
        raise ConfigError(
            f"{slot.name} = {show(given)}: must be a pair of a function and its meta-parameters"
        )
    reference = str(given)
    used, where = copy_or(slot.name, reference, run_path), f"{slot.name} = {reference!r}"
    if not (is_name(used) or zoo.is_name(used) or os.path.isdir(used)):
        hint = of_value(reference, slot.functions)
        raise ConfigError(f"{where}: must be one of {describe(slot)}{hint}")
    try:
        if is_name(reference):
            part_class(reference)  # executed, as the user names it
        part, meta_params = part_of(used, slot.name)
        return Filling(part.in_slot(slot), meta_params)
    except ValueError as error:
        reason = str(error).removeprefix(f"evolve = {reference!r}: ")
        raise ConfigError(f"{where}: {reason.removeprefix(f'{reference!r} ')}") from error


def part_of(reference: str | Path, slot: str | None = None) -> Filling:
    """Return an evolved part, or one of the user's, with its meta-parameters.

    Args:
        reference: as for `fill`, without the names of hand-written functions.
        slot: that it fills; needed if several parts were evolved.

    Raises:
        ConfigError: if there is none for the slot.
    """
    parts, meta_params = parts_of(reference)
    has = list(parts.by_slot)
    if slot is None and len(has) == 1:
        (slot,) = has
    if slot not in has:
        wanted = ": say which slot" if slot is None else f", not {slot}"
        raise ConfigError(f"{reference} fills {' and '.join(has)}{wanted}")
    return Filling(parts.by_slot[slot], parts.of(meta_params, slot))


def parts_of(reference: str | Path) -> tuple[Parts, Any]:
    """Return all parts of a folder, or one of the user's, and their common meta-parameters.

    A closed form of the zoo has none.

    Raises:
        ConfigError: if there are none, they are damaged, or code is not named or has changed.
    """
    if is_name(str(reference)):
        part = part_class(str(reference))()
        return Parts({part.slot: part}), part.init(jax.random.key(0))
    if zoo.is_name(reference) and (card := zoo.find(str(reference)).card)["function"] is not None:
        slot = slot_of(str(card["learner"]), card["slot"])
        return Parts({slot.name: HandWritten(slot.name, slot.functions[card["function"]])}), None
    folder = folder_of(reference)
    path = folder.meta_params
    if not os.path.isfile(path):
        begun = evolutions_in(folder.path)
        hint = f"; load one of its evolutions, such as {begun[0]}" if begun else ""
        raise ConfigError(f"{reference} holds no evolved part (no {path.name} in it){hint}")
    tree, about = load_tree(path)
    if not is_loadable(about):
        raise ConfigError(f"{folder.path} holds no part of a learner: something else evolved there")
    try:
        parts = Parts({slot: _part(folder, each) for slot, each in about["parts"].items()})
        if any(part.slot != slot for slot, part in parts.by_slot.items()):
            raise KeyError
    except (AttributeError, KeyError, TypeError):
        raise CheckpointError(f"{path}: does not describe its parts") from None
    if isinstance(seed := about.get("evolution_seed"), int):
        text = f"{reference}: of its evolutions that of seed {seed}, the best on validation seeds"
        print(text, file=sys.stderr)
    if isinstance(done := about.get("generation"), int) and done < _generations(folder):
        print(f"{reference} is not finished: what it found in {done} generations", file=sys.stderr)
    meta_params = jax.tree.map(jnp.asarray, tree)
    if outline(meta_params) != outline(jax.eval_shape(parts.init, jax.random.key(0))):
        raise CheckpointError(f"{path}: its parameters do not fit its part's settings")
    return parts, meta_params


def _generations(folder: RunDirectory) -> int:
    """Return how many generations a run has by its settings; 0 in a folder that is no run."""
    config = folder.read_config()["config"] if folder.config_path.exists() else {}
    return int(config.get("evolution", {}).get("generations", 0))


def copy_of(run_path: Path, slot: str) -> Path:
    """Return where a run keeps the evolved part that it learned with."""
    return run_path / "losses" / slot


def copy_or(slot: str, reference: str, run_path: Path | None) -> str:
    """Return the copy of a part that an existing run has, or the reference."""
    if run_path is not None and os.path.isdir(copy := copy_of(run_path, slot)):
        return str(copy)
    return reference


def folder_of(reference: str | Path) -> RunDirectory:
    """Return the folder of a zoo entry, or of a run."""
    is_entry = zoo.is_name(reference)
    return RunDirectory(zoo.find(str(reference)).path if is_entry else Path(reference))


def _part(folder: RunDirectory, described: PlainDict) -> Part:
    reference = described["part"]
    if is_name(reference):
        reference = _named_code(folder, reference, described.get("code"))
    return from_dict(part_class(reference), described["settings"])


def _named_code(folder: RunDirectory, reference: str, recorded: str | None) -> str:
    """Return a reference to the class of a saved part, whose code this process has executed."""
    where = code.where_of(reference)
    kind = reference.removeprefix(where)
    module = None if recorded is None else code.EXECUTED.get(recorded)
    if module is not None:
        return f"{module.__file__}{kind}"
    is_known = code.is_given(reference) or where in sys.modules  # passed, or imported
    now = code.digest_of(reference) if is_known or code.is_loaded(reference) else None
    if is_known and now == recorded:
        return reference
    copy = folder.path / RECORDED / Path(where).name
    if not where.endswith(".py") or not copy.is_file():
        raise ConfigError(
            f"{folder.path} holds no source code of its part {show(reference)}: name or pass the "
            "code as it was (--code; in Python code=...)"
        )
    named = {Path(str(each.__file__)).name for each in code.EXECUTED.values()}
    if now is not None or Path(where).name in named:
        raise ConfigError(
            f"{folder.path}: {reference} has changed since the run began; name the run's copy: "
            f"--code {copy}"
        )
    raise ConfigError(
        f"{folder.path} holds a part from outside metaevo that this command does not name, so that "
        f"it does not run; to run it, add --code {where} (in Python: code={where!r}), or name the "
        f"run's copy: --code {copy}"
    )


def seen_by(rule: str | Path) -> list[SeenTask]:
    """Return the tasks that a part has seen, as far as known; code has seen none.

    Raises:
        ConfigError: if the entry or the directory cannot be read.
    """
    path = folder_of(rule).meta_params
    if not os.path.isfile(path):
        return []
    try:
        found = tasks_in(load_tree(path)[1])
        if not all(isinstance(each.env, str) for each in found):
            raise TypeError("envs must be names")
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"{rule}: the tasks that it has seen are damaged: {error}") from None
    return found


def keep(run_path: Path, slot: Slot, reference: str) -> None:
    """Copy an evolved part into the run that learns with it: a run needs no other one."""
    copy = RunDirectory(copy_of(run_path, slot.name))
    if reference in slot.functions or copy.meta_params.exists():
        return
    if is_name(reference):
        write(copy, *parts_of(reference))
    elif (source := folder_of(reference)).meta_params.exists():  # no function of the zoo
        for path in source.path.glob(f"{RECORDED}/*.py"):
            files.write_atomic(copy.path / RECORDED / path.name, files.read(path))
        save_tree(copy.meta_params, *load_tree(source.meta_params))
