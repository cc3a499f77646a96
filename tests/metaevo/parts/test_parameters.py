import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.parts import parameters
from purerl import ppo
from purerl.parts import networks, q_networks
from purerl.types import Context
from tests.purerl.reference import dense, drawn

OBS = jax.random.normal(jax.random.key(0), (7, 3))
IMAGES = jax.random.normal(jax.random.key(0), (5, 6, 6, 2))


@functools.partial(jax.jit, static_argnums=0)
def dormancy(network, params, obs):
    return parameters.dormancy(Context(None, observations=obs, network=network), params)


def actor_critic(obs_ndim=1, continuous=False, **settings):
    config = ppo.Config(hidden_sizes=(4, 5), activation="relu", **settings)
    return networks.ActorCritic(obs_ndim, 2, continuous, config)


def ratio(activity):
    activity = np.abs(activity).reshape(-1, activity.shape[-1]).mean(axis=0)
    return activity / activity.mean()


@pytest.mark.parametrize("shared", [True, False])
def test_dormancy_of_dense_layers(shared):
    network = actor_critic(shared_network=shared)
    params = jax.device_get(drawn(network, OBS))
    found = dormancy(network, params, OBS)["params"]
    assert jax.tree.structure(found) == jax.tree.structure(params["params"])
    for torso in ("critic_torso", "actor_torso")[shared:]:
        x = np.asarray(OBS)
        for layer in ("Dense_0", "Dense_1"):
            weights = params["params"][torso][layer]
            x = np.maximum(dense(weights, x), 0)
            kernel = np.broadcast_to(ratio(x), weights["kernel"].shape)
            np.testing.assert_allclose(found[torso][layer]["kernel"], kernel, rtol=1e-4)
            np.testing.assert_allclose(found[torso][layer]["bias"], ratio(x), rtol=1e-4)
    logits = ratio(dense(params["params"]["policy_head"], x))
    np.testing.assert_allclose(found["policy_head"]["bias"], logits, rtol=1e-4)
    np.testing.assert_allclose(found["policy_head"]["kernel"][2], logits, rtol=1e-4)
    np.testing.assert_allclose(found["value_head"]["kernel"], 1, rtol=1e-6)  # a single unit


def test_dormancy_of_filters_and_dead_layers():
    network = actor_critic(obs_ndim=3)
    params = drawn(network, IMAGES)
    conv = params["params"]["actor_torso"]["Conv_0"]
    conv["bias"] = conv["bias"].at[3].set(-1e3)  # never active
    found = dormancy(network, params, IMAGES)["params"]["actor_torso"]["Conv_0"]
    x = jax.lax.conv_general_dilated(
        IMAGES, conv["kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    expected = ratio(np.maximum(np.asarray(x) + np.asarray(conv["bias"]), 0))
    np.testing.assert_allclose(found["bias"], expected, rtol=1e-4)
    np.testing.assert_allclose(found["kernel"][2, 1, 1], expected, rtol=1e-4)
    assert found["bias"][3] == 0
    dead = jax.tree.map(jnp.zeros_like, params)
    found = dormancy(network, dead, IMAGES)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


def test_dormancy_with_layer_norm():
    network = actor_critic(shared_network=True, layer_norm=True)
    params = drawn(network, OBS)
    torso = params["params"]["actor_torso"]
    torso["LayerNorm_1"]["bias"] = torso["LayerNorm_1"]["bias"].at[2].set(-1e3)  # never active
    found = dormancy(network, params, OBS)["params"]["actor_torso"]
    x = np.asarray(OBS)
    for layer in "01":
        x = dense(jax.device_get(torso[f"Dense_{layer}"]), x)
        x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
        norm = torso[f"LayerNorm_{layer}"]
        x = np.maximum(x * np.asarray(norm["scale"]) + np.asarray(norm["bias"]), 0)
        for own in (found[f"Dense_{layer}"]["bias"], found[f"LayerNorm_{layer}"]["scale"]):
            np.testing.assert_allclose(own, ratio(x), rtol=1e-3)
    depth = parameters.depth(params)["params"]["actor_torso"]
    assert depth["LayerNorm_1"]["scale"] == depth["Dense_1"]["kernel"] == 0.5
    assert found["LayerNorm_1"]["scale"][2] == 0
    network = actor_critic(3, shared_network=True, layer_norm=True)
    params = drawn(network, IMAGES)
    norm = params["params"]["actor_torso"]["ConvNorm_0"]
    norm["bias"] = norm["bias"].at[3].set(-1e3)
    found = dormancy(network, params, IMAGES)["params"]["actor_torso"]
    assert found["Conv_0"]["bias"][3] == found["ConvNorm_0"]["scale"][3] == 0
    assert parameters.depth(params)["params"]["actor_torso"]["ConvNorm_0"]["scale"] == 0


def test_depth_and_policy():
    params = drawn(actor_critic(3, continuous=True), IMAGES)
    depth, policy = (
        {"/".join(key.key for key in path[1:]): leaf for path, leaf in jax.tree.leaves_with_path(x)}
        for x in (parameters.depth(params), parameters.of_policy(params))
    )
    layers = {"Conv_0": 0, "Dense_0": 1 / 3, "Dense_1": 2 / 3}
    for name, value in depth.items():
        owner, layer = name.split("/")[0], name.split("/")[1:2]
        assert value == (layers[layer[0]] if owner.endswith("torso") else 1)
        assert policy[name] == (owner in ("actor_torso", "policy_head", "log_std"))
    q_network = q_networks.QNetwork(1, 2, (4,), "tanh", dueling=True)
    params = drawn(q_network, OBS)
    assert not any(jax.tree.leaves(parameters.of_policy(params)))
    found = parameters.for_each(parameters.depth(params), params)
    heads = sum(params["params"][name]["kernel"].size + n for name, n in (("action_head", 2),))
    assert found.shape == (3 * 4 + 4 + heads + 4 + 1,)
    assert found.sum() == heads + 4 + 1
