"""A trained agent as an environment: the action is a message, the reward is nearness to a goal.

Cheap talk at test time (Lu et al. 2023): a speaker tries to steer a frozen victim to a goal. The
victim is part of the speaker's environment.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment


class Place(NamedTuple):
    """The quantity that is steered in an environment."""

    what: str
    of: Callable[[jax.Array], jax.Array]
    """maps an observation to the quantity"""
    reach: Callable[[Any], float]
    """maps the environment's parameters to the largest absolute goal"""


PLACES: dict[str, Place] = {
    "CartPole-v1": Place("cart position", lambda obs: obs[0], lambda params: params.x_threshold),
    "Pendulum-v1": Place(
        "angle", lambda obs: jnp.arctan2(obs[1], obs[0]), lambda params: float(jnp.pi)
    ),
}
"""Steered quantity by environment name. Distances are linear, also between angles."""


class SteeringParams(struct.PyTreeNode):
    """Parameters of a steered victim. Traced."""

    env: Environment
    """parameters of the victim's environment"""
    victim: Any
    """the victim's policy"""
    scale: jax.Array | float = 1.0
    """factor on messages"""
    low: jax.Array | float = -1.0
    """the lowest goal"""
    high: jax.Array | float = 1.0
    """the highest goal"""


class SteeringState(struct.PyTreeNode):
    """State between two steps."""

    env: Environment
    """state of the victim's environment"""
    obs: jax.Array
    """[obs_size] the victim's observation without the message"""
    goal: jax.Array
    """[] uniform in each episode"""
    time: jax.Array
    """[] int32, steps of this episode"""


class Steering(Environment):
    """A victim to be talked to: message in, nearness to the goal out.

    An observation is the victim's observation without a message, followed by the goal. The reward
    of a step is exp(-(place - goal)^2). An episode ends with the victim's episode, or after
    `steps`.
    """

    def __init__(
        self,
        env: Environment,
        act: Callable[[Any, jax.Array], jax.Array],
        place: Callable[[jax.Array], jax.Array],
        *,
        width: int,
        steps: int,
    ):
        """Wrap the environment of a victim.

        Args:
            env: environment without messages.
            act: maps the victim's policy and observation [obs_size + width] to its action.
            place: maps an observation [obs_size] to the steered quantity.
            width: length of a message.
            steps: maximum length of an episode.

        Raises:
            ValueError: if the environment has illegal actions, which victims do not support.
        """
        super().__init__()
        if getattr(env, "legal_actions", None) is not None:
            raise ValueError(f"{env.name} has illegal actions, which its victim would take")
        self.env, self.act, self.place = env, act, place
        self.width, self.steps = width, steps

    @property
    def name(self) -> str:
        """The wrapped environment's name."""
        return self.env.name

    @property
    def default_params(self) -> SteeringParams:
        """Default parameters of the wrapped environment, without a victim."""
        return SteeringParams(self.env.default_params, None)

    def reset_env(self, key: jax.Array, params: SteeringParams) -> tuple[jax.Array, SteeringState]:
        """Reset, and draw a goal."""
        goal_key, key = jax.random.split(key)
        goal = jax.random.uniform(goal_key, minval=params.low, maxval=params.high)
        return self.reset_to(key, goal, params)

    def reset_to(
        self, key: jax.Array, goal: jax.Array, params: SteeringParams
    ) -> tuple[jax.Array, SteeringState]:
        """Reset with a given goal."""
        obs, state = self.env.reset_env(key, params.env)
        return jnp.append(obs, goal), SteeringState(state, obs, goal, jnp.int32(0))

    def step_env(
        self, key: jax.Array, state: SteeringState, action: jax.Array, params: SteeringParams
    ) -> tuple:
        """Send `action` [width] times the scale to the victim, and let it act."""
        heard = jnp.concatenate([state.obs, params.scale * action.astype(state.obs.dtype)])
        obs, env_state, _, terminated, info = self.env.step_env(
            key, state.env, self.act(params.victim, heard), params.env
        )
        reward = jnp.exp(-jnp.square(self.place(obs) - state.goal))
        state = SteeringState(env_state, obs, state.goal, state.time + 1)
        return jnp.append(obs, state.goal), state, reward, terminated, info

    def is_truncated(self, state: SteeringState, params: SteeringParams) -> jax.Array:
        """Whether our time limit or the limit of the victim's environment is reached."""
        return (state.time >= self.steps) | self.env.is_truncated(state.env, params.env)

    def is_terminated(self, state: SteeringState, params: SteeringParams) -> jax.Array:
        """Whether the victim's state is terminal."""
        return self.env.is_terminated(state.env, params.env)

    def action_space(self, params: SteeringParams | None = None) -> spaces.Box:
        """Return the space of messages before they are scaled."""
        return spaces.Box(-1.0, 1.0, (self.width,), jnp.float32)

    def observation_space(self, params: SteeringParams) -> spaces.Box:
        """Return the space of the victim's observations with the goal appended."""
        (size,) = self.env.observation_space(params.env).shape
        return spaces.Box(-jnp.inf, jnp.inf, (size + 1,), jnp.float32)


class Course(NamedTuple):
    """How episodes went; each field [steps]."""

    place: jax.Array
    """the steered quantity after each step"""
    reward: jax.Array
    """0 after the episode's end"""


def steer(
    env: Steering,
    speak: Callable[[jax.Array], jax.Array],
    key: jax.Array,
    goal: jax.Array,
    params: SteeringParams,
) -> Course:
    """Play one episode of `env.steps` steps towards a goal.

    `speak` maps an observation and goal [obs_size + 1] to a message [width] in [-1, 1].
    """
    start_key, key = jax.random.split(key)
    obs, state = env.reset_to(start_key, goal, params)

    def step(carry, key):
        obs, state, running = carry
        obs, state, reward, terminated, _ = env.step_env(key, state, speak(obs), params)
        place, reward = env.place(state.obs), jnp.where(running, reward, 0.0)
        over = terminated | env.env.is_truncated(state.env, params.env)
        return (obs, state, running & ~over), Course(place, reward)

    start = obs, state, jnp.bool_(True)
    return jax.lax.scan(step, start, jax.random.split(key, env.steps))[1]
