"""A strategy of your own: random search that keeps the best candidate and narrows around it.

`metaevo evolve --strategy.algorithm examples/random_search.py:RandomSearch`
"""

import jax
import jax.numpy as jnp

import metaevo


class RandomSearch(metaevo.Strategy):
    """Draw candidates around the best one so far."""

    sigma: float = 0.1
    shrink: float = 0.99
    """factor on the standard deviation after each generation"""

    def init(self, key, init_solution):
        return {"best": init_solution(key), "fitness": -jnp.inf, "sigma": jnp.float32(self.sigma)}

    def ask(self, key, state):
        leaves, structure = jax.tree.flatten(state["best"])
        keys = jax.random.split(key, len(leaves))
        candidates = [
            leaf + state["sigma"] * jax.random.normal(key, (self.population_size, *leaf.shape))
            for leaf, key in zip(leaves, keys, strict=True)
        ]
        return jax.tree.unflatten(structure, candidates), state

    def tell(self, key, population, evaluation, state):
        index = jnp.argmax(evaluation.fitness)
        better = evaluation.fitness[index] > state["fitness"]
        best = jax.tree.map(
            lambda new, old: jnp.where(better, new[index], old), population, state["best"]
        )
        fitness = jnp.maximum(evaluation.fitness[index], state["fitness"])
        return {"best": best, "fitness": fitness, "sigma": self.shrink * state["sigma"]}

    def best(self, state):
        return state["best"]
