"""XLand-MiniGrid (Nikulin et al. 2023): MiniGrid's tasks in part seen, and tasks made of rules."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces

from purerl.envs.grid import PIXELS
from purerl.envs.suite import (
    Suite,
    SuiteEnvironment,
    SuiteParams,
    SuiteState,
    imported,
    quiet,
)
from purerl.types import Environment, PyTree

VERSION = "0.9.3"
WORLDS = (
    *(f"R{rooms}-{size}x{size}" for rooms in (1, 2, 4) for size in (9, 11, 13, 15, 17)),
    *(f"R6-{size}x{size}" for size in (13, 17, 19)),
    *(f"R9-{size}x{size}" for size in (16, 19, 25)),
)
"""Rooms and size of XLand's worlds."""
TASKS = (
    "BlockedUnlockPickUp",
    *(f"{kind}-{size}" for kind in ("DoorKey", "Empty", "EmptyRandom")
      for size in ("5x5", "6x6", "8x8", "16x16")),
    "FourRooms",
    "LockedRoom",
    *(f"MemoryS{size}" for size in (8, 16, 32, 64, 128)),
    "Playground",
    "Unlock",
    "UnlockPickUp",
)  # fmt: skip
"""MiniGrid's."""
BENCHMARKS = (
    "trivial-21k", "small-1m", "medium-1m", "medium-3m", "high-1m", "high-3m",
)  # fmt: skip
"""Sets of rules that xminigrid downloads on demand; they are not used here."""
MAX_DEPTH = 8
OBJECTS = 3, 4, 5, 11, 12
"""ball, square, pyramid, hexagon, star: objects that can be carried, without keys"""
COLOURS = 1, 2, 3, 4, 5, 6, 8, 9, 10, 11


class XMiniGridParams(SuiteParams):
    """The parameters of a grid; its reward falls with the share of the limit that was needed."""

    max_steps_in_episode: int = 243
    ruleset: Any = None
    """of XLand: goal [5], rules [rules, 7] and tiles at the start [tiles, 2]; uint8"""


class XMiniGrid(SuiteEnvironment):
    """The view in front of the agent, [size, size, 2]: object and colour of each cell.

    Args:
        name: xminigrid's, without `MiniGrid-` or `XLand-MiniGrid-`.
        pool: see `SuiteEnvironment`; resets are dear.
        pool_seed: of the starts.
    """

    suite = "xminigrid"
    planes = (13, 12)

    def __init__(self, name: str, pool: int | None = 256, pool_seed: int = 0):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        xminigrid = imported("xminigrid", "xminigrid", VERSION)
        self._types = imported("xminigrid", "xminigrid.types", VERSION)
        prefix = "XLand-MiniGrid-" if name in WORLDS else "MiniGrid-"
        with quiet():
            self.grid, self._static = xminigrid.make(prefix + name)

    @property
    def default_params(self) -> XMiniGridParams:
        """With xminigrid's own time limit."""
        return XMiniGridParams(max_steps_in_episode=self._static.max_steps)

    def begin(self, key: jax.Array, params: XMiniGridParams) -> tuple[jax.Array, Any]:
        """Reset; xminigrid's key is unused later."""
        timestep = self.grid.reset(self._own(params), key)
        return timestep.observation, timestep.state.replace(key=None)

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: XMiniGridParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step; a discount of 0 is a terminal state, the time limit is ours."""
        del key
        before = self._types.TimeStep(
            state=inner, step_type=None, reward=None, discount=None, observation=None
        )
        after = self.grid.step(self._own(params), before, action)
        return after.observation, after.state, after.reward, after.discount == 0.0

    def render(self, state: SuiteState, params: XMiniGridParams) -> np.ndarray:
        """Return xminigrid's picture of the state, uint8 [height, width, 3]."""
        del params
        drawing = imported("xminigrid", "xminigrid.rendering.rgb_render", VERSION)
        inner = jax.device_get(state.inner)
        picture: np.ndarray = drawing.render(
            inner.grid, inner.agent, self._static.view_size, tile_size=PIXELS
        )
        return picture

    def _own(self, params: XMiniGridParams) -> Any:
        """Return xminigrid's parameters with a traced limit, because rewards depend on it."""
        return self._static.replace(max_steps=params.max_steps_in_episode)

    @property
    def num_actions(self) -> int:
        """Six."""
        return 6

    def action_space(self, params: PyTree = None) -> spaces.Discrete:
        """Forward, turn right, turn left, pick up, put down, toggle."""
        del params
        return spaces.Discrete(6)


