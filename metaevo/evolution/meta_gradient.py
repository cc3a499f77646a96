"""Strategy that does gradient ascent on the fitness of differentiable problems.

Every member of the population evaluates the mean on a different key. The strategy learns from the
gradients (`Evaluation.gradient`) instead of the fitness, and otherwise behaves like any strategy.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from metaevo.config import ConfigError
from metaevo.evolution.evosax_strategy import OPTIMIZERS, decay
from metaevo.evolution.problem import (
    Evaluation,
    MetaParams,
    MetaProblem,
    ascend,
    draw_task,
    fix_task,
)
from metaevo.evolution.strategy import Strategy, StrategyConfig
from purerl.types import PyTree

WINDOW = "window"
"""Name of the setting for the number of updates that derivatives are propagated through."""
DEFAULT_WINDOW = 4
LARGEST = 1.0
"""Clipping norm of a single agent's gradient; otherwise a few that explode dominate the sum."""


class State(struct.PyTreeNode):
    """State carried from one generation to the next."""

    mean: PyTree
    opt_state: PyTree
    generation_counter: jax.Array


class MetaGradient(Strategy):
    """Strategy that follows `Evaluation.gradient`; the candidates are copies of the mean."""

    has_mean, common_keys = True, False

    def __init__(self, config: StrategyConfig):
        self.config, self.population_size = config, config.population_size
        window = config.settings.get(WINDOW, DEFAULT_WINDOW)
        if not isinstance(window, int) or isinstance(window, bool) or window < 1:
            raise ConfigError(f"strategy.settings.window = {window!r}: must be an int, at least 1")
        if unknown := sorted({*config.settings} - {WINDOW}):
            raise ConfigError(
                f"strategy.settings: {config.algorithm} has no setting {unknown[0]!r}; "
                "allowed: window"
            )
        self.window = window
        name = "adam" if config.optimizer in ("auto", "own") else config.optimizer
        schedule = decay(
            config.learning_rate, config.learning_rate_decay, config.learning_rate_limit
        )
        self.optimizer = OPTIMIZERS[name](schedule)

    def init(self, key: jax.Array, init_solution: Any) -> State:
        """Return the state before generation 0, with the mean `init_solution(key)`."""
        mean = init_solution(jax.random.split(key)[0])
        return State(mean, self.optimizer.init(mean), jnp.int32(0))

    def ask(self, key: jax.Array, state: State) -> tuple[Any, State]:
        """Return the mean [population_size, ...], and the state."""
        size = self.config.population_size
        repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), state.mean)
        return repeated, state

    def tell(
        self, key: jax.Array, population: PyTree, evaluation: Evaluation, state: State
    ) -> State:
        """Return the state after a gradient step; non-finite gradients are ignored."""
        gradients = evaluation.gradient
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

    def best(self, state: State) -> PyTree:
        """Return the mean."""
        return state.mean

    def evaluate(self, problem: MetaProblem, key: jax.Array, meta_params: MetaParams) -> Evaluation:
        """Evaluate with a gradient."""
        return ascend(problem, key, meta_params, self.window)

    def check(self, problem: MetaProblem, generations: int) -> None:
        """Raise `ConfigError` if the problem has no derivatives."""
        task = draw_task(problem, jax.random.key(0), 0)
        climb = partial(ascend, fix_task(problem, task), window=self.window)
        shapes = jax.eval_shape(problem.init, jax.random.key(0))
        try:
            jax.eval_shape(climb, jax.random.key(0), shapes)
        except (NotImplementedError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"strategy.algorithm = {self.config.algorithm!r}: has no derivatives here: {reason}"
            ) from error
