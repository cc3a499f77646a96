"""A trained agent as an environment: the action is a message, the reward is nearness to a goal.

Cheap talk at test time (Lu et al. 2023): a speaker tries to steer a frozen victim to a goal. The
victim is a part of the speaker's environment.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.types import PyTree


class Place(NamedTuple):
    """The quantity that is steered in an environment."""

    what: str
    of: Callable[[jax.Array], jax.Array]
    """from an observation"""
    reach: Callable[[Any], float]
    """from the environment's parameters: goals lie between minus this and this"""


PLACES: dict[str, Place] = {
    "CartPole-v1": Place("cart position", lambda obs: obs[0], lambda params: params.x_threshold),
    "Pendulum-v1": Place(
        "angle", lambda obs: jnp.arctan2(obs[1], obs[0]), lambda params: float(jnp.pi)
    ),
}
"""The steered quantity, by the environment's name. Distances are along a line, also of angles."""


class SteeringParams(struct.PyTreeNode):
    """The parameters of a steered victim. Traced."""

    env: Environment
    """of the victim's environment"""
    victim: Any
    """its policy"""
    scale: jax.Array | float = 1.0
    """by which messages are multiplied"""
    low: jax.Array | float = -1.0
    """the lowest goal"""
    high: jax.Array | float = 1.0
    """the highest goal"""


class SteeringState(struct.PyTreeNode):
    """State between two steps."""

    env: Environment
    """of the victim's environment"""
    obs: jax.Array
    """[obs_size] the victim's observation without the message"""
    goal: jax.Array
    """[] uniform in each episode"""
    time: jax.Array
    """[] int32, steps of this episode"""


class Steering(Environment):
    """A victim to be talked to: message in, nearness to the goal out.

    An observation is the victim's, without a message, and the goal behind it. The reward of a step
    is exp(-(place - goal)^2). An episode ends where the victim's ends, or after `steps`.
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
        """Wrap `env` and its victim.

        Args:
            env: the victim's, without messages.
            act: from the victim's policy and its observation [obs_size + width] to its action.
            place: from an observation [obs_size] to the steered quantity.
            width: numbers of a message.
            steps: of an episode at most.

        Raises:
            ValueError: for an environment with illegal actions, which victims do not support.
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
        """The wrapped environment's, without a victim."""
        return SteeringParams(self.env.default_params, None)

    def reset_env(self, key: jax.Array, params: SteeringParams) -> tuple[jax.Array, SteeringState]:
        """Reset, and draw a goal."""
        goal_key, key = jax.random.split(key)
        obs, state = self.env.reset_env(key, params.env)
        goal = jax.random.uniform(goal_key, minval=params.low, maxval=params.high)
        return self._begin(obs, state, goal)

    def reset_to(
        self, key: jax.Array, goal: jax.Array, params: SteeringParams
    ) -> tuple[jax.Array, SteeringState]:
        """Reset with a given goal."""
        obs, state = self.env.reset_env(key, params.env)
        return self._begin(obs, state, goal)

    def step_env(
        self, key: jax.Array, state: SteeringState, action: jax.Array, params: SteeringParams
    ) -> tuple:
        """Say `action` [width] times the scale, and let the victim act."""
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
        """Messages before they are scaled."""
        del params
        return spaces.Box(-1.0, 1.0, (self.width,), jnp.float32)

    def observation_space(self, params: SteeringParams) -> spaces.Box:
        """A box with room for the goal."""
        (size,) = self.env.observation_space(params.env).shape
        return spaces.Box(-jnp.inf, jnp.inf, (size + 1,), jnp.float32)

    def _begin(
        self, obs: jax.Array, state: PyTree, goal: jax.Array
    ) -> tuple[jax.Array, SteeringState]:
        return jnp.append(obs, goal), SteeringState(state, obs, goal, jnp.int32(0))


class Course(NamedTuple):
    """How episodes went; each field [steps]."""

    place: jax.Array
    """where the victim was after each step"""
    reward: jax.Array
    """0 after the episode's end"""


def steer(
    env: Steering,
    speak: Callable[[jax.Array], jax.Array],
    key: jax.Array,
    goal: jax.Array,
    params: SteeringParams,
) -> Course:
    """Play one episode of `env.steps` steps towards a goal; rewards after its end are zero.

    Args:
        env: with the victim.
        speak: from an observation and goal [obs_size + 1] to a message [width] in [-1, 1].
        key: of the start and of the environment.
        goal: [] where to go.
        params: of `env`.
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
