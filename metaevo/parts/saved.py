"""Evolved parts on disk: in runs, in the zoo, and in copies that a run keeps of those it uses.

Code in a run's directory is not executed: a part of the user's own needs its code named or passed,
with the digest that was recorded.
"""

import contextlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, code, files, from_dict, show, to_dict
from metaevo.config.code import resolve
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.parts import zoo
from metaevo.parts.classes import PART, SHIPPED, reference_to
from metaevo.parts.part import Part, Parts
from metaevo.runs.checkpoint import CheckpointError, check_tree, load_tree, save_tree
from metaevo.runs.run_directory import RunDirectory, evolutions_in
from purerl.types import MetaParams, PyTree


def save(
    run: RunDirectory,
    parts: Parts,
    meta_params: MetaParams,
    generation: int,
    seen: PlainMapping | None = None,
    reference_to: Callable[[Part], str] = reference_to,
) -> None:
    """Write evolved parts to a directory, with the code of the user's own.

    `seen` has the tasks of the evolution, as the section `task` or `tasks` of settings;
    `reference_to` names the class of a part.
    """
    described: PlainDict = {}
    for slot, part in parts.by_slot.items():
        reference = reference_to(part)
        described[slot] = {"part": reference, "settings": to_dict(part)}
        if code.is_name(reference):
            described[slot]["code"] = code.digest_of(reference)
    about: PlainDict = {"parts": described, **(seen or {}), "generation": generation}
    check_tree(meta_params)
    save_tree(run.meta_params, jax.device_get(meta_params), about)
    code.keep(run.path, {slot: each["part"] for slot, each in described.items()})


def reference_to_file(part: Part) -> str:
    """Return the reference to the class of a part; by its file, if it has one of its own."""
    reference, cls = reference_to(part), type(part)
    if reference not in SHIPPED:
        with contextlib.suppress(TypeError):  # a class in a notebook
            return f"{inspect.getfile(cls)}:{cls.__name__}"
    return reference


def load_parts(path: str | Path) -> tuple[Parts, Any]:
    """Return all parts of a run or an entry of the zoo, and their meta-parameters.

    Raises:
        ConfigError: if there are none, they are damaged, or code is not named or has changed.
    """
    run = opened(path)
    about = about_of(run)
    if about is None:
        begun = evolutions_in(run.path)
        hint = f"; load one of its evolutions, such as {begun[0]}" if begun else ""
        raise ConfigError(f"{path} holds no evolved part (no {run.meta_params.name} in it){hint}")
    described = about.get("parts")
    if described is None:
        raise ConfigError(f"{run.path} holds no part of a learner: something else evolved there")
    try:
        by_slot = {slot: _part(run, each) for slot, each in described.items()}
        valid = bool(by_slot) and all(part.slot == slot for slot, part in by_slot.items())
    except (AttributeError, KeyError, TypeError):
        valid = False
    if not valid:
        raise CheckpointError(f"{run.meta_params}: does not describe its parts")
    parts = Parts(by_slot)
    if isinstance(seed := about.get("evolution_seed"), int):
        text = f"{path}: of its evolutions that of seed {seed}, the best on validation seeds"
        print(text, file=sys.stderr)
    if run.config_path.exists() and not run.report_path.exists():
        text = f"{path} is not finished: what it found in {about.get('generation')} generations"
        print(text, file=sys.stderr)
    meta_params = jax.tree.map(jnp.asarray, load_tree(run.meta_params)[0])
    if _shapes(meta_params) != _shapes(jax.eval_shape(parts.init, jax.random.key(0))):
        raise CheckpointError(f"{run.meta_params}: its parameters do not fit its part's settings")
    return parts, meta_params


def opened(name: str | Path, copy: Path | None = None) -> RunDirectory:
    """Return the folder of a zoo entry or a run; or an existing copy of it, which is preferred."""
    if copy is not None and os.path.isdir(copy):
        return RunDirectory(copy)
    return RunDirectory(zoo.find(str(name)).path if zoo.is_name(name) else Path(name))


def about_of(run: RunDirectory) -> PlainDict | None:
    """Return the metadata of saved meta-parameters; None without them."""
    return load_tree(run.meta_params)[1] if os.path.isfile(run.meta_params) else None


def _part(run: RunDirectory, described: PlainDict) -> Part:
    reference = described["part"]
    if not isinstance(reference, str) or not (reference in SHIPPED or code.is_name(reference)):
        raise CheckpointError(f"{run.meta_params}: unknown part {show(reference)}")
    if reference in SHIPPED:
        cls = resolve(PART, reference)
    else:
        cls = resolve(PART, _named_code(run, reference, described.get("code")))
    part: Part = from_dict(cls, described["settings"])
    return part


def _named_code(run: RunDirectory, reference: str, recorded: str | None) -> str:
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
    copy = run.path / code.RECORDED / Path(where).name
    if not where.endswith(".py") or not copy.is_file():
        raise ConfigError(
            f"{run.path} holds no source code of its part {show(reference)}: name or pass the "
            "code as it was (--code; in Python code=...)"
        )
    named = {Path(str(each.__file__)).name for each in code.EXECUTED.values()}
    if now is not None or Path(where).name in named:
        raise ConfigError(
            f"{run.path}: {reference} has changed since the run began; name the run's copy: "
            f"--code {copy}"
        )
    raise ConfigError(
        f"{run.path} holds a part from outside metaevo that this command does not name, so that it "
        f"does not run; to run it, add --code {where} (in Python: code={where!r}), or name the "
        f"run's copy: --code {copy}"
    )


def keep(name: str, copy: Path) -> None:
    """Copy an entry of the zoo, or what a run has evolved, into the run that uses it."""
    place = RunDirectory(copy)
    if place.meta_params.exists():
        return
    source = opened(name)
    if not source.meta_params.exists():  # a hand-written function
        return
    for path in source.path.glob(f"{code.RECORDED}/*.py"):
        file = copy / path.relative_to(source.path)
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomic(file, files.read(path))
    save_tree(place.meta_params, *load_tree(source.meta_params))


def _shapes(tree: PyTree) -> Any:
    """Structure, shapes and dtypes (a Python number in `init` makes a type weak: no difference)."""
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)
