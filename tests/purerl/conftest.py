"""Fixtures of the tests of purerl: no implicit broadcasting, and agents trained once."""

from typing import Any, NamedTuple

import jax
import pytest

from purerl import envs, ppo
from purerl.parts import losses
from purerl.types import TrainResult


@pytest.fixture(autouse=True)
def _no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


class Trained(NamedTuple):
    learner: ppo.PPO
    env_params: Any
    hyperparams: ppo.Hyperparams
    result: TrainResult


@pytest.fixture(scope="session")
def cartpole_agents() -> Trained:
    """Four agents [4, ...] with 65,536 steps each on CartPole-v1, close to CleanRL's settings."""
    env, env_params = envs.make("CartPole-v1")
    config = ppo.Config(total_timesteps=65_536, num_envs=4, num_steps=64, num_minibatches=2)
    learner = ppo.PPO(config, env, losses.clipped_squared)
    hyperparams = ppo.Hyperparams(learning_rate=1e-3)
    keys = jax.random.split(jax.random.key(0), 4)
    train = jax.jit(jax.vmap(learner.train, in_axes=(0, None, None, None)))
    result = jax.block_until_ready(train(keys, hyperparams, None, env_params))
    return Trained(learner, env_params, hyperparams, result)
