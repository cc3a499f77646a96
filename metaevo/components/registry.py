"""Components by their names in settings and saved runs; each is imported when it is used.

A name refers to a file in this folder (`value_loss`), a module (`my_package.my_loss`), or a path
(`my_loss.py`). In Python, a component may also be passed as a module or a class.
"""

import dataclasses
import functools
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from flax import struct

from metaevo.components.component import Component
from metaevo.components.slots import SLOTS, Slot, failure
from metaevo.config import ConfigError, files, show
from metaevo.config.hints import of_value

_SOURCE = "__executed_source__"
"""Attribute of a module that `execute` has made."""
IMPORTED: dict[str, ModuleType] = {}
"""Imported modules and passed classes, by their names in settings."""


def known(slot: str = "") -> list[str]:
    """Return the names of the components in this folder, or of those for this slot only."""
    line = re.compile(rf"^SLOT = [\"']{slot or '.*'}[\"']$".encode(), re.MULTILINE)
    paths = sorted(Path(__file__).parent.glob("*.py"))
    return [path.stem for path in paths if line.search(path.read_bytes())]


def is_elsewhere(name: str) -> bool:
    """Return whether a name refers to a module or file outside metaevo."""
    return name.endswith(".py") or ("." in name and all(map(str.isidentifier, name.split("."))))


def short_name(name: str) -> str:
    """Return the last part of a name: of a section in settings, of a key in meta-parameters."""
    return Path(name).stem if name.endswith(".py") else name.rpartition(".")[2]


def name_of(component: Any) -> str:
    """Return the name under which `find` finds a component.

    Args:
        component: a name, an imported module, or a class with `SLOT`, `Config` and `make`. A run of
            a class does not keep its source code, so it can only be loaded where the class is
            passed.
    """
    if isinstance(component, str):
        return component
    file = getattr(component, "__file__", None)
    if file is not None and Path(file).parent == Path(__file__).parent:
        return Path(file).stem
    if not hasattr(component, "__name__"):
        raise ConfigError(
            f"evolve = {show(component)}: must be a name, a module or a class with SLOT, Config "
            "and make"
        )
    name = file or f"{component.__module__}.{component.__name__}"
    checked(name, component)
    while IMPORTED.setdefault(name, component) is not component:  # redefined, as in a notebook
        name += "_"
    return name


def find(name: str) -> ModuleType:
    """Return a component's module; one from outside metaevo is executed.

    Args:
        name: as the user wrote it, never read from a run's directory; see `code.require_named`.

    Raises:
        ConfigError: if there is none, or what there is is no component.
    """
    if name not in IMPORTED:
        if not is_elsewhere(name) and name not in known():
            allowed = f"{', '.join(known())}, a module (my_package.my_loss) or a path (my_loss.py)"
            hint = of_value(name, known())
            raise ConfigError(f"evolve = {show(name)} is not known{hint}; allowed: {allowed}")
        try:
            module = _import(name)
        except ConfigError as error:
            raise ConfigError(f"evolve = {show(name)}: {error}") from None
        except (Exception, SystemExit) as error:
            raise failure(f"evolve = {show(name)} cannot be imported", error) from error
        IMPORTED[name] = checked(name, module)
    return IMPORTED[name]


def _import(name: str) -> ModuleType:
    if not is_elsewhere(name):
        return importlib.import_module(f"metaevo.components.{name}")
    if name.endswith(".py"):
        return execute(files.read(Path(name)), Path(name).resolve())
    if os.getcwd() not in sys.path:  # which a console script has not
        sys.path.append(os.getcwd())
    return importlib.import_module(name)


def execute(source: bytes, path: Path) -> ModuleType:
    """Return a module made of source code, which is run; tracebacks name the path."""
    module = ModuleType(f"component_{path.stem}_{digest(source)[:8]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look up their annotations there
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    module.__dict__[_SOURCE] = source
    return module


def checked(name: str, module: ModuleType) -> ModuleType:
    """Return the module if it is a component.

    Raises:
        ConfigError: naming the missing attribute.
    """
    slot, config = getattr(module, "SLOT", None), getattr(module, "Config", None)
    own = getattr(module, "Hyperparams", None)
    slots = slot if isinstance(slot, tuple) and slot else (slot,)
    if unknown := [each for each in slots if each not in SLOTS]:
        complaint = f"SLOT = {show(unknown[0])}: must be one of {', '.join(SLOTS)}"
    elif not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        complaint = "Config: must be a frozen dataclass"
    elif isinstance(slot, tuple) and not hasattr(config, "slot"):
        complaint = "Config.slot: must say which of SLOT, by default"
    elif not callable(getattr(module, "make", None)):
        complaint = "make: must be a function of a Config"
    elif own is not None and not _is_struct_of_numbers(own):
        complaint = "Hyperparams: must be a flax.struct.PyTreeNode of numbers, each with a default"
    else:
        return module
    raise ConfigError(f"evolve = {show(name)}: {complaint}")


def component_of(name: str, module: ModuleType, config: Any) -> Component:
    """Return what a component's `make` returns for its settings.

    Raises:
        ConfigError: naming the component, if `make` fails or returns something else.
    """
    try:
        component = module.make(config)
    except ConfigError:
        raise
    except Exception as error:
        raise failure(f"evolve = {show(name)}: make(config) fails", error) from error
    if not isinstance(component, Component):
        raise ConfigError(
            f"evolve = {show(name)}: make returns {show(component)}: must be a metaevo.Component"
        )
    return component


def slot_of(module: ModuleType, config: Any) -> Slot:
    """Return the slot that a component fills; settings, valid or not, select one of several."""
    fills = module.SLOT
    if isinstance(fills, str):
        return SLOTS[fills]
    chosen = config.get("slot") if isinstance(config, dict) else getattr(config, "slot", None)
    return SLOTS[str(chosen) if chosen in fills else module.Config.slot]


def _is_struct_of_numbers(cls: Any) -> bool:
    if not (isinstance(cls, type) and issubclass(cls, struct.PyTreeNode)):
        return False
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    return all(isinstance(each.default, int | float) for each in fields) and bool(fields)


def source_of(module: ModuleType) -> bytes | None:
    """Return the source code of a component's module, if it has any."""
    path = getattr(module, "__file__", None)
    if hasattr(module, _SOURCE):
        return bytes(getattr(module, _SOURCE))
    return files.read(Path(path)) if path is not None and path.endswith(".py") else None


@functools.cache  # as the class is in this process, whatever happens to its file
def class_source(cls: object) -> bytes | None:
    """Return the source code of a user-defined class.

    None for a class without a file, as in a notebook, and for other objects than classes.
    """
    if not isinstance(cls, type) or cls.__module__.partition(".")[0] == "metaevo":
        return None
    try:
        return inspect.getsource(cls).encode()
    except (OSError, TypeError):
        return None


def digest(source: bytes) -> str:
    """Return the SHA-256 of source code."""
    return hashlib.sha256(source).hexdigest()


def code_of(component: Any) -> bytes | None:
    """Return the source code of a component's module or class, if it is known."""
    return class_source(component) if isinstance(component, type) else source_of(component)


def write_sources(folder: Path, sources: Mapping[str, bytes]) -> None:
    """Write source code, by short names, into a folder of a run."""
    for name, source in sources.items():
        folder.mkdir(exist_ok=True)
        files.write_atomic(folder / f"{name}.py", source)
