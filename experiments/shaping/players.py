"""Players of games between learners: naive learners, LOLA, fixed strategies, meta-policies.

In every joint move, a player chooses a new policy from the policies of both players
(`experiments.shaping.games`). Like an optimizer of Optax, it may have a state, such as a momentum.
Its parameters are a learning rate, the logits of a fixed policy, or the weights of a meta-policy,
so hand-written players, opponents and what is evolved are one kind of thing.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import metaevo
from experiments.shaping.games import LOGITS, Game, values


class Player(NamedTuple):
    """A player with its parameters."""

    step: Callable[[Game, Any, jax.Array, jax.Array, Any], tuple[jax.Array, Any]]
    """`(game, parameters, own policy, other policy, state) -> (next policy, next state)`; the game
    is from the player's point of view, policies are logits [5], each from its owner's"""
    params: Any
    """the learning rate of a learner, a float; logits [5]; or weights"""
    init: Callable[[jax.Array], Any] = lambda policy: ()
    """`first policy [5] -> state`; the state is any pytree of arrays"""


Players = Callable[[Any], Player]
"""Players of a kind, by their parameters."""


def play(game: Game, ours: Player, theirs: Player, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the payoffs [steps, 2] and the policies [steps, 2, 5] of both in a meta-episode.

    It begins with random logits from N(0, 1). Policies are from their own player's point of view.
    In a joint move, both players choose their next policies from the same pair of policies, and
    then earn the value of the game between the new ones (M-FOS, Lu et al. 2022).
    """

    def step(carry, _):
        own, other, our_state, their_state = carry
        new_own, our_state = ours.step(game, ours.params, own, other, our_state)
        new_other, their_state = theirs.step(game.swapped, theirs.params, other, own, their_state)
        payoffs = jnp.stack(values(game, new_own, new_other))
        carry = new_own, new_other, our_state, their_state
        return carry, (payoffs, jnp.stack([new_own, new_other]))

    own, other = jax.random.normal(key, (2, LOGITS))
    first = own, other, ours.init(own), theirs.init(other)
    _, (payoffs, policies) = jax.lax.scan(step, first, length=game.steps)
    return payoffs, policies


