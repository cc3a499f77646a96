"""`MetaProblem`, the base class of what is evolved, and its points and results."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from metaevo.config.plain import PlainMapping
from purerl.types import PyTree

MetaParams = Any


class Contender(NamedTuple):
    """A point of a problem, evolved or hand-written: what a judgement compares.

    Examples:
        >>> drawn = problem.init(jax.random.key(0))
        >>> metaevo.Contender("drawn", problem, drawn, group="drawn").name
        'drawn'
    """

    name: str
    problem: "MetaProblem"
    """contenders may have problems of their own, on the same tasks"""
    meta_params: MetaParams
    """of the problem"""
    group: str = ""
    """the discovery of an evolved contender, of which there may be several evolutions; empty for a
    hand-written one"""
    ranges: Mapping[str, Any] = {}
    """ranges of hyperparameters that replace or extend the common search space"""


class Evaluation(NamedTuple):
    """Result of one candidate on one key.

    Examples:
        >>> metaevo.Evaluation(jnp.float32(1.0), {"distance": jnp.float32(0.5)}).fitness
    """

    fitness: jax.Array
    """[] float32, higher is better; not finite if the candidate failed."""
    metrics: dict[str, jax.Array]
    """each [] float32; logged as means over the candidates of a generation."""


class Programs(NamedTuple):
    """How the programs of a problem behave, for strategies that vary programs.

    Meta-parameters are codes [programs, L] and constants [programs, L], see
    `metaevo.evolution.postfix`.
    """

    depth: int
    """largest number of levels of a program"""
    fingerprint: Callable[[MetaParams], jax.Array]
    """outputs on fixed inputs, [points]"""
    is_valid: Callable[[jax.Array], jax.Array]
    """whether outputs [..., points] are worth training, [...]"""
    is_same: Callable[[jax.Array, jax.Array], jax.Array]
    """whether outputs [..., points] are equal but for rounding, [...]"""
    text: Callable[[PlainMapping], str]
    """the programs as expressions"""


class MetaProblem:
    """A problem to evolve: `init` and `evaluate` are to be written, the rest has defaults.

    Examples:
        >>> class Quadratic(metaevo.MetaProblem):
        ...     def init(self, key):
        ...         return jnp.zeros(3)
        ...
        ...     def evaluate(self, key, meta_params, task):
        ...         return metaevo.Evaluation(-jnp.sum((meta_params - 1.0) ** 2), {})

    A problem with several tasks draws some of them in every generation, the same for all of its
    candidates. The task is not batched: in a `lax.switch` on it, only the drawn branch runs.
    """

    tasks: Sequence[str] = ("task",)
    """names of the tasks; the strategy's best point is validated on all of them"""
    programs: ClassVar[Programs | None] = None
    """behaviour of the meta-parameters, if they are programs"""
    captions: ClassVar[Mapping[str, str]] = {}
    """captions of the pictures that `draw` makes, by file name"""

    @property
    def title(self) -> str:
        """What is evolved, for the report; by default the name of the class."""
        return type(self).__name__

    @property
    def tasks_per_generation(self) -> int:
        """Number of tasks that a generation draws; by default all."""
        return len(self.tasks)

    @property
    def description(self) -> Any:
        """What scores depend on, as plain data; an interrupted judgement goes on with the same.

        By default the name of the class and, of a dataclass, its fields.
        """
        return repr(self) if dataclasses.is_dataclass(self) else type(self).__qualname__

    @property
    def working_set_bytes(self) -> int:
        """Bytes that one evaluation walks over, by which the chunks of agents are sized."""
        return 128 * 2**10

    def init(self, key: jax.Array) -> MetaParams:
        """Return one point of the search space; also where a strategy with a mean starts."""
        raise NotImplementedError

    def evaluate(self, key: jax.Array, meta_params: MetaParams, task: PyTree) -> Evaluation:
        """Evaluate ONE candidate on ONE key and a task from `draw_task`. Pure."""
        raise NotImplementedError

    def contenders(self) -> Sequence[Contender]:
        """Return hand-written points to compare with; by default none, and no comparison."""
        return ()

    def unseen(self) -> "MetaProblem | None":
        """Return the problem on tasks that evolution does not see, for a second comparison."""
        return None

    def draw(self, meta_params: MetaParams, folder: Path) -> None:
        """Draw a point as PNG files, for the report and its film; in at most a second.

        By default nothing; the report then shows up to 64 numbers as bars.
        """

    def findings(self, meta_params: MetaParams) -> Sequence[str]:
        """Return sentences for the report that describe a point; by default none."""
        return ()

    def draw_task(self, key: jax.Array, index: jax.Array | int) -> PyTree:
        """Return task number `index` of a generation, or of validation, by their key.

        By default the index, [] int32. Pure.
        """
        del key
        return jnp.asarray(index, jnp.int32)

    def frames(self, task: PyTree) -> jax.Array | int:
        """Return the environment steps of an evaluation on a task, [] int32; by default 0."""
        del task
        return 0


TASK = 2**31 - 1
"""Number by which the key of tasks derives from the key of their generation or evaluation."""


def task_key(key: jax.Array) -> jax.Array:
    """Return the key of the tasks of a generation, an evaluation or a validation."""
    return jax.random.fold_in(key, TASK)


def frames_per_generation(problem: MetaProblem) -> int:
    """Return the environment steps of one agent on each task of a generation.

    Where they depend on what is drawn, it is an example.
    """
    return sum(frames_of_tasks(problem)[: problem.tasks_per_generation])


def frames_of_tasks(problem: MetaProblem) -> list[int]:
    """Return the environment steps of one evaluation on each task, as an example of a draw."""
    key = task_key(jax.random.key(0))
    drawn = (problem.draw_task(key, index) for index in range(len(problem.tasks)))
    return [int(problem.frames(task)) for task in drawn]
