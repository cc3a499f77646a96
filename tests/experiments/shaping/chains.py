"""Repeated games in NumPy and double precision: the reference of `experiments.shaping.games`."""

import numpy as np

from experiments.shaping.games import Game

DILEMMA = Game()
CHICKEN = Game(((0, -1), (1, -100)))
PENNIES = Game(((1, -1), (-1, 1)), ((-1, 1), (1, -1)))


def chances(own, other):
    """The distribution of the first state [4], and the transition matrix [4, 4]."""
    x, y = (1 / (1 + np.exp(-np.asarray(each, np.float64))) for each in (own, other))
    y = y[[0, 1, 3, 2, 4]]
    joint = np.stack([x * y, x * (1 - y), (1 - x) * y, (1 - x) * (1 - y)], axis=-1)
    return joint[0], joint[1:]


def total(game, own, other):
    first, transition = chances(own, other)
    return first @ np.linalg.solve(np.eye(4) - game.discount * transition, np.array(game.own))


def slope(function, x, step=1e-4):
    """The gradient [5] by central differences."""
    x = np.asarray(x, np.float64)
    return np.array(
        [(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(5)]
    )


def climb(game, own, other):
    """The gradient [5] of a player's discounted sum in its own policy."""
    return slope(lambda policy: total(game, policy, other), own)
