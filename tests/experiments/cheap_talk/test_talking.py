"""Messages behind observations: they are what a network says, and touch nothing else."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.cheap_talk import channels
from experiments.cheap_talk.talking import Talking, TalkParams
from purerl import envs
from tests.experiments.cheap_talk.messages import message

KEY, WIDTH, SCALE, STEPS = jax.random.key(0), 3, 2 * np.pi, 300
MESSENGER = channels.Messenger((16, 8), WIDTH)
WEIGHTS = MESSENGER.init(jax.random.key(1), jnp.zeros(4))


@partial(jax.jit, static_argnums=0)
def play(env, env_params):
    """All that happens in a few episodes of random play with fixed keys."""

    def step(state, key):
        act_key, env_key = jax.random.split(key)
        action = jax.random.randint(act_key, (), 0, 2)
        obs, state, reward, terminated, truncated, info = env.step(
            env_key, state, action, env_params
        )
        return state, (obs, state, reward, terminated, truncated, info["final_observation"])

    obs, state = env.reset(KEY, env_params)
    _, seen = jax.lax.scan(step, state, jax.random.split(KEY, STEPS))
    return obs, seen


@pytest.fixture(scope="module")
def cartpole():
    """The environment, its parameters, and the environment with messages."""
    env, params = envs.make("CartPole-v1", max_steps_in_episode=25)
    return env, params, Talking(env, MESSENGER.message, WIDTH)


@pytest.mark.parametrize("scale", [0.0, SCALE])
def test_dynamics_rewards_and_ends_are_untouched(cartpole, scale):
    """With messages cut off, and with any messages, all else is the same to the bit."""
    env, params, talking = cartpole
    first, seen = play(talking, TalkParams(params, WEIGHTS, scale))
    first_bare, bare = play(env, params)
    obs, state, reward, terminated, truncated, final = seen
    np.testing.assert_array_equal(first[:4], first_bare)
    np.testing.assert_array_equal(obs[:, :4], bare[0])
    np.testing.assert_array_equal(final[:, :4], bare[5])
    jax.tree.map(np.testing.assert_array_equal, (state, reward, terminated, truncated), bare[1:5])
    assert terminated.any()
    assert truncated.any()
    if not scale:
        assert not np.any(obs[:, 4:])
        assert not np.any(final[:, 4:])


def test_messages_match_the_network(cartpole):
    """Also at a reset, and in the observation before one; checked against NumPy."""
    _, params, talking = cartpole
    first, (obs, _, _, terminated, truncated, final) = play(
        talking, TalkParams(params, WEIGHTS, SCALE)
    )
    for each in (np.asarray(first)[None], np.asarray(obs), np.asarray(final)):
        np.testing.assert_allclose(each[:, 4:], SCALE * message(WEIGHTS, each[:, :4]), atol=1e-4)
    ended = np.asarray(terminated | truncated)
    assert np.any(np.asarray(final)[ended] != np.asarray(obs)[ended])
    space = talking.observation_space(TalkParams(params, WEIGHTS))
    assert space.shape == first.shape == (4 + WIDTH,)


SPEAK = jax.jit(jax.vmap(channels.speak(MESSENGER), (None, 0)))


def spoken(name, seed=0):
    """What a hand-written channel says of random observations [2000, WIDTH]."""
    obs = jax.random.normal(jax.random.key(9), (2000, 4))
    speaker = channels.speaker(name, jax.random.key(seed), WEIGHTS)
    return np.asarray(obs), np.asarray(SPEAK(speaker, obs))


def test_hand_written_channels_match_their_names():
    _, silence = spoken("silence")
    assert not np.any(silence)
    _, constant = spoken("constant")
    np.testing.assert_array_equal(constant, np.broadcast_to(constant[0], constant.shape))
    assert len(set(constant[0])) == WIDTH
    firsts = np.stack([spoken("constant", seed)[1][0] for seed in range(12)])
    assert firsts.min() < -0.7
    assert firsts.max() > 0.7
    _, random = spoken("random")
    _, other = spoken("random", 1)
    assert np.all(random.std(axis=0) > 0.01)
    assert np.abs(random - other).max() > 0.1
    obs, learned = spoken("learned")
    expected = jax.vmap(MESSENGER.message, (None, 0))(WEIGHTS, obs)
    np.testing.assert_allclose(learned, expected, atol=1e-6)


def test_noise_is_uniform_and_a_function_of_the_observation():
    obs, noise = spoken("noise")
    assert np.abs(noise.mean(axis=0)).max() < 0.06
    np.testing.assert_allclose(noise.std(axis=0), np.sqrt(1 / 3), atol=0.03)
    assert np.abs(np.corrcoef(obs.T, noise.T)[:4, 4:]).max() < 0.08
    assert np.abs(np.corrcoef(noise.T) - np.eye(WIDTH)).max() < 0.08
    speaker = channels.speaker("noise", jax.random.key(0), WEIGHTS)
    np.testing.assert_array_equal(SPEAK(speaker, obs), noise)
    near = np.asarray(SPEAK(speaker, np.nextafter(obs, np.float32(np.inf))))
    assert np.abs(np.corrcoef(near[:, 0], noise[:, 0])[0, 1]) < 0.08
    hot = np.asarray(SPEAK(speaker, np.tile(np.eye(4, dtype=np.float32), (500, 1))))
    assert len(np.unique(hot[:, 0])) == 4
    assert np.any(spoken("noise", 1)[1] != noise)


def test_no_message_is_appended_to_images_or_state_numbers():
    for env, width in (
        (envs.make("CartPole-v1")[0], 0),
        (envs.make("Breakout-MinAtar")[0], 2),
        (envs.make("GridWorld", observations="index")[0], 2),
    ):
        with pytest.raises(ValueError, match="message"):
            Talking(env, MESSENGER.message, width)
