"""Random keys: one stream for each purpose, so that seeds are disjoint."""

import enum

import jax
import numpy as np


class Purpose(enum.IntEnum):
    """Every use of randomness in an experiment, with the number of its stream."""

    INITIALISATION = 0
    """the starting point of the search"""
    EVOLUTION = 1
    """asking, and evaluating candidates"""
    VALIDATION = 2
    """judging the mean during evolution, always on the same keys"""
    NORMALISATION = 3
    """measuring the baselines that make environments comparable"""
    TUNING = 4
    """choosing hyperparameters for the final comparison"""
    HELD_OUT = 5
    """the final comparison"""
    ILLUSTRATION = 6
    """collecting the errors that figures show"""
    TRAINING = 7
    """the agents of a training run"""
    PLAYING = 8
    """episodes of trained policies"""
    UNSEEN = 9
    """the comparison on tasks that evolution has not seen"""
    RECORDING = 10
    """training runs that record the inputs of a learned part"""


def key_for(seed: int | np.ndarray | jax.Array, purpose: Purpose) -> jax.Array:
    """Return the base key of a purpose; fold in a global index to get the key of one use."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def keys_for(seed: int, purpose: Purpose, count: int) -> jax.Array:
    """Return `count` keys of a purpose [count]; the first ones do not depend on `count`."""
    indices = jax.numpy.arange(count)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key_for(seed, purpose), indices)
