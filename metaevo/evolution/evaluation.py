"""Evaluate candidates in bulk, for a user-defined outer loop of `ask` and `tell`."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, PlainDict, show
from metaevo.evolution.problem import (
    Evaluation,
    MetaParams,
    MetaProblem,
    check_like,
    check_problem,
    task_key,
)
from metaevo.evolution.rows import RowMap, choose_chunk_size

RECORD = frozenset({
    "kind", "generation", "frames", "seconds", "candidate", "key", "fitness", "fitness_mean",
    "fitness_std", "fitness_best", "fitness_low", "fitness_high", "fitness_of_mean", "diverged",
    "tied", "sigma", "validated", "task_frames", "validation_frames",
})  # fmt: skip
"""Keys of the records of a generation or an evaluation, which no metric of a problem may have."""
_compiled: deque[tuple[MetaProblem, RowMap]] = deque(maxlen=16)
"""The last problems with their programs."""


@dataclass(frozen=True)
class Evaluations:
    """Result of `metaevo.evaluate`: the evaluations of candidates on keys."""

    scores: np.ndarray
    """[candidates, keys] fitness, higher is better; not finite where a candidate failed"""
    metrics: dict[str, np.ndarray]
    """the problem's own, each [candidates, keys]"""

    @property
    def fitness(self) -> np.ndarray:
        """Mean over the keys, [candidates]; not finite if the candidate failed on any key."""
        return self.scores.mean(axis=1)

    def table(self) -> list[PlainDict]:
        """Return a record for each candidate and key."""
        columns = {"fitness": self.scores, **self.metrics}
        return [
            {"candidate": row, "key": column}
            | {name: values[row, column].item() for name, values in columns.items()}
            for row, column in np.ndindex(self.scores.shape)
        ]


def evaluate(
    problem: MetaProblem, candidates: MetaParams, keys: jax.Array, *, task: int = 0
) -> Evaluations:
    """Evaluate many candidates of a problem on the same keys, spread over all devices.

    The first call compiles; later calls with the same problem reuse the program.

    Examples:
        >>> candidates = jax.vmap(problem.init)(jax.random.split(jax.random.key(0), 64))
        >>> found = metaevo.evaluate(problem, candidates, jax.random.split(jax.random.key(1), 4))
        >>> found.fitness.argmax()

    Args:
        problem: a `metaevo.MetaProblem`.
        candidates: meta-parameters, each leaf [candidates, ...].
        keys: [keys] random keys, shared by all candidates (common random numbers).
        task: number of the task in `problem.tasks`.

    Raises:
        ConfigError: if candidates or keys have other shapes, or the problem does not return an
            `Evaluation` of scalars.
    """
    check_problem(problem, "problem")
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    leaves = jax.tree.leaves(candidates)
    front = np.shape(leaves[0])[:1] if leaves else ()
    check_like(shapes, candidates, "candidates", front)
    count = front[0] if front else 0
    if not count:
        raise ConfigError("candidates: must be arrays with an axis of candidates in front")
    is_typed = isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    if not (is_typed and keys.ndim == 1 and len(keys)):
        raise ConfigError(
            f"keys = {show(keys)}: must be an array of keys, such as "
            "jax.random.split(jax.random.key(0), 4)"
        )
    rows = {
        "key": np.tile(np.asarray(jax.random.key_data(keys)), (count, 1)),
        "meta_params": jax.tree.map(
            lambda leaf, like: np.repeat(np.asarray(leaf, like.dtype), len(keys), axis=0),
            candidates,
            shapes,
        ),
    }
    found = _program(problem)(rows, shared=(np.int32(task),))
    grid = jax.tree.map(lambda leaf: leaf.reshape(count, len(keys)), found)
    return Evaluations(grid.fitness, grid.metrics)


def evaluate_alone(
    problem: MetaProblem, key: jax.Array, meta_params: MetaParams, task: jax.Array | int = 0
) -> Evaluation:
    """Evaluate one candidate on a task, which may depend on the key."""
    return problem.evaluate(key, meta_params, problem.draw_task(task_key(key), task))


def _program(problem: MetaProblem) -> RowMap:
    """Return the compiled evaluation of this very object, which may not be hashable."""
    for known, program in _compiled:
        if known is problem:
            return program
    check_evaluation(problem)

    def row(inputs: PlainDict, task: jax.Array) -> Any:
        key = jax.random.wrap_key_data(inputs["key"])
        return evaluate_alone(problem, key, inputs["meta_params"], task)

    chunk_size = choose_chunk_size(2**30, problem.working_set_bytes)
    program = RowMap(row, chunk_size=chunk_size, shared=1)
    _compiled.append((problem, program))
    return program


def check_evaluation(problem: MetaProblem) -> list[str]:
    """Trace `evaluate`, and return the names of its metrics."""
    found: Any = jax.eval_shape(
        lambda key: evaluate_alone(problem, key, problem.init(key)), jax.random.key(0)
    )
    if not isinstance(found, Evaluation):
        kind = type(found).__name__ if jax.tree.leaves(found) != [found] else "one array"
        raise ConfigError(
            f"evaluate: returned {kind}; it must return metaevo.Evaluation(fitness, metrics)"
        )
    if not isinstance(found.metrics, dict):
        raise ConfigError(f"evaluate: metrics = {show(found.metrics)}: must be a dict of scalars")
    if taken := sorted(RECORD & found.metrics.keys()):
        raise ConfigError(
            f"evaluate: metrics[{taken[0]!r}]: records of runs have this key; rename the metric"
        )
    scalars = {"fitness": found.fitness, **found.metrics}
    for name, value in scalars.items():
        if jnp.shape(value) != ():
            raise ConfigError(
                f"evaluate: {name} has shape {jnp.shape(value)}; must be (), a scalar"
            )
    return sorted(found.metrics)
