"""Masks of legal actions, in environments that have them.

Such an environment has a method `legal_actions(env_state, env_params)`, which returns [num_actions]
bool. The `info` of its steps has the mask of the next state, before any reset, as `action_mask`. If
`legal_actions` is missing or None, every action is legal.

A learner never takes an illegal action, and learns as if illegal actions did not exist. In a state
without legal actions, such as after the end of some games, all actions count as legal.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from purerl.types import Environment, EnvParams, PyTree

STARTS = 16
"""Number of episode starts that are checked for a legal action."""


def of_state(env: Environment, env_state: PyTree, env_params: EnvParams) -> jax.Array | None:
    """Return the mask of legal actions, [num_actions] bool; None without masks."""
    ask = getattr(env, "legal_actions", None)
    return None if ask is None else usable(ask(env_state, env_params))


def of_states(env: Environment, env_state: PyTree, env_params: EnvParams) -> jax.Array | None:
    """Return the masks [N, num_actions] of parallel environments with states [N, ...]."""
    return jax.vmap(lambda state: of_state(env, state, env_params))(env_state)


def of_info(env: Environment, info: dict[str, Any]) -> jax.Array | None:
    """Return the mask after a step, before any reset, from its `info`."""
    return None if getattr(env, "legal_actions", None) is None else usable(info["action_mask"])


def usable(legal: jax.Array) -> jax.Array:
    """Return a mask [..., num_actions] in which states without legal actions allow all actions."""
    return jnp.logical_or(legal, ~jnp.any(legal, axis=-1, keepdims=True))


def draw(env: Environment, key: jax.Array, env_state: PyTree, env_params: EnvParams) -> jax.Array:
    """Draw a legal action uniformly."""
    legal = of_state(env, env_state, env_params)
    if legal is None:
        return env.action_space(env_params).sample(key)
    return jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf)).astype(jnp.int32)


def legal_mask(env: Environment, legal: jax.Array | None) -> jax.Array | None:
    """Check the mask of legal actions that was passed to `act`, and return it.

    Raises:
        ValueError: if the mask is missing, but the environment has masks.
    """
    if getattr(env, "legal_actions", None) is None:
        return None
    if legal is None:
        raise ValueError(
            f"{env.name} has legal and illegal actions: "
            "act needs legal=env.legal_actions(env_state, env_params)"
        )
    return usable(jnp.asarray(legal, bool))


def check(env: Environment) -> None:
    """Check that learners can use the masks of an environment.

    Raises:
        ValueError: if actions are not discrete, if the masks are not as described above, or if the
            first state of any of 16 episodes has no legal action.
    """
    if getattr(env, "legal_actions", None) is not None:
        _check(env)


@cache
def _check(env: Environment) -> None:
    params = env.default_params
    space = env.action_space(params)
    if not hasattr(space, "n"):
        raise ValueError(f"{env.name}: masks of legal actions need discrete actions")

    def start(key):
        _, state = env.reset(key, params)
        return env.legal_actions(state, params), state

    def step(key):
        return env.step(key, start(key)[1], jnp.int32(0), params)[-1]

    with jax.ensure_compile_time_eval():
        key = jax.random.key(0)
        masks = {
            "legal_actions": jax.eval_shape(start, key)[0],
            "info['action_mask'] of its steps": jax.eval_shape(step, key).get("action_mask"),
        }
        for name, mask in masks.items():
            if mask is None or (mask.shape, mask.dtype) != ((space.n,), bool):
                is_not = "missing" if mask is None else f"{mask.dtype}{list(mask.shape)}"
                raise ValueError(f"{env.name}: {name} must be bool[{space.n}], but is {is_not}")
        starts = jax.jit(jax.vmap(lambda key: start(key)[0]))(jax.random.split(key, STARTS))
        if not starts.any(axis=1).all():
            raise ValueError(f"{env.name}: its mask of legal actions forbids all of them at first")


def refuse(env: Environment, learner: str) -> None:
    """Check that an environment has no masks.

    Raises:
        ValueError: if it has masks.
    """
    if getattr(env, "legal_actions", None) is not None:
        raise ValueError(
            f"{env.name} has illegal actions, which {learner} would take; PPO and DQN do not"
        )