class XLand(XMiniGrid):
    """A distribution of tasks: every agent gets its own goal and rules.

    The depth of a task is how many rules must be used in turn before its goal can be reached. It
    is uniform between `min_depth` and `max_depth`. Each rule makes the next object of the last:
    when that is picked up, when the agent steps beside it, or when it is put down beside another
    object. The goal is to pick up the last object, to step beside it, or to put it down beside
    another one. What each object is, and which rules and goal there are, is drawn.
    Reward: 1 - 0.9 x (share of the time limit that was needed), at the goal.

    Args:
        name: rooms and size, such as `R1-9x9`.
        min_depth: rules of the simplest task.
        max_depth: rules of the hardest; also the number of rules that are checked at every step.
        distractors: objects without a use.
        task: one task for all agents, by number; None: a distribution.
        pool: starts of every task, see `SuiteEnvironment`.
        pool_seed: of the starts.

    Raises:
        ValueError: for depths out of order, or more objects than fit.
    """

    def __init__(
        self,
        name: str,
        min_depth: int = 0,
        max_depth: int = 1,
        distractors: int = 2,
        task: int | None = None,
        pool: int | None = 64,
        pool_seed: int = 0,
    ):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        for key, value, low, high in (
            ("min_depth", min_depth, 0, max_depth),
            ("max_depth", max_depth, 0, MAX_DEPTH),
            ("distractors", distractors, 0, 8),
            ("task", 0 if task is None else task, 0, 2**31 - 1),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{key} = {value!r} must be an integer of {low} to {high}")
        self.depths, self.distractors, self.task = (min_depth, max_depth), distractors, task

    @property
    def default_params(self) -> XMiniGridParams:
        """The task of that number, 0 where each agent gets its own."""
        key = jax.random.key(self.task or 0)
        return super().default_params.replace(ruleset=jax.device_get(self.draw_rules(key)))

    @property
    def sample_params(self) -> Any:
        """What draws a task and its starts; None where there is only one task."""
        return self._sample if self.task is None else None

    def _sample(self, key: jax.Array, params: XMiniGridParams) -> XMiniGridParams:
        rules_key, starts_key = jax.random.split(key)
        params = params.replace(ruleset=self.draw_rules(rules_key), starts=None)
        if self.pool is None:
            return params
        return params.replace(starts=self.draw_starts(starts_key, params))

    def draw_rules(self, key: jax.Array) -> Any:
        """Draw a task: xminigrid's `RuleSet`.

        Args:
            key: of the task.
        """
        depth_key, tiles_key, rules_key, goal_key = jax.random.split(key, 4)
        low, high = self.depths
        depth = jax.random.randint(depth_key, (), low, high + 1)
        # The chain of objects, a partner for each rule, one for the goal, and objects of no use.
        count = 2 * high + 2 + self.distractors
        kinds = jnp.array([(kind, colour) for kind in OBJECTS for colour in COLOURS], jnp.uint8)
        tiles = jax.random.permutation(tiles_key, kinds)[:count]
        chain, partners = tiles[: high + 1], tiles[high + 1 : 2 * high + 1]
        goal_partner, others = tiles[2 * high + 1], tiles[2 * high + 2 :]
        nothing = jnp.zeros(2, jnp.uint8)

        kind = jax.random.randint(rules_key, (max(high, 1),), 1, 4, jnp.uint8)

        def rule(index):
            before, after, partner = chain[index], chain[index + 1], partners[index]
            alone = jnp.concatenate([kind[index][None], before, after, nothing])
            together = jnp.concatenate([kind[index][None], before, partner, after])
            used = index < depth
            return jnp.where(used, jnp.where(kind[index] == 3, together, alone), jnp.uint8(0))

        rules = [rule(index) for index in range(high)] or [jnp.zeros(7, jnp.uint8)]
        goal_kind = jnp.array([1, 3, 4], jnp.uint8)[jax.random.randint(goal_key, (), 0, 3)]
        last = chain[depth]
        second = jnp.where(goal_kind == 4, goal_partner, nothing)
        goal = jnp.concatenate([goal_kind[None], last, second])
        # A partner that no rule and no goal needs is left out.
        together = [(kind[index] == 3) & (index < depth) for index in range(high)]
        needed = [jnp.where(use, partners[i], nothing) for i, use in enumerate(together)]
        tiles = jnp.stack([chain[0], second, *needed, *others])
        return self._types.RuleSet(goal=goal, rules=jnp.stack(rules), init_tiles=tiles)

    def _own(self, params: XMiniGridParams) -> Any:
        return super()._own(params).replace(ruleset=params.ruleset)


def _constructor(name: str) -> Any:
    return partial(XLand if name in WORLDS else XMiniGrid, name)


_REASON = "it needs a download, which is never made; xminigrid/R1-9x9 draws rules of its own"
SUITE = Suite((*WORLDS, *TASKS), _constructor, dict.fromkeys(BENCHMARKS, _REASON))
