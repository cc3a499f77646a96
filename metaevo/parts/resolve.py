"""What fills a slot, by reference: one rule for settings, commands and `metaevo.load`.

fill(slot, "huber"), fill(slot, "runs/first"), fill(slot, "zoo:ppo-optimizer"),
fill(slot, "my_loss.py:Tilted")
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, show
from metaevo.config.code import is_name, use
from metaevo.config.plain import of_value
from metaevo.parts import learners, saved, seen, zoo
from metaevo.parts.classes import part_class
from metaevo.parts.part import Filling, HandWritten, Part, Parts
from metaevo.parts.seen import SeenTask
from metaevo.runs.checkpoint import load_tree
from metaevo.runs.run_directory import RunDirectory
from purerl.types import Slot


def describe(slot: Slot) -> str:
    """Return the allowed values of the setting that fills a slot, in words."""
    return (
        f"{', '.join(slot.functions)}, the directory of a run that evolved one, a part's file "
        "(FILE.py), or zoo:NAME (metaevo zoo lists them)"
    )


def fill(slot: Slot, reference: str, run_path: Path | None = None) -> Filling:
    """Return the part that a setting puts into a slot, with its meta-parameters.

    Args:
        slot: of a learner.
        reference: the name of a hand-written function, `zoo:NAME`, the directory of a run, or code
            of the user's (its meta-parameters are what `init` returns).
        run_path: an existing run; its copy of an evolved part is used.

    Raises:
        ConfigError: if there is none, or it is for another slot.
    """
    if reference in slot.functions:
        return Filling(HandWritten(slot.name, slot.functions[reference]), None)
    used = copy_or(slot.name, reference, run_path)
    where = f"{slot.name} = {reference!r}"
    if not (is_name(used) or zoo.is_name(used) or os.path.isdir(used)):
        hint = of_value(reference, slot.functions)
        raise ConfigError(f"{where}: must be one of {describe(slot)}{hint}")
    try:
        if is_name(reference):
            part_class(reference)  # executed, as the user names it
        part, meta_params = part_of(used, slot.name)
        return Filling(part.in_slot(slot), meta_params)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def part_of(reference: str | Path, slot: str | None = None) -> Filling:
    """Return an evolved part, or one of the user's, with its meta-parameters.

    Args:
        reference: as for `fill`, without the names of hand-written functions.
        slot: that it fills; needed if several parts were evolved.

    Raises:
        ConfigError: if there is none for the slot.
    """
    if zoo.is_name(reference):
        card = zoo.find(str(reference)).card
        if slot not in (None, card["slot"]):
            raise ConfigError(f"{reference} fills {card['slot']}, not {slot}")
        if card["function"] is not None:
            of_learner = learners.slot_of(str(card["learner"]), card["slot"])
            function = of_learner.functions[card["function"]]
            return Filling(HandWritten(of_learner.name, function), None)
    parts, meta_params = parts_of(reference)
    has = list(parts.by_slot)
    if slot is None and len(has) == 1:
        (slot,) = has
    if slot not in has:
        wanted = "say which slot" if slot is None else f"not for slot = {slot!r}"
        raise ConfigError(f"{reference} holds parts for {' and '.join(has)}: {wanted}")
    return Filling(parts.by_slot[slot], parts.of(meta_params, slot))


def parts_of(reference: str | Path) -> tuple[Parts, Any]:
    """Return evolved parts, or one of the user's, and their common meta-parameters.

    Raises:
        ConfigError: if there are none.
    """
    if is_name(str(reference)):
        part = part_class(str(reference))()
        return Parts.single(part), part.init(jax.random.key(0))
    return saved.load_parts(reference)


def copy_or(slot: str, reference: str, run_path: Path | None) -> str:
    """Return the copy of a part that an existing run has, or the reference."""
    if run_path is not None and os.path.isdir(copy := copy_of(run_path, slot)):
        return str(copy)
    return reference


def copy_of(run_path: Path, slot: str) -> Path:
    """Return where a run keeps the evolved part that it learned with, laid out as a run."""
    return run_path / "losses" / slot


def keep(run_path: Path, slot: Slot, reference: str) -> None:
    """Copy an evolved part into the run that learns with it: a run needs no other one."""
    copy = RunDirectory(copy_of(run_path, slot.name))
    if reference in slot.functions or copy.meta_params.exists():
        return
    if is_name(reference):
        saved.save(copy, *parts_of(reference), 0)
    else:
        saved.keep(reference, copy.path)


def seen_by(slot: Slot, reference: str, run_path: Path | None = None) -> list[SeenTask]:
    """Return the tasks that the part in a slot has seen, see `fill`."""
    if reference in slot.functions:
        return []
    return seen.by_rule(copy_or(slot.name, reference, run_path))


def is_loadable(about: Any) -> bool:
    """Whether saved meta-parameters are parts of a learner, from their metadata."""
    return isinstance(about, dict) and "parts" in about


def load(run_dir: str | Path, *, slot: str | None = None, code: Any = ()) -> Any:
    """Return `(slot_function, meta_params)` of a run, ready for a learner.

    A run of `metaevo.evolve(problem)` fills no slot: its meta-parameters are returned alone.

    Examples:
        >>> value_loss, meta_params = metaevo.load("runs/evolve_value_loss/my_run")
        >>> train = ppo.make_train(ppo.Config(), env, value_loss=value_loss)
        >>> result = train(key, ppo.Hyperparams(), meta_params, env_params)

    Args:
        run_dir: of an evolution; of several, the best run on its validation seeds, which is printed
            to stderr. Or `zoo:NAME`, an entry of the zoo; or what `save` has written; or a part's
            file, which is executed and has the meta-parameters that its `init` draws.
        slot: that the function is to fill; needed if several parts were evolved.
        code: files or classes of the parts, if they are not metaevo's. They must be unchanged; the
            directory's copies (`code/NAME.py`) may be named too.

    Raises:
        ConfigError: if the directory holds no evolved part, or a damaged one, or one for another
            slot than `slot`, or a part from outside metaevo that is not named or has changed.
    """
    if not isinstance(run_dir, str | Path):
        raise ConfigError(f"run_dir = {show(run_dir)}: must be a path or zoo:NAME")
    use(code)
    if not is_name(str(run_dir)):
        run = saved.opened(run_dir)
        about = saved.about_of(run)
        if slot is None and about is not None and not is_loadable(about):
            return jax.tree.map(jnp.asarray, load_tree(run.meta_params)[0])
    part, meta_params = part_of(run_dir, slot)
    return part.apply, meta_params


def save(path: str | Path, part: Part, meta_params: Any, *, seen: Sequence[str] = ()) -> None:
    """Save a part with meta-parameters from elsewhere, for `load` and for the settings of slots.

    Examples:
        >>> part = metaevo.parts.Drift()
        >>> metaevo.save("my_drift", part, part.init(key), seen=["CartPole-v1"])

    Args:
        path: a directory that holds no run.
        part: of metaevo, or of a class in a file, which is kept; whoever loads it names the file.
        meta_params: of the part, as its `init` returns them.
        seen: environments that it was evolved on; `metaevo.generality` leaves them out of scores.

    Raises:
        ConfigError: if the directory cannot be written.
    """
    run = RunDirectory.create(Path(path), "save")
    seen_in = {"task": {"env": list(seen)}}
    saved.save(run, Parts.single(part), meta_params, 0, seen_in, saved.reference_to_file)
