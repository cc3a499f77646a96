"""Environments by name, all with gymnax's 1.x interface."""

from purerl.envs import gymnax_import  # noqa: F401 - before all that imports gymnax
from purerl.envs.registry import make, names, suite_names
from purerl.envs.state_index import StateIndex

__all__ = ["StateIndex", "make", "names", "suite_names"]
