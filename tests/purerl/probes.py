from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment


@struct.dataclass
class Params:
    max_steps_in_episode: int = 100
    reward: float = 1.0


@struct.dataclass
class State:
    x: jax.Array
    """what `observe` shows"""
    time: jax.Array


class Always(NamedTuple):
    """A policy that takes an action of two, or the other one if it is not greedy."""

    action: Any

    def mode(self, key):
        return jnp.asarray(self.action)

    def sample(self, key):
        return 1 - self.mode(key)

    def bounded(self, action, space):
        return action


class Fixed(NamedTuple):
    """A learner that only acts, always the same."""

    env: Any
    action: Any = 0

    def action_distribution(self, policy, obs, memory=None):
        return Always(self.action), None


class Probe(Environment):
    """An episode of `length` steps; subclasses say what they show and what they pay."""

    length = 1
    terminates = True

    @property
    def default_params(self):
        return Params()

    def show(self, state):
        return jnp.zeros(1)

    def pay(self, state, action, params):
        return params.reward

    def action_space(self, params=None):
        return spaces.Discrete(2)

    def observation_space(self, params=None):
        return spaces.Box(-1.0, 1.0, (1,))

    def reset_env(self, key, params):
        x = jax.random.rademacher(key, (), jnp.float32)
        state = State(x=x, time=jnp.int32(0))
        return self.show(state), state

    def step_env(self, key, state, action, params):
        reward = jnp.float32(self.pay(state, action, params))
        state = state.replace(time=state.time + 1)
        return self.show(state), state, reward, self.is_terminated(state, params), {}

    def is_terminated(self, state, params):
        return jnp.logical_and(self.terminates, state.time >= self.length)


class ActionReward(Probe):
    def pay(self, state, action, params):
        return 2.0 * action - 1.0


class MatchingReward(Probe):
    """One step, the reward is 1 where the action matches the observation, else -1."""

    def show(self, state):
        return state.x[None]

    def pay(self, state, action, params):
        return state.x * (2.0 * action - 1.0)


class TargetAction(Probe):
    """One step, a continuous action; the reward falls with its distance from the observation / 2.

    Actions are clipped to [-1, 1], and the target is inside.
    """

    def show(self, state):
        return state.x[None]

    def pay(self, state, action, params):
        return -jnp.sum(jnp.square(action - 0.5 * state.x))

    def action_space(self, params=None):
        return spaces.Box(-1.0, 1.0, (1,))


class Cycle(Probe):
    """Short episodes that end in either way or both at once, with rewards to tell apart.

    An episode terminates at random with probability 0.2 and is truncated after 4 steps.
    """

    @property
    def default_params(self):
        return Params(max_steps_in_episode=4)

    def show(self, state):
        return jnp.stack([state.x, state.time.astype(jnp.float32)])

    def observation_space(self, params=None):
        return spaces.Box(-10.0, 10.0, (2,))

    def step_env(self, key, state, action, params):
        x = jax.random.normal(key)
        state = State(x=x, time=state.time + 1)
        return self.show(state), state, x + action, self.is_terminated(state, params), {}

    def is_terminated(self, state, params):
        return state.x > 0.84


class GridAction(Probe):
    """Actions that no learner here can take: a matrix."""

    def action_space(self, params=None):
        return spaces.Box(-1.0, 1.0, (2, 2))
