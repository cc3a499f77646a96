"""Players of the Coin Game, and the meta-episode in which their opponent learns.

Our player has an evolved or a hand-written policy with a small memory. The opponent is PPO, which
learns after every episode of the game; our player's memory persists over all episodes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from metaevo.config.plain import PlainDict
from metaevo.training.fitness import all_finite
from purerl import ppo
from purerl.envs.coin_game import CELLS, SIDE, CoinGame, CoinParams, Player, View
from purerl.envs.grid import MOVES
from purerl.types import Hyperparams, PyTree

Weights = PlainDict

INPUTS = 10
_OWN_LEFT, _OTHER_ONTO, _OTHER_LEFT, _STOLEN = 1, 2, 3, 8
"""Indices of some `features`."""


def _distances(steps: ArrayLike) -> np.ndarray:
    """Return the distance [cells, steps] of every cell on the torus after a step (down, right)."""
    cells = np.stack(divmod(np.arange(CELLS), SIDE), axis=-1)
    apart = cells[:, np.newaxis] - np.asarray(steps)
    return np.minimum(apart % SIDE, -apart % SIDE).sum(axis=-1).astype(np.float32)


_LEFT = _distances(MOVES)
"""[cell, move] distance of a cell after a move"""
_ONTO = (_LEFT == 0).astype(np.float32)
"""[cell, move] whether a move leads to a cell"""
_BETWEEN = _distances([divmod(cell, SIDE) for cell in range(CELLS)])
"""[cell, cell] distance between two cells"""


class Memory(NamedTuple):
    """Memory of our player; in both arrays its own entry comes first."""

    last: jax.Array
    """[2] 1 if the last coin that a player took had the other's colour, -1 if its own, 0 if none"""
    thefts: jax.Array
    """[2] coins of the other's colour that a player took in this episode"""
    time: jax.Array
    """[] share of the meta-episode that is over"""


def begin(params: PyTree = None) -> Memory:
    """Return the memory at the start of a meta-episode."""
    del params
    return Memory(jnp.zeros(2), jnp.zeros(2), jnp.float32(0.0))


def remember(memory: Memory, view: View, step: float) -> Memory:
    """Update the memory when a player acts; a negative reward is a coin that the other stole.

    Args:
        memory: memory at its previous action.
        view: its observation, and the rewards of both since then.
        step: length of a step as a share of the meta-episode.
    """
    stole = view.rewards[::-1] < 0
    took = (jnp.abs(view.rewards) == 1) & ~stole  # -1: both players took its coin
    thefts = jnp.where(view.first > 0, 0.0, memory.thefts + stole)
    last = jnp.where(stole, 1.0, jnp.where(took, -1.0, memory.last))
    return Memory(last, thefts, memory.time + step)


def init_weights(key: jax.Array, hidden: int, start: str) -> Weights:
    """Draw a meta-policy, `INPUTS` -> hidden tanh -> 1 a move.

    Args:
        key: random key.
        hidden: units, at least 3.
        start: `uniform`, all moves with equal probability; or `grim`, with three units: one goes
            for coins of the own colour, one avoids other coins until the other player steals in
            this episode, and one goes for them from then on.
    """
    kernel = jax.random.normal(key, (INPUTS, hidden)) / np.sqrt(INPUTS)
    weights = {"kernel": kernel, "bias": jnp.zeros(hidden), "out": jnp.zeros(hidden)}
    if start == "uniform":
        return weights
    units = np.zeros((INPUTS, 3), np.float32)
    units[_OWN_LEFT, 0], units[_OTHER_ONTO, 1], units[_OTHER_LEFT, 2] = -0.7, 2.0, -0.7
    units[_STOLEN, 1:] = -4.0, 4.0
    return {
        "kernel": kernel.at[:, :3].set(units),
        "bias": weights["bias"].at[2].set(-4.0),
        "out": weights["out"].at[:3].set(jnp.array([5.0, -5.0, 5.0])),
    }


def features(view: View, memory: Memory) -> jax.Array:
    """Return the inputs of a meta-policy for each move [4, 10].

    Whether the move leads onto a coin of the own colour, and its distance after the move; the same
    for a coin of the other's colour; the distance of the other player from the coin; for each
    player the last coin that it took and whether it has stolen in this episode; and the time.
    """
    other, *coins = view.obs.reshape(3, CELLS)
    apart = jnp.sum(other[:, None] * _BETWEEN * (coins[0] + coins[1])[None])
    known = [apart, *memory.last, *(memory.thefts > 0), memory.time]
    after = [jnp.sum(coin[:, None] * table, axis=0) for coin in coins for table in (_ONTO, _LEFT)]
    return jnp.stack([*after, *(jnp.full(4, each) for each in known)], axis=-1)


