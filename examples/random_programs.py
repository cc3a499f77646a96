"""A strategy for programs: random search that evaluates the best program again and again.

`metaevo evolve --evolve program --learner q_learning \\
  --strategy.algorithm examples/random_programs.py:RandomPrograms`
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import metaevo


@dataclass(frozen=True)
class RandomPrograms(metaevo.Strategy):
    """Evaluate random programs, each once, and the best one anew in every generation."""

    population_size: int = 64
    pool: int = 4096
    """random programs, drawn before the first generation"""
    perturbs = False

    def init(self, key, init_solution):
        pool = jax.vmap(init_solution)(jax.random.split(key, self.pool))
        best = jax.tree.map(lambda leaf: leaf[0], pool)
        nothing = jnp.float32(0.0)
        return {"pool": pool, "best": best, "mean": nothing, "count": nothing, "next": jnp.int32(1)}

    def ask(self, key, state):
        rows = (state["next"] + jnp.arange(self.population_size - 1)) % self.pool
        population = jax.tree.map(
            lambda best, pool: jnp.concatenate([best[None], pool[rows]]),
            state["best"],
            state["pool"],
        )
        return population, state

    def tell(self, key, population, evaluation, state):
        # All were evaluated on the same keys: a better program has to beat the best one on these,
        # and its mean over all generations.
        fitness, count = evaluation.fitness, state["count"] + 1
        mean = state["mean"] + (fitness[0] - state["mean"]) / count
        index = jnp.argmax(fitness)
        is_better = fitness[index] > jnp.maximum(mean, fitness[0])
        best = jax.tree.map(
            lambda new, old: jnp.where(is_better, new[index], old), population, state["best"]
        )
        return {
            "pool": state["pool"],
            "best": best,
            "mean": jnp.where(is_better, fitness[index], mean),
            "count": jnp.where(is_better, 1.0, count),
            "next": (state["next"] + self.population_size - 1) % self.pool,
        }

    def best(self, state):
        return state["best"]
