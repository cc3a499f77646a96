from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import EnvParams

from metaevo.config import ConfigError, references
from metaevo.tasks.task import TaskConfig, make_environment
from purerl import envs
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium
from tests.purerl import probes

KEY = jax.random.key(0)


class Nested(probes.Cycle):
    """Parts whose order in the space is not their order in the vector."""

    def show(self, state):
        grid = jnp.arange(6, dtype=jnp.uint8).reshape(2, 3)
        return {
            "pair": (state.x, state.time % 2),
            "kind": state.time % 4,
            "deep": {"z": grid, "a": (state.time > 1).astype(jnp.int8)},
        }

    def observation_space(self, params=None):
        grid, flag = spaces.Box(0, 5, (2, 3), jnp.uint8), spaces.Box(0, 1, (), jnp.int8)
        return spaces.Dict(
            {
                "pair": spaces.Tuple([spaces.Box(-10.0, 10.0, ()), spaces.Discrete(2)]),
                "kind": spaces.Discrete(4),
                "deep": spaces.Dict({"z": grid, "a": flag}),
            }
        )


class Pair(Nested):
    def show(self, state):
        return state.time % 3, super().show(state)

    def observation_space(self, params=None):
        return spaces.Tuple((spaces.Discrete(3), super().observation_space()))


def gymnasium_vector(env, obs):
    space = spaces.gymnax_space_to_gym_space(env.observation_space())
    return np.float32(gymnasium.spaces.flatten(space, jax.device_get(obs)))


@pytest.mark.parametrize("observations", ["auto", "flat", "raw"])
@pytest.mark.parametrize("kind", [Nested, Pair])
def test_nested_observations_become_a_vector(kind, observations):
    env, env_params = envs.make(kind, observations=observations)
    raw = kind()
    space = env.observation_space(env_params)
    obs, state = env.reset(KEY, env_params)
    ends = 0
    for key in jax.random.split(KEY, 12):
        time, x = int(state.time), float(state.x)
        deep = [time > 1, *range(6)]
        expected = [*deep, *np.eye(4)[time % 4], x, *np.eye(2)[time % 2]]
        expected = [*np.eye(3)[time % 3], *expected] if kind is Pair else expected
        np.testing.assert_array_equal(obs, np.float32(expected))
        assert (obs.dtype, obs.shape) == (space.dtype, space.shape)
        shown = env.restored(obs, env_params)
        shown = shown[1] if kind is Pair else shown
        np.testing.assert_array_equal(shown["deep"]["z"], np.arange(6).reshape(2, 3))
        np.testing.assert_array_equal(shown["kind"], np.eye(4)[time % 4])
        assert (shown["deep"]["a"], shown["pair"][0]) == (time > 1, x)
        *_, raw_info = raw.step(key, state, 0, env_params)
        obs, state, _, terminated, truncated, info = env.step(key, state, 0, env_params)
        final = gymnasium_vector(raw, raw_info["final_observation"])
        np.testing.assert_array_equal(info["final_observation"], final)
        ends += int(terminated | truncated)
    assert 2 < ends < 12


class InGymnasium(gymnasium.Env):
    observation_space = spaces.gymnax_space_to_gym_space(Nested().observation_space())
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, state):
        self.state = state

    def reset(self, *, seed=None, options=None):
        return jax.device_get(Nested().show(self.state)), {}

    def step(self, action):
        return self.reset()[0], float(action), True, False, {}


class Reader(NamedTuple):
    env: Any
    vector: jax.Array

    def action_distribution(self, policy, obs, memory=None):
        return probes.Always(jnp.all(obs == self.vector).astype(jnp.int32)), None


def test_gymnasium_shows_the_same_vector(monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    env, env_params = envs.make(Nested)
    vector, state = env.reset(KEY, env_params)
    options = {"kwargs": {"state": state}, "disable_env_checker": True}
    gymnasium.register("Nested-v0", InGymnasium, **options)
    learner = Reader(env, vector)
    returns = evaluate_in_gymnasium(learner, (), "Nested-v0", num_episodes=2)
    np.testing.assert_array_equal(returns, 1)


@struct.dataclass
class Unlimited:
    reward: float = 1.0


@struct.dataclass
class Timeless:
    x: jax.Array


@struct.dataclass
class Inherited(EnvParams):
    """Its time limit is gymnax's default, one step."""


class NoTime(probes.Probe):
    def reset_env(self, key, params):
        return jnp.zeros(1), Timeless(jnp.float32(0))

    def step_env(self, key, state, action, params):
        return jnp.zeros(1), state, jnp.float32(0), jnp.bool_(True), {}


class Unresettable(probes.Probe):
    def reset_env(self, key, params):
        raise KeyError("no simulator")


def probe(**members):
    return type("Mine", (probes.Probe,), members)


KINDS = "Box and Discrete, and Dict and Tuple"


def showing(space):
    return probe(observation_space=lambda self, params=None: space)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (probe(default_params=Unlimited()), ["Unlimited", "add `max_steps_in_episode: int`"]),
        (probe(default_params=Inherited()), ["one step", "add `max_steps_in_episode", "Inherited"]),
        (NoTime, ["Timeless", "add `time: int`"]),
        (probe(default_params=None), ["default_params", "dataclass"]),
        (Unresettable, ["KeyError: 'no simulator'"]),
        (showing(spaces.Dict({"x": gymnasium.spaces.MultiBinary(2)})), ["MultiBinary", KINDS]),
        (showing(spaces.Space()), ["Space", KINDS]),
    ],
)
def test_what_an_environment_lacks_is_named_in_one_line(kind, parts):
    with pytest.raises(ValueError, match=kind.__name__) as caught:
        envs.make(kind)
    with pytest.raises(ConfigError, match=r"^task\.env: ") as refused:
        make_environment(TaskConfig(env=references.name_of(kind)), "ppo")
    for error in (caught, refused):
        assert all(part in str(error.value) for part in parts)
        assert "\n" not in str(error.value)


class OwnLimit(NoTime):
    default_params = Unlimited()

    def is_truncated(self, state, params):
        return jnp.bool_(False)


def test_an_environment_with_a_limit_of_its_own_needs_no_clock():
    make_environment(TaskConfig(env=references.name_of(OwnLimit)), "ppo")
