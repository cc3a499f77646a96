from functools import partial

import jax
import numpy as np

from experiments.cheap_talk import talking
from experiments.cheap_talk.talking import HAND_WRITTEN, Messenger, Talking, TalkParams
from purerl import envs

KEY, WIDTH, SCALE, STEPS = jax.random.key(0), 3, 2.5, 300
MESSENGER = Messenger(WIDTH, SCALE, (16, 8))
WEIGHTS = MESSENGER.init(jax.random.key(1), 4)


def message(weights, obs, xp=np):
    """What a network says before it is scaled, by NumPy or by `jax.numpy`."""
    layers, x = weights["params"], obs
    for hidden in layers["Torso_0"].values():
        x = xp.maximum(x @ xp.asarray(hidden["kernel"], float) + xp.asarray(hidden["bias"]), 0)
    out = layers["out"]
    return xp.tanh(x @ xp.asarray(out["kernel"], float) + xp.asarray(out["bias"]))


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


def test_messages_match_the_network_and_touch_nothing_else():
    """Also at a reset, and in the observation before one; all else is the same but for rounding."""
    env, params = envs.make("CartPole-v1", max_steps_in_episode=25)
    talking, heard = Talking(env, MESSENGER.message, WIDTH), TalkParams(params, WEIGHTS)
    first, seen = play(talking, heard)
    first_bare, bare = play(env, params)
    obs, _, _, terminated, truncated, final = seen
    jax.tree.map(np.testing.assert_array_equal, seen[2:5], bare[2:5])
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    jax.tree.map(close, seen[1], bare[1])
    assert terminated.any()
    assert truncated.any()
    pairs = (first[None], first_bare[None]), (obs, bare[0]), (final, bare[5])
    for each, expected in pairs:
        close(each[:, :4], expected)
        np.testing.assert_allclose(each[:, 4:], SCALE * message(WEIGHTS, expected), atol=1e-4)
    ended = np.asarray(terminated | truncated)
    assert np.any(np.asarray(final)[ended] != np.asarray(obs)[ended])
    assert talking.observation_space(heard).shape == first.shape == (4 + WIDTH,)


SPEAK = jax.jit(jax.vmap(MESSENGER.speak, (None, 0)))
OBS = np.asarray(jax.random.normal(jax.random.key(9), (2000, 4)))


def spoken(name, seed=0, obs=OBS):
    """What a hand-written channel says of observations [N, WIDTH], before it is scaled."""
    weights = talking.hand_written(jax.random.key(seed), WEIGHTS, HAND_WRITTEN.index(name))
    return np.asarray(SPEAK(weights, obs)) / SCALE


def test_hand_written_channels_match_their_names():
    assert not np.any(spoken("silence"))
    constant = spoken("constant")
    np.testing.assert_array_equal(constant, np.broadcast_to(constant[0], constant.shape))
    assert len(set(constant[0])) == WIDTH
    firsts = np.stack([spoken("constant", seed)[0] for seed in range(12)])
    assert firsts.min() < -0.7
    assert firsts.max() > 0.7
    random = spoken("random")
    assert np.all(random.std(axis=0) > 0.01)
    assert np.abs(random - spoken("random", 1)).max() > 0.1


def test_noise_is_uniform_and_a_function_of_the_observation():
    noise = spoken("noise")
    assert np.abs(noise.mean(axis=0)).max() < 0.06
    np.testing.assert_allclose(noise.std(axis=0), np.sqrt(1 / 3), atol=0.03)
    assert np.abs(np.corrcoef(OBS.T, noise.T)[:4, 4:]).max() < 0.08
    assert np.abs(np.corrcoef(noise.T) - np.eye(WIDTH)).max() < 0.08
    np.testing.assert_array_equal(spoken("noise"), noise)
    near = spoken("noise", obs=np.nextafter(OBS, np.float32(np.inf)))
    assert np.abs(np.corrcoef(near[:, 0], noise[:, 0])[0, 1]) < 0.08
    hot = spoken("noise", obs=np.tile(np.eye(4, dtype=np.float32), (500, 1)))
    assert len(np.unique(hot[:, 0])) == 4
    assert np.any(spoken("noise", 1) != noise)
