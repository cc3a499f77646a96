"""Environments by name, all with gymnax's 1.x interface."""

from purerl.envs.registry import make, names

__all__ = ["make", "names"]
