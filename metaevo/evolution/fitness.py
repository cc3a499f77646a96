"""Combine a candidate's scores on several tasks to its fitness, the lowest if it failed."""

from typing import Literal

import jax
import jax.numpy as jnp

AcrossTasks = Literal["mean", "rank"]
FITNESS_LIMIT = 1e15
"""Limit of |fitness|, beyond which sums of squares over a population could overflow float32."""


def combine(kind: AcrossTasks, scores: jax.Array) -> jax.Array:
    """Combine scores [tasks, candidates] to a fitness [candidates], NaN where a candidate failed.

    `mean` is for comparable scores. `rank`, the mean of the ranks within the tasks, in [0, 1],
    needs no scale.
    """
    failed = ~jnp.all(jnp.isfinite(scores), axis=0)
    if kind == "rank":
        combined = jnp.mean(jax.vmap(ranks)(scores), axis=0)
    else:
        combined = jnp.mean(scores, axis=0)
    return jnp.where(failed, jnp.nan, combined)


def ranks(scores: jax.Array) -> jax.Array:
    """Return the rank of each score [candidates] in [0, 1]; equal scores share a rank.

    Non-finite scores are below all others.
    """
    scores = jnp.where(jnp.isfinite(scores), scores, -jnp.inf)
    below = jnp.sum(scores[None, :] < scores[:, None], axis=1)
    level = jnp.sum(scores[None, :] == scores[:, None], axis=1) - 1
    return (below + 0.5 * level) / (len(scores) - 1)


def with_worst_for_failed(fitness: jax.Array) -> jax.Array:
    """Return finite fitness [population_size], with failed candidates below all others."""
    finite = jnp.isfinite(fitness)
    fitness = jnp.clip(fitness, -FITNESS_LIMIT, FITNESS_LIMIT)
    low = jnp.min(jnp.where(finite, fitness, jnp.inf))
    high = jnp.max(jnp.where(finite, fitness, -jnp.inf))
    worst = low - (0.1 * (high - low) + 1e-3 * jnp.abs(low) + 1e-6)
    return jnp.where(finite, fitness, jnp.where(jnp.any(finite), worst, 0.0))
