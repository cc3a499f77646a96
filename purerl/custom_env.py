"""Environments of the user's own: `my_env.py:Corridor` or `my_package.envs:Corridor`."""

import hashlib
import importlib
import importlib.util
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path


def is_custom(name: str) -> bool:
    """Return whether a name has the form `FILE.py:CLASS` or `MODULE:CLASS`."""
    where, colon, kind = name.rpartition(":")
    is_module = all(map(str.isidentifier, where.split(".")))
    return bool(colon) and kind.isidentifier() and (where.endswith(".py") or is_module)


def source_digest(name: str) -> str:
    """Return the SHA-256 of the file that defines an environment, which is not executed.

    Raises:
        ValueError: if there is no such file or module.
    """
    return hashlib.sha256(_source(name).read_bytes()).hexdigest()


def load(name: str) -> type:
    """Return the class of an environment; its module is executed once.

    Raises:
        ValueError: if there is no such file, module or class, or if its module raises.
    """
    return _load(name, source_digest(name))


@cache
def _load(name: str, digest: str) -> type:
    where, _, kind = name.rpartition(":")
    try:
        if where.endswith(".py"):
            module_name = f"environment_{Path(where).stem}_{digest[:8]}"
            spec = importlib.util.spec_from_file_location(module_name, where)
            if spec is None or spec.loader is None:
                raise ImportError(where)
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module  # dataclasses look up their annotations there
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{name} cannot be imported: {reason}") from error
    found = getattr(module, kind, None)
    if not isinstance(found, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise ValueError(f"{where} has no class {kind!r}; it has: {', '.join(classes) or 'none'}")
    if not hasattr(found, "step_env") or not hasattr(found, "default_params"):
        raise ValueError(
            f"{name} must be a gymnax environment: a class with default_params, reset_env, step_env"
        )
    return found


def _source(name: str) -> Path:
    where = name.rpartition(":")[0]
    if where.endswith(".py"):
        path = Path(where)
    else:
        try:
            spec: ModuleSpec | None = importlib.util.find_spec(where)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.origin is None:
            raise ValueError(f"{name}: there is no module {where!r}")
        path = Path(spec.origin)
    if not path.is_file():
        raise ValueError(f"{name}: there is no file {str(path)!r}")
    return path
