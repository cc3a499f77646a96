"""Features of parameters for learned optimizers, by their place and activity in the network."""

import itertools
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.fast.arithmetic import ACTIVATIONS
from purerl.types import Context, PyTree

POLICY = "actor_torso", "actor_memory", "policy_head", "log_std"
"""Parts of `purerl.parts.networks.ActorCritic` that the policy uses, including a shared torso."""
HEADS = "policy_head", "value_head"
"""The output layers of `ActorCritic`."""
TINY = 1e-9
"""If a layer's mean activity is smaller, all its units are dormant."""


def of_policy(params: PyTree) -> PyTree:
    """Return a tree of bools, one for each array: whether the policy uses it.

    All are False for trees that are not from `purerl.parts.networks`. Outside of flax's tree, a
    `log_std` is that of a user's network.
    """
    return jax.tree.map_with_path(
        lambda path, _: any(name in POLICY for name in _names(path)[1:]), params
    )


def depth(params: PyTree) -> PyTree:
    """Return the relative depth of each array: a tree of floats from 0 (observation) to 1 (head).

    A torso with L layers has depths 0, 1 / L, 2 / L, ... All arrays after the torso, including a
    recurrence, have depth 1, and so have trees that are not from `purerl.parts.networks`.
    """
    layers: dict[str, set[str]] = {}
    for path, _ in jax.tree.leaves_with_path(params):
        torso, layer = _layer(path)
        if layer is not None:
            layers.setdefault(torso, set()).add(layer)

    def of_array(path: tuple[Any, ...], leaf: jax.Array) -> float:
        torso, layer = _layer(path)
        if layer is None:
            return 1.0
        order = sorted(layers[torso], key=lambda name: (name[0], int(name.split("_")[1])))
        return order.index(layer) / len(order)

    return jax.tree.map_with_path(of_array, params)


def dormancy(context: Context, params: PyTree) -> PyTree:
    """Return the activity of the unit that each parameter feeds, relative to its layer.

    This is the mean |activation| of the unit over observations, divided by the mean over the layer
    (Sokar et al. 2023, "The dormant neuron phenomenon", definition 3.1): 0 for an inactive unit, 1
    for an average unit. The units of a head are its outputs. Parameters that feed neither a hidden
    unit nor an output get 1. The activity of a filter is its mean over positions. The context has
    the network and the minibatch's observations; the result has the structure of `params`.
    All are 1 in a network of the user's, and without one, as for a figure.
    """
    network = context.network
    if not isinstance(network, nn.Module):
        return jax.tree.map(jnp.ones_like, params)
    named: Any = getattr(network, "config", network)
    activation = ACTIVATIONS[named.activation]
    outputs = _layer_outputs(network, params, context.observations)
    entering = _entering(outputs)

    def of_array(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        torso, layer = _layer(path)
        head = next((name for name in _names(path) if name in HEADS), None)
        if layer is not None:
            activity = activation(entering[torso][layer])
        elif head is not None:
            activity = outputs[head]["__call__"][0]
        else:
            return jnp.ones_like(leaf)
        activity = jnp.abs(activity)
        activity = jnp.mean(activity.reshape(-1, activity.shape[-1]), axis=0)
        score = activity / jnp.maximum(jnp.mean(activity), TINY)
        return jnp.broadcast_to(score.reshape((1,) * (leaf.ndim - 1) + (-1,)), leaf.shape)

    return jax.tree.map_with_path(of_array, params)


def _layer_outputs(network: Any, params: PyTree, obs: jax.Array) -> dict[str, Any]:
    """Return the outputs of all layers [B, ..., units], as flax captures them."""
    kinds = nn.Dense | nn.Conv | nn.LayerNorm
    _, seen = network.apply(
        params,
        obs,
        capture_intermediates=lambda module, _: isinstance(module, kinds),
        mutable=["intermediates"],
    )
    return seen["intermediates"]


def _entering(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return which of the outputs enter an activation function, by torso and layer."""

    def of_torso(layers: dict[str, Any]) -> dict[str, Any]:
        last = dict(layers)  # a normalised layer's outputs take the place of its own
        for norm in (name for name in layers if "Norm" in name):
            last[_normalised(norm)] = last.pop(norm)
        return {name: each["__call__"][0] for name, each in last.items()}

    return {name: of_torso(layers) for name, layers in outputs.items() if name.endswith("torso")}


def for_each(values: Any, params: PyTree) -> jax.Array:
    """Expand a tree with one value for each array to one value for each parameter [P]."""
    leaves = zip(jax.tree.leaves(values), jax.tree.leaves(params), strict=True)
    return jnp.concatenate([jnp.full(leaf.size, value, jnp.float32) for value, leaf in leaves])


def _names(path: tuple[Any, ...]) -> list[str]:
    return [str(getattr(key, "key", "")) for key in path]


def _layer(path: tuple[Any, ...]) -> tuple[str, str | None]:
    """Return the torso and the hidden layer of a parameter; `"", None` for a head."""
    names = _names(path)
    for torso, layer in itertools.pairwise(names):
        if torso.endswith("torso") and re.fullmatch(r"(Conv|Dense|ConvNorm|LayerNorm)_\d+", layer):
            return torso, _normalised(layer)  # which feeds the same units
    return "", None


def _normalised(layer: str) -> str:
    """Return the name of the layer that a layer normalisation follows; other names as they are."""
    return layer.replace("ConvNorm", "Conv").replace("LayerNorm", "Dense")
