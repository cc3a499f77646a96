"""Features of parameters for learned optimizers, by their place in the learner's network."""

import itertools
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.fast.activations import ACTIVATIONS
from purerl.types import PyTree

POLICY = "actor_torso", "actor_memory", "policy_head", "log_std"
"""The parts of `purerl.parts.networks.ActorCritic` that the policy needs; a shared torso too."""
TINY = 1e-9
"""Below it, all units of a layer are dormant."""


def of_policy(params: PyTree) -> Any:
    """Return which parameters the policy needs: a tree of bools, one for each array.

    Args:
        params: of a network of `purerl.parts.networks`. Of another tree, none are the policy's.
    """
    return jax.tree.map_with_path(lambda path, _: any(n in POLICY for n in _names(path)), params)


def depth(params: PyTree) -> Any:
    """Return how far from the observation each array is: a tree of floats, 0 to 1 for a head.

    What lies behind the torso, a recurrence included, is at 1.

    The layers of a torso are at 0, 1 / L, 2 / L, ... where it has L.

    Args:
        params: of a network of `purerl.parts.networks`. Of another tree, all are at 1.
    """
    layers: dict[str, set[str]] = {}
    for path, _ in jax.tree.leaves_with_path(params):
        torso, layer = _layer(path)
        if layer is not None:
            layers.setdefault(torso, set()).add(layer)

    def of_array(path: tuple[Any, ...], leaf: jax.Array) -> float:
        del leaf
        torso, layer = _layer(path)
        if layer is None:
            return 1.0
        order = sorted(layers[torso], key=lambda name: (name[0], int(name.split("_")[1])))
        return order.index(layer) / len(order)

    return jax.tree.map_with_path(of_array, params)


def dormancy(network: Any, params: PyTree, obs: jax.Array) -> Any:
    """Return how active the unit is that each parameter feeds, relative to its layer.

    The mean of |activation| over observations, over the layer's mean of that (Sokar et al. 2023,
    "The dormant neuron phenomenon", definition 3.1): 0 for an inactive unit, 1 for an
    average one and for all that feeds no hidden unit. Of a filter, the mean over positions counts.

    Args:
        network: of `purerl.parts.networks`.
        params: its parameters.
        obs: [B, *obs_shape], as it sees them.

    Returns:
        a tree like `params`.
    """
    entering = entering_activations(network, params, obs)

    def of_array(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        torso, layer = _layer(path)
        if layer is None:
            return jnp.ones_like(leaf)
        activity = jnp.abs(ACTIVATIONS[network.activation](entering[torso][layer]))
        activity = jnp.mean(activity.reshape(-1, activity.shape[-1]), axis=0)
        score = activity / jnp.maximum(jnp.mean(activity), TINY)
        return jnp.broadcast_to(score.reshape((1,) * (leaf.ndim - 1) + (-1,)), leaf.shape)

    return jax.tree.map_with_path(of_array, params)


def entering_activations(network: Any, params: PyTree, obs: jax.Array) -> dict[str, Any]:
    """Return the inputs of the activation functions [B, ..., units], by torso and layer.

    Args:
        network: of `purerl.parts.networks`.
        params: its parameters.
        obs: [B, *obs_shape], as it sees them.
    """
    kinds = nn.Dense | nn.Conv | nn.LayerNorm
    _, seen = network.apply(
        params,
        obs,
        capture_intermediates=lambda module, _: isinstance(module, kinds),
        mutable=["intermediates"],
    )

    def of_torso(layers: dict[str, Any]) -> dict[str, Any]:
        last = {name: layers.get(name.replace("Dense", "LayerNorm"), layers[name])
                for name in layers if not name.startswith("LayerNorm")}  # fmt: skip
        return {name: each["__call__"][0] for name, each in last.items()}

    torsos = seen["intermediates"].items()
    return {name: of_torso(layers) for name, layers in torsos if name.endswith("torso")}


def for_each(values: Any, params: PyTree) -> jax.Array:
    """Return the value of every single parameter [P], of a tree with one value for each array."""
    leaves = zip(jax.tree.leaves(values), jax.tree.leaves(params), strict=True)
    return jnp.concatenate([jnp.full(leaf.size, value, jnp.float32) for value, leaf in leaves])


def _names(path: tuple[Any, ...]) -> list[str]:
    return [str(getattr(key, "key", "")) for key in path]


def _layer(path: tuple[Any, ...]) -> tuple[str, str | None]:
    """Return the torso and the hidden layer that a parameter belongs to; of a head "", None."""
    names = _names(path)
    for torso, layer in itertools.pairwise(names):
        if torso.endswith("torso") and re.fullmatch(r"(Conv|Dense|LayerNorm)_\d+", layer):
            return torso, layer.replace("LayerNorm", "Dense")  # which feeds the same units
    return "", None
