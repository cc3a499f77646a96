from functools import partial

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs

LOCAL = [name for name in envs.names() if name != "MNISTBandit-bsuite"]
IMAGES = {name for name in LOCAL if name.endswith("-MinAtar")} | {"Pong-misc"}
PLAYED = {"CartPole-v1", "Pendulum-v1", "Breakout-MinAtar"}
"""Environments that are compiled; of the others only the shapes are computed."""
KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def _no_rank_promotion():  # gymnax's environments promote ranks: theirs to decide
    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("name", LOCAL)
def test_every_environment(name):
    env, env_params = envs.make(name)

    def play(key, env_params):
        obs, state = env.reset(key, env_params)
        return obs, env.step(key, state, env.action_space(env_params).sample(key), env_params)

    run = jax.jit(play) if name in PLAYED else partial(jax.eval_shape, play)
    first, (obs, _, reward, terminated, truncated, info) = run(KEY, env_params)
    shape = env.observation_space(env_params).shape
    for seen in (first, obs, info["final_observation"]):
        assert seen.dtype == jnp.float32
        assert seen.shape == shape
        assert name not in PLAYED or np.isfinite(seen).all()
    assert len(shape) == (3 if name in IMAGES else 1)
    assert reward.shape == ()
    for flag in (terminated, truncated):
        assert flag.dtype == bool
        assert flag.shape == ()


def test_observations_flat_and_raw():
    for name, flat, raw in [
        ("Breakout-MinAtar", (400,), (10, 10, 4)),
        ("Catch-bsuite", (50,), (10, 5)),
        ("CartPole-v1", (4,), (4,)),
        ("FrozenLake-misc", (16,), ()),
    ]:
        for observations, shape in (("flat", flat), ("raw", raw)):
            env, env_params = envs.make(name, observations=observations)
            obs, _ = jax.eval_shape(env.reset, KEY, env_params)
            assert obs.shape == env.observation_space(env_params).shape == shape
    # flattening loses and reorders nothing
    image, _ = envs.make("Breakout-MinAtar")[0].reset(KEY)
    vector, _ = envs.make("Breakout-MinAtar", observations="flat")[0].reset(KEY)
    np.testing.assert_array_equal(np.ravel(image), vector)


def test_state_numbers_are_one_hot():
    env, env_params = envs.make("FrozenLake-misc")
    raw, _ = envs.make("FrozenLake-misc", observations="raw")
    _, state = raw.reset(KEY, env_params)
    step, raw_step = jax.jit(env.step), jax.jit(raw.step)
    for key in jax.random.split(KEY, 12):
        obs, _, _, _, _, info = step(key, state, 2, env_params)
        index, state, _, _, _, raw_info = raw_step(key, state, 2, env_params)
        np.testing.assert_array_equal(obs, np.eye(16)[index])
        final = np.eye(16)[raw_info["final_observation"]]
        np.testing.assert_array_equal(info["final_observation"], final)


@pytest.mark.parametrize("name", ["DeepSea-bsuite", "CartPole-v1"])
def test_all_but_the_observations_is_the_wrapped_environment(name):
    # DeepSea has a `step` of its own, which keeps counts over resets.
    env, env_params = envs.make(name)
    original, _ = gymnax.make(name)
    key, (_, state) = KEY, env.reset(KEY, env_params)
    _, original_state = original.reset(KEY, env_params)
    step, original_step = jax.jit(env.step), jax.jit(original.step)
    sample = jax.jit(env.action_space(env_params).sample)
    for _ in range(40):
        key, action_key, step_key = jax.random.split(key, 3)
        action = sample(action_key)
        _, state, *rest, _ = step(step_key, state, action, env_params)
        _, original_state, *expected, _ = original_step(
            step_key, original_state, action, env_params
        )
        jax.tree.map(np.testing.assert_array_equal, rest, expected)
        jax.tree.map(np.testing.assert_array_equal, state, original_state)


@pytest.mark.smoke
def test_cartpole_is_gymnasiums():
    """Transition by transition, the state set to Gymnasium's before each, over whole episodes."""
    limit = 40
    env, env_params = envs.make("CartPole-v1", max_steps_in_episode=limit)
    step = jax.jit(env.step)
    real = gymnasium.make("CartPole-v1", max_episode_steps=limit)
    rng = np.random.default_rng(0)
    ends = {"terminated": 0, "truncated": 0}
    for episode in range(14):
        obs, _ = real.reset(seed=episode)
        _, state = env.reset(KEY, env_params)
        done, time = False, 0
        while not done:
            # half the episodes are played at random, the others are balanced to their limit
            skilled = episode % 2 == 0
            action = int(obs[2] + obs[3] > 0) if skilled else int(rng.integers(2))
            x, x_dot, theta, theta_dot = (jnp.float32(value) for value in real.unwrapped.state)
            state = state.replace(
                x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot, time=jnp.int32(time)
            )
            obs, reward, *flags, _ = real.step(action)
            ours, state, our_reward, *our_flags, info = step(KEY, state, action, env_params)
            np.testing.assert_allclose(info["final_observation"], obs, atol=1e-6)
            assert our_reward == reward
            assert [bool(flag) for flag in our_flags] == flags
            time, done = time + 1, any(flags)
            ends["terminated"] += flags[0]
            ends["truncated"] += flags[1]
            if done:  # what comes next is a reset
                assert np.abs(ours).max() <= 0.05
                assert state.time == 0
            else:
                np.testing.assert_array_equal(ours, info["final_observation"])
    assert min(ends.values()) >= 5


