"""Channels by name or from a run: their messages, saving, refusals."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.commands.train import main
from metaevo.config import ConfigError, to_dict
from metaevo.parts import channels
from metaevo.parts.channels import ChannelConfig
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from purerl import acting, envs
from purerl.parts.channels import HAND_WRITTEN
from tests.purerl.messages import message

CONFIG = ChannelConfig(width=3, scale=2.0, hidden_sizes=(5,))


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """What a run of cheap talk leaves of its channel, for observations of 4 numbers."""
    run = RunDirectory(tmp_path_factory.mktemp("talk"))
    weights = CONFIG.messenger.init(jax.random.key(1), jnp.zeros(4))
    about = {"channel": to_dict(CONFIG), "role": "adversary", "learner": "ppo", "generation": 2}
    checkpoint.save_tree(run.meta_params, jax.device_get(weights), about)
    return run


def cartpole():
    return "CartPole-v1", *envs.make("CartPole-v1")


@pytest.mark.long
@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_a_hand_written_channel_is_heard(name):
    _, env, params = channels.hear(name, cartpole(), "ppo")
    _, alone, alone_params = cartpole()
    heard, state = env.reset(jax.random.key(0), params)
    seen, same = alone.reset(jax.random.key(0), alone_params)
    np.testing.assert_array_equal(heard[:4], seen)
    jax.tree.map(np.testing.assert_array_equal, state, same)
    assert heard.shape == (6,)
    assert np.all(np.abs(heard[4:]) <= 2 * np.pi)
    assert np.any(heard[4:] != 0) == (name != "silence")


def test_a_channel_found_by_a_run_is_heard(talk):
    weights, _ = checkpoint.load_tree(talk.meta_params)
    _, env, params = channels.hear(str(talk.path), cartpole(), "dqn")
    heard, _ = env.reset(jax.random.key(0), params)
    np.testing.assert_allclose(heard[4:], 2.0 * message(weights, np.asarray(heard[:4])), rtol=1e-5)
    channel, loaded = metaevo.load(talk.path)
    np.testing.assert_allclose(channel(loaded, heard[:4]), heard[4:], rtol=1e-6)


def test_invalid_channels_are_refused(talk, tmp_path):
    damaged = RunDirectory(tmp_path / "damaged")
    weights, about = checkpoint.load_tree(talk.meta_params)
    checkpoint.save_tree(
        damaged.meta_params, weights, {**about, "channel": to_dict(ChannelConfig())}
    )
    other = RunDirectory(tmp_path / "other")
    checkpoint.save_tree(other.meta_params, weights, {"parts": {}})
    grid = "GridWorld", *envs.make("GridWorld", observations="index")
    acrobot = "Acrobot-v1", *envs.make("Acrobot-v1")
    for name, where, learner in (
        ("nosie", cartpole(), "ppo"),
        ("noise", grid, "q_learning"),
        (str(talk.path), acrobot, "ppo"),
        (str(damaged.path), cartpole(), "ppo"),
        (str(other.path), cartpole(), "ppo"),
    ):
        with pytest.raises(ConfigError, match=r"^channel = "):
            channels.hear(name, where, learner)


def test_gymnasium_has_no_channel(refused):
    argv = ["--channel", "noise", "--evaluation.gymnasium", "1"]
    assert "Gymnasium's environment has no channel" in refused(main, argv, description=None)


@pytest.mark.long
def test_a_training_keeps_a_copy_of_its_channel(talk, tmp_path):
    source = shutil.copytree(talk.path, tmp_path / "source")
    sizes = {"total_timesteps": 64, "num_envs": 2, "num_steps": 16, "update_epochs": 1}
    small = [word for key, value in sizes.items() for word in (f"--train.{key}", str(value))]
    argv = ["--run-dir", str(tmp_path / "run"), "--channel", str(source), "--seeds", "2",
            "--task.env", "CartPole-v1", "--evaluation.episodes", "1", *small]  # fmt: skip
    assert main(argv, description=None) == 0
    shutil.rmtree(source)
    result = metaevo.load_training(tmp_path / "run")
    first = jax.tree.map(lambda leaf: leaf[0], result.policies)
    action, _ = acting.act(
        result.learner, first, None, jax.random.key(0), jnp.zeros(7), greedy=True
    )
    assert action.shape == ()
    again = ["--resume", "--run-dir", str(tmp_path / "run"), "--evaluation.episodes", "2"]
    assert main(again, description=None) == 0
