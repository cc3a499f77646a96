"""Jumanji (Bonnet et al. 2024): its games with a single discrete action, without downloads."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs import drawing
from purerl.envs.suite import (
    NEVER,
    Suite,
    SuiteEnvironment,
    SuiteParams,
    SuiteState,
    imported,
    quiet,
)
from purerl.types import Environment, PyTree

VERSION = "1.1.2"


class Game(NamedTuple):
    """One of jumanji's."""

    identifier: str
    """jumanji's own"""
    limit: int
    """steps of an episode"""
    has_clock: bool
    """whether jumanji ends an episode after so many steps; otherwise the limit is never reached"""
    observe: Callable[[Any], jax.Array]
    """from jumanji's observation to an image"""
    draw: Callable[[Any], np.ndarray]
    """from jumanji's state to a picture"""
    planes: tuple[int, ...] | None = None
    """see `SuiteEnvironment`"""
    pool: int | None = 1024
    """by default"""


class Play(NamedTuple):
    """A state of jumanji, with the legal actions."""

    state: PyTree
    """without its key"""
    legal: jax.Array
    """[num_actions] bool"""


def _maze(obs: PyTree) -> jax.Array:
    nobody = jnp.zeros_like(obs.walls)
    places = (
        nobody.at[tuple(each)].set(True) for each in (obs.agent_position, obs.target_position)
    )
    return jnp.stack([obs.walls, *places], axis=-1)


def _mark(shape: tuple[int, int], position: Any) -> np.ndarray:
    """Return a grid with one cell on, or none if the position is outside."""
    rows, columns = np.indices(shape)
    return (rows == int(position.row)) & (columns == int(position.col))


def _draw_snake(state: PyTree) -> np.ndarray:
    body = np.asarray(state.body)
    head, fruit = (_mark(body.shape, at) for at in (state.head_position, state.fruit_position))
    cells = np.stack([head, fruit, np.asarray(state.tail), body], axis=-1)
    return drawing.planes(cells, (drawing.BODY, drawing.POLE, drawing.SOFT, drawing.GOAL))


def _draw_maze(state: PyTree) -> np.ndarray:
    walls = np.asarray(state.walls)
    agent, target = (_mark(walls.shape, at) for at in (state.agent_position, state.target_position))
    cells = np.stack([agent, target, walls], axis=-1)
    return drawing.planes(cells, (drawing.BODY, drawing.GOAL, drawing.INK))


def _draw_puzzle(state: PyTree) -> np.ndarray:
    """Draw the tiles, blue where they belong."""
    puzzle = np.asarray(state.puzzle)
    right = puzzle == np.arange(1, puzzle.size + 1).reshape(puzzle.shape)
    colours = np.where(right[..., None], drawing.BODY, (236, 232, 224))
    colours[puzzle == 0] = drawing.PAPER
    return drawing.tiles(np.where(puzzle > 0, puzzle.astype(str), ""), colours)


def _draw_mines(state: PyTree) -> np.ndarray:
    """Draw the opened cells: the number of adjacent mines, or a mine."""
    board = np.asarray(state.board)
    is_mine = np.zeros(board.size, bool)
    is_mine[np.asarray(state.flat_mine_locations)] = True
    hit = is_mine.reshape(board.shape) & (board >= 0)
    colours = np.where((board < 0)[..., None], drawing.SOFT, (236, 232, 224))
    colours[hit] = drawing.POLE
    labels = np.where(board > 0, board.astype(str), "")
    return drawing.tiles(np.where(hit, "*", labels), colours)


GAMES: dict[str, Game] = {
    "Snake": Game("Snake-v1", 4000, True, lambda obs: obs.grid, _draw_snake, pool=None),
    "Maze": Game("Maze-v0", 100, True, _maze, _draw_maze),
    "Game2048": Game(
        "Game2048-v1",
        10_000,
        False,
        lambda obs: obs.board[..., None],
        lambda state: drawing.board_2048(np.asarray(state.board)),
        (18,),
        None,
    ),
    "SlidingTilePuzzle": Game(
        "SlidingTilePuzzle-v0", 500, True, lambda obs: obs.puzzle[..., None], _draw_puzzle, (25,)
    ),
    "Minesweeper": Game(
        "Minesweeper-v0", 100, False, lambda obs: obs.board[..., None] + 1, _draw_mines, (10,)
    ),
}
"""Games by name: jumanji's name without the version."""


