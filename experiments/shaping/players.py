"""Players of matrix games by name: hand-written ones, a user's own, and meta-policies."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import metaevo
from experiments.shaping import opponents
from experiments.shaping.games import LOGITS, Game
from experiments.shaping.opponents import Player
from metaevo.config import code

Weights = dict[str, dict[str, Any]]
"""Meta-parameters of a meta-policy."""
ZERO_DETERMINANT = "zero_determinant"
FEW_ROWS = 32
"""Rows of a matrix up to which its product with a vector is written out."""


def next_policy(weights: Weights, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the next policy [5] of a meta-policy, from the logits [5] of both players."""
    seen = jax.nn.sigmoid(jnp.concatenate([own, other]))
    hidden, out = weights["hidden"], weights["out"]
    features = jnp.tanh(_product(seen, hidden["kernel"]) + hidden["bias"])
    return _product(features, out["kernel"]) + out["bias"]


def _product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return x @ kernel; as a sum of a few rows, which halves the time of a meta-episode."""
    if len(x) > FEW_ROWS:
        return x @ kernel
    return sum((a * row for a, row in zip(x, kernel, strict=True)), jnp.zeros(kernel.shape[1]))


def shaper(weights: Weights) -> Player:
    """Return the player with a meta-policy."""
    return opponents.stateless(lambda game, rate, own, other: next_policy(weights, own, other))


def find(name: str, game: Game) -> Player | np.ndarray:
    """Return a player by its name, or the logits [5] of one that never changes.

    Names are those of `OpponentConfig`; the user's file is executed.

    Raises:
        metaevo.ConfigError: if it is unknown, or cannot play this game.
    """
    if name in opponents.LEARNING:
        if len(set(game.other)) == 1:
            raise metaevo.ConfigError(
                f"opponent.names: {name} has no gradient to follow: game.opponent_payoffs are all "
                "the same"
            )
        return opponents.LEARNING[name]
    if name in opponents.FIXED:
        return opponents.logits(opponents.FIXED[name])
    if name == ZERO_DETERMINANT:
        extortion = opponents.extortionate(game.swapped)
        if extortion is None:
            raise metaevo.ConfigError(f"opponent: {name}: no strategy extorts in this game")
        return opponents.logits(extortion)
    if code.is_name(name):
        return _own(name)
    if not Path(name).is_dir():
        known = ", ".join([*opponents.LEARNING, *opponents.FIXED, ZERO_DETERMINANT])
        raise metaevo.ConfigError(
            f"opponent.names: {name!r}: must be one of {known}, FILE.py:NAME or a run's directory"
        )
    found = metaevo.load(name)
    if not (isinstance(found, dict) and found.keys() == {"hidden", "out"}):
        raise metaevo.ConfigError(f"opponent.names: {name!r}: holds no meta-policy")
    return shaper(found)


def _own(name: str) -> Player:
    try:
        found = code.load("opponent", name)
        if isinstance(found, type) or not hasattr(found, "step"):
            found = found()
        player = Player(found.init, found.step)
        # its state and its policy must keep their structure, shape and dtype
        game = Game.of([[-1, -3], [0, -2]], None, 0.9)
        start = jax.ShapeDtypeStruct((2, LOGITS), jnp.float32)
        jax.eval_shape(lambda start: opponents.play(game, player, player, start, steps=2), start)
    except Exception as error:
        raise metaevo.ConfigError(
            f"opponent.names: {name!r}: must be a player with `init(policy)` and `step(game, rate, "
            f"own, other, state)`: {type(error).__name__}: {error}"
        ) from error
    return player
