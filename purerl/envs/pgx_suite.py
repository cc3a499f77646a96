"""Single-player games of pgx (Koyamada et al. 2023): five MinAtar games and 2048."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs import drawing
from purerl.envs.suite import (
    NEVER,
    Suite,
    SuiteEnvironment,
    SuiteParams,
    SuiteState,
    imported,
    quiet,
)
from purerl.types import Environment

VERSION = "2.6.0"
LIMITS = {
    "minatar-asterix": 1000,
    "minatar-breakout": 1000,
    "minatar-freeway": 2500,
    "minatar-seaquest": 1000,
    "minatar-space_invaders": 1000,
    "2048": 10_000,
}
"""Time limits of the games, in steps: pgx has none; the MinAtar limits are gymnax's."""
PLAYERS = (
    *("animal_shogi", "backgammon", "bridge_bidding", "chess", "connect_four", "gardner_chess"),
    *("go_9x9", "go_19x19", "hex", "kuhn_poker", "leduc_holdem", "othello", "shogi"),
    *("sparrow_mahjong", "tic_tac_toe"),
)


class Pgx(SuiteEnvironment):
    """Images of MinAtar games [10, 10, channels], or of the board of 2048 [4, 4, 31].

    In 2048, moves without an effect are illegal; in MinAtar, all moves are legal. A MinAtar game
    has only the actions that it uses, and a tenth of its actions repeat the last one, as in its
    paper.

    Args:
        name: pgx's name of the game.
        pool: see `SuiteEnvironment`; resets are cheap.
        sticky_action_prob: probability that a MinAtar game repeats the last action; null for pgx's
            default. With 0, Breakout equals gymnax's.

    Raises:
        ValueError: if the probability is invalid, or the game does not repeat actions.
    """

    suite = "pgx"
    num_actions = 0
    """of the game"""

    def __init__(
        self,
        name: str,
        pool: int | None = None,
        pool_seed: int = 0,
        sticky_action_prob: float | None = None,
    ):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        if sticky_action_prob is not None:
            check_sticky(name, sticky_action_prob)
        pgx = imported("pgx", "pgx", VERSION)
        with quiet():
            self.game = pgx.make(name)
            self.num_actions = int(self.game.num_actions)
        if sticky_action_prob is not None:
            self.game.sticky_action_prob = float(sticky_action_prob)
        self._observe = jax.jit(self.game.observe)
        self._params = SuiteParams(max_steps_in_episode=LIMITS[name])

    def begin(self, key: jax.Array, params: SuiteParams) -> tuple[jax.Array, Any]:
        """Reset, and disable the time limit of Freeway."""
        state = self.game.init(key)
        if hasattr(state, "_terminate_timer"):
            state = state.replace(_terminate_timer=jnp.int32(NEVER))
        return state.observation, state.replace(observation=None)

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: SuiteParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step; the reward belongs to the only player."""
        state = self.game.step(inner, action, key)
        return (
            state.observation,
            state.replace(observation=None),
            state.rewards[0],
            state.terminated,
        )

    def legal_actions(self, state: SuiteState, params: SuiteParams) -> jax.Array:
        """Return pgx's mask [num_actions]; an illegal action would end the game."""
        return state.inner.legal_action_mask

    def render(self, state: SuiteState, params: SuiteParams) -> np.ndarray:
        """Draw the observation of a MinAtar game, or the board of 2048."""
        if self.name == "pgx/2048":
            return drawing.board_2048(np.asarray(state.inner._board).reshape(4, 4))
        return drawing.planes(np.asarray(self._observe(state.inner)))


def check_sticky(name: str, value: Any) -> None:
    """Check the probability, and that the game can repeat actions.

    Raises:
        ValueError: if not; the message has the allowed values.
    """
    if not name.startswith("minatar-"):
        raise ValueError(f"sticky_action_prob = {value!r}: only MinAtar's games repeat actions")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"sticky_action_prob = {value!r} must be a number from 0 to 1")


SUITE = Suite(
    tuple(LIMITS),
    lambda name: partial(Pgx, name),
    dict.fromkeys(PLAYERS, "it is for several players, and metaevo trains one"),
)
