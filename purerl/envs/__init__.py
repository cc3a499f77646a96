"""Environments by name, all with gymnax's 1.x interface; the first use starts JAX's backend."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purerl.envs.grid_world import GridWorld as GridWorld
    from purerl.envs.registry import make as make
    from purerl.envs.registry import names as names
    from purerl.envs.registry import suite_names as suite_names
    from purerl.envs.state_index import StateIndex as StateIndex

_HOMES = {
    "GridWorld": "purerl.envs.grid_world",
    "StateIndex": "purerl.envs.state_index",
    "make": "purerl.envs.registry",
    "names": "purerl.envs.registry",
    "suite_names": "purerl.envs.registry",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because importing gymnax starts JAX's backend."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module("purerl.envs.gymnax_import")  # before all that imports gymnax
    return getattr(importlib.import_module(_HOMES[name]), name)
