"""The Coin Game (Lerer & Peysakhovich 2017), as a learner sees it that meets another player.

Two players move on a 3 x 3 torus, both at the same time, and may share a cell. There is one coin,
and it has the colour of one of them. Whoever steps on it takes it and gets 1, both if both do;
where the player takes it that does not have its colour, the other one loses 2. Then a coin of a
random colour appears on a random free cell. Who takes every coin earns nothing against its like:
together they earn most if each takes its own.

For a learner this is an environment as any other one: the other player is a part of it, and its
weights are among the environment's parameters. It remembers what it likes over the learner's
episodes, which is how it can shape what the learner learns (`metaevo.studies.games.coin_game`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.envs.grid import MOVES

SIDE = 3
CELLS = SIDE * SIDE
OBS_SIZE = 3 * CELLS
PRIZE, LOSS = 1.0, 2.0
"""What a coin is worth to who takes it, and what one of the own colour costs if the other does."""


class World(NamedTuple):
    """Where everything is."""

    players: jax.Array
    """[2] int32 cells, row * SIDE + column"""
    coin: jax.Array
    """[] int32 its cell"""
    owner: jax.Array
    """[] int32 the player whose colour it has"""


class Outcome(NamedTuple):
    """What a joint step led to."""

    world: World
    rewards: jax.Array
    """[2] float32"""
    taken: jax.Array
    """[2, 2] bool: whether a player (first axis) took a coin of its own, and one of the other's"""


