"""An environment of one's own: `metaevo train --task.env examples/corridor.py:Corridor`."""

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import environment, spaces


@struct.dataclass
class State(environment.EnvState):
    position: jax.Array
    time: int


@struct.dataclass
class Params(environment.EnvParams):
    length: int = 8
    max_steps_in_episode: int = 50


class Corridor(environment.Environment):
    """Walk right to the end; the observation is the position, in [0, 1]."""

    default_params = Params()
    num_actions = 2

    def observation_space(self, params):
        return spaces.Box(0.0, 1.0, (1,), jnp.float32)

    def action_space(self, params=None):
        return spaces.Discrete(2)

    def reset_env(self, key, params):
        state = State(position=jnp.int32(0), time=0)
        return self.observe(state, params), state

    def step_env(self, key, state, action, params):
        position = jnp.clip(state.position + 2 * action - 1, 0, params.length - 1)
        terminated = position == params.length - 1
        state = State(position=position, time=state.time + 1)
        reward = jnp.where(terminated, 1.0, 0.0)
        return self.observe(state, params), state, reward, terminated, {}

    def observe(self, state, params):
        return jnp.array([state.position / (params.length - 1)], jnp.float32)