def test_overrides():
    _, env_params = envs.make("Pendulum-v1", g=5, max_steps_in_episode=np.int64(7))
    assert (env_params.g, env_params.max_steps_in_episode) == (5.0, 7)
    assert isinstance(env_params.g, float)  # never another dtype, which would recompile
    assert isinstance(env_params.max_steps_in_episode, int)
    assert envs.make("Pendulum-v1")[1].g == 10.0
    _, env_params = envs.make("Pendulum-v1", max_steps_in_episode=3.0, g=np.float32(2))
    assert (env_params.max_steps_in_episode, env_params.g) == (3, 2.0)
    _, env_params = envs.make("DeepSea-bsuite", size=5, deterministic=False)
    assert env_params.max_steps_in_episode == 5
    assert env_params.deterministic is False
    env, env_params = envs.make("FrozenLake-misc", desc=["SF", "HG"])  # a list, as YAML gives it
    assert env.observation_space(env_params).shape == (4,)


def test_equal_arguments_share_the_environment():
    # Compiled functions are kept per environment object.
    assert envs.make("CartPole-v1")[0] is envs.make("CartPole-v1", gravity=3.0)[0]
    assert envs.make("DeepSea-bsuite", size=5)[0] is envs.make("DeepSea-bsuite", size=5)[0]
    assert envs.make("DeepSea-bsuite", size=5)[0] is not envs.make("DeepSea-bsuite", size=6)[0]
    assert envs.make("CartPole-v1")[0] is not envs.make("CartPole-v1", observations="raw")[0]


UNREACHABLE = r"the goal \(7, 7\) cannot be reached from \(0, 0\)"


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("Cartpole-v1", {}, r"unknown environment 'Cartpole-v1'; did you mean CartPole-v1"),
        ("minigrid/Empty-8x8", {}, r"; did you mean .*navix/Empty-8x8, .*xminigrid/Empty-8x8"),
        ("navix/doorkey-8x8", {}, r"; did you mean .*navix/DoorKey-8x8"),
        ("qqqq", {}, r"unknown environment 'qqqq'; known: GridWorld, GridWorlds, "),
        ("CartPole-v1", {"gravty": 1.0}, r"CartPole-v1 has no parameter 'gravty'; it has: .*gravi"),
        ("CartPole-v1", {"gravity": "9"}, r"parameter gravity = '9' must be of type float"),
        ("CartPole-v1", {"max_steps_in_episode": float("inf")}, r"= inf must be of type int"),
        ("DeepSea-bsuite", {"size": "x"}, r"cannot build environment 'DeepSea-bsuite': "),
        ("CartPole-v1", {"observations": "flta"}, r"= 'flta' must be one of auto, flat, raw"),
        ("CartPole-v1", {"observations": "index"}, "CartPole-v1.*no state index.*GridWorld"),
        ("GridWorld", {"size": 1}, r"size = 1 must be at least 2"),
        ("GridWorld", {"start": [0, 8]}, r"start = \(0, 8\) is outside the grid of 8 x 8 cells"),
        ("GridWorld", {"start": [7, 7]}, r"start and goal must differ, both are \(7, 7\)"),
        ("GridWorld", {"walls": [[0, 0]]}, r"start = \(0, 0\) is on a wall"),
        ("GridWorld", {"walls": [[0, 1], [1, 0]]}, UNREACHABLE),
        ("GridWorld", {"walls": [[6, 7], [7, 6]], "start": "random"}, UNREACHABLE),
        ("GridWorlds", {"size": 3, "smallest_size": 4}, r"smallest_size = 4 must be at most size"),
        ("GridWorlds", {"walls": 0.6}, r"walls = 0.6 must be at least 0 and at most 0.5"),
    ],
)
def test_mistakes(name, overrides, message):
    with pytest.raises(ValueError, match=message):
        envs.make(name, **overrides)


@pytest.mark.parametrize(
    ("name", "options", "columns", "cell"),
    [
        ("DeepSea-bsuite", {"size": 5}, 5, lambda state: (state.row, state.column)),
        ("FourRooms-misc", {}, 13, lambda state: (state.pos[0], state.pos[1])),
    ],
)
def test_cells_are_counted_row_by_row(name, options, columns, cell):
    env, params = envs.make(name, observations="index", **options)
    assert env.observation_space(params).n == columns**2
    _, state = env.reset(KEY, params)
    step = jax.jit(env.step)
    for key in jax.random.split(KEY, 16):
        obs, state, *_ = step(key, state, jax.random.bernoulli(key).astype(int), params)
        row, column = cell(state)
        assert obs == columns * row + column


def test_a_custom_index():
    raw, params = envs.make("MountainCar-v0", observations="raw")
    env = envs.StateIndex(raw, 10, lambda obs: (obs[0] + 1.2) / 1.8 * 10)
    obs, state = env.reset(KEY, params)
    assert obs.dtype == jnp.int32
    obs, *_, info = env.step(KEY, state, 2, params)
    assert 0 <= int(obs) < 10
    assert 0 <= int(info["final_observation"]) < 10
    assert env.num_actions == 3
    assert env.name == raw.name
