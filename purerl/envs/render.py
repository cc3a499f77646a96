"""Pictures of environment states, and films of episodes."""

import math
import os
from collections.abc import Callable, Sequence
from typing import IO, Any

import jax
import numpy as np
from PIL import Image

from purerl import acting
from purerl.envs.drawing import BODY, GOAL, INK, POLE, SOFT, Canvas, planes
from purerl.types import Environment, EnvParams, Learner, PyTree

Renderer = Callable[[Any, Any], np.ndarray]
"""`(state, params) -> picture`, uint8 [height, width, 3]."""


def save_gif(
    path: str | os.PathLike[str] | IO[bytes], frames: Sequence[np.ndarray], fps: float = 8.0
) -> None:
    """Write a GIF that loops forever: frames uint8 [height, width, 3], `fps` per second.

    Raises:
        ValueError: if there are no frames, or `fps` is not between 0 and 100 (the format counts
            hundredths of a second).
    """
    if not frames:
        raise ValueError("a film needs at least one frame")
    if not 0 < fps <= 100:
        raise ValueError(f"fps = {fps!r} must be above 0 and at most 100")
    first, *others = (Image.fromarray(frame) for frame in frames)
    duration = round(1000 / fps)  # milliseconds
    first.save(path, "GIF", save_all=True, append_images=others, duration=duration, loop=0)


def renderer(env: Environment) -> Renderer | None:
    """Return the function that draws an environment's states, or None if it cannot be drawn.

    An environment of this package or of the user, wrapped or not, draws itself if it has a method
    `render(state, params)` that returns uint8 [height, width, 3]. Gymnax's classic control and
    MinAtar are drawn here, because their own `render` returns matplotlib figures.
    """
    method = getattr(type(env), "render", None)
    if method is not None and not method.__module__.startswith("gymnax."):
        return lambda state, params: _checked(env.name, env.render(state, params))
    if type(env).__module__.startswith("gymnax."):
        if not env.name.endswith("-MinAtar"):
            return _CLASSIC_CONTROL.get(env.name)
        observe = jax.jit(env.get_obs)
        return lambda state, params: planes(np.asarray(observe(state, params)))
    draw = renderer(env.env) if hasattr(env, "env") else None
    if draw is None or not hasattr(env, "inner"):
        return draw
    return lambda state, params: draw(state, env.inner(params))


def _checked(name: str, picture: Any) -> np.ndarray:
    """Return the result of a user's `render`; raise `ValueError` if it is not a picture."""
    found = np.asarray(picture)
    if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3:
        raise ValueError(
            f"{name}: render returns {found.dtype} {list(found.shape)}; it must return uint8 "
            "[height, width, 3]"
        )
    return found


def frames_per_second(env: Environment) -> float:
    """Return a comfortable frame rate for films of an environment."""
    return 30.0 if env.name in _CLASSIC_CONTROL or env.name.startswith("brax/") else 8.0


def _cart_pole(state: PyTree, params: PyTree) -> np.ndarray:
    reach, x, angle = float(params.x_threshold) * 1.15, float(state.x), float(state.theta)
    canvas = Canvas(-reach, reach, -0.7 * reach)
    ground, length = -0.35 * reach, 2 * float(params.length)
    canvas.line([(-reach, ground), (reach, ground)], SOFT, 2)
    canvas.box((x, ground), 44, 22, BODY)
    tip = (x + length * math.sin(angle), ground + length * math.cos(angle))
    canvas.line([(x, ground), tip], POLE, 7)
    canvas.disc((x, ground), INK, 3)
    return canvas.pixels()


def _acrobot(state: PyTree, params: PyTree) -> np.ndarray:
    first, second = float(state.joint_angle1), float(state.joint_angle2)
    upper, lower = float(params.link_length_1), float(params.link_length_2)
    reach = 1.15 * (upper + lower)
    canvas = Canvas(-1.5 * reach, 1.5 * reach, -reach)
    canvas.line([(-1.5 * reach, upper), (1.5 * reach, upper)], GOAL, 1.5)
    elbow = (upper * math.sin(first), -upper * math.cos(first))
    hand = (
        elbow[0] + lower * math.sin(first + second),
        elbow[1] - lower * math.cos(first + second),
    )
    canvas.line([(0.0, 0.0), elbow], BODY, 8)
    canvas.line([elbow, hand], POLE, 8)
    for joint in ((0.0, 0.0), elbow):
        canvas.disc(joint, INK, 4)
    return canvas.pixels()


def _mountain_car(state: PyTree, params: PyTree) -> np.ndarray:
    def height(position: float) -> float:
        return 0.45 * math.sin(3 * position) + 0.55

    left, right = float(params.min_position), float(params.max_position)
    canvas = Canvas(left - 0.15, right + 0.15, -0.1)
    canvas.line([(x, height(x)) for x in np.linspace(left, right, 100).tolist()], INK, 2)
    flag = float(params.goal_position)
    canvas.line([(flag, height(flag)), (flag, height(flag) + 0.2)], GOAL, 2)
    canvas.box((flag + 0.03, height(flag) + 0.17), 12, 9, GOAL)
    position = float(state.position)
    canvas.disc((position, height(position) + 0.05), BODY, 9)
    return canvas.pixels()


def _pendulum(state: PyTree, params: PyTree) -> np.ndarray:
    length, angle = float(params.l), float(state.theta)
    reach = 1.25 * length
    canvas = Canvas(-1.5 * reach, 1.5 * reach, -reach)
    push = reach * float(np.ravel(state.last_u)[0]) / float(params.max_torque)
    canvas.line([(0.0, -0.92 * reach), (-push, -0.92 * reach)], SOFT, 5)
    canvas.line([(0.0, 0.0), (-length * math.sin(angle), length * math.cos(angle))], POLE, 12)
    canvas.disc((0.0, 0.0), INK, 4)
    return canvas.pixels()


_CLASSIC_CONTROL: dict[str, Renderer] = {
    "CartPole-v1": _cart_pole,
    "Acrobot-v1": _acrobot,
    "MountainCar-v0": _mountain_car,
    "MountainCarContinuous-v0": _mountain_car,
    "Pendulum-v1": _pendulum,
}


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
    env = learner.env
    env_params = env.default_params if env_params is None else env_params
    draw = renderer(env)
    if draw is None:
        raise ValueError(f"{env.name} cannot be drawn: it has no `render`")

    @jax.jit
    def step(key, obs, state, memory):
        key, act_key, env_key = jax.random.split(key, 3)
        action, memory = acting.act(
            learner, policy, memory, act_key, obs,
            greedy=greedy, env_params=env_params,
        )  # fmt: skip
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
