"""Pictures of episodes.

Environments draw themselves if they have a method `render(state, params)` that returns a picture,
uint8 [height, width, 3]. Classic control, MinAtar and our grids are drawn here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from PIL import Image, ImageDraw

from metaevo.reports.film import save_gif as save_gif
from purerl.types import Environment, EnvParams, Learner, PyTree

Colour = tuple[int, int, int]
Renderer = Callable[[Any, Any], np.ndarray]
"""`(state, params) -> picture`, uint8 [height, width, 3]."""
WIDTH, HEIGHT, CELL = 300, 200, 24
"""Pixels of a picture of classic control, and of the side of a cell."""
PAPER, INK, SOFT = (250, 250, 247), (60, 60, 68), (170, 170, 175)
BODY, POLE, GOAL = (38, 92, 204), (213, 94, 0), (0, 140, 100)
PLANES = (
    BODY, POLE, (240, 190, 130), GOAL, (204, 121, 167), (86, 180, 233),
    (230, 159, 0), (120, 120, 128), (240, 228, 66), (150, 60, 60),
)  # fmt: skip


def record_episode(
    learner: Learner,
    policy: PyTree,
    key: jax.Array,
    env_params: EnvParams = None,
    *,
    max_steps: int = 1000,
    greedy: bool = True,
) -> list[np.ndarray]:
    """Play one episode and draw every state, from the reset to the last.

    Returns:
        at most `max_steps` + 1 frames, uint8 [height, width, 3].

    Raises:
        ValueError: if the environment cannot be drawn.
    """
    from purerl import acting

    env = learner.env
    env_params = env.default_params if env_params is None else env_params
    draw = renderer(env)
    if draw is None:
        raise ValueError(f"{env.name} cannot be drawn: it has no `render`")

    @jax.jit
    def step(key, obs, state, memory):
        key, act_key, env_key = jax.random.split(key, 3)
        action, memory = acting.act(
            learner, policy, memory, act_key, obs, greedy=greedy, env_params=env_params
        )
        # not `step`, which would go on to the next episode before the last state is drawn
        obs, state, _, terminated, _ = env.step_env(env_key, state, action, env_params)
        return key, obs, state, memory, terminated | env.is_truncated(state, env_params)

    key, reset_key = jax.random.split(key)
    obs, state = acting.reset(env, reset_key, env_params)
    frames = [draw(state, env_params)]
    done, memory = False, acting.begin(learner)
    while not done and len(frames) <= max_steps:
        key, obs, state, memory, done = step(key, obs, state, memory)
        frames.append(draw(jax.device_get(state), env_params))
    return frames


def renderer(env: Environment) -> Renderer | None:
    """Return the function that draws an environment's states, or None if it cannot be drawn."""
    own, is_gymnax = getattr(type(env), "render", None), type(env).__module__.startswith("gymnax.")
    if own is not None and not own.__module__.startswith("gymnax."):  # which draws by matplotlib
        return lambda state, params: _checked(env.name, env.render(state, params))
    if hasattr(env, "is_wall"):
        return partial(_grid, env)
    if is_gymnax and env.name.endswith("-MinAtar"):
        observe = jax.jit(env.get_obs)
        return lambda state, params: _planes(np.asarray(observe(state, params)))
    if is_gymnax and (scene := CLASSIC_CONTROL.get(env.name)):
        return lambda state, params: _strokes(*scene(state, params))
    if is_gymnax or not hasattr(env, "env"):
        return None
    draw, inner = renderer(env.env), getattr(env, "inner", lambda params: params)
    return draw and (lambda state, params: draw(state, inner(params)))


def _checked(name: str, picture: Any) -> np.ndarray:
    """Return the result of a user's `render`; raise `ValueError` if it is not a picture."""
    found = np.asarray(picture)
    if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3:
        raise ValueError(
            f"{name}: render returns {found.dtype} {list(found.shape)}; it must return uint8 "
            "[height, width, 3]"
        )
    return found


# --- Cells --------------------------------------------------------------------------------------


