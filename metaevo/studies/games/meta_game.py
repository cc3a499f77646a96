"""The game between learners: a meta-episode, and who may take part in it.

M-FOS (Lu et al. 2022) as far as matrix games go. A meta-step is a joint move: both players choose
their next policy from the same pair of policies, and then earn the value of the game between the
two new ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metaevo.components import shapers
from metaevo.components.shapers import SELF, ZERO_DETERMINANT
from metaevo.config import ConfigError, show
from purerl import opponents
from purerl.games import LOGITS, Game, values
from purerl.opponents import Move


class Episode(NamedTuple):
    """What happened in a meta-episode."""

    own: jax.Array
    """[steps] what we earned in each meta-step"""
    other: jax.Array
    """[steps] what the opponent earned"""
    policies: jax.Array
    """[steps, 2, 5] logits of both, each as its player sees the game"""


def play(
    game: Game,
    ours: Callable[..., jax.Array],
    theirs: Callable[..., jax.Array],
    rates: tuple[Any, Any],
    start: jax.Array,
    steps: int,
) -> Episode:
    """Play a meta-episode.

    Args:
        game: as we see it.
        ours: our move.
        theirs: the opponent's.
        rates: learning rates of both.
        start: [2, 5] the logits with which both begin.
        steps: joint moves.
    """
    first_own, first_other = start

    def step(state, _):
        own, other = state
        state = (
            ours(game, rates[0], own, other, first_own),
            theirs(game.swapped, rates[1], other, own, first_other),
        )
        return state, (*values(game, *state), jnp.stack(state))

    _, found = jax.lax.scan(step, (first_own, first_other), length=steps)
    return Episode(*found)


def start_of(key: jax.Array) -> jax.Array:
    """Draw the policies with which both begin: [2, 5] from N(0, 1)."""
    return jax.random.normal(key, (2, LOGITS))


@dataclass(frozen=True)
class Opponent:
    """An opponent by its name."""

    name: str
    move: Move | None
    """None for the one that is evolved, which changes all the time"""

    @property
    def learns(self) -> bool:
        """Whether what we do changes what it does."""
        return self.name not in (*opponents.FIXED, ZERO_DETERMINANT)


def find(names: Sequence[str], key: str, game: Game, run_path: Path | None) -> list[Opponent]:
    """Return opponents by their names.

    Args:
        names: of `shapers.NAMES`, of entries of the zoo, or directories of runs.
        key: of the setting, for messages.
        game: as we see it.
        run_path: an existing run, whose copies of other runs' meta-policies are used.

    Raises:
        ConfigError: for an unknown one, or one that the game does not have.
    """
    if double := [name for name in names if list(names).count(name) > 1]:
        raise ConfigError(f"{key}: {show(double[0])} is named twice")
    return [Opponent(name, _move(name, key, game, run_path)) for name in names]


def _move(name: str, key: str, game: Game, run_path: Path | None) -> Move | None:
    if name == SELF:
        return None
    if name in opponents.LEARNING:
        if len(set(game.other)) == 1:
            raise ConfigError(
                f"{key}: {name} has no gradient to follow: game.opponent_payoffs are all the same"
            )
        return opponents.LEARNING[name]
    if name in opponents.FIXED:
        return opponents.fixed(opponents.FIXED[name])
    if name == ZERO_DETERMINANT:
        found = opponents.extortionate(game.swapped)
        if found is None:
            raise ConfigError(f"{key}: {name}: nobody can extort in this game")
        return opponents.fixed(found)
    try:
        return shapers.shaper(shapers.load(name, run_path))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None
