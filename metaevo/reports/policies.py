"""Pictures of trained agents: learning curves, values of tables, and episodes.

Environments draw themselves if they have a method `render(state, params)` that returns a picture,
uint8 [height, width, 3]. Classic control, MinAtar and grids are drawn here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw

from metaevo.reports import plots
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
MOVES = {
    "FourRooms-misc": ((-1, 0), (0, 1), (1, 0), (0, -1)),
    "FrozenLake-misc": ((0, -1), (1, 0), (0, 1), (-1, 0)),
}
"""Changes of (row, column) by each action, in gymnax's grids."""


def plot_learning_curves(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], path: plots.PathLike
) -> Path:
    """Draw the mean over seeds and its 95% bootstrap interval, unsmoothed; return the path.

    Args:
        curves: environment steps [points] and returns [seeds, points] by name; NaN where a seed had
            no finished episode.
        path: output path of the PNG.
    """
    panel = plots.Panel(curves, "environment steps", "return of finished episodes")
    return plots.plot_panels([panel], path, height=3.6)


# --- Values of a table --------------------------------------------------------------------------


class GridMap(NamedTuple):
    """The grid of an environment's states."""

    shape: tuple[int, int]
    moves: tuple[tuple[int, int], ...]
    """change of (row, column) by each action; empty if it is not fixed"""


def grid_map(env: Environment, num_states: int) -> GridMap | None:
    """Return the grid of an environment's states, row by row; None if the states form no grid."""
    from purerl.envs import grid  # imports gymnax

    while hasattr(env, "env"):
        env = env.env
    shape: Any = getattr(env, "shape", None)
    if shape is not None:
        return GridMap(tuple(shape), grid.MOVES if hasattr(env, "is_wall") else ())
    side = round(num_states**0.5)
    return GridMap((side, side), MOVES.get(env.name, ())) if side * side == num_states else None


def plot_value_map(q: np.ndarray, visits: np.ndarray, cells: GridMap, path: plots.PathLike) -> Path:
    """Draw max Q of every state with its greedy actions as arrows, and the visits; return the path.

    Args:
        q: [num_states, num_actions] action values.
        visits: [num_states, num_actions] number of times each action was taken; states without
            visits (walls, unreachable states) stay blank.
        cells: the grid.
        path: output path of the PNG.
    """
    figure = plots.new_figure(4.6 if cells.shape[0] <= 1.3 * cells.shape[1] else 6.0, 9.0)
    panels = figure.subplots(1, 2)
    counts = visits.sum(axis=1)
    seen = counts > 0
    shown = {
        "highest action value, greedy actions": np.where(seen, q.max(axis=1), np.nan),
        "visits, log10": np.log10(np.where(seen, counts, np.nan)),
    }
    for axes, (title, values) in zip(panels, shown.items(), strict=True):
        axes.set_facecolor("#E8E8E8")
        image = axes.imshow(values.reshape(cells.shape), cmap="viridis")
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, fontsize=11, color=plots.INK)
        figure.colorbar(image, ax=axes, shrink=0.8).outline.set_visible(False)
    best = np.isclose(q, q.max(axis=1, keepdims=True), rtol=1e-6, atol=0.0)
    best &= seen[:, None] & ~best.all(axis=1, keepdims=True)  # untrained: without a preference
    if cells.moves:
        states, actions = np.nonzero(best[:, : len(cells.moves)])
        down, right = 0.42 * np.array(cells.moves).T[:, actions]
        rows, columns = np.divmod(states, cells.shape[1])
        units = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.007}
        panels[0].quiver(columns, rows, right, down, color="white", **units)
    return plots.save_figure(figure, path)


# --- Episodes -----------------------------------------------------------------------------------


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


def frames_per_second(env: Environment) -> float:
    """Return a comfortable frame rate for films of an environment."""
    return 30.0 if env.name in CLASSIC_CONTROL else 8.0


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
    if is_gymnax or not hasattr(env, "env"):
        return CLASSIC_CONTROL.get(env.name) if is_gymnax else None
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


