"""Acting with a trained policy step by step, whether it has a memory or not."""

from typing import Any

import jax

from purerl.types import EnvParams, Learner, PyTree


def begin(learner: Learner) -> PyTree:
    """Return the memory of an agent at the start of an episode; None if it has none.

    Args:
        learner: any learner; only PPO can have a memory (`recurrent_size`).
    """
    return learner.begin() if hasattr(learner, "begin") else None


def act(
    learner: Learner,
    policy: PyTree,
    memory: PyTree,
    key: jax.Array,
    obs: jax.Array,
    *,
    greedy: bool,
    env_params: EnvParams = None,
    legal: jax.Array | None = None,
) -> tuple[jax.Array, PyTree]:
    """Return the action for one observation, and the memory for the next step of the episode.

    Args:
        learner: any learner.
        policy: the result of `learner.policy`.
        memory: memory returned by the last call in the same episode, or by `begin`.
        key: random key to sample an action, or to break ties between the best actions.
        obs: [*obs_shape], as the environment returns it.
        greedy: take the most likely action instead of sampling.
        env_params: parameters of the environment; None for its defaults.
        legal: [num_actions] bool, required if the environment has illegal actions.
    """
    distribution, memory = learner.action_distribution(policy, obs, memory, legal)
    action = distribution.mode(key) if greedy else distribution.sample(key)
    space = learner.env.action_space(
        learner.env.default_params if env_params is None else env_params
    )
    return in_space(distribution, action, space), memory


def in_space(distribution: Any, action: jax.Array, space: Any) -> jax.Array:
    """Convert samples of a distribution to actions of a space; discrete samples are unchanged."""
    return action if hasattr(space, "n") else distribution.bounded(action, space)
