"""Who moves in a game between learners: naive learners, LOLA, best responses, fixed strategies.

All have one signature. A move is a new policy, chosen from the policies that both players had:

    move(game, rate, own, other, first) -> the player's next policy

`game` is as the mover sees it, `own` and `other` are logits [5] (`purerl.games`), each as its
player sees the game, and `first` is the policy with which the mover began.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.games import Game, values

Move = Callable[[Game, Any, jax.Array, jax.Array, jax.Array], jax.Array]

RESPONSE_STEPS = 10
"""Gradient steps of a best response."""
CERTAIN = 1e-4
"""The least probability of an action that a strategy never takes, so that logits are finite."""


def naive(game: Game, rate: Any, own: jax.Array, other: jax.Array, first: jax.Array) -> jax.Array:
    """Climb the gradient of the own discounted sum of payoffs, as if the other never moved."""
    del first
    return own + rate * _gradient(game, own, other)


def lola(game: Game, rate: Any, own: jax.Array, other: jax.Array, first: jax.Array) -> jax.Array:
    """Climb the gradient of what the own value is after the other's next naive step.

    The exact form: the step is differentiated through rather than expanded to first order
    (Foerster et al. 2018, "Learning with Opponent-Learning Awareness"). The other is taken to have
    the same rate.
    """
    del first

    def ahead(own):
        step = _gradient(game.swapped, other, own)
        return _total(game, own, other + rate * step)

    return own + rate * jax.grad(ahead)(own)


def best_response(
    game: Game, rate: Any, own: jax.Array, other: jax.Array, first: jax.Array
) -> jax.Array:
    """Adapt the policy of the start anew to the other's, by some gradient steps, as MAML does."""
    del own

    def step(_, policy):
        return policy + rate * _gradient(game, policy, other)

    return jax.lax.fori_loop(0, RESPONSE_STEPS, step, first)


def fixed(probabilities: Sequence[float] | np.ndarray) -> Move:
    """Return the move of a player that never learns.

    Args:
        probabilities: [5] of cooperating at the start and after CC, CD, DC and DD.
    """
    policy = logits(probabilities)

    def move(
        game: Game, rate: Any, own: jax.Array, other: jax.Array, first: jax.Array
    ) -> jax.Array:
        del game, rate, own, other, first
        return jnp.asarray(policy)

    return move


LEARNING: dict[str, Move] = {"naive": naive, "lola": lola, "best_response": best_response}
"""Those that climb a gradient, by their names."""
FIXED: dict[str, tuple[float, ...]] = {
    "always_defect": (0, 0, 0, 0, 0),
    "tit_for_tat": (1, 1, 0, 1, 0),
    "generous_tit_for_tat": (1, 1, 1 / 3, 1, 1 / 3),
    "win_stay_lose_shift": (1, 1, 0, 0, 1),
}
"""Strategies that never learn: probabilities of cooperating at the start, after CC, CD, DC, DD."""
FACTORS = (3.0, 2.0, 1.5, 1.2, 1.1, 1.01)
"""Of extortion, the first one that a game allows."""


def logits(probabilities: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return probabilities [5] as a policy."""
    known = np.clip(np.asarray(probabilities, float), CERTAIN, 1 - CERTAIN)
    return np.log(known / (1 - known)).astype(np.float32)


def zero_determinant(game: Game, factor: float, level: float = 0.0) -> np.ndarray | None:
    """Return the strategy that fixes own - l = factor x (other - l'), whatever the other does.

    Press & Dyson 2012, for discounted games Hilbe, Traulsen & Sigmund 2015 ("Partners or rivals?").
    The baselines l and l' are what both get where nobody cooperates (level 0: extortion), where all
    do (level 1: generosity), or between. Of the strategies of that line it is the one that reacts
    most.

    Args:
        game: as the player sees it.
        factor: of extortion, at least 1.
        level: in [0, 1], also the probability of cooperating at the start.

    Returns:
        [5] probabilities, or None if the game has no such strategy.
    """
    own, other = np.asarray(game.own), np.asarray(game.other)
    low, high = (payoffs[3] * (1 - level) + payoffs[0] * level for payoffs in (own, other))
    slopes = (own - low) - factor * (other - high)
    repeat, start, discount = np.array([1.0, 1, 0, 0]), level, game.discount
    # discount x p + (1 - discount) x start = repeat + scale x slopes, with p in [0, 1]
    least, most = 0.0, math.inf
    for place, slope in zip(repeat - (1 - discount) * start, slopes, strict=True):
        ends = sorted(((bound - place) / slope for bound in (0.0, discount)) if slope else ())
        if not ends and not -1e-9 <= place <= discount + 1e-9:
            return None
        if ends:
            least, most = max(least, ends[0]), min(most, ends[1])
    if discount == 0 or not least <= most * (1 + 1e-9) or not 0 < most < math.inf:
        return None
    rest = (repeat + most * slopes - (1 - discount) * start) / discount
    return np.clip(np.concatenate([[start], rest]), 0.0, 1.0)


def extortionate(game: Game) -> np.ndarray | None:
    """Return the strategy that extorts most of `FACTORS`; None if the game allows none."""
    found = (zero_determinant(game, factor) for factor in FACTORS)
    return next((each for each in found if each is not None), None)


def _total(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    """The discounted sum of the own payoffs."""
    return values(game, own, other)[0] / (1 - game.discount)


def _gradient(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    return jax.grad(_total, argnums=1)(game, own, other)
