"""Repeated 2 x 2 games between memory-one policies, with exact values for both players.

A policy is five logits of cooperating (the first action): at the start, and after CC, CD, DC and
DD, where a player's own last action comes first. Two policies form a Markov chain with four
states, so discounted payoffs need no simulation.

M-FOS (Lu et al. 2022) and LOLA (Foerster et al. 2018) also use exact values. The linear system
with four unknowns is solved by explicit elimination, because LAPACK deadlocks inside a vmapped
program on a few cores.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import jax
import numpy as np
from annotated_types import Interval
from pydantic import FiniteFloat

LOGITS = 5
"""Number of logits of a policy: start, CC, CD, DC, DD."""
OTHERS_VIEW = (0, 1, 3, 2, 4)
"""Index of the same situation for the other player, which sees CD as DC and DC as CD."""

Payoffs = tuple[tuple[FiniteFloat, FiniteFloat], tuple[FiniteFloat, FiniteFloat]]


@dataclass(frozen=True)
class Game:
    """A repeated game from the point of view of one player, and the length of a meta-episode."""

    payoffs: Payoffs = ((-1.0, -3.0), (0.0, -2.0))
    """our payoffs: a row for each of our actions (cooperate, defect), a column for each of the
    opponent's"""
    opponent_payoffs: Payoffs | None = None
    """the opponent's payoffs, in the same places; null if both see the same game"""
    discount: Annotated[float, Interval(ge=0, le=0.9999)] = 0.96
    """discount factor of the repeated game, below 1"""
    steps: Annotated[int, Interval(gt=0, le=100_000)] = 100
    """joint moves of a meta-episode: how often both choose a new policy"""

    @property
    def both(self) -> np.ndarray:
        """[2, 4] our payoffs and the opponent's after CC, CD, DC and DD, our action first."""
        theirs = self.opponent_payoffs or np.transpose(self.payoffs)
        return np.array([self.payoffs, theirs], float).reshape(2, 4)

    @property
    def swapped(self) -> "Game":
        """The same game from the other player's point of view."""
        ours, theirs = (((a, b), (c, d)) for a, c, b, d in self.both.tolist())
        return replace(self, payoffs=theirs, opponent_payoffs=ours)


def visits(discount: float, own: jax.Array, other: jax.Array) -> list[jax.Array]:
    """Return the shares of discounted time spent in CC, CD, DC and DD: four scalars with sum 1.

    With transition matrix P and distribution p of the first state, the shares m solve
    (I - discount P)^T m = (1 - discount) p. The matrix is diagonally dominant by columns, so
    elimination needs no pivots. Derivatives solve the same system with other right-hand sides
    (`custom_linear_solve`), which is six times as fast as differentiating through the elimination,
    and thirty times as fast for LOLA's second derivatives. Policies are logits [5], each from its
    owner's point of view.
    """
    ours, theirs = jax.nn.sigmoid(own), jax.nn.sigmoid(other)
    pairs = ((ours[i], theirs[j]) for i, j in enumerate(OTHERS_VIEW))
    first, *after = ([x * y, x * (1 - y), (1 - x) * y, (1 - x) * (1 - y)] for x, y in pairs)
    matrix = [
        [float(row == column) - discount * after[column][row] for column in range(4)]
        for row in range(4)
    ]
    return jax.lax.custom_linear_solve(
        lambda x: [_dot(row, x) for row in matrix],
        [(1 - discount) * each for each in first],
        solve=lambda _, right: _solve(matrix, right),
        transpose_solve=lambda _, right: _solve(zip(*matrix, strict=True), right),
    )


def values(game: Game, own: jax.Array, other: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return both players' rewards per step: (1 - discount) times the discounted sum.

    The game is from the first player's point of view; policies are as for `visits`.
    """
    share, (ours, theirs) = visits(game.discount, own, other), game.both
    return _dot(share, ours), _dot(share, theirs)


def _solve(matrix: Iterable[Sequence[Any]], right: Sequence[Any]) -> list[Any]:
    """Gaussian elimination without pivots, element by element."""
    rows = [[*row, x] for row, x in zip(matrix, right, strict=True)]
    found: list[Any] = []
    for place, first in enumerate(rows):
        for row in rows[place + 1 :]:
            factor = row[place] / first[place]
            row[:] = [a - factor * b for a, b in zip(row, first, strict=True)]
    for place, row in reversed(list(enumerate(rows))):
        found = [(row[-1] - _dot(row[place + 1 : -1], found)) / row[place], *found]
    return found


def _dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return sum(a * b for a, b in zip(x, y, strict=True))
