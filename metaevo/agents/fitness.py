"""How well an agent learned, as one number: the fitness of the loss that it was trained with."""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

from purerl.parts.evaluation import mean_return
from purerl.types import EpisodeSums

FINAL_FRACTION = 0.1
"""The last part of training that counts as its end."""


@dataclass(frozen=True)
class FitnessConfig:
    """Weights of the measures of a training run; the fitness is their weighted sum.

    Raises:
        ValueError: if all weights are zero.
    """

    mean_return: Annotated[float, Ge(0)] = 1.0
    """mean return of all episodes that finished during training"""
    final_return: Annotated[float, Ge(0)] = 0.0
    """mean return of the episodes that finished in the last tenth of training (or last at all)"""
    reward_per_step: Annotated[float, Ge(0)] = 0.0
    """mean reward of all steps of training: finer where returns saturate"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if not (self.mean_return or self.final_return or self.reward_per_step):
            raise ValueError("at least one weight must be positive")


def measures(episodes: EpisodeSums) -> dict[str, jax.Array]:
    """Return the measures of one training run, by the names of `FitnessConfig`.

    Args:
        episodes: each field [U], sums per update. Means are over finished episodes only, and NaN
            where none finished.
    """
    updates = jnp.arange(episodes.episodes.shape[0])
    last_tenth = len(updates) - max(1, round(FINAL_FRACTION * len(updates)))
    # An agent may be so good that none of its episodes ends there: then go back to the last end.
    last_end = jnp.max(jnp.where(episodes.episodes > 0, updates, 0))
    final = (updates >= jnp.minimum(last_tenth, last_end)).astype(jnp.float32)
    return {
        "mean_return": mean_return(episodes),
        "final_return": mean_return(jax.tree.map(lambda sums: sums * final, episodes)),
        "reward_per_step": jnp.sum(episodes.rewards) / jnp.sum(episodes.steps),
    }


def fitness(config: FitnessConfig, measured: dict[str, jax.Array]) -> jax.Array:
    """Return the weighted sum; measures of weight zero may be NaN."""
    weights = {name: getattr(config, name) for name in measured}
    return sum(
        (weight * measured[name] for name, weight in weights.items() if weight), jnp.float32(0.0)
    )
