"""Environments by name, all with gymnax's 1.x interface."""

from purerl.envs.registry import make, names
from purerl.envs.state_index import StateIndex

__all__ = ["StateIndex", "make", "names"]