def _planes(cells: np.ndarray, colours: Sequence[Colour] = PLANES) -> np.ndarray:
    """Draw cells [rows, columns, channels], each in the colour of its first positive channel."""
    index = np.where((cells > 0).any(axis=-1), np.argmax(cells > 0, axis=-1), len(colours))
    frame = np.array([*colours, PAPER], np.uint8)[index].repeat(CELL, axis=0).repeat(CELL, axis=1)
    frame[::CELL] = frame[:, ::CELL] = (225, 225, 222)
    return frame


def _grid(env: Any, state: PyTree, params: PyTree) -> np.ndarray:
    """Draw the agent, the goal and the walls of GridWorld or GridWorlds."""
    walls, goal = env.is_wall, env.goal
    if hasattr(params, "layout"):
        walls, goal = params.layout.is_wall, divmod(int(params.layout.goal), env.shape[1])
    planes = np.zeros((*env.shape, 3), bool)
    planes[(*divmod(int(state.cell), env.shape[1]), 0)] = planes[(*goal, 1)] = True
    planes[..., 2] = np.reshape(walls, env.shape)
    return _planes(planes, (BODY, GOAL, INK))


# --- Classic control ----------------------------------------------------------------------------

Scene = tuple[Any, list[tuple[Any, ...]]]
"""x of the right edge, where 0 is in the middle, and strokes: a colour, a width in pixels, and the
points x + iy of a line with round ends; one point is a disc."""


def _strokes(reach: Any, strokes: Sequence[tuple[Any, ...]]) -> np.ndarray:
    image = Image.new("RGB", (2 * WIDTH, 2 * HEIGHT), PAPER)  # twice as large, to smooth edges
    pen = ImageDraw.Draw(image)
    for colour, size, *points in strokes:
        places = WIDTH + 1j * HEIGHT + WIDTH / float(reach) * np.conj(points)
        pen.line([(each.real, each.imag) for each in places], colour, round(2 * size), "curve")
        for each in places[[0, -1]]:
            pen.circle((each.real, each.imag), size, colour)
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX))


def _pole(length: Any, angle: Any) -> Any:
    """Return the end of a pole from 0 that leans to the right by an angle."""
    return 1j * length * np.exp(-1j * np.float64(angle))


def _cart_pole(state: Any, params: Any) -> Scene:
    reach = 1.15 * params.x_threshold
    ground, side = -0.35j * reach, 0.08 * reach
    cart = state.x + ground
    return reach, [
        (SOFT, 2, ground - reach, ground + reach),
        (BODY, 22, cart - side, cart + side),
        (POLE, 7, cart, cart + _pole(2 * params.length, state.theta)),
        (INK, 6, cart),
    ]


def _acrobot(state: Any, params: Any) -> Scene:
    upper, lower, first = params.link_length_1, params.link_length_2, np.pi - state.joint_angle1
    reach, elbow = 1.725 * (upper + lower), _pole(upper, first)
    return reach, [
        (GOAL, 1.5, 1j * upper - reach, 1j * upper + reach),
        (BODY, 8, 0, elbow),
        (POLE, 8, elbow, elbow + _pole(lower, first - state.joint_angle2)),
        (INK, 8, 0),
        (INK, 8, elbow),
    ]


def _mountain_car(state: Any, params: Any) -> Scene:
    left, right = params.min_position, params.max_position

    def at(x: Any) -> Any:
        return x - (left + right) / 2 + 1j * (0.45 * np.sin(3 * x) - 0.05)

    flag = at(params.goal_position)
    return (right - left) / 2 + 0.15, [
        (INK, 2, *at(np.linspace(left, right, 100))),
        (GOAL, 2, flag, flag + 0.2j),
        (GOAL, 10, flag + 0.18j),
        (BODY, 18, at(state.position) + 0.05j),
    ]


def _pendulum(state: Any, params: Any) -> Scene:
    reach, push = 1.25 * params.l, np.ravel(state.last_u)[0] / params.max_torque
    start = -0.92j * reach
    return 1.5 * reach, [
        (SOFT, 5, start, start - reach * push),
        (POLE, 12, 0, _pole(params.l, -state.theta)),
        (INK, 8, 0),
    ]


CLASSIC_CONTROL = {
    "CartPole-v1": _cart_pole,
    "Acrobot-v1": _acrobot,
    "MountainCar-v0": _mountain_car,
    "MountainCarContinuous-v0": _mountain_car,
    "Pendulum-v1": _pendulum,
}
