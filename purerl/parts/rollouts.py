"""Parallel environments of one agent: reset, steps, rollouts, and sums over their episodes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.fast import loops
from purerl.types import Environment, EnvParams, EpisodeSums, PyTree, Transition

UNROLL = 8
"""Steps in one iteration on a GPU; more save little and take longer to compile."""


class Unfinished(NamedTuple):
    """The unfinished episodes, one per environment."""

    returns: jax.Array
    """[N] undiscounted rewards so far."""
    lengths: jax.Array
    """[N] steps so far, float32."""


class Environments(NamedTuple):
    """N parallel environments between two steps."""

    state: PyTree
    """[N, ...]"""
    obs: jax.Array
    """[N, *obs_shape] observations to act on next"""
    unfinished: Unfinished
    """returns and lengths of the running episodes"""
    memory: PyTree = None
    """[N, ...] memory of a recurrent agent in the running episodes; None without recurrence"""


Act = Callable[[jax.Array, Any], tuple[PyTree, PyTree]]
"""`(observations [N, ...], memory) -> distribution of actions, next memory`"""


def reset(
    env: Environment, env_params: EnvParams, key: jax.Array, num_envs: int, memory: PyTree = None
) -> Environments:
    """Return `num_envs` newly reset environments, with the memory of an agent in them."""
    keys = jax.random.split(key, num_envs)
    obs, state = jax.vmap(env.reset, in_axes=(0, None))(keys, env_params)
    unfinished = Unfinished(jnp.zeros(num_envs), jnp.zeros(num_envs))
    return Environments(state, obs, unfinished, memory)


def step(
    env: Environment,
    env_params: EnvParams,
    keys: jax.Array,
    envs: Environments,
    sums: EpisodeSums,
    action: jax.Array,
    start: PyTree = None,
) -> tuple[Environments, EpisodeSums, tuple[jax.Array, jax.Array, jax.Array, jax.Array]]:
    """Step N environments, and reset those in which an episode ended.

    Finished episodes are added to the sums, each [N]. `start` is the memory of a recurrent agent at
    the start of an episode.

    Also return `reward`, `terminated`, `truncated` and `final_obs` as in a `Transition`.
    """
    obs, state, reward, terminated, truncated, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
        keys, envs.state, action, env_params
    )
    reward = reward.astype(jnp.float32)
    done = jnp.logical_or(terminated, truncated)
    unfinished, sums = record(envs.unfinished, sums, reward, done)
    outcome = reward, terminated, truncated, info["final_observation"]
    return Environments(state, obs, unfinished, forget(envs.memory, done, start)), sums, outcome


def collect(
    env: Environment,
    env_params: EnvParams,
    act: Act,
    keys: tuple[jax.Array, jax.Array],
    envs: Environments,
    num_steps: int,
    start: PyTree = None,
    keep: Callable[[PyTree], PyTree] = lambda policy: None,
) -> tuple[Environments, Transition, EpisodeSums]:
    """Sample actions from a policy for `num_steps` = T steps of N environments.

    The keys are for the actions and for the environments. `start` is the memory of a recurrent
    agent at the start of an episode. `keep` maps a policy to what its transition has as `kept`.

    Returns:
        The environments after the rollout, transitions [T, N, ...], and the sums over episodes.
    """
    action_key, env_key = keys
    num_envs = len(envs.obs)
    space = env.action_space(env_params)

    def one_step(carry, keys):
        envs, sums = carry
        action_key, env_keys = keys
        policy, memory = act(envs.obs, envs.memory)
        action = policy.sample(action_key)
        log_prob = policy.log_prob(action)
        taken = action if hasattr(space, "n") else policy.bounded(action, space)
        before = envs._replace(memory=memory)
        after, sums, outcome = step(env, env_params, env_keys, before, sums, taken, start)
        transition = Transition(envs.obs, action, log_prob, *outcome, envs.memory, keep(policy))
        return (after, sums), transition

    action_keys = jax.random.split(action_key, num_steps)
    keys = action_keys, jax.random.split(env_key, (num_steps, num_envs))
    carry = envs, zero_sums(num_envs)
    with jax.named_scope("rollout"):
        (envs, sums), transitions = loops.scan(one_step, carry, keys, unroll=UNROLL)
    return envs, transitions, jax.tree.map(jnp.sum, sums)


def forget(memory: PyTree, done: jax.Array, start: PyTree) -> PyTree:
    """Return memories [..., *M], with `start` [*M] where an episode is over [...]; None stays."""

    def of_array(x: jax.Array, new: jax.Array) -> jax.Array:
        over = done.reshape(*done.shape, *(1,) * (x.ndim - done.ndim))
        return jnp.where(over, jnp.broadcast_to(new, x.shape), x)

    return jax.tree.map(of_array, memory, start)


def zero_sums(num_envs: int) -> EpisodeSums:
    """Return sums without episodes, each [N]; they are added up over environments after a scan."""
    return EpisodeSums(*(jnp.zeros(num_envs) for _ in EpisodeSums._fields))


def record(
    unfinished: Unfinished, sums: EpisodeSums, reward: jax.Array, done: jax.Array
) -> tuple[Unfinished, EpisodeSums]:
    """Add one step of N environments: rewards [N] float32, and whether episodes ended [N] bool."""
    returns = unfinished.returns + reward
    lengths = unfinished.lengths + 1.0
    sums = EpisodeSums(
        episodes=sums.episodes + done,
        returns=sums.returns + jnp.where(done, returns, 0.0),
        lengths=sums.lengths + jnp.where(done, lengths, 0.0),
        rewards=sums.rewards + reward,
        steps=sums.steps + 1.0,
    )
    return Unfinished(jnp.where(done, 0.0, returns), jnp.where(done, 0.0, lengths)), sums
