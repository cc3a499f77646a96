"""Craftax (Matthews et al. 2024): survive, mine and craft in a world of 64 x 64 cells."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import jax
import numpy as np

from purerl.envs.suite import (
    NEVER,
    Suite,
    SuiteEnvironment,
    SuiteParams,
    SuiteState,
    imported,
    quiet,
    tolerant,
)
from purerl.types import Environment

VERSION = "1.6.1"
PIXELS, ENLARGED = 16, 2
"""Side of a block in craftax's pictures, and the factor by which films enlarge them."""


class CraftaxParams(SuiteParams):
    """Parameters of both games, with craftax's names."""

    max_steps_in_episode: int = 10_000
    day_length: int = 300
    """steps of a day and a night"""
    always_diamond: bool = True
    """whether every world has a diamond"""
    mob_despawn_distance: int = 14
    """distance from the player in cells at which creatures disappear"""


class ClassicParams(CraftaxParams):
    """The parameters of Craftax-Classic."""

    zombie_health: int = 5
    cow_health: int = 3
    skeleton_health: int = 3
    spawn_cow_chance: float = 0.1
    spawn_zombie_base_chance: float = 0.02
    spawn_zombie_night_chance: float = 0.1
    spawn_skeleton_chance: float = 0.05


class FullParams(CraftaxParams):
    """The parameters of Craftax."""

    max_steps_in_episode: int = 100_000
    always_diamond: bool = False
    max_attribute: int = 5
    """largest dexterity, strength and intelligence"""
    god_mode: bool = False
    """whether the player takes no damage"""


GAMES: dict[str, tuple[str, str, CraftaxParams]] = {
    "Classic-Symbolic": (
        "craftax_classic", "CraftaxClassicSymbolicEnvNoAutoReset", ClassicParams()
    ),
    "Symbolic": ("craftax", "CraftaxSymbolicEnvNoAutoReset", FullParams()),
}  # fmt: skip
"""Folder, class and parameters of each game; those with pictures are the same worlds."""


class Craftax(SuiteEnvironment):
    """Surroundings and inventory as a vector; 22 achievements (Classic), each once a reward of 1.

    Args:
        name: craftax's name, without `Craftax-` and `-v1`.
        pool: see `SuiteEnvironment`; worlds are expensive, so a pool of 256 takes seconds.
    """

    suite = "craftax"

    def __init__(self, name: str, pool: int | None = 256, pool_seed: int = 0):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        folder, cls, self._params = GAMES[name]
        module = imported("craftax", f"craftax.{folder}.envs.craftax_symbolic_env", VERSION)
        self.game = getattr(module, cls)()
        self._own_params = self.game.default_params
        self._folder = folder
        self._draw: Callable[[Any], jax.Array] | None = None

    def begin(self, key: jax.Array, params: CraftaxParams) -> tuple[jax.Array, Any]:
        """Create a world. Craftax's own key only draws the noise of pictures at night."""
        obs, state = self.game.reset_env(key, self._own(params))
        return obs, state.replace(state_rng=None)

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: CraftaxParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step. Craftax's time limit never ends an episode, so `done` means a terminal state."""
        obs, state, reward, terminated, _ = self.game.step_env(
            key, inner, action, self._own(params)
        )
        return obs, state.replace(state_rng=None), reward, terminated

    def render(self, state: SuiteState, params: CraftaxParams) -> np.ndarray:
        """Return craftax's picture of the surroundings and the inventory.

        The noise at night is always the same. The first picture takes seconds to compile.
        """
        if self._draw is None:
            self._draw = jax.jit(self._pixel_renderer())
        with tolerant():
            picture = self._draw(state.inner.replace(state_rng=jax.random.PRNGKey(0)))
        picture = np.asarray(picture).clip(0, 255).astype(np.uint8)
        return picture.repeat(ENLARGED, axis=0).repeat(ENLARGED, axis=1)

    def _pixel_renderer(self) -> Callable[[Any], jax.Array]:
        """Build craftax's renderer with textures of one size.

        Craftax itself prepares three sizes and pickles them into its installation.
        """
        constants = imported("craftax", f"craftax.{self._folder}.constants", VERSION)
        renderer = imported("craftax", f"craftax.{self._folder}.renderer", VERSION)
        with quiet():
            textures = {PIXELS: constants.load_all_textures_given_size(PIXELS)}
            with mock.patch.object(renderer, "load_all_textures", return_value=textures):
                return renderer.make_craftax_pixel_renderer(PIXELS)

    def _own(self, params: CraftaxParams) -> Any:
        """Convert to craftax's parameters, without craftax's time limit."""
        ours = dataclasses.fields(params)
        same = {field.name for field in dataclasses.fields(self._own_params)}
        changes = {field.name: getattr(params, field.name) for field in ours if field.name in same}
        return self._own_params.replace(max_timesteps=NEVER, **changes)

    @property
    def num_actions(self) -> int:
        """Move, act, sleep, place and make: 17 in Classic."""
        return int(self.game.num_actions)


SUITE = Suite(tuple(GAMES), lambda name: partial(Craftax, name))
