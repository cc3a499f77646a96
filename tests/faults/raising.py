"""Runs a script with an environment that raises: python raising.py WHEN SCRIPT ARGUMENTS...

WHEN is `trace`, or how many of its steps go well.
"""

import runpy
import sys

from metaevo.evolution import devices

devices.setup()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from purerl.envs import registry  # noqa: E402
from purerl.envs.grid_world import GridWorld  # noqa: E402

WHEN = sys.argv[1]
steps = []


def count(time):
    """Raise from some step on, in the middle of a compiled program."""
    steps.append(1)
    if len(steps) > int(WHEN):
        raise RuntimeError("the simulator has crashed")
    return time


class Raising(GridWorld):
    """A grid whose steps call back into Python."""

    def step(self, key, state, action, params=None):
        """Step, see gymnax."""
        if WHEN == "trace":
            raise KeyError("no such simulator")
        shape = jax.ShapeDtypeStruct((), jnp.int32)
        time = jax.pure_callback(count, shape, state.time, vmap_method="sequential")
        return super().step(key, state.replace(time=time), action, params)


registry.OWN["Raising"] = Raising
if __name__ == "__main__":
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
