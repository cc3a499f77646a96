"""Values that opponents reach against a policy, and their distance from extortion.

Against a zero-determinant strategy (Press & Dyson 2012) the values of both players are on a line,
whatever the opponent does; extortion is such a line through mutual defection.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components import players
from metaevo.components.players import Weights
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports.game_plots import Line, Reach
from purerl import opponents
from purerl.games import LOGITS, Game, values

SHOWN = (1, 3, 10, 100)
"""Joint moves to examine."""
EPISODES, RIVALS = 64, 256


class Illustration(NamedTuple):
    """Meta-episodes on separate keys, and the values that opponents could have reached."""

    probabilities: np.ndarray
    """[steps, 2, 5] probabilities of cooperating, means over meta-episodes"""
    payoffs: np.ndarray
    """[steps, 2]"""
    reaches: list[Reach]
    """values reached in the first meta-episode"""
    lines: dict[int, Line]
    """by joint moves, medians over meta-episodes"""


def illustrator(
    game: Game, theirs: opponents.Player | None, rate: float, *, steps: int, seed: int
) -> Callable[[Weights], Illustration]:
    """Return a compiled function that plays meta-episodes of a meta-policy, and fits lines.

    Args:
        game: the game as we see it.
        theirs: an opponent; None for the meta-policy itself.
        rate: the opponent's learning rate.
        steps: steps of a meta-episode.
        seed: seed of the run.
    """
    keys = keys_for(seed, Purpose.ILLUSTRATION, EPISODES)
    rivals = opponents.logits(np.random.default_rng(0).beta(0.5, 0.5, (RIVALS, LOGITS)))
    shown = [step for step in SHOWN if step <= steps]

    def against(policy, rival):
        return jnp.stack(values(game, policy, rival)[::-1])

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    def play(weights, key):
        start, ours = opponents.draw_start(jax.random.split(key)[0]), players.shaper(weights)
        found = opponents.play(game, ours, theirs or ours, start, rates=(rate, rate), steps=steps)
        policies = found.policies[np.array(shown) - 1, 0]
        reached = jax.vmap(jax.vmap(against, (None, 0)), (0, None))(policies, rivals)
        return found, reached

    def illustrate(weights: Weights) -> Illustration:
        found, pairs = play(jax.tree.map(jnp.asarray, weights), keys)
        payoffs = np.stack([found.own, found.other], axis=-1)
        chances = np.asarray(jnp.mean(jax.nn.sigmoid(found.policies), axis=0))
        pairs = np.asarray(pairs, np.float64)  # [episodes, shown, rivals, 2], the opponent's first
        reaches, lines = [], {}
        for place, step in enumerate(shown):
            fits = [fit(each, defection(game)) for each in pairs[:, place]]
            lines[step] = Line(*(float(each) for each in np.median(fits, axis=0)))
            reaches.append(Reach(step, pairs[0, place], fits[0], payoffs[0, step - 1, ::-1]))
        return Illustration(chances, payoffs.mean(axis=0), reaches, lines)

    return illustrate


def fit(pairs: np.ndarray, point: tuple[float, float]) -> Line:
    """Return the line nearest to pairs [pairs, 2] of values, by total least squares.

    The opponent's values come first, also in `point`, where the offset of the line is measured.
    """
    pairs = pairs.T - np.array(point)[:, np.newaxis]
    spread, directions = np.linalg.eigh(np.cov(pairs))
    across, along = directions[:, 1]
    factor = float(along / across) if across else np.inf
    middle = pairs.mean(axis=1)
    total = spread.sum()
    explained = float(spread[1] / total) if total > 0 else 1.0
    return Line(factor, float(middle[1] - factor * middle[0]), explained)


def defection(game: Game) -> tuple[float, float]:
    """Return the payoffs of mutual defection, the opponent's first."""
    return game.other[3], game.own[3]
