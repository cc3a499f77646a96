"""Repeated 2 x 2 games between memory-one policies, with exact values for both players.

A policy is five logits of cooperating (the first action): at the start, and after CC, CD, DC and
DD, where a player's own last action comes first. Two policies form a Markov chain with four
states, so discounted payoffs need no simulation.

M-FOS (Lu et al. 2022) and LOLA (Foerster et al. 2018) also use exact values. The linear system
with four unknowns is solved by explicit elimination, because LAPACK deadlocks inside a vmapped
program on a few cores.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

LOGITS = 5
"""Number of logits of a policy: start, CC, CD, DC, DD."""
_OTHERS_VIEW = (0, 1, 3, 2, 4)
"""Index of the same situation for the other player, which sees CD as DC and DC as CD."""

Matrix = Sequence[Sequence[float]]
"""2 x 2 payoffs: a row for each own action, a column for each action of the other player."""


class Game(NamedTuple):
    """A repeated game from the point of view of one player."""

    own: tuple[float, ...]
    """the player's payoffs after CC, CD, DC and DD, its own action first"""
    other: tuple[float, ...]
    """the other player's payoffs, in the same order"""
    discount: float
    """in [0, 1)"""

    @classmethod
    def of(cls, own: Matrix, other: Matrix | None, discount: float) -> "Game":
        """Build a game from its payoff matrices.

        Args:
            own: payoffs of the row player.
            other: payoffs of the column player, in the same layout; None if the game is symmetric.
            discount: in [0, 1).
        """
        if other is None:
            other = [[own[column][row] for column in range(2)] for row in range(2)]
        return cls(tuple(map(float, (*own[0], *own[1]))), tuple(map(float, (*other[0], *other[1]))),
                   float(discount))  # fmt: skip

    @property
    def swapped(self) -> "Game":
        """The same game from the other player's point of view."""
        ours, theirs = self.own, self.other
        return Game(
            (theirs[0], theirs[2], theirs[1], theirs[3]),
            (ours[0], ours[2], ours[1], ours[3]),
            self.discount,
        )


def visits(discount: float, own: jax.Array, other: jax.Array) -> list[jax.Array]:
    """Return the shares of discounted time spent in CC, CD, DC and DD: four scalars with sum 1.

    With transition matrix P and distribution p of the first state, the shares m solve
    (I - discount P)^T m = (1 - discount) p. The matrix is diagonally dominant by columns, so
    elimination needs no pivots. Derivatives solve the same system with other right-hand sides
    (`custom_linear_solve`), which is six times as fast as differentiating through the elimination,
    and thirty times as fast for LOLA's second derivatives.

    Args:
        discount: in [0, 1).
        own: [5] logits of the first player.
        other: [5] logits of the other player, from its own point of view.
    """
    ours, theirs = jax.nn.sigmoid(own), jax.nn.sigmoid(other)
    first, *after = (_joint(ours[i], theirs[j]) for i, j in enumerate(_OTHERS_VIEW))
    matrix = [
        [float(row == column) - discount * after[column][row] for column in range(4)]
        for row in range(4)
    ]
    transposed = [list(column) for column in zip(*matrix, strict=True)]
    return jax.lax.custom_linear_solve(
        lambda x: [_dot(row, x) for row in matrix],
        [(1 - discount) * each for each in first],
        solve=lambda _, right: _solve(matrix, right),
        transpose_solve=lambda _, right: _solve(transposed, right),
    )


def values(game: Game, own: jax.Array, other: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return both players' rewards per step: (1 - discount) times the discounted sum.

    The game is from the first player's point of view; policies are as for `visits`.
    """
    share = visits(game.discount, own, other)
    return _dot(share, game.own), _dot(share, game.other)


def _joint(ours: jax.Array, theirs: jax.Array) -> list[jax.Array]:
    """Return the probabilities of CC, CD, DC and DD from both probabilities of cooperating."""
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
