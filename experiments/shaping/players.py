"""Players of games between learners: naive learners, LOLA, fixed strategies, meta-policies.

In every joint move, a player chooses a new policy from the policies of both players
(`experiments.shaping.games`). Like an optimizer of Optax, it is a pair of functions, `init` and
`step`, and may have a state, such as a momentum. Its parameters are a learning rate, the logits of
a fixed policy, or the weights of a meta-policy, so hand-written players, opponents and what is
evolved are one kind of thing.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import metaevo
from experiments.shaping.games import LOGITS, Game, values

CERTAIN = 1e-4
"""Smallest probability of an action in a fixed strategy, so that logits are finite."""
FEW_ROWS = 32
"""Rows of a matrix up to which its product with a vector is written out."""


class Player(NamedTuple):
    """A player without its parameters; any object with these two functions works."""

    init: Callable[[jax.Array], Any]
    """`first policy [5] -> state`; the state is any pytree of arrays"""
    step: Callable[[Game, Any, jax.Array, jax.Array, Any], tuple[jax.Array, Any]]
    """`(game, parameters, own policy, other policy, state) -> (next policy, next state)`; the game
    is from the player's point of view, policies are logits [5], each from its owner's"""


class Opponent(NamedTuple):
    """A player with its parameters, by name."""

    name: str
    player: Player
    params: Any
    """the learning rate of a learner, the logits [5] of a fixed policy"""

    @property
    def learns(self) -> bool:
        """Whether its parameter is a learning rate."""
        return np.ndim(self.params) == 0


class Episode(NamedTuple):
    """A meta-episode."""

    own: jax.Array
    """[steps] our payoff per step of the game"""
    other: jax.Array
    """[steps] the opponent's payoff"""
    policies: jax.Array
    """[steps, 2, 5] logits of both players, each from its own point of view"""


def play(
    game: Game, ours: tuple[Player, Any], theirs: tuple[Player, Any], key: jax.Array
) -> Episode:
    """Play a meta-episode of players with parameters from random policies, logits from N(0, 1).

    In a joint move, both players choose their next policies from the same pair of policies, and
    then earn the value of the game between the new ones (M-FOS, Lu et al. 2022).
    """
    (our, our_params), (their, their_params) = ours, theirs

    def step(carry, _):
        own, other, our_state, their_state = carry
        new_own, our_state = our.step(game, our_params, own, other, our_state)
        new_other, their_state = their.step(game.swapped, their_params, other, own, their_state)
        payoffs = values(game, new_own, new_other)
        carry = new_own, new_other, our_state, their_state
        return carry, (*payoffs, jnp.stack([new_own, new_other]))

    own, other = jax.random.normal(key, (2, LOGITS))
    first = own, other, our.init(own), their.init(other)
    return Episode(*jax.lax.scan(step, first, length=game.steps)[1])


