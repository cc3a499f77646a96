"""Fitness of a training run: one number for how well an agent learned.

An agent has diverged if its parameters are not `all_finite`, and then has no score; a stretch of
time in which no episode finished has no mean return. Missing values are NaN;
`metaevo.statistics.fill_missing` replaces them for comparisons.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt

from purerl.parts.evaluation import mean_return
from purerl.types import EpisodeSums, PyTree

FINAL_FRACTION = 0.1
"""The last part of training that counts as its end."""


@dataclass(frozen=True)
class FitnessConfig:
    """Weights of the measures of a training run; the fitness is their weighted sum."""

    mean_return: Annotated[float, Ge(0)] = 1.0
    """mean return of all episodes that finished during training"""
    final_return: Annotated[float, Ge(0)] = 0.0
    """mean return of the episodes that finished in the last tenth of training (or last at all)"""
    reward_per_step: Annotated[float, Ge(0)] = 0.0
    """mean reward of all steps of training: finer where returns saturate"""
    evaluation_return: Annotated[float, Ge(0)] = 0.0
    """mean return of the greedy policy in new episodes at the end of training"""
    evaluation_episodes: Annotated[int, Gt(0)] = 16
    """episodes of an evaluation; as frames count this many times the environment's time limit"""
    evaluations: Annotated[int, Gt(0)] = 1
    """evaluations at equal distances in a training, for a curve; the last is the return above"""

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError("at least one weight must be positive")
        for name in ("evaluation_episodes", "evaluations"):
            value, default = getattr(self, name), getattr(FitnessConfig, name)
            if value != default and not self.evaluation_return:
                raise ValueError(f"{name} = {value}: needs evaluation_return > 0")

    @property
    def weights(self) -> dict[str, float]:
        """The positive weights, by the names of the measures."""
        names = "mean_return", "final_return", "reward_per_step", "evaluation_return"
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def measures(
    episodes: EpisodeSums,
    num_updates: jax.Array | None = None,
    evaluations: jax.Array | None = None,
) -> dict[str, jax.Array]:
    """Return the measures of one training run, by the names of `FitnessConfig`.

    Examples:
        >>> result = ppo.make_train(ppo.Config(), env)(key, ppo.Hyperparams(), None, env_params)
        >>> print(metaevo.measures(result.episodes)["mean_return"])

    Args:
        episodes: each field [U], sums per update. Means are over finished episodes only, and NaN
            where none finished.
        num_updates: [] int32, the length of a training that is shorter than U; by default U.
        evaluations: [M] mean returns of the evaluations of the greedy policy, if there are any.
    """
    updates = jnp.arange(episodes.episodes.shape[0])
    last_tenth: Any = len(updates) - max(1, round(FINAL_FRACTION * len(updates)))
    if num_updates is not None:
        tenth = jnp.round(FINAL_FRACTION * num_updates).astype(jnp.int32)
        last_tenth = num_updates - jnp.maximum(1, tenth)
    # An agent may be so good that none of its episodes ends there: then go back to the last end.
    last_end = jnp.max(jnp.where(episodes.episodes > 0, updates, 0))
    final = updates >= jnp.minimum(last_tenth, last_end)
    found = {
        "mean_return": mean_return(episodes),
        "final_return": mean_return(
            jax.tree.map(lambda sums: jnp.where(final, sums, 0.0), episodes)
        ),
        "reward_per_step": jnp.sum(episodes.rewards) / jnp.sum(episodes.steps),
    }
    return found if evaluations is None else {**found, "evaluation_return": evaluations[-1]}


def fitness(config: FitnessConfig, measured: dict[str, jax.Array]) -> jax.Array:
    """Return the weighted sum; measures of weight zero may be NaN."""
    return sum(
        (weight * measured[name] for name, weight in config.weights.items()), jnp.float32(0.0)
    )


def all_finite(tree: PyTree, axes: int = 0) -> Any:
    """Return whether a tree of NumPy or JAX arrays is finite, along its first `axes` axes."""
    leaves = jax.tree.leaves(tree)
    xp: Any = jnp if any(isinstance(leaf, jax.Array) for leaf in leaves) else np
    finite = [xp.all(xp.isfinite(leaf), axis=tuple(range(axes, leaf.ndim))) for leaf in leaves]
    return xp.all(xp.stack(finite), axis=0)


def mean_returns(episodes: EpisodeSums) -> np.ndarray:
    """Return the mean return [...] of sums [...], NaN where no episode finished."""
    count = episodes.episodes
    return np.where(count > 0, episodes.returns / np.maximum(count, 1), np.nan)


@dataclass(frozen=True)
class Windows:
    """Points of a learning curve: equal stretches of updates, of which the last may be shorter."""

    every: int
    """updates of a stretch"""
    num_updates: int
    """of the whole training"""

    @classmethod
    def at_most(cls, points: int, num_updates: int) -> "Windows":
        """Return the most windows of equal length, up to `points`."""
        return cls(-(-num_updates // points), num_updates)

    @property
    def count(self) -> int:
        """Number of windows."""
        return -(-self.num_updates // self.every)

    def ends(self) -> np.ndarray:
        """Return the updates at the end of each stretch."""
        return np.minimum(np.arange(1, self.count + 1) * self.every, self.num_updates)

    def pooled(self, sums: Any) -> Any:
        """Add up sums of single updates, each leaf [num_updates], to sums of stretches."""
        rest = self.count * self.every - self.num_updates
        return jax.tree.map(
            lambda leaf: jnp.pad(leaf, (0, rest)).reshape(-1, self.every).sum(1), sums
        )
