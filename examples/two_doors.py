"""A room with two doors, whose observation is a dictionary: a picture, and the colour of a door.

    metaevo train --task.env examples/two_doors.py:TwoDoors

The agent must walk to the door of this colour. The doors change places between episodes.
"""

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import environment, spaces

SIZE = 5
MOVES = jnp.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
DOORS = jnp.array([[2, 0], [2, SIZE - 1]])


@struct.dataclass
class State(environment.EnvState):
    position: jax.Array
    swapped: jax.Array
    colour: jax.Array


@struct.dataclass
class Params(environment.EnvParams):
    max_steps_in_episode: int = 20


class TwoDoors(environment.Environment):
    """Reward 1 at the door of the right colour, -1 at the other one."""

    default_params = Params()
    num_actions = 4

    def observation_space(self, params):
        picture = spaces.Box(0.0, 1.0, (SIZE, SIZE, 3), jnp.float32)
        return spaces.Dict({"picture": picture, "colour": spaces.Discrete(2)})

    def action_space(self, params=None):
        return spaces.Discrete(4)

    def reset_env(self, key, params):
        swapped, colour = jax.random.randint(key, (2,), 0, 2)
        state = State(0, jnp.array([SIZE // 2, SIZE // 2]), swapped, colour)
        return self.observe(state), state

    def step_env(self, key, state, action, params):
        position = jnp.clip(state.position + MOVES[action], 0, SIZE - 1)
        state = state.replace(position=position, time=state.time + 1)
        at_door = jnp.all(position[None] == DOORS, axis=1)
        right = at_door[state.colour ^ state.swapped]
        reward = jnp.where(right, 1.0, -1.0) * jnp.any(at_door)
        return self.observe(state), state, reward, jnp.any(at_door), {}

    def observe(self, state):
        picture = jnp.zeros((SIZE, SIZE, 3)).at[(*state.position, 2)].set(1.0)
        colours = jnp.array([0, 1]) ^ state.swapped
        picture = picture.at[DOORS[:, 0], DOORS[:, 1], colours].set(1.0)
        return {"picture": picture, "colour": state.colour}
