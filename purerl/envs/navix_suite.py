"""Navix (Pignatelli et al. 2024): fully observed MiniGrid tasks."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.suite import (
    NEVER,
    Suite,
    SuiteEnvironment,
    SuiteParams,
    SuiteState,
    imported,
    quiet,
)
from purerl.types import Environment, PyTree

VERSION = "0.7.4"
NAMES = (
    *(f"Empty-{size}" for size in ("5x5", "6x6", "8x8", "16x16")),
    *(f"Empty-Random-{size}" for size in ("5x5", "6x6", "8x8", "16x16")),
    *(f"DoorKey-{size}" for size in ("5x5", "6x6", "8x8", "16x16")),
    *(f"DoorKey-Random-{size}" for size in ("5x5", "6x6", "8x8", "16x16")),
    "FourRooms",
    *(f"KeyCorridor{size}" for size in ("S3R1", "S3R2", "S3R3", "S4R3", "S5R3", "S6R3")),
    *(f"LavaGap{size}" for size in ("S5", "S6", "S7")),
    *(f"SimpleCrossing{size}" for size in ("S9N1", "S9N2", "S9N3", "S11N5")),
    *(f"Dynamic-Obstacles-{size}" for size in ("5x5", "6x6", "8x8", "16x16")),
    *(f"Dynamic-Obstacles-{size}-Random" for size in ("5x5", "6x6")),
    "DistShift1",
    "DistShift2",
    *(f"GoToDoor-{size}" for size in ("5x5", "6x6", "8x8")),
)
"""All of navix 0.7.4: other versions have other tasks under the same names."""
ENLARGED = 3
"""Factor by which navix's small pictures are enlarged."""


class Navix(SuiteEnvironment):
    """A grid of symbols [height, width, 3]: object, colour and state of each cell.

    Args:
        name: navix's name, without `Navix-` and `-v0`.
        pool: see `SuiteEnvironment`; resets are expensive.
    """

    suite = "navix"
    planes = (11, 6, 4)

    def __init__(self, name: str, pool: int | None = 1024, pool_seed: int = 0):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        self._navix = imported("navix", "navix", VERSION)
        with quiet():
            self.grid = self._navix.make(f"Navix-{name}-v0", max_steps=NEVER)
        self._params = SuiteParams(max_steps_in_episode=100)  # as `navix.make`

    def begin(self, key: jax.Array, params: SuiteParams) -> tuple[jax.Array, Any]:
        """Reset, and drop navix's picture of the grid, which takes 12 of the 13 kB of its state."""
        timestep = self.grid.reset(key)
        return timestep.observation, _without_extras(timestep.state)

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: SuiteParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Take navix's step without its reset, which is one call late and ignores the action.

        Objects that move by themselves use `key`, because the state has no key. Navix changes the
        dict of the state in place, so it gets a copy.
        """
        before = self._navix.Timestep(
            t=jnp.int32(0),
            observation=None,
            action=jnp.int32(0),
            reward=jnp.float32(0),
            step_type=jnp.int32(0),
            state=inner.replace(key=key, entities=dict(inner.entities)),
        )
        after = self.grid._step(before, action)
        terminated = after.step_type == self._navix.StepType.TERMINATION
        return after.observation, _without_extras(after.state), after.reward, terminated

    def render(self, state: SuiteState, params: SuiteParams) -> np.ndarray:
        """Return navix's picture of the state, uint8 [height, width, 3]."""
        cache = imported("navix", "navix.rendering.cache", VERSION).RenderingCache
        inner = state.inner.replace(cache=cache.init(state.inner.grid))
        picture = np.asarray(imported("navix", "navix.observations", VERSION).rgb(inner))
        return picture.repeat(ENLARGED, axis=0).repeat(ENLARGED, axis=1)

    @property
    def num_actions(self) -> int:
        """Turn left, turn right, forward, pick up, drop, toggle, done."""
        return len(self.grid.action_set)


def _without_extras(state: PyTree) -> Any:
    return state.replace(key=None, cache=None)


SUITE = Suite(NAMES, lambda name: partial(Navix, name))
