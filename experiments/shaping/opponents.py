"""Players of games between learners: naive learners, LOLA, best responses, fixed strategies.

In every joint move, a player chooses a new policy from the policies of both players
(`experiments.shaping.games`). Like an optimizer of optax, it is a pair of functions, `init` and
`step`, and may have a state, such as a momentum.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.shaping.games import LOGITS, Game, values

RESPONSE_STEPS = 10
"""Gradient steps of a best response."""
Rate = jax.Array | float
"""[] a learning rate."""
CERTAIN = 1e-4
"""Smallest probability of an action in a fixed strategy, so that logits are finite."""


class Player(NamedTuple):
    """A player; any object with these two functions works.

    Example:
        >>> def init(policy):
        ...     return jnp.zeros_like(policy)
        >>> def step(game, rate, own, other, velocity):
        ...     velocity = 0.9 * velocity + gradient(game, own, other)
        ...     return own + rate * velocity, velocity
        >>> momentum = Player(init, step)
    """

    init: Callable[[jax.Array], Any]
    """`first policy [5] -> state`; the state is any pytree of arrays"""
    step: Callable[[Game, Rate, jax.Array, jax.Array, Any], tuple[jax.Array, Any]]
    """`(game, learning rate, own policy, other policy, state) -> (next policy, next state)`; the
    game is from the player's point of view, policies are logits [5], each from its owner's"""


class Episode(NamedTuple):
    """A meta-episode."""

    own: jax.Array
    """[steps] our payoff per step of the game"""
    other: jax.Array
    """[steps] the opponent's payoff"""
    policies: jax.Array
    """[steps, 2, 5] logits of both players, each from its own point of view"""


def play(
    game: Game,
    ours: Player,
    theirs: Player,
    start: jax.Array,
    *,
    rates: tuple[Rate, Rate] = (1.0, 1.0),
    steps: int = 100,
) -> Episode:
    """Play a meta-episode.

    In a joint move, both players choose their next policies from the same pair of policies, and
    then earn the value of the game between the new ones (M-FOS, Lu et al. 2022).

    Args:
        game: from our point of view.
        ours: our player.
        theirs: the opponent.
        start: [2, 5] logits of the first policies, ours first.
        rates: learning rates, ours first.
        steps: number of joint moves.
    """

    def step(carry, _):
        own, other, our_state, their_state = carry
        new_own, our_state = ours.step(game, rates[0], own, other, our_state)
        new_other, their_state = theirs.step(game.swapped, rates[1], other, own, their_state)
        payoffs = values(game, new_own, new_other)
        carry = new_own, new_other, our_state, their_state
        return carry, (*payoffs, jnp.stack([new_own, new_other]))

    first = (start[0], start[1], ours.init(start[0]), theirs.init(start[1]))
    _, found = jax.lax.scan(step, first, length=steps)
    return Episode(*found)


def draw_start(key: jax.Array) -> jax.Array:
    """Draw the first policies of both players: logits [2, 5] from N(0, 1)."""
    return jax.random.normal(key, (2, LOGITS))