class Jumanji(SuiteEnvironment):
    """Images; the other parts of jumanji's observations are left out.

    | game | observation |
    |---|---|
    | Snake | 12 x 12, 5 planes: body, head, tail, fruit, distance from the tail |
    | Maze | 10 x 10, 3 planes: walls, agent, target |
    | Game2048 | 4 x 4, a plane for each exponent, the first for empty cells |
    | SlidingTilePuzzle | 5 x 5, a plane for each tile |
    | Minesweeper | 10 x 10, a plane for unknown cells and one for each number of adjacent mines |

    Illegal actions end a game of Snake and Minesweeper and have no effect in the others. A snake
    that cannot move dies with its next action. Minesweeper's action is a cell, row by row.

    Args:
        name: a key of `GAMES`.
        pool: see `SuiteEnvironment`; 1024 by default in Maze, SlidingTilePuzzle and Minesweeper.
    """

    suite = "jumanji"

    def __init__(self, name: str, pool: int | None = None, pool_seed: int = 0):
        super().__init__(name, pool=pool, pool_seed=pool_seed)
        found = GAMES[name]
        jumanji = imported("jumanji", "jumanji", VERSION)
        with quiet():
            clock = {"time_limit": NEVER} if found.has_clock else {}
            self.game = jumanji.make(found.identifier, **clock)
            spec = self.game.action_spec
            self._shape = tuple(map(int, jnp.ravel(jnp.asarray(spec.num_values))))
        self._observe, self._draw, self.planes = found.observe, found.draw, found.planes
        self._params = SuiteParams(max_steps_in_episode=found.limit)

    def begin(self, key: jax.Array, params: SuiteParams) -> tuple[jax.Array, Any]:
        """Reset."""
        return self._seen_of(*self.game.reset(key))

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: SuiteParams
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step; random numbers come from `key`, because the state has no key."""
        if len(self._shape) > 1:
            action = jnp.stack(jnp.unravel_index(action, self._shape))
        state, timestep = self.game.step(inner.state.replace(key=key), action)
        return *self._seen_of(state, timestep), timestep.reward, timestep.last()

    def _seen_of(self, state: PyTree, timestep: Any) -> tuple[jax.Array, Play]:
        legal = jnp.ravel(timestep.observation.action_mask)
        return self._observe(timestep.observation), Play(state.replace(key=None), legal)

    def legal_actions(self, state: SuiteState, params: SuiteParams) -> jax.Array:
        """Return jumanji's mask [num_actions]."""
        return state.inner.legal

    def render(self, state: SuiteState, params: SuiteParams) -> np.ndarray:
        """Draw the board, uint8 [height, width, 3]."""
        return self._draw(state.inner.state)

    @property
    def num_actions(self) -> int:
        """Up, right, down, left; in Minesweeper 100 cells."""
        return math.prod(self._shape)


def _constructor(name: str) -> Callable[..., Jumanji]:
    return partial(Jumanji, name, pool=GAMES[name].pool)


_SEVERAL = (
    *("BinPack", "Cleaner", "Connector", "FlatPack", "JobShop", "LevelBasedForaging", "MMST"),
    *("MultiCVRP", "RobotWarehouse", "RubiksCube", "RubiksCube-partly-scrambled"),
    *("SearchAndRescue", "Sudoku", "Sudoku-very-easy", "Tetris"),
)
_NO_IMAGE = "its observation is a graph or a list, for which metaevo has no network"
SUITE = Suite(
    tuple(GAMES),
    _constructor,
    {
        "Sokoban": "it needs a download",
        **dict.fromkeys(_SEVERAL, "its action is several numbers"),
        **dict.fromkeys(("CVRP", "GraphColoring", "Knapsack", "PacMan", "TSP"), _NO_IMAGE),
    },
)
