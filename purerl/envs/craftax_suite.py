"""Craftax (Matthews et al. 2024): to survive, to mine and to craft in a world of 64 x 64 cells."""

from functools import partial
from typing import Any

import jax
from flax import struct
from gymnax.environments import spaces

from purerl.envs.suite import Suite, SuiteEnvironment, SuiteParams, imported

MODULES = {
    "Classic-Symbolic": ("craftax_classic", "CraftaxClassicSymbolicEnvNoAutoReset"),
    "Symbolic": ("craftax", "CraftaxSymbolicEnvNoAutoReset"),
}
NEVER = 2**30
"""Steps after which craftax itself would cut an episode."""


@struct.dataclass
class CraftaxParams(SuiteParams):
    """The parameters of a world that both games have; see craftax for the rest."""

    max_steps_in_episode: int = 10_000
    day_length: int = 300
    """steps of a day and its night"""
    always_diamond: bool = True
    """whether there is a diamond in every world, where the game does not always have some"""
    mob_despawn_distance: int = 14
    """cells from the player at which creatures vanish"""


class Craftax(SuiteEnvironment):
    """Surroundings and inventory as a vector; 22 achievements (Classic), each once a reward of 1.

    Args:
        name: craftax's, without `Craftax-` and `-v1`.
        pool: see `SuiteEnvironment`; a world is dear, so a pool of 256 takes seconds.
        pool_seed: of the starts.
    """

    suite = "craftax"

    def __init__(self, name: str, pool: int | None = 256, pool_seed: int = 0):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        folder, cls = MODULES[name]
        module = imported("craftax", f"craftax.{folder}.envs.craftax_symbolic_env")
        self.game = getattr(module, cls)()
        self._own_params = self.game.default_params

    @property
    def default_params(self) -> CraftaxParams:
        """Craftax's own."""
        own = self._own_params
        return CraftaxParams(
            max_steps_in_episode=own.max_timesteps,
            day_length=own.day_length,
            always_diamond=own.always_diamond,
            mob_despawn_distance=own.mob_despawn_distance,
        )

    def begin(self, key: jax.Array, params: CraftaxParams) -> tuple[jax.Array, Any]:
        """Make a world; the key that craftax keeps only draws the noise of pictures at night."""
        obs, state = self.game.reset_env(key, self._own(params))
        return obs, state.replace(state_rng=None)

    def advance(
        self, key: jax.Array, inner: Any, action: jax.Array, params: CraftaxParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step; craftax's clock never ends an episode, so what does is a terminal state."""
        obs, state, reward, terminated, _ = self.game.step_env(
            key, inner, action, self._own(params)
        )
        return obs, state.replace(state_rng=None), reward, terminated

    def _own(self, params: CraftaxParams) -> Any:
        return self._own_params.replace(
            max_timesteps=NEVER,
            day_length=params.day_length,
            always_diamond=params.always_diamond,
            mob_despawn_distance=params.mob_despawn_distance,
        )

    @property
    def num_actions(self) -> int:
        """17 in Classic."""
        return int(self.game.num_actions)

    def action_space(self, params: Any = None) -> spaces.Discrete:
        """Move, act, sleep, place and make."""
        del params
        return spaces.Discrete(self.num_actions)


_REASON = "pictures are left out: craftax/Classic-Symbolic and craftax/Symbolic show the same worlds"
SUITE = Suite(
    tuple(MODULES),
    lambda name: partial(Craftax, name),
    dict.fromkeys(("Classic-Pixels", "Pixels"), _REASON),
)