def start(key: jax.Array) -> World:
    """Draw three different cells, for the players and a coin, and its colour."""
    number = jax.random.randint(key, (), 0, CELLS * (CELLS - 1) * (CELLS - 2) * 2)
    first, number = number % CELLS, number // CELLS
    second, number = _free(number % (CELLS - 1), first, first), number // (CELLS - 1)
    coin = _free(number % (CELLS - 2), first, second)
    return World(jnp.stack([first, second]), coin, number // (CELLS - 2))


def move(key: jax.Array, world: World, actions: jax.Array) -> Outcome:
    """Move both players, hand out coins and rewards, and replace a coin that was taken.

    Args:
        key: for the next coin.
        world: before the move.
        actions: [2] int32: right, down, left, up.
    """
    step = jnp.array(MOVES)[actions]
    row = (world.players // SIDE + step[:, 0]) % SIDE
    players = row * SIDE + (world.players % SIDE + step[:, 1]) % SIDE
    there = players == world.coin
    own = jnp.arange(2) == world.owner
    taken = jnp.stack([there & own, there & ~own], axis=-1)
    rewards = PRIZE * there - LOSS * taken[::-1, 1]
    free = CELLS - 1 - (players[0] != players[1])
    number = jnp.floor(jax.random.uniform(key) * 2 * free).astype(jnp.int32)
    gone = there.any()
    coin = jnp.where(gone, _free(number // 2, players[0], players[1]), world.coin)
    owner = jnp.where(gone, number % 2, world.owner)
    return Outcome(World(players, coin, owner), rewards, taken)


def observe(world: World, player: int) -> jax.Array:
    """Return what a player sees [27], all one-hot and as seen from its own cell.

    Where the other player is, where the coin is if it has the own colour, and where it is if it
    has the other's.
    """
    here = world.players[player]
    other = jax.nn.one_hot(_from(here, world.players[1 - player]), CELLS)
    coin = jax.nn.one_hot(_from(here, world.coin), CELLS)
    own = (world.owner == player).astype(jnp.float32)
    return jnp.concatenate([other, own * coin, (1 - own) * coin])


def _from(here: jax.Array, there: jax.Array) -> jax.Array:
    """The cell of `there` on a torus that is moved so that `here` is its first cell."""
    row = (there // SIDE - here // SIDE) % SIDE
    return row * SIDE + (there - here) % SIDE


def _free(number: jax.Array, one: jax.Array, other: jax.Array) -> jax.Array:
    """The cell with that number among those that are neither `one` nor `other`."""
    low, high = jnp.minimum(one, other), jnp.maximum(one, other)
    cell = number + (number >= low)
    return cell + ((cell >= high) & (low != high))


class View(NamedTuple):
    """What the other player knows when it acts."""

    obs: jax.Array
    """[27] as `observe` has it"""
    rewards: jax.Array
    """[2] of the last step, its own first; zeros in the first step of an episode"""
    first: jax.Array
    """[] float32: 1 in the first step of an episode, else 0"""


class Player(NamedTuple):
    """Whom a learner meets; both functions take its parameters first."""

    begin: Callable[[Any], Any]
    """`(params) -> memory` before the learner's first episode"""
    act: Callable[[Any, jax.Array, View, Any], tuple[jax.Array, Any]]
    """`(params, key, view, memory) -> (action, memory)`"""


class CoinParams(struct.PyTreeNode):
    """The parameters of the environment. Traced."""

    player: Any
    """of the other player"""
    max_steps_in_episode: jax.Array | int = 16


class CoinState(struct.PyTreeNode):
    """The state of the environment."""

    world: World
    """the other player is number 0, the learner number 1"""
    time: jax.Array
    """[] int32 steps of this episode"""
    rewards: jax.Array
    """[2] of the last step"""
    memory: Any
    """of the other player, over all episodes"""
    earned: jax.Array
    """[2] sums of rewards over all episodes"""
    taken: jax.Array
    """[2, 2] coins that each player took over all episodes: of its own colour, of the other's"""


class CoinGame(Environment):
    """The Coin Game against a player, whose memory outlasts the learner's episodes.

    Example:
        >>> env = CoinGame(Player(lambda params: (), lambda params, key, view, memory: (0, ())))
        >>> learner = ppo.PPO(ppo.Config(num_steps=16), env)
    """

    def __init__(self, player: Player):
        """Bind the other player."""
        super().__init__()
        self.player = player

    @property
    def default_params(self) -> CoinParams:
        """Those of a player that has no parameters."""
        return CoinParams(())

    @property
    def num_actions(self) -> int:
        """Right, down, left, up."""
        return len(MOVES)

    def step(self, key: jax.Array, state: CoinState, action: Any, params: Any = None) -> tuple:
        """Step, see gymnax; after an episode's end all but memory and sums begins anew."""
        params = self.default_params if params is None else params
        step_key, start_key = jax.random.split(key)
        obs, state, reward, terminated, info = self.step_env(step_key, state, action, params)
        truncated = self.is_truncated(state, params)
        info = {
            **info, "terminated": terminated, "truncated": truncated, "final_observation": obs
        }  # fmt: skip
        fresh = start(start_key)
        world = jax.tree.map(lambda new, old: jnp.where(truncated, new, old), fresh, state.world)
        state = state.replace(
            world=world,
            time=jnp.where(truncated, 0, state.time),
            rewards=jnp.where(truncated, 0.0, state.rewards),
        )
        return observe(world, 1), state, reward, terminated, truncated, info

    def reset_env(self, key: jax.Array, params: CoinParams) -> tuple[jax.Array, CoinState]:
        """Begin the first episode."""
        world, memory = start(key), self.player.begin(params.player)
        nothing = jnp.zeros(2)
        state = CoinState(world, jnp.int32(0), nothing, memory, nothing, jnp.zeros((2, 2)))
        return observe(world, 1), state

    def step_env(self, key: jax.Array, state: CoinState, action: Any, params: CoinParams) -> tuple:
        """Let the other player choose, then move both."""
        act_key, coin_key = jax.random.split(key)
        first = (state.time == 0).astype(jnp.float32)
        view = View(observe(state.world, 0), state.rewards, first)
        other, memory = self.player.act(params.player, act_key, view, state.memory)
        actions = jnp.stack([jnp.asarray(other, jnp.int32), jnp.asarray(action, jnp.int32)])
        world, rewards, taken = move(coin_key, state.world, actions)
        state = CoinState(
            world, state.time + 1, rewards, memory, state.earned + rewards, state.taken + taken
        )
        return observe(world, 1), state, rewards[1], jnp.bool_(False), {}

    def is_terminated(self, state: CoinState, params: CoinParams) -> jax.Array:
        """No state is terminal."""
        return jnp.bool_(False)

    def action_space(self, params: Any = None) -> spaces.Discrete:
        """Right, down, left, up."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: Any) -> spaces.Box:
        """One-hot vectors, see `observe`."""
        return spaces.Box(0.0, 1.0, (OBS_SIZE,), jnp.float32)
