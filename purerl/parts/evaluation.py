"""Evaluate a policy on whole episodes, after training or in the middle of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from purerl import acting
from purerl.fast.draws import with_fast_draws
from purerl.types import Environment, EnvParams, Learner, PyTree
from purerl.wrapped import innermost

STREAM = 0xE7A1
"""Number of the stream of an agent's key that evaluations use."""


@dataclass(frozen=True)
class GreedyEvaluations:
    """Evaluations of the greedy policy at equal distances in a training, the last at its end."""

    times: int
    """number of evaluations"""
    episodes: int
    """episodes of an evaluation"""
    max_steps: int
    """steps of an episode, at most"""

    @property
    def frames(self) -> int:
        """Environment steps of an evaluation, at most: by these it is counted."""
        return self.episodes * self.max_steps

    def updates_before(self, index: Any, num_updates: Any) -> jax.Array:
        """Return the number of updates before evaluation `index` [...] of a training, int32."""
        whole, rest = jnp.divmod(jnp.asarray(num_updates, jnp.int32), self.times)
        return (index + 1) * whole + jnp.minimum(index + 1, rest)

    def along(
        self,
        step: Callable[[jax.Array, Any], Any],
        carry: Any,
        num_updates: jax.Array,
        learner: Learner,
        key: jax.Array,
        env_params: EnvParams,
    ) -> tuple[Any, jax.Array]:
        """Return `jax.lax.fori_loop(0, num_updates, step, carry)`, and the mean returns [times].

        A carry begins with the agent's state; `key` is the one that it is trained from.
        """

        def train_and_evaluate(index, carry):
            carry, returns = carry
            start, end = (self.updates_before(each, num_updates) for each in (index - 1, index))
            carry = jax.lax.fori_loop(start, end, step, carry)
            found = self.measure(learner, learner.policy(carry[0]), key, env_params, end)
            return carry, returns.at[index].set(found)

        return jax.lax.fori_loop(0, self.times, train_and_evaluate, (carry, jnp.zeros(self.times)))

    def measure(
        self,
        learner: Learner,
        policy: PyTree,
        key: jax.Array,
        env_params: EnvParams,
        updates: jax.Array | int,
    ) -> jax.Array:
        """Return the mean return of the episodes, [] float32.

        `key` is the one that the agent was trained from, and `updates` the number done. The result
        does not depend on the number of evaluations.
        """
        own = jax.random.fold_in(jax.random.fold_in(key, STREAM), updates)
        limits: Any = {"num_episodes": self.episodes, "max_steps": self.max_steps}
        return jnp.mean(evaluate(learner, policy, own, env_params, **limits))


def time_limit(env: Environment, env_params: EnvParams) -> int | None:
    """Return the parameter `max_steps_in_episode` of an environment, wrapped or not, if any."""
    limit = getattr(innermost(env, env_params)[1], "max_steps_in_episode", None)
    return None if limit is None else int(limit)


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
    max_steps: int | None = None,
) -> jax.Array:
    """Play episodes in parallel, each from its own start, see `acting.reset`, to its end.

    Episodes are cut after `max_steps`, if it is given.

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
        running, steps = carry[4], carry[6]
        return jnp.any(running) if max_steps is None else jnp.any(running) & (steps < max_steps)

    def step(carry):
        key, obs, env_state, memory, running, returns, steps = carry
        key, act_key, env_key = jax.random.split(key, 3)
        act_keys = jax.random.split(act_key, num_episodes)
        env_keys = jax.random.split(env_key, num_episodes)
        action, memory = jax.vmap(act)(memory, act_keys, obs)
        obs, env_state, reward, terminated, truncated, _ = jax.vmap(
            env.step, in_axes=(0, 0, 0, None)
        )(env_keys, env_state, action, env_params)
        returns += jnp.where(running, reward.astype(jnp.float32), 0.0)
        running = running & ~(terminated | truncated)
        return key, obs, env_state, memory, running, returns, steps + 1

    memory = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (num_episodes, *jnp.shape(x))), acting.begin(learner)
    )
    running, returns = jnp.ones(num_episodes, bool), jnp.zeros(num_episodes)
    start = key, obs, env_state, memory, running, returns, jnp.int32(0)
    return jax.lax.while_loop(unfinished, step, start)[5]