def gradient(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the gradient [5] of a player's discounted sum of payoffs in its own policy."""
    return jax.grad(_total, argnums=1)(game, own, other)


def stateless(choose: Callable[[Game, Any, jax.Array, jax.Array], jax.Array]) -> Players:
    """Return players without a state, by their parameters; `choose` returns the next policy."""
    return partial(Player, lambda *seen: (choose(*seen[:-1]), seen[-1]))


@stateless
def naive(game: Game, rate: jax.Array, own: jax.Array, other: jax.Array) -> jax.Array:
    """Follow the gradient of the player's discounted payoffs; the other policy counts as fixed."""
    return own + rate * gradient(game, own, other)


@stateless
def lola(game: Game, rate: jax.Array, own: jax.Array, other: jax.Array) -> jax.Array:
    """Follow the gradient of the player's value after the other player's next naive step.

    This is the exact form, which differentiates through the step (Foerster et al. 2018, "Learning
    with Opponent-Learning Awareness"). Both players have the same learning rate.
    """

    def ahead(own):
        return _total(game, own, other + rate * gradient(game.swapped, other, own))

    return own + rate * jax.grad(ahead)(own)


def _respond(
    game: Game, rate: jax.Array, own: jax.Array, other: jax.Array, first: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Take ten gradient steps from the first policy against the other's current one (MAML)."""
    return jax.lax.fori_loop(0, 10, lambda _, x: x + rate * gradient(game, x, other), first), first


best_response = partial(Player, _respond, init=lambda first: first)
LEARNERS: dict[str, Players] = {"naive": naive, "lola": lola, "best_response": best_response}
"""Players that learn by gradient ascent, by their learning rates."""


@stateless
def fixed(game: Game, policy: jax.Array, own: jax.Array, other: jax.Array) -> jax.Array:
    """Play the policy with these logits [5], always."""
    return policy


@stateless
def shaper(game: Game, weights: Any, own: jax.Array, other: jax.Array) -> jax.Array:
    """Choose the policy that a meta-policy, a network with these weights, returns for both."""
    hidden, out = weights["hidden"], weights["out"]
    x = jax.nn.sigmoid(jnp.concatenate([own, other]))
    # sums over rows take half the time of small products of matrices
    x = jnp.tanh(jnp.sum(x[:, None] * hidden["kernel"], axis=0) + hidden["bias"])
    return jnp.sum(x[:, None] * out["kernel"], axis=0) + out["bias"]


def of_chances(*chances: float) -> Player:
    """Return the player with these probabilities [5] of cooperating."""
    known = np.clip(chances, 1e-4, 1 - 1e-4)  # logits are finite
    return fixed(np.log(known / (1 - known)).astype(np.float32))


FIXED = {
    "always_defect": of_chances(0, 0, 0, 0, 0),
    "tit_for_tat": of_chances(1, 1, 0, 1, 0),
    "generous_tit_for_tat": of_chances(1, 1, 1 / 3, 1, 1 / 3),
    "win_stay_lose_shift": of_chances(1, 1, 0, 0, 1),
}
"""By probabilities of cooperating at the start, after CC, CD, DC, DD."""
ZERO_DETERMINANT = "zero_determinant"
EXTORTION = (3.0, 2.0, 1.5, 1.2, 1.1, 1.01)
"""Factors of extortion; an opponent has the first one that the game allows."""


def zero_determinant(
    game: Game, factors: Sequence[float] = EXTORTION, levels: Sequence[float] = (0.0,)
) -> list[Player]:
    """Return the players that enforce own - l = factor x (other - l'), where they exist.

    Press & Dyson 2012, for discounted games Hilbe, Traulsen & Sigmund 2015 ("Partners or rivals?").
    The baselines l and l' are the payoffs of mutual defection (level 0: extortion), of mutual
    cooperation (level 1: generosity), or an interpolation. The game is from the player's point of
    view, and factors are at least 1.
    """
    (own, other), discount = game.both, game.discount
    repeat, found = np.array([1.0, 1, 0, 0]), []
    for factor, start in itertools.product(factors, levels) if discount else ():
        low, high = (payoffs[3] * (1 - start) + payoffs[0] * start for payoffs in (own, other))
        slopes = (own - low) - factor * (other - high)
        # discount x p + (1 - discount) x start = repeat + scale x slopes, with p in [0, 1]
        places = repeat - (1 - discount) * start
        ends, moves = np.where(slopes > 0, discount, 0.0) - places, slopes != 0
        scale = min(ends[moves] / slopes[moves], default=0.0)
        rest = (places + scale * slopes) / discount
        if scale > 0 and np.all(np.abs(rest - 0.5) <= 0.5 + 1e-9):
            found.append(of_chances(start, *rest))
    return found


def find(name: str, game: Game, rate: float) -> Player:
    """Return an opponent by one of the names of `OpponentConfig`; the user's file is executed.

    The game is from our point of view; the rate is of a player that learns.

    Raises:
        metaevo.ConfigError: if it is unknown, or cannot play this game.
    """
    if name in LEARNERS:
        return LEARNERS[name](rate)
    if name in FIXED:
        return FIXED[name]
    if name == ZERO_DETERMINANT:
        if not (players := zero_determinant(game.swapped)):
            raise metaevo.ConfigError(f"opponent.names: {name}: no strategy extorts in this game")
        return players[0]
    if ":" in name:
        return _own(name, rate)
    if not Path(name).is_dir():
        known = ", ".join([*LEARNERS, *FIXED, ZERO_DETERMINANT])
        raise metaevo.ConfigError(
            f"opponent.names: {name!r}: must be one of {known}, FILE.py:NAME or a run's directory"
        )
    found = metaevo.load(name)
    if not (isinstance(found, dict) and found.keys() == {"hidden", "out"}):
        raise metaevo.ConfigError(f"opponent.names: {name!r}: holds no meta-policy")
    return shaper(found)


def _own(name: str, rate: float) -> Player:
    given = metaevo.load_code("opponent.names", name)
    try:
        given = given() if isinstance(given, type) else given
        player = Player(given.step, rate, given.init)
        # its state and its policy must keep their structure, shape and dtype
        jax.eval_shape(lambda key: play(Game(), player, naive(rate), key), jax.random.key(0))
    except Exception as error:
        raise metaevo.ConfigError(
            f"opponent.names: {name!r}: must be a player with `init(policy)` and `step(game, rate, "
            f"own, other, state)`: {type(error).__name__}: {error}"
        ) from error
    return player


def _total(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the discounted sum of the first player's payoffs."""
    return values(game, own, other)[0] / (1 - game.discount)
