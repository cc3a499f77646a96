"""Pgx (Koyamada et al. 2023): its games for one player, MinAtar's five and 2048."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces

from purerl.envs import drawing
from purerl.envs.suite import Suite, SuiteEnvironment, SuiteParams, SuiteState, imported, quiet
from purerl.types import Environment, PyTree

VERSION = "2.6.0"
LIMITS = {
    "minatar-asterix": 1000,
    "minatar-breakout": 1000,
    "minatar-freeway": 2500,
    "minatar-seaquest": 1000,
    "minatar-space_invaders": 1000,
    "2048": 10_000,
}
"""The games, and steps of an episode: pgx has no limits; MinAtar's are gymnax's."""
PLAYERS = (
    *("animal_shogi", "backgammon", "bridge_bidding", "chess", "connect_four", "gardner_chess"),
    *("go_9x9", "go_19x19", "hex", "kuhn_poker", "leduc_holdem", "othello", "shogi"),
    *("sparrow_mahjong", "tic_tac_toe"),
)
NEVER = 2**30
"""Steps after which Freeway itself would end an episode, as it does after 2,500."""


class PgxParams(SuiteParams):
    """The parameters of a game: none but the time limit."""


class Pgx(SuiteEnvironment):
    """Images of MinAtar's games [10, 10, channels], or of the board of 2048 [4, 4, 31].

    Moves in 2048 that change nothing are illegal; in MinAtar all are legal. A tenth of the actions
    in MinAtar repeats the last one, as in its paper, and actions are the few that a game uses.

    Args:
        name: pgx's own.
        pool: see `SuiteEnvironment`; resets are cheap.
        pool_seed: of the starts.
        sticky_action_prob: of MinAtar's games, how likely an action is to repeat the last one; null
            for pgx's own. With 0, Breakout is gymnax's.

    Raises:
        ValueError: for a probability that is none, or for a game that repeats no actions.
    """

    suite = "pgx"

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
            self._num_actions = int(self.game.num_actions)
        if sticky_action_prob is not None:
            self.game.sticky_action_prob = float(sticky_action_prob)
        self._observe = jax.jit(self.game.observe)
        self._params = PgxParams(max_steps_in_episode=LIMITS[name])

    @property
    def default_params(self) -> PgxParams:
        """With the time limit of `LIMITS`."""
        return self._params

    def begin(self, key: jax.Array, params: PgxParams) -> tuple[jax.Array, Any]:
        """Reset; a clock of the game's own is wound up for good."""
        del params
        state = self.game.init(key)
        if hasattr(state, "_terminate_timer"):
            state = state.replace(_terminate_timer=jnp.int32(NEVER))
        return state.observation, state.replace(observation=None)

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: PgxParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step; the reward belongs to the only player."""
        del params
        state = self.game.step(inner, action, key)
        return (
            state.observation,
            state.replace(observation=None),
            state.rewards[0],
            state.terminated,
        )

    def legal_actions(self, state: SuiteState, params: PgxParams) -> jax.Array:
        """Return pgx's mask [num_actions]; an illegal action would end the game."""
        del params
        mask: jax.Array = state.inner.legal_action_mask
        return mask

    def render(self, state: SuiteState, params: PgxParams) -> np.ndarray:
        """Draw the observation of a MinAtar game, or the board of 2048."""
        del params
        if self.name == "pgx/2048":
            return drawing.board_2048(np.asarray(state.inner._board).reshape(4, 4))
        return drawing.planes(np.asarray(self._observe(state.inner)))

    @property
    def num_actions(self) -> int:
        """The game's own."""
        return self._num_actions

    def action_space(self, params: PyTree = None) -> spaces.Discrete:
        """Those that the game uses."""
        del params
        return spaces.Discrete(self.num_actions)


def check_sticky(name: str, value: PyTree) -> None:
    """Check the probability, and that the game can repeat actions.

    Raises:
        ValueError: with the allowed values.
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
