"""Common code of the grid environments, in NumPy: moves, what they reach, and argument checks."""

import operator
from typing import Any

import numpy as np

Cell = tuple[int, int]
"""A row and a column, both counted from 0 in the upper left corner."""

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Changes of (row, column) by the moves right, down, left and up."""


def checked_int(name: str, value: Any, *, at_least: int) -> int:
    """Return `value` as an int.

    Raises:
        ValueError: if it is not a whole number of at least `at_least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} = {value!r} must be a whole number") from None
    if number < at_least:
        raise ValueError(f"{name} = {value!r} must be at least {at_least}")
    return number


def free_cell(name: str, value: Any, is_wall: np.ndarray) -> Cell:
    """Return `value` as a cell of a grid with these walls, bool [rows, cols].

    Raises:
        ValueError: if it is not a pair of whole numbers, is outside the grid, or on a wall.
    """
    try:
        row, col = (operator.index(number) for number in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} = {value!r} must be a pair (row, column)") from None
    rows, cols = is_wall.shape
    if not (0 <= row < rows and 0 <= col < cols):
        raise ValueError(f"{name} = {(row, col)} is outside the grid of {rows} x {cols} cells")
    if is_wall[row, col]:
        raise ValueError(f"{name} = {(row, col)} is on a wall")
    return row, col


def neighbours(is_wall: np.ndarray) -> np.ndarray:
    """Return the cell after each move from each cell; moves into a wall or off the grid stay.

    From bool [rows, cols] to int32 [4, rows * cols], the indices row * cols + col.
    """
    rows, cols = is_wall.shape
    row, col = np.divmod(np.arange(rows * cols), cols)
    table = np.empty((len(MOVES), rows * cols), np.int32)
    for move, (down, right) in enumerate(MOVES):
        to_row = np.clip(row + down, 0, rows - 1)
        to_col = np.clip(col + right, 0, cols - 1)
        blocked = is_wall[to_row, to_col]
        table[move] = np.where(blocked, row, to_row) * cols + np.where(blocked, col, to_col)
    return table


def reaching(is_wall: np.ndarray, goal: Cell) -> np.ndarray:
    """Return from which cells moves lead to the goal, itself included: bool [rows, cols]."""
    table, reached = neighbours(is_wall), np.zeros(is_wall.size, bool)
    frontier = np.array([goal[0] * is_wall.shape[1] + goal[1]])
    while frontier.size:  # moves are reversible, so neighbours of a cell can also reach it
        reached[frontier] = True
        near = np.unique(table[:, frontier])
        frontier = near[~reached[near]]
    return reached.reshape(is_wall.shape)