def gradient(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the gradient [5] of a player's discounted sum of payoffs in its own policy."""
    return jax.grad(_total, argnums=1)(game, own, other)


def stateless(choose: Callable[[Game, Rate, jax.Array, jax.Array], jax.Array]) -> Player:
    """Return a player without a state, from `(game, rate, own, other) -> next policy`."""

    def step(
        game: Game, rate: Rate, own: jax.Array, other: jax.Array, state: Any
    ) -> tuple[jax.Array, Any]:
        return choose(game, rate, own, other), state

    return Player(lambda policy: (), step)


@stateless
def naive(game: Game, rate: Rate, own: jax.Array, other: jax.Array) -> jax.Array:
    """Follow the gradient of the player's discounted payoffs; the other policy counts as fixed."""
    return own + rate * gradient(game, own, other)


@stateless
def lola(game: Game, rate: Rate, own: jax.Array, other: jax.Array) -> jax.Array:
    """Follow the gradient of the player's value after the other player's next naive step.

    This is the exact form, which differentiates through the step (Foerster et al. 2018, "Learning
    with Opponent-Learning Awareness"). Both players have the same learning rate.
    """

    def ahead(own):
        step = gradient(game.swapped, other, own)
        return _total(game, own, other + rate * step)

    return own + rate * jax.grad(ahead)(own)


def _respond(
    game: Game, rate: Rate, own: jax.Array, other: jax.Array, first: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Take gradient steps from the first policy against the other's current policy, as in MAML."""

    def step(_, policy):
        return policy + rate * gradient(game, policy, other)

    return jax.lax.fori_loop(0, RESPONSE_STEPS, step, first), first


best_response = Player(lambda policy: policy, _respond)


def constant(policy: Any) -> Player:
    """Return a player that always plays the policy with these logits [5]."""
    return stateless(lambda game, rate, own, other: jnp.asarray(policy))


def fixed(probabilities: Sequence[float] | np.ndarray) -> Player:
    """Return a player that always has these probabilities [5] of cooperating, see `FIXED`."""
    return constant(logits(probabilities))


def one_of(players: Sequence[Player], index: jax.Array | int) -> Player:
    """Select a player by a traced index; all players' states are carried.

    If the index is not batched, only the selected player's step is executed.
    """

    def init(policy: jax.Array) -> list[Any]:
        return [each.init(policy) for each in players]

    def step(
        game: Game, rate: Rate, own: jax.Array, other: jax.Array, states: list[Any]
    ) -> tuple[jax.Array, list[Any]]:
        def branch(place):
            def chosen(rate, own, other, states):
                policy, state = players[place].step(game, rate, own, other, states[place])
                return policy, [*states[:place], state, *states[place + 1 :]]

            return chosen

        branches = [branch(place) for place in range(len(players))]
        return jax.lax.switch(index, branches, rate, own, other, states)

    return Player(init, step)


LEARNING: dict[str, Player] = {"naive": naive, "lola": lola, "best_response": best_response}
"""Players that learn by gradient ascent."""
FIXED: dict[str, tuple[float, ...]] = {
    "always_defect": (0, 0, 0, 0, 0),
    "tit_for_tat": (1, 1, 0, 1, 0),
    "generous_tit_for_tat": (1, 1, 1 / 3, 1, 1 / 3),
    "win_stay_lose_shift": (1, 1, 0, 0, 1),
}
"""Strategies that never learn: probabilities of cooperating at the start, after CC, CD, DC, DD."""
FACTORS = (3.0, 2.0, 1.5, 1.2, 1.1, 1.01)
"""Factors of extortion; `extortionate` uses the first factor that a game allows."""


def logits(probabilities: Sequence[float] | np.ndarray) -> np.ndarray:
    """Convert probabilities [5] to the logits of a policy."""
    known = np.clip(np.asarray(probabilities, float), CERTAIN, 1 - CERTAIN)
    return np.log(known / (1 - known)).astype(np.float32)


def zero_determinant(game: Game, factor: float, level: float = 0.0) -> np.ndarray | None:
    """Return the probabilities [5] that enforce own - l = factor x (other - l'), or None.

    Press & Dyson 2012, for discounted games Hilbe, Traulsen & Sigmund 2015 ("Partners or rivals?").
    The baselines l and l' are the payoffs of mutual defection (level 0: extortion), of mutual
    cooperation (level 1: generosity), or an interpolation. Among the strategies that enforce this
    line, the most reactive is returned.

    Args:
        game: game from the player's point of view.
        factor: factor of extortion, at least 1.
        level: in [0, 1], also the probability of cooperating at the start.
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
    """Return the extortionate strategy with the largest of `FACTORS` that exists, or None."""
    found = (zero_determinant(game, factor) for factor in FACTORS)
    return next((each for each in found if each is not None), None)


def _total(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the discounted sum of the first player's payoffs."""
    return values(game, own, other)[0] / (1 - game.discount)