def meta_policy(weights: Weights, key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Draw a move from the preferences of a network."""
    seen = features(view, memory)[:, :, None]  # sums: XLA fuses them, each with its own weights
    hidden = jnp.tanh(jnp.sum(seen * weights["kernel"], axis=1) + weights["bias"])
    return jax.random.categorical(key, jnp.sum(hidden * weights["out"], axis=-1))


def greedy(weights: Weights, key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Go for every coin."""
    del weights, key, memory
    _, own, other = view.obs.reshape(3, CELLS)
    return jnp.argmin(jnp.sum((own + other)[:, None] * _LEFT, axis=0))


def cooperative(weights: Weights, key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Go for coins of the own colour, and never step on other coins."""
    _, own, other = view.obs.reshape(3, CELLS)
    aside = jax.random.categorical(key, -1e9 * jnp.sum(other[:, None] * _ONTO, axis=0))
    return jnp.where(own.sum() > 0, greedy(weights, key, view, memory), aside)


def tit_for_tat(weights: Weights, key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Go for every coin if the last coin that the other took was ours, else cooperate."""
    policy = weights, key, view, memory
    return jnp.where(memory.last[1] > 0, greedy(*policy), cooperative(*policy))


def grim(weights: Weights, key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Cooperate until the other takes a coin of ours in this episode, then go for every coin."""
    policy = weights, key, view, memory
    return jnp.where(memory.thefts[1] > 0, greedy(*policy), cooperative(*policy))


HAND_WRITTEN = {each.__name__: each for each in (greedy, cooperative, tit_for_tat, grim)}
"""Policies that never learn, by name; they ignore the weights."""


class Cast(NamedTuple):
    """Parameters of a `player`."""

    policy: Any
    """[] int32, index of its policy"""
    weights: Weights
    """weights of the meta-policy"""


def player(step: float, *policies: Callable[..., jax.Array]) -> Player:
    """Return a player with the parameters `Cast`.

    Args:
        step: length of a step as a share of the meta-episode.
        policies: functions `(weights, key, view, memory) -> move`.
    """

    def act(cast: Cast, key: jax.Array, view: View, memory: Memory) -> tuple[jax.Array, Memory]:
        memory = remember(memory, view, step)
        move = jax.lax.switch(cast.policy, policies, cast.weights, key, view, memory)
        return move, memory

    return Player(begin, act)


class Episode(NamedTuple):
    """A meta-episode, summed between consecutive updates of the learner."""

    earned: jax.Array
    """[U, 2] rewards a step, ours first"""
    taken: jax.Array
    """[U, 2, 2] coins a step by player and colour, the own colour first"""
    finite: jax.Array
    """[] bool: whether the learner's parameters stayed finite"""


def own_share(taken: jax.Array) -> jax.Array:
    """Return the share [..., 2] of the own colour among the coins `taken` [..., 2, 2].

    Ours comes first; NaN for a player that takes none.
    """
    return taken[..., 0] / (taken[..., 0] + taken[..., 1])


def play(
    learner: ppo.PPO,
    hyperparams: Hyperparams,
    key: jax.Array,
    env_params: CoinParams,
    *,
    both_learn: bool = False,
) -> Episode:
    """Train a learner from scratch against a player, as `learner.train` does.

    If `both_learn`, the player is another such learner (`naive`). Each of them learns from separate
    episodes against the other's current policy.
    """
    keys = jax.random.split(key) if both_learn else [key]
    states = [learner.init(each, hyperparams, None, env_params) for each in keys]

    def step(states, _):
        opponents = [env_params]
        if both_learn:
            opponents = [env_params.replace(player=learner.policy(x)) for x in reversed(states)]
        after = [
            learner.update(state, hyperparams, None, opponent)[0]
            for state, opponent in zip(states, opponents, strict=True)
        ]
        old, new = states[0].envs.state, after[0].envs.state
        earned = jnp.sum(new.earned - old.earned, axis=0) / learner.config.batch_size
        taken = jnp.sum(new.taken - old.taken, axis=0) / learner.config.batch_size
        return after, (earned, taken)

    states, (earned, taken) = jax.lax.scan(step, states, length=learner.config.num_updates)
    return Episode(earned, taken, all_finite(learner.policy(states[0])))


def naive(config: ppo.Config) -> Player:
    """Return a player with the policy of a learner as its parameters."""
    network = ppo.PPO(config, CoinGame(player(0.0, greedy)))

    def act(policy: ppo.Policy, key: jax.Array, view: View, memory: Memory) -> tuple:
        distribution, _ = network.action_distribution(policy, view.obs)
        return distribution.sample(key), memory

    return Player(begin, act)
