"""Repeated 2 x 2 games between memory-one policies, and what both players earn, exactly.

A policy is five logits: of cooperating (of the first action) at the start, and after CC, CD, DC
and DD, where a player's own last action comes first. Two of them are a Markov chain with four
states, so that discounted payoffs need no simulation.

The values are exact for M-FOS (Lu et al. 2022) and LOLA (Foerster et al. 2018) alike. The four
unknowns are eliminated by hand: LAPACK deadlocks inside a vmapped program on a few cores.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

LOGITS = 5
"""of a policy: start, CC, CD, DC, DD"""
_OTHERS_VIEW = (0, 1, 3, 2, 4)
"""Where the other player finds the same situation: what is CD for one is DC for the other."""

Matrix = Sequence[Sequence[float]]
"""2 x 2: a row for each own action, a column for each of the other's."""


class Game(NamedTuple):
    """A repeated game, as one of its players sees it."""

    own: tuple[float, ...]
    """what the player gets after CC, CD, DC and DD, its own action first"""
    other: tuple[float, ...]
    """what the other player gets, in the same order"""
    discount: float
    """in [0, 1)"""

    @classmethod
    def of(cls, own: Matrix, other: Matrix | None, discount: float) -> "Game":
        """Return a game from its matrices.

        Args:
            own: payoffs of the player whose actions are the rows.
            other: of the other player, in the same places; None if both see the same game.
            discount: in [0, 1).
        """
        if other is None:
            other = [[own[column][row] for column in range(2)] for row in range(2)]
        return cls(tuple(map(float, (*own[0], *own[1]))), tuple(map(float, (*other[0], *other[1]))),
                   float(discount))  # fmt: skip

    @property
    def swapped(self) -> "Game":
        """The same game, as the other player sees it."""
        ours, theirs = self.own, self.other
        return Game(
            (theirs[0], theirs[2], theirs[1], theirs[3]),
            (ours[0], ours[2], ours[1], ours[3]),
            self.discount,
        )


def visits(discount: float, own: jax.Array, other: jax.Array) -> list[jax.Array]:
    """Return how much of the discounted time is spent in CC, CD, DC and DD; they sum to 1.

    With P the transition matrix and p the first state's distribution it is the solution m of
    (I - discount P)^T m = (1 - discount) p. Each diagonal element outweighs the others of its
    column, so that elimination needs no pivots. Derivatives are solutions of the same system with
    other right sides (`custom_linear_solve`): that is six times as fast as to go back through the
    elimination, and thirty times for LOLA's second derivatives.

    Args:
        discount: in [0, 1).
        own: [5] logits of the player whose action comes first.
        other: [5] logits of the other player, as it sees the game.

    Returns:
        four scalars.
    """
    ours, theirs = jax.nn.sigmoid(own), jax.nn.sigmoid(other)
    first, *after = (_joint(ours[i], theirs[j]) for i, j in enumerate(_OTHERS_VIEW))
    matrix = [
        [float(row == column) - discount * after[column][row] for column in range(4)]
        for row in range(4)
    ]
    transposed = [list(column) for column in zip(*matrix, strict=True)]
    found: list[jax.Array] = jax.lax.custom_linear_solve(
        lambda x: [_dot(row, x) for row in matrix],
        [(1 - discount) * each for each in first],
        solve=lambda _, right: _solve(matrix, right),
        transpose_solve=lambda _, right: _solve(transposed, right),
    )
    return found


def values(game: Game, own: jax.Array, other: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return both players' rewards per step: (1 - discount) times the discounted sum.

    Args:
        game: as the first player sees it.
        own: [5] its logits.
        other: [5] the logits of the other player, as that one sees the game.
    """
    share = visits(game.discount, own, other)
    return _dot(share, game.own), _dot(share, game.other)


def _joint(ours: jax.Array, theirs: jax.Array) -> list[jax.Array]:
    """Probabilities of CC, CD, DC and DD, from those of cooperating."""
    return [ours * theirs, ours * (1 - theirs), (1 - ours) * theirs, (1 - ours) * (1 - theirs)]


def _solve(matrix: list[list[Any]], right: list[Any]) -> list[Any]:
    """Gaussian elimination without pivots, element by element."""
    matrix, right = [list(row) for row in matrix], list(right)
    size = len(right)
    for pivot in range(size):
        for row in range(pivot + 1, size):
            factor = matrix[row][pivot] / matrix[pivot][pivot]
            for column in range(pivot + 1, size):
                matrix[row][column] = matrix[row][column] - factor * matrix[pivot][column]
            right[row] = right[row] - factor * right[pivot]
    found: list[Any] = [0.0] * size
    for row in reversed(range(size)):
        known = _dot(matrix[row][row + 1 :], found[row + 1 :])
        found[row] = (right[row] - known) / matrix[row][row]
    return found


def _dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return sum(a * b for a, b in zip(x, y, strict=True))
