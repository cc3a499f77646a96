"""Pictures of episodes, and GIF files of pictures.

Environments draw themselves if they have a method `render(state, params)` that returns a picture,
uint8 [height, width, 3]. Our grids and MinAtar are drawn as cells, classic control as strokes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from PIL import Image, ImageColor, ImageDraw

from metaevo.config import files
from metaevo.reports.plots import BLUE, GREEN, GREY, INK, LEARNED, LIGHT, ORANGE, PURPLE, SKY
from purerl import acting
from purerl.envs import GridWorld
from purerl.types import Environment, EnvParams, Learner, PyTree

Renderer = Callable[[Any, Any], Any]
"""`(state, params) -> picture`, uint8 [height, width, 3], or what it is drawn from."""
WIDTH, HEIGHT, CELL = 300, 200, 24
"""Pixels of a picture of classic control, and of the side of a cell."""
PLANES = BLUE, GREEN, INK, LEARNED, PURPLE, SKY, ORANGE, GREY, "#F0E442", "#933F00"


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
        at most `max_steps` + 1 frames, uint8 [height, width, 3]; those of an environment with
        `render` as it returns them.

    Raises:
        ValueError: if the environment cannot be drawn.
    """
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


def save_gif(path: str | Path, frames: Sequence[np.ndarray], fps: float = 4.0) -> None:
    """Write a GIF that loops forever, in 256 colours.

    Args:
        path: of the file.
        frames: uint8 [height, width, 3], of one shape; equal ones become a longer one.
        fps: frames per second, at most 100: the format counts hundredths of a second.

    Raises:
        ValueError: other frames.
    """
    film = np.stack(frames)
    if film.dtype != np.uint8 or film.shape[3:] != (3,):
        found = f"{film.dtype} {list(film.shape[1:])}"
        raise ValueError(f"frames (of `render`) are {found}: must be uint8 [height, width, 3]")
    count, height, width, _ = film.shape
    # As one picture, so that all frames have the same palette: the file is a third as large.
    strip = Image.fromarray(film.reshape(count * height, width, 3)).quantize()
    first, *others = (strip.crop((0, at * height, width, (at + 1) * height)) for at in range(count))
    duration = round(1000 / fps)
    with files.replacing(Path(path)) as file:
        first.save(file, "GIF", save_all=True, append_images=others, loop=0, duration=duration)


def renderer(env: Environment) -> Renderer | None:
    """Return the function that draws an environment's states, or None if it cannot be drawn."""
    own, module = getattr(type(env), "render", None), type(env).__module__
    if own is not None and not own.__module__.startswith("gymnax."):  # which draws by matplotlib
        return partial(own, env)
    if isinstance(env, GridWorld):
        return partial(_cells, partial(_grid, env))
    if module.startswith("gymnax.environments.minatar."):
        return partial(_cells, jax.jit(env.get_obs))
    if module.startswith("gymnax.environments.classic_control."):
        return partial(_strokes, env.name)
    if not hasattr(env, "env"):
        return None
    draw, inner = renderer(env.env), getattr(env, "inner", lambda params: params)
    return draw and (lambda state, params: draw(state, inner(params)))


def _cells(planes_of: Renderer, state: PyTree, params: PyTree) -> np.ndarray:
    """Draw planes [rows, columns, n], a cell in the colour of its first positive plane."""
    is_set = np.asarray(planes_of(state, params)) > 0
    index = np.where(is_set.any(axis=-1), is_set.argmax(axis=-1), -1)
    colours = np.array([ImageColor.getrgb(each) for each in (*PLANES, "white")], np.uint8)
    frame = colours[index].repeat(CELL, axis=0).repeat(CELL, axis=1)
    frame[::CELL] = frame[:, ::CELL] = ImageColor.getrgb(LIGHT)
    return frame


def _grid(env: GridWorld, state: PyTree, params: PyTree) -> np.ndarray:
    """Return the planes of GridWorld or GridWorlds: the agent, the goal and the walls."""
    layout: Any = getattr(params, "layout", env)
    cells = np.arange(env.is_wall.size)
    goal = env.is_terminated(state.replace(cell=cells), params)
    planes = [cells == state.cell, goal, np.ravel(layout.is_wall)]
    return np.stack(planes, axis=-1).reshape(*env.shape, 3)


def _strokes(name: str, state: PyTree, params: PyTree) -> np.ndarray:
    """Draw a state of classic control, whose strokes have round ends."""
    reach, strokes = _scene(name, state, params)
    image = Image.new("RGB", (2 * WIDTH, 2 * HEIGHT), "white")  # twice as large, to smooth edges
    pen = ImageDraw.Draw(image)
    for colour, size, *points in strokes:
        places = WIDTH + 1j * HEIGHT + WIDTH / float(reach) * np.conj(points)
        pen.line([(each.real, each.imag) for each in places], colour, round(2 * size), "curve")
        for each in places[[0, -1]]:
            pen.circle((each.real, each.imag), size, colour)
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX))


def _scene(name: str, state: Any, params: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return x of the right edge, where 0 is in the middle, and strokes.

    A stroke is a colour, a width in pixels, and the points x + iy of a line; one point is a disc.
    """
    match name.partition("-")[0]:
        case "CartPole":
            reach = 1.15 * params.x_threshold
            ground, side = -0.35j * reach, 0.08 * reach
            track, cart = (GREY, 2, ground - reach, ground + reach), state.x + ground
            pole = _poles(cart, (2 * params.length, state.theta))
            return reach, [track, (BLUE, 22, cart - side, cart + side), *pole]
        case "Acrobot":
            upper, lower = params.link_length_1, params.link_length_2
            reach, first = 1.725 * (upper + lower), np.pi - state.joint_angle1
            goal = GREEN, 1.5, 1j * upper - reach, 1j * upper + reach
            return reach, [goal, *_poles(0, (upper, first), (lower, first - state.joint_angle2))]
        case "Pendulum":
            return 1.875 * params.l, [*_poles(0, (params.l, -state.theta))]
        case _:  # MountainCar and MountainCarContinuous
            left, right = params.min_position, params.max_position
            x = np.append(np.linspace(left, right, 100), [params.goal_position, state.position])
            *hills, flag, car = x - (left + right) / 2 + 1j * (0.45 * np.sin(3 * x) - 0.05)
            post, cloth = (GREEN, 2, flag, flag + 0.2j), (GREEN, 10, flag + 0.18j)
            scene = [(INK, 2, *hills), post, cloth, (BLUE, 18, car + 0.05j)]
            return (right - left) / 2 + 0.15, scene


def _poles(start: Any, *poles: tuple[Any, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the strokes of poles with joints, each of a length and an angle to the right."""
    for length, angle in poles:
        end = start + 1j * length * np.exp(-1j * np.float64(angle))
        yield LEARNED, 8, start, end
        yield INK, 7, start
        start = end
