"""Brax (Freeman et al. 2021): robots with rigid bodies, continuous actions."""

from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from gymnax.environments import spaces

from purerl.envs.drawing import BODY, GOAL, INK, POLE, SOFT, Canvas, Colour
from purerl.envs.suite import Suite, SuiteEnvironment, SuiteParams, SuiteState, imported, quiet
from purerl.fast.branches import cond
from purerl.types import Environment, PyTree

VERSION = "0.14.2"
Backend = Literal["spring", "positional", "generalized", "mjx"]

NAMES = (
    "ant", "fast", "halfcheetah", "hopper", "humanoid", "humanoidstandup",
    "inverted_double_pendulum", "inverted_pendulum", "pusher", "reacher", "walker2d",
)  # fmt: skip
"""All robots of brax 0.14.2 except swimmer."""
TIME_LIMITS = {"reacher": 50, "pusher": 100}
"""Time limits in steps that differ from 1000, as in Gymnasium."""
FROM_ABOVE = {"reacher": 0.6, "pusher": 2.4}
"""Robots drawn from above, and the metres in their pictures; others are drawn from the side."""
METRES = 4.0
"""Width of a picture from the side."""
_SPHERE, _CAPSULE = 2, 3
"""MuJoCo's identifiers of shapes."""


class Brax(SuiteEnvironment):
    """A robot. Scores of different backends cannot be compared, because the physics differ.

    Args:
        name: name of the robot.
        backend: physics engine; `spring` is the fastest on a CPU.
        pool: see `SuiteEnvironment`; None by default, because resets are rare here.

    Raises:
        ValueError: if the backend is unknown.
    """

    suite = "brax"

    def __init__(
        self,
        name: str,
        backend: Backend = "spring",
        pool: int | None = None,
        pool_seed: int = 0,
    ):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        if backend not in get_args(Backend):
            allowed = ", ".join(get_args(Backend))
            raise ValueError(f"backend = {backend!r} must be one of {allowed}")
        robots = imported("brax", "brax.envs", VERSION)
        with quiet():
            self.robot = robots.get_environment(name, backend=backend)
        self._params = SuiteParams(max_steps_in_episode=TIME_LIMITS.get(name, 1000))

    def begin(self, key: jax.Array, params: SuiteParams) -> tuple[jax.Array, Any]:
        """Reset; brax's `done` marks a terminal state, never a time limit."""
        state = self.robot.reset(key)
        return state.obs, state

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: SuiteParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step; brax changes the dicts of the state in place, so it gets copies."""
        inner = inner.replace(metrics=dict(inner.metrics), info=dict(inner.info))
        state = self.robot.step(inner, action)
        return state.obs, state, state.reward, state.done.astype(bool)

    @partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: jax.Array, state: PyTree, action: jax.Array, params: SuiteParams | None = None
    ) -> tuple:
        """Step as gymnax does, but compute a reset only if an episode has ended.

        In ant it costs a tenth of a step.
        """
        params = self.default_params if params is None else params
        key, reset_key = jax.random.split(key)
        obs, state, reward, terminated, info = self.step_env(key, state, action, params)
        truncated = self.is_truncated(state, params)
        info |= {"terminated": terminated, "truncated": truncated, "final_observation": obs}
        obs, state = cond(
            terminated | truncated,
            lambda *_: self.reset_env(reset_key, params),
            lambda *now: now,
            obs,
            state,
        )
        return obs, state, reward, terminated, truncated, info

    def render(self, state: SuiteState, params: SuiteParams) -> np.ndarray:
        """Draw the robot as lines: from the side, with the camera moving along, or from above."""
        name = self.name.removeprefix("brax/")
        shown, up = (FROM_ABOVE[name], 1) if name in FROM_ABOVE else (METRES, 2)
        lines = _lines(self.robot.sys, state.inner.pipeline_state.x) if name != "fast" else []
        middle = float(lines[0].ends[:, 0].mean()) if lines and up == 2 else 0.0
        left, right = middle - shown / 2, middle + shown / 2
        canvas = Canvas(left, right, -0.15 * shown if up == 2 else -shown / 3)
        if up == 2:
            canvas.line([(left, 0.0), (right, 0.0)], SOFT, 2)
            for metre in range(int(np.ceil(left)), int(right) + 1):
                canvas.line([(metre, -0.1), (metre, 0.0)], SOFT, 2)
        for line in sorted(lines, key=lambda each: each.ends[0, 3 - up], reverse=up == 2):
            ends = [(float(end[0]), float(end[up])) for end in line.ends]
            canvas.line(ends, line.colour, max(2.0, 2 * line.radius * canvas.pixels_per_unit))
        return canvas.pixels()

    @property
    def num_actions(self) -> int:
        """Dimensions of an action."""
        return int(self.robot.action_size)

    def action_space(self, params: PyTree = None) -> spaces.Box:
        """Return a box with a number in [-1, 1] for every actuator."""
        return spaces.Box(-1.0, 1.0, (self.num_actions,))


class _Line(NamedTuple):
    """A rigid body's capsule or sphere."""

    colour: Colour
    ends: np.ndarray
    """[2, 3] metres"""
    radius: float
    """metres"""


def _lines(system: Any, places: Any) -> list[_Line]:
    """Return the capsules and spheres of all links at these places."""
    lines = []
    positions, turns = np.asarray(places.pos), np.asarray(places.rot)
    for shape, body, at, turn, size in zip(
        *(np.asarray(each) for each in (system.geom_type, system.geom_bodyid)),
        *(np.asarray(each) for each in (system.geom_pos, system.geom_quat, system.geom_size)),
        strict=True,
    ):
        if body == 0 or shape not in (_SPHERE, _CAPSULE):  # of the world, such as its floor
            continue
        half = np.array([0.0, 0.0, size[1] if shape == _CAPSULE else 0.0])
        link = int(body) - 1
        is_goal = system.link_names[link] in ("target", "goal")
        colour = GOAL if is_goal else (BODY, POLE, INK)[link % 3]
        ends = [
            positions[link] + _rotate(turns[link], at + sign * _rotate(turn, half))
            for sign in (-1, 1)
        ]
        lines.append(_Line(colour, np.stack(ends), float(size[0])))
    return lines


def _rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    real, axis = quaternion[0], quaternion[1:]
    return vector + 2 * np.cross(axis, np.cross(axis, vector) + real * vector)


_REASON = "brax 0.14.2's swimmer does not run with this version of JAX"
SUITE = Suite(NAMES, lambda name: partial(Brax, name), {"swimmer": _REASON})
