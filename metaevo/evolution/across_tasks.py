"""From scores of candidates on several tasks to one fitness of each candidate."""

from typing import Literal

import jax
import jax.numpy as jnp

AcrossTasks = Literal["mean", "rank", "worst_third"]


def combine(kind: AcrossTasks, scores: jax.Array) -> jax.Array:
    """Combine scores [tasks, candidates] to a fitness [candidates]; not finite where one is not.

    Args:
        kind: mean, for comparable scores; rank, the mean of the ranks within the tasks, in [0, 1],
            which needs no scale; worst_third, the mean of the lowest third of a candidate's scores
            (conditional value at risk).
        scores: not finite where a candidate failed.
    """
    failed = ~jnp.all(jnp.isfinite(scores), axis=0)
    if kind == "rank":
        combined = jnp.mean(jax.vmap(ranks)(scores), axis=0)
    elif kind == "worst_third":
        count = max(1, round(len(scores) / 3))
        combined = jnp.mean(jnp.sort(scores, axis=0)[:count], axis=0)
    else:
        combined = jnp.mean(scores, axis=0)
    return jnp.where(failed, jnp.nan, combined)


def ranks(scores: jax.Array) -> jax.Array:
    """Return the rank of each score [candidates] in [0, 1]; equal scores share theirs.

    Scores that are not finite are below all others.
    """
    scores = jnp.where(jnp.isfinite(scores), scores, -jnp.inf)
    below = jnp.sum(scores[None, :] < scores[:, None], axis=1)
    level = jnp.sum(scores[None, :] == scores[:, None], axis=1) - 1
    return (below + 0.5 * level) / (len(scores) - 1)


def ranks_in_pairs(scores: jax.Array) -> jax.Array:
    """Return 1 for the better of each antithetic pair, 0 for the other, 0.5 for a tie.

    Args:
        scores: [..., 2 x pairs], a pair's members half of the axis apart; those that are not finite
            lose.
    """
    first, second = jnp.split(jnp.where(jnp.isfinite(scores), scores, -jnp.inf), 2, axis=-1)
    wins = jnp.where(first == second, 0.5, (first > second).astype(jnp.float32))
    return jnp.concatenate([wins, 1.0 - wins], axis=-1)
