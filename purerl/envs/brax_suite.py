"""Brax (Freeman et al. 2021): robots with rigid bodies, continuous actions."""

from functools import partial
from typing import Any, Literal, get_args

import jax
from gymnax.environments import spaces

from purerl.envs.suite import Suite, SuiteEnvironment, SuiteParams, imported, quiet
from purerl.fast.branches import cond
from purerl.types import Environment, PyTree

VERSION = "0.14.2"
Backend = Literal["spring", "positional", "generalized", "mjx"]

NAMES = (
    "ant", "fast", "halfcheetah", "hopper", "humanoid", "humanoidstandup",
    "inverted_double_pendulum", "inverted_pendulum", "pusher", "reacher", "walker2d",
)  # fmt: skip
"""All robots of brax 0.14.2 except swimmer, which does not run with this version of JAX."""
TIME_LIMITS = {"reacher": 50, "pusher": 100}
"""Time limits in steps that differ from 1000, as in Gymnasium."""


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
        self, name: str, backend: Backend = "spring", pool: int | None = None, pool_seed: int = 0
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

    @property
    def num_actions(self) -> int:
        """Dimensions of an action."""
        return int(self.robot.action_size)

    def action_space(self, params: PyTree = None) -> spaces.Box:
        """Return a box with a number in [-1, 1] for every actuator."""
        return spaces.Box(-1.0, 1.0, (self.num_actions,))


SUITE = Suite(NAMES, lambda name: partial(Brax, name))
