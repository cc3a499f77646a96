"""Evaluate candidates in bulk, for a user-defined outer loop of `ask` and `tell`."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, show
from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.checks import check_evaluation, check_problem
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem, task_key
from purerl.types import PyTree

_compiled: deque[tuple[MetaProblem, devices.RowMap]] = deque(maxlen=16)
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
    _check_shapes(shapes, candidates, "candidates", front)
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


def check_candidate(problem: MetaProblem, meta_params: MetaParams, name: str) -> None:
    """Raise `ConfigError`, with the `name` of the argument, unless its shapes are the problem's."""
    _check_shapes(jax.eval_shape(problem.init, jax.random.key(0)), meta_params, name)


def _check_shapes(shapes: PyTree, tree: PyTree, name: str, front: tuple[int, ...] = ()) -> None:
    """Raise unless the leaves of a tree have these shapes after the axes in front."""
    wanted: Any = jax.tree.structure(shapes)
    given: Any = jax.tree.structure(tree)
    if wanted != given:
        raise ConfigError(f"{name}: {given}: must be {wanted}, as the problem's init returns")
    paths, leaves = jax.tree_util.tree_leaves_with_path(shapes), jax.tree.leaves(tree)
    for (path, like), leaf in zip(paths, leaves, strict=True):
        if np.shape(leaf) != (*front, *like.shape):
            place = f"{name}{jax.tree_util.keystr(path)}"
            raise ConfigError(f"{place}: shape {np.shape(leaf)}: must be {(*front, *like.shape)}")


def _program(problem: MetaProblem) -> devices.RowMap:
    """Return the compiled evaluation of this very object, which may not be hashable."""
    for known, program in _compiled:
        if known is problem:
            return program
    check_evaluation(problem)

    def row(inputs: PlainDict, task: jax.Array) -> Any:
        key = jax.random.wrap_key_data(inputs["key"])
        return evaluate_alone(problem, key, inputs["meta_params"], task)

    chunk_size = devices.choose_chunk_size(2**30, problem.working_set_bytes)
    program = devices.RowMap(row, chunk_size=chunk_size, shared=1)
    _compiled.append((problem, program))
    return program
