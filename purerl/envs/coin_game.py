"""The Coin Game (Lerer & Peysakhovich 2017), as an environment of a learner.

Two players move simultaneously on a 3 x 3 torus and may share a cell. There is one coin, in the
colour of one player. A player that steps on the coin takes it and gets 1; if both arrive together,
both take it. If a player takes a coin in the other's colour, the other player loses 2. Then a coin
of a random colour appears on a random free cell. Two players that take every coin earn 0 on
average; their total is largest if each takes only coins in its own colour.

The other player is part of the learner's environment, and its weights are among the environment's
parameters. Its memory lasts over the learner's episodes, so it can shape the learner's training.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.envs.grid import MOVES
from purerl.types import PyTree

SIDE = 3
CELLS = SIDE * SIDE
OBS_SIZE = 3 * CELLS
PRIZE, LOSS = 1.0, 2.0
"""Reward for taking a coin, and loss of a player if the other takes a coin in its colour."""


class World(NamedTuple):
    """Positions and colour of the coin."""

    players: jax.Array
    """[2] int32 cells, row * SIDE + column"""
    coin: jax.Array
    """[] int32 its cell"""
    owner: jax.Array
    """[] int32 player with the colour of the coin"""


class Outcome(NamedTuple):
    """Result of a joint step."""

    world: World
    rewards: jax.Array
    """[2] float32"""
    taken: jax.Array
    """[2, 2] bool: whether each player (axis 0) took a coin in its own and in the other's colour"""


def start(key: jax.Array) -> World:
    """Draw three different cells, for the players and a coin, and its colour."""
    number = jax.random.randint(key, (), 0, CELLS * (CELLS - 1) * (CELLS - 2) * 2)
    first, number = number % CELLS, number // CELLS
    second, number = _free(number % (CELLS - 1), first, first), number // (CELLS - 1)
    coin = _free(number % (CELLS - 2), first, second)
    return World(jnp.stack([first, second]), coin, number // (CELLS - 2))


def move(key: jax.Array, world: World, actions: jax.Array) -> Outcome:
    """Move both players, assign coins and rewards, and replace a coin that was taken.

    `actions` are [2] int32: right, down, left, up.
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
    """Return a player's observation [27]: one-hot positions, relative to its own cell.

    Positions of the other player, of a coin in its own colour, and of a coin in the other colour.
    """
    here = world.players[player]
    other = jax.nn.one_hot(_from(here, world.players[1 - player]), CELLS)
    coin = jax.nn.one_hot(_from(here, world.coin), CELLS)
    own = (world.owner == player).astype(jnp.float32)
    return jnp.concatenate([other, own * coin, (1 - own) * coin])


def _from(here: jax.Array, there: jax.Array) -> jax.Array:
    """Return the cell of `there` on a torus that is shifted so that `here` is the first cell."""
    row = (there // SIDE - here // SIDE) % SIDE
    return row * SIDE + (there - here) % SIDE


def _free(number: jax.Array, one: jax.Array, other: jax.Array) -> jax.Array:
    """Return the cell with this index among all cells except `one` and `other`."""
    low, high = jnp.minimum(one, other), jnp.maximum(one, other)
    cell = number + (number >= low)
    return cell + ((cell >= high) & (low != high))


class View(NamedTuple):
    """Input of the other player when it acts."""

    obs: jax.Array
    """[27] result of `observe`"""
    rewards: jax.Array
    """[2] of the last step, its own first; zeros in the first step of an episode"""
    first: jax.Array
    """[] float32: 1 in the first step of an episode, else 0"""


class Player(NamedTuple):
    """The other player; both functions take its parameters first."""

    begin: Callable[[Any], Any]
    """`(params) -> memory` before the learner's first episode"""
    act: Callable[[Any, jax.Array, View, Any], tuple[jax.Array, Any]]
    """`(params, key, view, memory) -> (action, memory)`"""


class CoinParams(struct.PyTreeNode):
    """The parameters of the environment. Traced."""

    player: Any
    """parameters of the other player"""
    max_steps_in_episode: jax.Array | int = 16


class CoinState(struct.PyTreeNode):
    """The state of the environment."""

    world: World
    """the other player is number 0, the learner number 1"""
    time: jax.Array
    """[] int32 steps of this episode"""
    rewards: jax.Array
    """[2] of the last step"""
    memory: PyTree
    """memory of the other player, kept over all episodes"""
    earned: jax.Array
    """[2] sums of rewards over all episodes"""
    taken: jax.Array
    """[2, 2] coins that each player took over all episodes, in its own colour and in the other's"""


class CoinGame(Environment):
    """The Coin Game against a player with a memory that outlasts the learner's episodes.

    Example:
        >>> env = CoinGame(Player(lambda params: (), lambda params, key, view, memory: (0, ())))
        >>> learner = ppo.PPO(ppo.Config(num_steps=16), env)
    """

    default_params = CoinParams(())
    """for a player without parameters"""
    num_actions = len(MOVES)

    def __init__(self, player: Player):
        super().__init__()
        self.player = player

    def step(
        self, key: jax.Array, state: CoinState, action: jax.Array, params: PyTree = None
    ) -> tuple:
        """Take a step; the end of an episode resets all state but memory and sums."""
        params = self.default_params if params is None else params
        step_key, start_key = jax.random.split(key)
        obs, state, reward, terminated, info = self.step_env(step_key, state, action, params)
        truncated = self.is_truncated(state, params)
        info |= {"terminated": terminated, "truncated": truncated, "final_observation": obs}
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
        zeros = jnp.zeros(2)
        state = CoinState(world, jnp.int32(0), zeros, memory, zeros, jnp.zeros((2, 2)))
        return observe(world, 1), state

    def step_env(
        self, key: jax.Array, state: CoinState, action: jax.Array, params: CoinParams
    ) -> tuple:
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

    def action_space(self, params: PyTree = None) -> spaces.Discrete:
        """Right, down, left, up."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: PyTree) -> spaces.Box:
        """One-hot vectors, see `observe`."""
        return spaces.Box(0.0, 1.0, (OBS_SIZE,), jnp.float32)
