"""Diagnostics of networks against NumPy and single gradients."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from metaevo.studies.games import network_diagnostics
from purerl import envs, ppo
from purerl.types import Context

CONFIG = ppo.Config(
    total_timesteps=128, num_envs=2, num_steps=16, update_epochs=1, num_minibatches=1,
    hidden_sizes=(6, 4),
)  # fmt: skip


def test_effective_rank_of_known_features():
    """All directions alike, one only, two of four; and what is not finite has none."""
    one = np.ones((4, 1)) @ np.ones((1, 4))
    two = np.diag([9.0, 9.0, 0.0, 0.0])
    uneven = np.diag([9.0, 1.0, 0.0, 0.0])  # singular values 3 and 1: shares 3/4 and 1/4
    found = network_diagnostics.effective_rank(
        np.stack([np.eye(4), one, two, uneven, np.eye(4) * np.nan])
    )
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    np.testing.assert_allclose(found, [4, 1, 2, np.exp(entropy), np.nan], atol=1e-3)


@pytest.mark.long
def test_measures_of_a_network_agree_with_numpy():
    env, env_params = envs.make("CartPole-v1")
    learner, hyperparams = ppo.PPO(CONFIG, env), ppo.Hyperparams()
    state = jax.jit(learner.init)(jax.random.key(0), hyperparams, None, env_params)
    torso = state.params["params"]["actor_torso"]
    torso["Dense_0"]["bias"] = torso["Dense_0"]["bias"].at[1].set(50.0)  # saturated: flat
    torso["Dense_1"]["kernel"] = torso["Dense_1"]["kernel"].at[:, 2].set(0.0)  # dormant
    look = jax.jit(
        lambda state: network_diagnostics.measure(learner, state, hyperparams, env_params)
    )
    found = look(state)

    after, transitions, _ = learner.collect(state, env_params)
    _, batch = learner.make_batch(after, transitions, hyperparams)
    dormant, flat, moments = [], [], []
    for name in ("actor_torso", "critic_torso"):
        x = np.asarray(batch.transition.obs)
        for layer in ("Dense_0", "Dense_1"):
            weights = state.params["params"][name][layer]
            x = np.tanh(x @ np.asarray(weights["kernel"]) + np.asarray(weights["bias"]))
            activity = np.abs(x).mean(axis=0)
            dormant += list(activity <= 0.1 * activity.mean())
            flat += list((1 - x**2 < 0.05).ravel())
        moments.append(x.T @ x / len(x))
    assert sum(dormant) == 1
    np.testing.assert_allclose(found.dormant, 1 / 20, rtol=1e-5)
    np.testing.assert_allclose(found.flat, np.mean(flat), atol=2e-3)
    np.testing.assert_allclose(found.moments, np.stack(moments), atol=1e-4)

    advantage = np.asarray(batch.advantage)
    batch = batch._replace(advantage=(advantage - advantage.mean()) / advantage.std())
    plain = dataclasses.replace(CONFIG, normalize_advantages="none")
    gradient = jax.jit(jax.grad(
        lambda params, sample: ppo.PPO(plain, env).loss(
            params, sample, Context(hyperparams), None)[0]
    ))  # fmt: skip
    gradients = []
    for place in range(32):
        sample = jax.tree.map(lambda leaf, at=place: leaf[at : at + 1], batch)
        leaves = jax.tree.leaves(gradient(state.params, sample))
        gradients.append(np.concatenate([np.ravel(leaf) for leaf in leaves]))
    cosines = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        for a, b in itertools.combinations(gradients, 2)
    ]
    np.testing.assert_allclose(found.coupling, np.mean(np.abs(cosines)), rtol=1e-3)
    np.testing.assert_allclose(found.conflict, np.mean(np.array(cosines) < 0), atol=5e-3)
