"""Acting with a trained policy step by step, whether it has a memory or not."""

import jax

from purerl.types import Environment, EnvParams, Learner, PyTree
from purerl.wrapped import changed, innermost


def begin(learner: Learner) -> PyTree:
    """Return the memory of an agent at the start of an episode; None if it has none."""
    return learner.begin() if hasattr(learner, "begin") else None


def reset(env: Environment, key: jax.Array, env_params: EnvParams) -> tuple[PyTree, PyTree]:
    """Begin an episode of an evaluation, and return its first observation and state.

    If training episodes begin in a pool of starts (`purerl.envs.suite`), the pool is left out, so
    the start is a new one.
    """
    if hasattr(innermost(env)[0], "without_pool") and env_params is not None:
        env_params = changed(env, env_params, lambda env, params: env.without_pool(params))
    obs, state = env.reset(key, env_params)
    return obs, state


def act(
    learner: Learner,
    policy: PyTree,
    memory: PyTree,
    key: jax.Array,
    obs: jax.Array,
    *,
    greedy: bool,
    env_params: EnvParams = None,
) -> tuple[jax.Array, PyTree]:
    """Return the action for one observation, and the memory for the next step of the episode.

    The memory is that of the last call in the same episode, or of `begin`. The observation
    [*obs_shape] is the environment's. A `greedy` agent takes the most likely action, and breaks
    ties by `key`.
    """
    distribution, memory = learner.action_distribution(policy, obs, memory)
    action = distribution.mode(key) if greedy else distribution.sample(key)
    env_params = learner.env.default_params if env_params is None else env_params
    space = learner.env.action_space(env_params)
    return action if hasattr(space, "n") else distribution.bounded(action, space), memory
