"""Environments by name, all with gymnax's 1.x interface; our own are Gymnasium's as well."""

import gymnasium

from purerl.envs import gymnax_import  # noqa: F401 - before all that imports gymnax
from purerl.envs.registry import make, name_of, names, suite_names
from purerl.envs.state_index import StateIndex
from purerl.envs.talking import Talking

__all__ = ["StateIndex", "Talking", "make", "name_of", "names", "suite_names"]

# By name only: environments are built, and JAX is started, by `gymnasium.make`.
for _name in ("GridWorld", "Doors"):
    gymnasium.register(
        f"purerl/{_name}-v0", "purerl.envs.gymnasium_adapter:make", kwargs={"name": _name}
    )
gymnasium.register("purerl/DoorsNumPy-v0", "purerl.envs.doors_gym:DoorsGym")
