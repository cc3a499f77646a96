"""Evaluate a trained policy on whole episodes."""

from typing import Any

import jax
import jax.numpy as jnp

from purerl import acting
from purerl.fast.draws import with_fast_draws
from purerl.types import EnvParams, Learner, PyTree


def mean_return(episodes: Any) -> jax.Array:
    """Return the mean return of the finished episodes in `EpisodeSums`; NaN where none finished.

    Fields of shape [...] are added up over all axes.
    """
    count = jnp.sum(episodes.episodes)
    return jnp.where(count > 0, jnp.sum(episodes.returns) / jnp.maximum(count, 1.0), jnp.nan)


@with_fast_draws
def evaluate(
    learner: Learner,
    policy: PyTree,
    key: jax.Array,
    env_params: EnvParams,
    *,
    num_episodes: int = 32,
    greedy: bool = True,
) -> jax.Array:
    """Play episodes in parallel, each from its own start, see `acting.reset`, to its end.

    Returns:
        their undiscounted returns [num_episodes].
    """
    env = learner.env
    reset_key, key = jax.random.split(key)
    reset_keys = jax.random.split(reset_key, num_episodes)
    # One by one: vmapped resets of some suites are slow and take much memory.
    obs, env_state = jax.lax.map(lambda key: acting.reset(env, key, env_params), reset_keys)

    def act(memory, key, obs):
        return acting.act(learner, policy, memory, key, obs, greedy=greedy, env_params=env_params)

    def unfinished(carry):
        return jnp.any(carry[4])

    def step(carry):
        key, obs, env_state, memory, running, returns = carry
        key, act_key, env_key = jax.random.split(key, 3)
        act_keys = jax.random.split(act_key, num_episodes)
        env_keys = jax.random.split(env_key, num_episodes)
        action, memory = jax.vmap(act)(memory, act_keys, obs)
        obs, env_state, reward, terminated, truncated, _ = jax.vmap(
            env.step, in_axes=(0, 0, 0, None)
        )(env_keys, env_state, action, env_params)
        returns += jnp.where(running, reward.astype(jnp.float32), 0.0)
        running = running & ~(terminated | truncated)
        return key, obs, env_state, memory, running, returns

    memory = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (num_episodes, *jnp.shape(x))), acting.begin(learner)
    )
    start = key, obs, env_state, memory, jnp.ones(num_episodes, bool), jnp.zeros(num_episodes)
    return jax.lax.while_loop(unfinished, step, start)[5]
