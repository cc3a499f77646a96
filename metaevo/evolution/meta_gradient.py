"""Gradient ascent on the fitness, for problems that have derivatives: one more strategy.

Every member of the population is the mean, on a key of its own; what it learns is not its fitness
but a gradient (`Evaluation.gradient`). Otherwise it lives as an evolution does.
"""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from metaevo.config import ConfigError
from metaevo.evolution.strategy import OPTIMIZERS, Strategy, StrategyConfig, decay

META_GRADIENT = "meta_gradient"
WINDOW = "window"
"""The setting: updates of a training through which derivatives go before they are cut off."""
DEFAULT_WINDOW = 4
LARGEST = 1.0
"""Norm at which the gradient of a single agent is clipped: a few explode, and would be the sum."""


class State(struct.PyTreeNode):
    """What is carried from one generation to the next."""

    mean: Any
    opt_state: Any
    generation_counter: jax.Array


class MetaGradient:
    """Has the methods of `Strategy`; `tell` takes gradients where that takes the population."""

    has_mean, by_gradient = True, True

    def __init__(self, config: StrategyConfig, solution: Any):
        """Build the optimizer of the mean.

        Raises:
            ConfigError: for a setting that means nothing here.
        """
        self.config = config
        window = config.settings.get(WINDOW, DEFAULT_WINDOW)
        if not isinstance(window, int) or isinstance(window, bool) or window < 1:
            raise ConfigError(f"strategy.settings.window = {window!r}: must be an int, at least 1")
        if unknown := sorted({*config.settings} - {WINDOW}):
            raise ConfigError(
                f"strategy.settings: {META_GRADIENT} has no setting {unknown[0]!r}; allowed: window"
            )
        self.window = window
        self.optimizer = self._optimizer(config.learning_rate)
        leaves = jax.tree.leaves(solution)
        if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
            raise ConfigError(f"strategy.algorithm = {META_GRADIENT!r}: not all numbers are floats")

    def _optimizer(self, learning_rate: Any) -> optax.GradientTransformation:
        name = self.config.optimizer
        make = OPTIMIZERS["adam" if name in ("auto", "own") else name]
        limit = self.config.learning_rate_limit
        return make(decay(learning_rate, self.config.learning_rate_decay, limit))

    def with_steps(self, sigma: Any, learning_rate: Any) -> "MetaGradient":
        """Return the same strategy with another learning rate, which may be traced."""
        del sigma
        other = copy.copy(self)
        other.optimizer = self._optimizer(learning_rate)
        return other

    def init(self, key: jax.Array, init_solution: Any) -> State:
        """Return the state before generation 0, with the mean `init_solution(key)`."""
        mean = init_solution(jax.random.split(key)[0])
        return State(mean, self.optimizer.init(mean), jnp.int32(0))

    def ask(self, key: jax.Array, state: State) -> tuple[Any, State]:
        """Return the mean [population_size, ...], and the state."""
        del key
        size = self.config.population_size
        repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), state.mean)
        return repeated, state

    def tell(self, key: jax.Array, gradients: Any, fitness: jax.Array, state: State) -> State:
        """Return the state after a step uphill; agents whose gradient is not finite are left out.

        Args:
            key: not used.
            gradients: [population_size, ...] of the fitness, higher is better.
            fitness: [population_size].
            state: as returned by `ask`.
        """
        del key, fitness
        norms = jax.vmap(optax.tree.norm)(gradients)
        factor = jnp.where(
            jnp.isfinite(norms), jnp.minimum(1.0, LARGEST / jnp.maximum(norms, 1e-12)), 0.0
        )

        def downhill(leaf):
            shaped = factor.reshape(-1, *[1] * (leaf.ndim - 1))
            return -jnp.mean(jnp.where(shaped > 0, leaf, 0.0) * shaped, axis=0)

        step = jax.tree.map(downhill, gradients)
        updates, opt_state = self.optimizer.update(step, state.opt_state, state.mean)
        mean = optax.apply_updates(state.mean, updates)
        return State(mean, opt_state, state.generation_counter + 1)

    def best(self, state: State) -> Any:
        """Return the mean."""
        return state.mean

    def sigma(self, state: State) -> jax.Array:
        """Return NaN: nothing is perturbed."""
        del state
        return jnp.float32(jnp.nan)


def make_strategy(config: StrategyConfig, solution: Any) -> Strategy | MetaGradient:
    """Return the strategy of the settings.

    Raises:
        ConfigError: for an unknown algorithm or setting, or a value that it refuses.
    """
    return (MetaGradient if config.algorithm == META_GRADIENT else Strategy)(config, solution)
