"""Acting with a trained policy step by step, whether it has a memory or not."""

from typing import Any

import jax

from purerl.types import EnvParams, Learner


def begin(learner: Learner) -> Any:
    """Return what an agent remembers when an episode begins; None for one without a memory.

    Args:
        learner: any; PPO alone can have a memory (`recurrent_size`).
    """
    return _recurrent(learner).begin() if has_memory(learner) else None


def act(
    learner: Learner,
    policy: Any,
    memory: Any,
    key: jax.Array,
    obs: jax.Array,
    *,
    greedy: bool,
    env_params: EnvParams = None,
    legal: jax.Array | None = None,
) -> tuple[jax.Array, Any]:
    """Return the action for one observation, and the memory for the next step of the episode.

    Args:
        learner: any.
        policy: what `learner.policy` returned.
        memory: what this function returned last in this episode, or `begin`.
        key: for an action that is sampled.
        obs: as the environment shows it.
        greedy: take the likeliest action instead of sampling.
        env_params: of the environment, by default its own.
        legal: [num_actions] bool, where the environment says which actions are legal.
    """
    if not has_memory(learner):
        told = {} if legal is None else {"legal": legal}
        return learner.act(policy, key, obs, greedy=greedy, env_params=env_params, **told), None
    acted: tuple[jax.Array, Any] = _recurrent(learner).act_and_remember(
        policy, memory, key, obs, greedy=greedy, env_params=env_params, legal=legal
    )
    return acted


def has_memory(learner: Learner) -> bool:
    """Return whether a learner's policies are recurrent."""
    return getattr(getattr(learner, "config", None), "recurrent_size", 0) > 0


def _recurrent(learner: Learner) -> Any:
    return getattr(learner, "learner", learner)  # of `purerl.parts.own_task`, which wraps one
