"""The reference: a baseline that is trained on every drawn task, as a scale for the candidates.

It is trained before the candidates of a generation, on the same keys, and their evaluations receive
its mean score. The validation tasks never change, so their references are trained once, and the
scores stay in the state of the evolution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from metaevo.evolution import devices
from purerl.types import PyTree

Draw = Callable[[jax.Array | bool, jax.Array | int], PyTree]
"""`(validating, number) -> task`: a task of validation, or else of the generation."""
KeyOf = Callable[[jax.Array | bool, jax.Array | int, jax.Array | int], jax.Array]
"""`(validating, number, index) -> key`: of agent number `index` on that task."""


class Scores(NamedTuple):
    """Mean scores of the reference; both are empty tuples without references."""

    own: PyTree
    """[tasks] on the tasks of the generation"""
    validation: PyTree
    """[validation_tasks] on the validation tasks; NaN before they are trained"""
    agents: jax.Array | int
    """[] agents that were just trained on each validation task"""

    def of(self, validating: jax.Array, number: jax.Array) -> tuple[jax.Array, ...]:
        """Return the score on a task, if there are references."""
        if isinstance(self.own, tuple):
            return ()
        scores = jnp.concatenate([self.own, self.validation])
        return (scores[number + jnp.where(validating, len(self.own), 0)],)


@dataclass(frozen=True)
class References:
    """The references of an evolution.

    The rows of a chunk share their task, and devices work on different tasks, so neither the size
    of a chunk nor the rounding depends on the number of devices.
    """

    problem: Any
    """has `reference(key, task)`"""
    seeds: int
    """agents on each task; 0 for no references"""
    tasks: int
    """tasks of a generation"""
    validation_tasks: int
    chunk_size: int
    num_devices: int

    def init(self) -> PyTree:
        """Return the scores on the validation tasks before they are trained."""
        return jnp.full(self.validation_tasks, jnp.nan) if self.seeds else ()

    def train(self, draw: Draw, key_of: KeyOf, due: jax.Array, known: PyTree) -> Scores:
        """Train the references of a generation, inside a `spread` function.

        `due`, [] bool, is whether there is a validation; `known` are the scores on the validation
        tasks, as in `Scores`.
        """
        if not self.seeds:
            return Scores((), (), 0)
        unknown = due & jnp.any(jnp.isnan(known))
        count, rows = self.tasks + self.validation_tasks, self._rows
        trained = devices.map_rows(
            lambda row, task: self.problem.reference(key_of(*self._place(row, unknown)), task),
            shared=lambda row: draw(*self._place(row, unknown)[:2]),
            capacity=count * rows,
            num_rows=jnp.where(unknown, count, self.tasks) * rows,
            chunk_size=self.chunk_size,
            num_devices=self.num_devices,
        )
        means = jnp.mean(trained.reshape(count, rows)[:, : self.seeds], axis=1)
        own, validation = means[: self.tasks], means[self.tasks :]
        agents = jnp.where(unknown, self.seeds, 0)
        return Scores(own, jnp.where(unknown, validation, known), agents)

    @property
    def _rows(self) -> int:
        """Rows of a task: whole chunks."""
        return -(-self.seeds // self.chunk_size) * self.chunk_size

    def _place(self, row: jax.Array, unknown: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return whether a row's task is for validation, its number, and the agent's number."""
        number, index = row // self._rows, row % self._rows
        # Devices without a task must not begin with a validation task, which may be longer.
        number = jnp.where(unknown, number, jnp.minimum(number, self.tasks - 1))
        validating = number >= self.tasks
        return validating, number - jnp.where(validating, self.tasks, 0), index
