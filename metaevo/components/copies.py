"""Rules of the zoo or of another run, by name; a run keeps a copy of the ones that it uses."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaevo.components import zoo
from metaevo.config import ConfigError, files
from metaevo.config.plain import PlainDict
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory

SOURCES = "component"
"""A run's folder with the source code of its components, and its key in `resolved`."""


def opened(name: str | Path, copy: Path | None = None) -> RunDirectory:
    """Return the folder of a zoo entry or a run; or an existing copy of it, which is preferred."""
    if copy is not None and os.path.isdir(copy):
        return RunDirectory(copy)
    return RunDirectory(zoo.find(str(name)).path if zoo.is_name(name) else Path(name))


def load(
    name: str, copy: Path | None, *, noun: str, allowed: str, recognises: Callable[[Any], bool]
) -> tuple[Any, PlainDict]:
    """Return meta-parameters of the zoo or of a run, and their metadata.

    Args:
        name: of an entry of the zoo, or a run's directory.
        copy: where an existing run has its copy.
        noun: the kind of rule, for error messages.
        allowed: all possible names, for error messages.
        recognises: from the metadata of meta-parameters, whether they are of this kind.

    Raises:
        ConfigError: if they are of another kind, or there are none.
    """
    run = opened(name, copy)
    if not os.path.isdir(run.path):
        raise ConfigError(f"must be one of {allowed}")
    path = run.meta_params
    if not os.path.isdir(path):
        raise ConfigError(f"holds no {noun} (no {path.name}/ in it)")
    meta_params, about = checkpoint.load_tree(path)
    if not recognises(about):
        raise ConfigError(f"holds no {noun}: something else was evolved")
    return meta_params, about


def keep(name: str, copy: Path) -> None:
    """Copy an entry of the zoo, or what a run has evolved, into the run that uses it."""
    place = RunDirectory(copy)
    if place.meta_params.exists():
        return
    source = opened(name)
    if not source.meta_params.exists():  # a closed form
        return
    for path in [*source.path.glob(zoo.CARD), *source.path.glob(f"{SOURCES}/*.py*")]:
        file = copy / path.relative_to(source.path)
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomic(file.with_name(file.name.removesuffix(".txt")), files.read(path))
    checkpoint.save_tree(place.meta_params, *checkpoint.load_tree(source.meta_params))
