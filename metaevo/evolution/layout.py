"""Rows of a generation: the candidate, task and seed that each row of the devices evaluates.

The candidates come first, task by task, then the strategy's best point on the validation tasks.
Every task fills whole chunks, so that the rows of a chunk share their task.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Place(NamedTuple):
    """Place of a row in a generation; each [] int32."""

    validating: jax.Array
    """bool: whether the row evaluates the best point on a validation key"""
    task: jax.Array
    """number of the task in the generation, or of the validation task"""
    candidate: jax.Array
    """number of the candidate"""
    seed: jax.Array
    """number of the seed, among those of the candidate or of validation"""


@dataclass(frozen=True)
class Layout:
    """Sizes of a generation."""

    population_size: int
    seeds: int
    """seeds of a candidate on a task"""
    tasks: int
    validation_tasks: int
    validation_seeds: int
    stride: int
    """rows of a chunk on all devices"""

    @property
    def rows(self) -> int:
        """Rows of a task that are evaluated."""
        return self.population_size * self.seeds

    @property
    def task_rows(self) -> int:
        """Rows of a task, rounded up to whole chunks."""
        return self._whole(self.rows)

    @property
    def validation_rows(self) -> int:
        """Rows of a validation task, rounded up to whole chunks."""
        return max(1, self._whole(self.validation_seeds))

    @property
    def candidate_rows(self) -> int:
        """Rows of all candidates, before the validation rows."""
        return self.tasks * self.task_rows

    @property
    def capacity(self) -> int:
        """All rows, with validation."""
        if not self.validation_seeds:
            return self.candidate_rows
        return self.candidate_rows + self.validation_tasks * self.validation_rows

    @property
    def without_validation(self) -> int:
        """Rows up to the last candidate."""
        return self.candidate_rows - self.task_rows + self.rows

    def place(self, row: jax.Array) -> Place:
        """Return the place of a row; rows that only fill a chunk repeat the last candidate."""
        validating = row >= self.candidate_rows
        row = jnp.where(validating, row - self.candidate_rows, row)
        rows = jnp.where(validating, self.validation_rows, self.task_rows)
        task, index = row // rows, row % rows
        candidate = jnp.minimum(index // self.seeds, self.population_size - 1)
        seed = jnp.where(validating, index, index % self.seeds)
        return Place(validating, task, candidate, seed)

    def of_tasks(self, values: jax.Array) -> jax.Array:
        """Return the values of the candidates' rows, [tasks, population_size, seeds, ...]."""
        rest = values.shape[1:]
        own = values[: self.candidate_rows].reshape(self.tasks, self.task_rows, *rest)
        return own[:, : self.rows].reshape(self.tasks, self.population_size, self.seeds, *rest)

    def of_validation(self, values: jax.Array) -> jax.Array:
        """Return the values of validation, [validation_tasks, validation_seeds]."""
        own = values[self.candidate_rows :].reshape(-1, self.validation_rows)
        return own[:, : self.validation_seeds]

    def _whole(self, rows: int) -> int:
        return -(-rows // self.stride) * self.stride