def _planes(cells: np.ndarray, colours: Sequence[Colour] = PLANES) -> np.ndarray:
    """Draw cells [rows, columns, channels], each in the colour of its first positive channel."""
    channel = np.argmax(cells > 0, axis=-1)
    table = np.array([*colours, PAPER], np.uint8)
    index = np.where((cells > 0).any(axis=-1), channel, len(colours))
    frame = table[index].repeat(CELL, axis=0).repeat(CELL, axis=1)
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

Stroke = tuple[Any, ...]
"""Colour, width in pixels, and points (x, y) of a line with round ends; one point is a disc."""


def _strokes(reach: Any, strokes: Sequence[Stroke]) -> np.ndarray:
    """Draw strokes around (0, 0), which is in the middle, up to x = `reach` at the right edge."""
    image = Image.new("RGB", (2 * WIDTH, 2 * HEIGHT), PAPER)  # twice as large, to smooth edges
    pen, unit = ImageDraw.Draw(image), WIDTH / float(reach)
    for colour, size, *points in strokes:
        at = [(WIDTH + unit * float(x), HEIGHT - unit * float(y)) for x, y in points]
        pen.line(at, fill=colour, width=round(2 * size), joint="curve")
        for x, y in (at[0], at[-1]):
            pen.ellipse((x - size, y - size, x + size, y + size), fill=colour)
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX))


def _end(start: tuple[Any, Any], length: Any, angle: Any) -> tuple[Any, Any]:
    """Return the end of a pole that leans to the right by an angle."""
    return start[0] + length * math.sin(angle), start[1] + length * math.cos(angle)


def _cart_pole(state: Any, params: Any) -> np.ndarray:
    reach = 1.15 * params.x_threshold
    (left, cart, right), ground = (state.x + reach * np.array([-0.08, 0, 0.08])), -0.35 * reach
    tip = _end((cart, ground), 2 * params.length, state.theta)
    return _strokes(reach, [
        (SOFT, 2, (-reach, ground), (reach, ground)),
        (BODY, 22, (left, ground), (right, ground)),
        (POLE, 7, (cart, ground), tip),
        (INK, 6, (cart, ground)),
    ])  # fmt: skip


def _acrobot(state: Any, params: Any) -> np.ndarray:
    upper, lower, first = params.link_length_1, params.link_length_2, math.pi - state.joint_angle1
    reach, elbow = 1.725 * (upper + lower), _end((0, 0), upper, first)
    return _strokes(reach, [
        (GOAL, 1.5, (-reach, upper), (reach, upper)),
        (BODY, 8, (0, 0), elbow),
        (POLE, 8, elbow, _end(elbow, lower, first - state.joint_angle2)),
        (INK, 8, (0, 0)),
        (INK, 8, elbow),
    ])  # fmt: skip


def _mountain_car(state: Any, params: Any) -> np.ndarray:
    left, right, flag = params.min_position, params.max_position, params.goal_position

    def at(x: Any, above: float = 0.0) -> tuple[Any, float]:
        return x - (left + right) / 2, 0.45 * math.sin(3 * x) - 0.05 + above

    return _strokes((right - left) / 2 + 0.15, [
        (INK, 2, *map(at, np.linspace(left, right, 100))),
        (GOAL, 2, at(flag), at(flag, 0.2)),
        (GOAL, 10, at(flag, 0.18)),
        (BODY, 18, at(state.position, 0.05)),
    ])  # fmt: skip


def _pendulum(state: Any, params: Any) -> np.ndarray:
    reach, push = 1.25 * params.l, np.ravel(state.last_u)[0] / params.max_torque
    return _strokes(1.5 * reach, [
        (SOFT, 5, (0, -0.92 * reach), (-reach * push, -0.92 * reach)),
        (POLE, 12, (0, 0), _end((0, 0), params.l, -state.theta)),
        (INK, 8, (0, 0)),
    ])  # fmt: skip


CLASSIC_CONTROL = {
    "CartPole-v1": _cart_pole,
    "Acrobot-v1": _acrobot,
    "MountainCar-v0": _mountain_car,
    "MountainCarContinuous-v0": _mountain_car,
    "Pendulum-v1": _pendulum,
}
