"""What an optimizer may want to know of a parameter, from its place in a network."""

from typing import Any

import jax
import jax.numpy as jnp

POLICY = "actor_torso", "policy_head", "log_std"
"""The parts of `purerl.parts.networks.ActorCritic` that the policy needs; a shared torso too."""


def of_policy(params: Any) -> Any:
    """Return which parameters the policy needs: a tree of bools, one for each array.

    Args:
        params: of a network of `purerl.parts.networks`. Of another tree, none are the policy's.
    """

    def is_policy(path: tuple[Any, ...], leaf: jax.Array) -> bool:
        del leaf
        return any(getattr(key, "key", None) in POLICY for key in path)

    return jax.tree.map_with_path(is_policy, params)


def for_each(values: Any, params: Any) -> jax.Array:
    """Return the value of every single parameter [P], of a tree with one value for each array."""
    leaves = zip(jax.tree.leaves(values), jax.tree.leaves(params), strict=True)
    return jnp.concatenate([jnp.full(leaf.size, value, jnp.float32) for value, leaf in leaves])
