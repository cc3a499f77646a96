"""Hand-written schedules for the slot `schedule`: hyperparams over training.

Optimizers anneal their learning rate themselves (`final_learning_rate`), whatever the schedule.
"""

import jax
import jax.numpy as jnp

from purerl.types import Context, Hyperparams, MetaParams, Schedule, Slot


def constant(meta_params: MetaParams, context: Context) -> Hyperparams:
    """The settings as they are."""
    return context.hyperparams


def linear(meta_params: MetaParams, context: Context) -> Hyperparams:
    """PPO's `clip_epsilon` and `entropy_coef` fall linearly to zero.

    So does the clip for Atari in Schulman et al. 2017 (table 5), together with the learning rate.
    """
    hyperparams, left = context.hyperparams, 1.0 - context.progress
    return hyperparams.replace(
        clip_epsilon=left * hyperparams.clip_epsilon, entropy_coef=left * hyperparams.entropy_coef
    )


def cosine(meta_params: MetaParams, context: Context) -> Hyperparams:
    """The learning rate falls to zero along half a cosine (Loshchilov & Hutter 2017).

    That replaces the optimizer's annealing: `final_learning_rate` is 1.
    """
    hyperparams, share = context.hyperparams, 0.5 * (1.0 + jnp.cos(jnp.pi * context.progress))
    return hyperparams.replace(
        learning_rate=share * hyperparams.learning_rate, final_learning_rate=1.0
    )


def scheduled(schedule: Schedule, meta_params: MetaParams, context: Context) -> Hyperparams:
    """Return the hyperparams of an update.

    Raises:
        TypeError: when traced, if they are other numbers than those of the context.
    """
    hyperparams = schedule(meta_params, context)
    found = jax.tree.map(jnp.shape, hyperparams)
    if found != jax.tree.map(jnp.shape, context.hyperparams):
        raise TypeError(f"a schedule must return the hyperparams that it is given, not {found}")
    return hyperparams


SCHEDULE = Slot(
    "schedule",
    {"constant": constant, "linear": linear, "cosine": cosine},
    # A clip that falls to zero is half as wide on the average.
    ranges={"linear": {"clip_epsilon": {"log_uniform": [0.1, 1.0]}}},
    returns_numbers=True,
)