def gradient(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the gradient [5] of a player's discounted sum of payoffs in its own policy."""
    return jax.grad(_total, argnums=1)(game, own, other)


def stateless(choose: Callable[[Game, Any, jax.Array, jax.Array], jax.Array]) -> Player:
    """Return a player without a state, from `(game, parameters, own, other) -> next policy`."""
    return Player(lambda policy: (), lambda *args: (choose(*args[:-1]), args[-1]))


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
        step = gradient(game.swapped, other, own)
        return _total(game, own, other + rate * step)

    return own + rate * jax.grad(ahead)(own)


def _respond(
    game: Game, rate: jax.Array, own: jax.Array, other: jax.Array, first: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Take ten gradient steps from the first policy against the other's current one (MAML)."""

    def step(_, policy):
        return policy + rate * gradient(game, policy, other)

    return jax.lax.fori_loop(0, 10, step, first), first


best_response = Player(lambda policy: policy, _respond)
LEARNERS = {"naive": naive, "lola": lola, "best_response": best_response}
"""Players that learn by gradient ascent. Their parameter is the learning rate."""


@stateless
def fixed(game: Game, policy: jax.Array, own: jax.Array, other: jax.Array) -> jax.Array:
    """Play the policy with these logits [5], always."""
    return policy


@stateless
def shaper(game: Game, weights: Any, own: jax.Array, other: jax.Array) -> jax.Array:
    """Choose the policy that a meta-policy, a network with these weights, returns for both."""
    seen = jax.nn.sigmoid(jnp.concatenate([own, other]))
    hidden, out = weights["hidden"], weights["out"]
    features = jnp.tanh(_product(seen, hidden["kernel"]) + hidden["bias"])
    return _product(features, out["kernel"]) + out["bias"]


FIXED: dict[str, tuple[float, ...]] = {
    "always_defect": (0, 0, 0, 0, 0),
    "tit_for_tat": (1, 1, 0, 1, 0),
    "generous_tit_for_tat": (1, 1, 1 / 3, 1, 1 / 3),
    "win_stay_lose_shift": (1, 1, 0, 0, 1),
}
"""Probabilities of cooperating at the start, after CC, CD, DC, DD."""
ZERO_DETERMINANT = "zero_determinant"
EXTORTION = (3.0, 2.0, 1.5, 1.2, 1.1, 1.01)
"""Factors of extortion; an opponent has the first one that the game allows."""


def logits(probabilities: Sequence[float] | np.ndarray) -> np.ndarray:
    """Convert probabilities [5] to the logits of a policy."""
    known = np.clip(np.asarray(probabilities, float), CERTAIN, 1 - CERTAIN)
    return np.log(known / (1 - known)).astype(np.float32)


def zero_determinant(
    game: Game, factors: Sequence[float] = EXTORTION, levels: Sequence[float] = (0.0,)
) -> list[np.ndarray]:
    """Return the logits [5] that enforce own - l = factor x (other - l'), where they exist.

    Press & Dyson 2012, for discounted games Hilbe, Traulsen & Sigmund 2015 ("Partners or rivals?").
    The baselines l and l' are the payoffs of mutual defection (level 0: extortion), of mutual
    cooperation (level 1: generosity), or an interpolation. The game is from the player's point of
    view, and factors are at least 1.
    """
    own, other, discount = np.asarray(game.own), np.asarray(game.other), game.discount
    repeat, found = np.array([1.0, 1, 0, 0]), []
    for factor, start in itertools.product(factors, levels):
        low, high = (payoffs[3] * (1 - start) + payoffs[0] * start for payoffs in (own, other))
        slopes = (own - low) - factor * (other - high)
        # discount x p + (1 - discount) x start = repeat + scale x slopes, with p in [0, 1]
        places = repeat - (1 - discount) * start
        known = places[slopes == 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.sort(np.stack([-places, discount - places]) / slopes, axis=0)
        ends = ends[:, slopes != 0]
        least, most = max([0.0, *ends[0]]), min([math.inf, *ends[1]])
        is_known = np.all((known >= -1e-9) & (known <= discount + 1e-9))
        if discount and is_known and least <= most * (1 + 1e-9) and 0 < most < math.inf:
            rest = (places + most * slopes) / discount
            found.append(logits(np.clip([start, *rest], 0.0, 1.0)))
    return found


def find(name: str, game: Game, rate: float) -> Opponent:
    """Return an opponent by one of the names of `OpponentConfig`; the user's file is executed.

    The game is from our point of view; the rate is of a player that learns.

    Raises:
        metaevo.ConfigError: if it is unknown, or cannot play this game.
    """
    if name in LEARNERS:
        return Opponent(name, LEARNERS[name], rate)
    if name in FIXED:
        return Opponent(name, fixed, logits(FIXED[name]))
    if name == ZERO_DETERMINANT:
        if not (policies := zero_determinant(game.swapped)):
            raise metaevo.ConfigError(f"opponent.names: {name}: no strategy extorts in this game")
        return Opponent(name, fixed, policies[0])
    if ":" in name:
        return Opponent(name.rpartition(":")[2], _own(name), rate)
    if not Path(name).is_dir():
        known = ", ".join([*LEARNERS, *FIXED, ZERO_DETERMINANT])
        raise metaevo.ConfigError(
            f"opponent.names: {name!r}: must be one of {known}, FILE.py:NAME or a run's directory"
        )
    found = metaevo.load(name)
    if not (isinstance(found, dict) and found.keys() == {"hidden", "out"}):
        raise metaevo.ConfigError(f"opponent.names: {name!r}: holds no meta-policy")
    evolved = stateless(lambda game, _, own, other: shaper.step(game, found, own, other, ())[0])
    return Opponent(name, evolved, np.zeros(LOGITS))


def _own(name: str) -> Player:
    try:
        found = metaevo.load_code("opponent.names", name)
        if isinstance(found, type) or not hasattr(found, "step"):
            found = found()
        player = Player(found.init, found.step)
        # its state and its policy must keep their structure, shape and dtype
        two = (player, 1.0), (naive, 1.0)
        jax.eval_shape(lambda key: play(Game(), *two, key), jax.random.key(0))
    except Exception as error:
        raise metaevo.ConfigError(
            f"opponent.names: {name!r}: must be a player with `init(policy)` and `step(game, rate, "
            f"own, other, state)`: {type(error).__name__}: {error}"
        ) from error
    return player


def _product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return x @ kernel; as a sum of a few rows, which halves the time of a meta-episode."""
    if len(x) > FEW_ROWS:
        return x @ kernel
    return sum((a * row for a, row in zip(x, kernel, strict=True)), jnp.zeros(kernel.shape[1]))


def _total(game: Game, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the discounted sum of the first player's payoffs."""
    return values(game, own, other)[0] / (1 - game.discount)
