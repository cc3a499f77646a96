"""Players of the Coin Game, and the meta-episode in which their opponent learns.

Our player (`purerl.envs.coin_game.Player`) has an evolved or a hand-written policy with a small
memory. The opponent is PPO. An episode of the game is a rollout of PPO, after which it learns; our
player's memory persists over all episodes.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config.plain import PlainDict
from metaevo.training.fitness import all_finite
from purerl import acting, ppo
from purerl.envs.coin_game import CELLS, SIDE, CoinGame, CoinParams, Player, View
from purerl.envs.grid import MOVES
from purerl.types import Hyperparams, PyTree

Weights = PlainDict

INPUTS = 10
_OWN_LEFT, _OTHER_ONTO, _OTHER_LEFT, _STOLEN = 1, 2, 3, 8
"""Indices of some `features`."""


def _torus(row: int, column: int) -> int:
    """Return the number of moves to a cell at this distance on the torus."""
    return sum(min(each % SIDE, -each % SIDE) for each in (row, column))


_PLACES = [divmod(cell, SIDE) for cell in range(CELLS)]
_LEFT = np.array([[_torus(row - down, column - right) for down, right in MOVES]
                  for row, column in _PLACES], np.float32)  # fmt: skip
"""[cell, move] distance of a cell after a move"""
_ONTO = (_LEFT == 0).astype(np.float32)
"""[cell, move] whether a move leads to a cell"""
_BETWEEN = np.array([[_torus(row - down, column - right) for down, right in _PLACES]
                     for row, column in _PLACES], np.float32)  # fmt: skip
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
    """Update the memory when a player acts.

    It is inferred from rewards: a negative reward is a coin that the other player stole.

    Args:
        memory: at its previous action.
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
        key: key for the units with weight 0 in the output.
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


def shaper(step: float) -> Player:
    """Return a player with the weights of a meta-policy as its parameters.

    Args:
        step: length of a step as a share of the meta-episode.
    """

    def act(
        weights: Weights, key: jax.Array, view: View, memory: Memory
    ) -> tuple[jax.Array, Memory]:
        memory = remember(memory, view, step)
        seen = features(view, memory)[:, :, None]  # sums: XLA fuses them, each with its own weights
        hidden = jnp.tanh(jnp.sum(seen * weights["kernel"], axis=1) + weights["bias"])
        return jax.random.categorical(key, jnp.sum(hidden * weights["out"], axis=-1)), memory

    return Player(begin, act)


def _greedy(key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Go for every coin."""
    del key, memory
    _, own, other = view.obs.reshape(3, CELLS)
    return jnp.argmin(jnp.sum((own + other)[:, None] * _LEFT, axis=0))


def _cooperative(key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Go for coins of the own colour, and never step on other coins."""
    _, own, other = view.obs.reshape(3, CELLS)
    logits = -1e9 * jnp.sum(other[:, None] * _ONTO, axis=0)
    aside = jax.random.categorical(key, logits)
    return jnp.where(own.sum() > 0, _greedy(key, view, memory), aside)


def _tit_for_tat(key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Go for every coin if the last coin that the other took was ours, else cooperate."""
    return jnp.where(
        memory.last[1] > 0, _greedy(key, view, memory), _cooperative(key, view, memory)
    )


def _grim(key: jax.Array, view: View, memory: Memory) -> jax.Array:
    """Cooperate until the other takes a coin of ours in this episode, then go for every coin."""
    return jnp.where(
        memory.thefts[1] > 0, _greedy(key, view, memory), _cooperative(key, view, memory)
    )


HAND_WRITTEN = {
    "greedy": _greedy, "cooperative": _cooperative, "tit_for_tat": _tit_for_tat, "grim": _grim
}  # fmt: skip
"""Players that never learn, by name."""


def hand_written(name: str, step: float) -> Player:
    """Return a player of `HAND_WRITTEN`; it has no parameters."""

    def act(params: PyTree, key: jax.Array, view: View, memory: Memory) -> tuple[jax.Array, Memory]:
        del params
        memory = remember(memory, view, step)
        return HAND_WRITTEN[name](key, view, memory), memory

    return Player(begin, act)


class Cast(NamedTuple):
    """Parameters of `any_player`."""

    who: Any
    """0 for a meta-policy, 1, 2, ... for the players of `HAND_WRITTEN`"""
    weights: Weights


def any_player(step: float) -> Player:
    """Return a player selected by its parameters, a `Cast`."""
    players = [shaper(step), *(hand_written(name, step) for name in HAND_WRITTEN)]

    def act(cast: Cast, key: jax.Array, view: View, memory: Memory) -> tuple[jax.Array, Memory]:
        branches = [partial(each.act, cast.weights) for each in players]
        found: tuple[jax.Array, Memory] = jax.lax.switch(cast.who, branches, key, view, memory)
        return found

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
    """Return the share of the own colour among the coins that a player takes.

    Args:
        taken: [..., 2, 2] as in `Episode`, or sums.

    Returns:
        [..., 2], ours first; NaN for a player that takes none.
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

    Args:
        learner: a learner that has the player as its opponent.
        hyperparams: hyperparameters of the learner.
        key: key of the meta-episode.
        env_params: parameters of the game, with those of the player.
        both_learn: whether the player is another such learner (`naive`). Each of them learns from
            separate episodes against the other's current policy.
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
        return after, _since(learner, states[0], after[0])

    states, (earned, taken) = jax.lax.scan(step, states, length=learner.config.num_updates)
    return Episode(earned, taken, all_finite(learner.policy(states[0])))


def naive(config: ppo.Config) -> Player:
    """Return a player with the policy of a learner as its parameters."""
    network = ppo.PPO(config, CoinGame(Player(begin, lambda *_: (jnp.int32(0), begin()))))

    def act(
        policy: ppo.Policy, key: jax.Array, view: View, memory: PyTree
    ) -> tuple[jax.Array, Any]:
        params = CoinParams(())
        action, _ = acting.act(
            network, policy, None, key, view.obs, greedy=False, env_params=params
        )
        return action, memory

    return Player(begin, act)


def _since(learner: ppo.PPO, before: ppo.State, after: ppo.State) -> tuple[jax.Array, jax.Array]:
    """Return rewards and coins of both players per step between two states."""
    old, new = before.envs.state, after.envs.state
    frames = learner.config.batch_size
    earned = jnp.sum(new.earned - old.earned, axis=0) / frames
    return earned, jnp.sum(new.taken - old.taken, axis=0) / frames
