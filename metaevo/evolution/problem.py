"""`MetaProblem`, the interface between a problem and the strategies that evolve it.

Example: find the minimum of a quadratic.

    class Quadratic:
        def init(self, key):
            return jnp.zeros(3)

        def evaluate(self, key, meta_params):
            return Evaluation(-jnp.sum((meta_params - 1.0) ** 2), {})
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from metaevo.config.plain import PlainMapping
from purerl.types import PyTree

MetaParams = Any


class Evaluation(NamedTuple):
    """Result of one candidate on one key."""

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


class MetaProblem(Protocol):
    """A problem to evolve.

    A distribution of tasks has a third method, `draw(key, index)`, which returns task number
    `index` of the generation with this key, a pytree of arrays. `evaluate` then takes the task as
    its third argument. Candidates of a generation share their tasks, and the task is not batched:
    in a `lax.switch` on it, only the drawn branch runs.

    Such a problem may have three more attributes: `tasks_per_generation` (by default 1),
    `validation_tasks` (by default as many) and `frames_of(task)`, the environment steps of an
    evaluation, an int32 scalar.

    A problem whose meta-parameters are programs has an attribute `programs`, see `Programs`.
    """

    def init(self, key: jax.Array) -> MetaParams:
        """Return one point of the search space; also where a strategy with a mean starts."""

    def evaluate(self, key: jax.Array, meta_params: MetaParams) -> Evaluation:
        """Evaluate ONE candidate on ONE key. Pure."""


TASK = 2**31 - 1
"""Number by which the key of tasks derives from the key of their generation or evaluation."""


class FixedTask:
    """A distribution of tasks with its task fixed; conforms to `MetaProblem`."""

    def __init__(self, problem: Any, task: PyTree):
        self.init, self._problem, self._task = problem.init, problem, task

    def evaluate(self, key: jax.Array, meta_params: MetaParams) -> Evaluation:
        """Evaluate one candidate on the task."""
        found: Evaluation = self._problem.evaluate(key, meta_params, self._task)
        return found


def programs_of(problem: MetaProblem) -> Programs | None:
    """Return how a problem's programs behave; None if it has other meta-parameters."""
    found = getattr(problem, "programs", None)
    return found if isinstance(found, Programs) else None


def has_tasks(problem: MetaProblem) -> bool:
    """Return whether a problem is a distribution of tasks."""
    return hasattr(problem, "draw")


def tasks_per_generation(problem: MetaProblem) -> int:
    """Return the number of tasks that a generation draws."""
    return int(getattr(problem, "tasks_per_generation", 1)) if has_tasks(problem) else 1


def validation_tasks(problem: MetaProblem) -> int:
    """Return the number of tasks that the mean is validated on."""
    count = tasks_per_generation(problem)
    return int(getattr(problem, "validation_tasks", count)) if has_tasks(problem) else 1


def draw_task(problem: Any, key: jax.Array, index: jax.Array | int) -> PyTree:
    """Return task number `index` of a key; an empty tuple for a problem without tasks."""
    return problem.draw(jax.random.fold_in(key, TASK), index) if has_tasks(problem) else ()


def fix_task(problem: MetaProblem, task: PyTree) -> MetaProblem:
    """Return the problem with a task from `draw_task`."""
    return FixedTask(problem, task) if has_tasks(problem) else problem


def evaluate_alone(problem: MetaProblem, key: jax.Array, meta_params: MetaParams) -> Evaluation:
    """Evaluate one candidate, on a task that depends on the key."""
    return fix_task(problem, draw_task(problem, key, 0)).evaluate(key, meta_params)


def frames_per_evaluation(problem: MetaProblem) -> int:
    """Return the environment steps of one evaluation: its `frames` if it has them, else 0."""
    return int(getattr(problem, "frames", 0))


def bytes_per_evaluation(problem: MetaProblem) -> int:
    """Return the working set of one evaluation: its `working_set_bytes`, else 128 KiB."""
    return int(getattr(problem, "working_set_bytes", 128 * 2**10))
