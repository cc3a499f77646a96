"""`metaevo.load`, `load_parts` and `save`: evolved parts, as Python callers use them."""

import contextlib
import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, is_name, show
from metaevo.config.code import use
from metaevo.parts import learners, records, resolve
from metaevo.parts.part import Part, Parts
from metaevo.runs.checkpoint import load_tree
from metaevo.runs.run_directory import RunDirectory


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
    if slot is None and not is_name(str(run_dir)):
        path = resolve.folder_of(run_dir).meta_params
        if os.path.isfile(path):
            tree, about = load_tree(path)
            if not records.is_loadable(about):
                return jax.tree.map(jnp.asarray, tree)
    part, meta_params = resolve.part_of(run_dir, slot)
    return part.apply, meta_params


def load_parts(run_dir: str | Path, *, code: Any = ()) -> dict[str, tuple[Any, Any]]:
    """Return all parts of a run, as `load` returns one, by their slots.

    Examples:
        >>> rule = metaevo.load_parts("zoo:ppo-drift")
        >>> policy_loss, meta_params = rule["policy_loss"]

    Args:
        run_dir: as for `load`.
        code: as for `load`.

    Raises:
        ConfigError: as `load`.
    """
    use(code)
    parts, meta_params = resolve.parts_of(run_dir)
    return {slot: (part.apply, parts.of(meta_params, slot)) for slot, part in parts.by_slot.items()}


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
    folder, reference = RunDirectory.create(Path(path), "save"), learners.reference_to(part)
    if reference not in learners.PARTS:
        with contextlib.suppress(TypeError):  # a class in a notebook
            reference = f"{inspect.getfile(type(part))}:{type(part).__name__}"
    tasks: dict[str, Any] = {env: {} for env in seen}
    records.write(folder, Parts({part.slot: part}), meta_params, 0, {"tasks": tasks}, [reference])
