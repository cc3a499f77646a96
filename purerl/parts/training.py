"""Training from scratch, the same for every learner."""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.types import EnvParams, Hyperparams, Learner, MetaParams, TrainResult


def train(
    learner: Learner,
    key: jax.Array,
    hyperparams: Hyperparams,
    meta_params: MetaParams,
    env_params: EnvParams,
    num_updates: jax.Array | int | None = None,
) -> TrainResult:
    """Train one agent from scratch; metrics are reduced inside the loop, to one per update.

    Learners have this function as their method `train`, and `num_updates` in their states.

    Args:
        learner: with its static parts bound.
        key: of all randomness.
        hyperparams: traced settings.
        meta_params: of the slots.
        env_params: of the environment.
        num_updates: [] int32, the length of this training, at most `config.num_updates`, which is
            the default. It is traced, so one program trains agents for different lengths, and
            progress and annealing follow it. Under `vmap`, agents with lengths of their own all
            cost as much as the longest. Sums and metrics of updates after the end are zero.
    """

    def step(state):
        state, sums, metrics = learner.update(state, hyperparams, meta_params, env_params)
        return state, (sums, metrics)

    state = learner.init(key, hyperparams, meta_params, env_params)
    most = learner.config.num_updates
    if num_updates is None:
        state, (sums, metrics) = jax.lax.scan(lambda state, _: step(state), state, length=most)
        return TrainResult(state, sums, metrics)

    def write_step(index, carry):
        state, written = carry
        state, new = step(state)
        return state, jax.tree.map(lambda rows, row: rows.at[index].set(row), written, new)

    length = jnp.asarray(num_updates, jnp.int32)
    state = state.replace(num_updates=length)
    _, shapes = jax.eval_shape(step, state)
    empty = jax.tree.map(lambda leaf: jnp.zeros((most, *leaf.shape), leaf.dtype), shapes)
    state, (sums, metrics) = jax.lax.fori_loop(0, length, write_step, (state, empty))
    return TrainResult(state, sums, metrics)


def length(config: Any, state: Any) -> Any:
    """Return the number of updates of an agent's training: its own, or that of the config."""
    return config.num_updates if state.num_updates is None else state.num_updates


def progress(done: Any, whole: Any) -> jax.Array:
    """Return the share of an agent's training that is done, [] float32 in [0, 1].

    `done` updates (phases, for learners with a replay memory) precede this one, of `whole` in all.
    So progress is 0 in the first, 1 - 1 / whole in the last, and 1 after the end.
    """
    return jnp.minimum(jnp.asarray(done, jnp.float32) / jnp.asarray(whole, jnp.float32), 1.0)
