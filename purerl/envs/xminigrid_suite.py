"""XLand-MiniGrid (Nikulin et al. 2023): partially observed MiniGrid tasks and rule-based tasks."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.suite import Suite, SuiteEnvironment, SuiteParams, SuiteState, imported, quiet
from purerl.types import Environment

VERSION = "0.9.3"
WORLDS = (
    *(f"R{rooms}-{size}x{size}" for rooms in (1, 2, 4) for size in (9, 11, 13, 15, 17)),
    *(f"R6-{size}x{size}" for size in (13, 17, 19)),
    *(f"R9-{size}x{size}" for size in (16, 19, 25)),
)
"""XLand worlds: number of rooms and size."""
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
"""MiniGrid tasks."""
MAX_DEPTH = 8
OBJECTS = 3, 4, 5, 11, 12
"""Objects that can be carried, except keys: ball, square, pyramid, hexagon, star."""
COLOURS = 1, 2, 3, 4, 5, 6, 8, 9, 10, 11


class XMiniGridParams(SuiteParams):
    """Parameters of a grid; the reward falls with the share of the time limit that was used."""

    max_steps_in_episode: int = 243
    ruleset: Any = None
    """XLand only: goal [5], rules [rules, 7] and initial tiles [tiles, 2]; uint8"""


class XMiniGrid(SuiteEnvironment):
    """An xminigrid environment.

    An observation is the view in front of the agent, [size, size, 2]: object and colour of each
    cell.

    Args:
        name: xminigrid's name, without `MiniGrid-` or `XLand-MiniGrid-`.
        pool: see `SuiteEnvironment`; resets are expensive.
    """

    suite = "xminigrid"
    planes = (13, 12)
    num_actions = 6
    """forward, turn right, turn left, pick up, put down, toggle"""

    def __init__(self, name: str, pool: int | None = 256, pool_seed: int = 0):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        xminigrid = imported("xminigrid", "xminigrid", VERSION)
        self._types = imported("xminigrid", "xminigrid.types", VERSION)
        prefix = "XLand-MiniGrid-" if name in WORLDS else "MiniGrid-"
        with quiet():
            self.grid, self._static = xminigrid.make(prefix + name)
        self._params = XMiniGridParams(max_steps_in_episode=self._static.max_steps)

    def begin(self, key: jax.Array, params: XMiniGridParams) -> tuple[jax.Array, Any]:
        """Reset, and drop xminigrid's key, which is not used later."""
        timestep = self.grid.reset(self._own(params), key)
        return timestep.observation, timestep.state.replace(key=None)

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: XMiniGridParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step; a discount of 0 marks a terminal state. The base class applies the time limit."""
        before = self._types.TimeStep(
            state=inner, step_type=None, reward=None, discount=None, observation=None
        )
        after = self.grid.step(self._own(params), before, action)
        return after.observation, after.state, after.reward, after.discount == 0.0

    def render(self, state: SuiteState, params: XMiniGridParams) -> np.ndarray:
        """Return xminigrid's picture of the state, uint8 [height, width, 3]."""
        drawing = imported("xminigrid", "xminigrid.rendering.rgb_render", VERSION)
        inner = jax.device_get(state.inner)
        return drawing.render(inner.grid, inner.agent, self._static.view_size, tile_size=24)

    def _own(self, params: XMiniGridParams) -> Any:
        """Return xminigrid's parameters with a traced limit, because rewards depend on it."""
        return self._static.replace(max_steps=params.max_steps_in_episode)


class XLand(XMiniGrid):
    """A distribution of tasks: every agent gets its own goal and rules.

    The depth of a task is the number of rules that must be applied in turn before its goal can be
    reached. It is uniform between `min_depth` and `max_depth`. Each rule turns the current object
    into the next one: when the agent picks the object up, steps next to it, or puts it down next to
    a second object. The goal is to pick up the last object, to step next to it, or to put it down
    next to a second object. Objects, rules and goals are drawn at random.
    Reward at the goal: 1 - 0.9 x (share of the time limit that was used).

    Args:
        name: rooms and size, such as `R1-9x9`.
        min_depth: number of rules in the simplest tasks.
        max_depth: number of rules in the hardest tasks; also the number checked at every step.
        distractors: number of objects that no rule uses.
        task: number of a fixed task for all agents; None for a distribution of tasks.
        pool: starts of every task, see `SuiteEnvironment`.

    Raises:
        ValueError: if the depths are out of order or the objects do not fit.
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
        """Parameters of task number `task`, or of task 0 if each agent gets its own."""
        key = jax.random.key(self.task or 0)
        return self._params.replace(ruleset=jax.device_get(self.draw_rules(key)))

    @property
    def sample_params(self) -> Any:
        """Function that draws a task and its starts; None for a fixed task."""
        return self._sample if self.task is None else None

    def _sample(self, key: jax.Array, params: XMiniGridParams) -> XMiniGridParams:
        rules_key, starts_key = jax.random.split(key)
        params = params.replace(ruleset=self.draw_rules(rules_key), starts=None)
        if self.pool is None:
            return params
        return params.replace(starts=self.draw_starts(starts_key, params))

    def draw_rules(self, key: jax.Array) -> Any:
        """Draw a task: xminigrid's `RuleSet`."""
        depth_key, tiles_key, rules_key, goal_key = jax.random.split(key, 4)
        low, high = self.depths
        depth = jax.random.randint(depth_key, (), low, high + 1)
        # The chain of objects, a partner for each rule, one for the goal, and the distractors.
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
        # Leave out partners that neither a rule nor the goal needs.
        together = [(kind[index] == 3) & (index < depth) for index in range(high)]
        needed = [jnp.where(use, partners[i], nothing) for i, use in enumerate(together)]
        tiles = jnp.stack([chain[0], second, *needed, *others])
        return self._types.RuleSet(goal=goal, rules=jnp.stack(rules), init_tiles=tiles)

    def _own(self, params: XMiniGridParams) -> Any:
        return super()._own(params).replace(ruleset=params.ruleset)


SUITE = Suite((*WORLDS, *TASKS), lambda name: partial(XLand if name in WORLDS else XMiniGrid, name))
