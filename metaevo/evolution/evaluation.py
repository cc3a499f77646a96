"""Evaluate candidates in bulk, for a user-defined outer loop of `ask` and `tell`."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, show
from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.checks import check_evaluation, check_problem
from metaevo.evolution.problem import MetaParams, MetaProblem, bytes_per_evaluation, evaluate_alone
from purerl.types import PyTree

PROBLEMS = 16
"""Problems that stay compiled."""


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


def evaluate(problem: MetaProblem, candidates: MetaParams, keys: jax.Array) -> Evaluations:
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

    Raises:
        ConfigError: if candidates or keys have other shapes, or the problem does not return an
            `Evaluation` of scalars.
    """
    check_problem(problem, "problem")
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    count = _count(shapes, candidates)
    if not _are_keys(keys):
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
    found = _program(_Same(problem))(rows)
    grid = jax.tree.map(lambda leaf: leaf.reshape(count, len(keys)), found)
    return Evaluations(grid.fitness, grid.metrics)


def check_candidate(problem: MetaProblem, meta_params: MetaParams, name: str) -> None:
    """Raise unless meta-parameters have the structure and shapes of the problem's.

    Args:
        problem: the problem that evaluates the meta-parameters.
        meta_params: meta-parameters of one candidate.
        name: name of the argument, for the error message.

    Raises:
        ConfigError: naming the array that differs.
    """
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    _check_structure(shapes, meta_params, name)
    for path, like, leaf in _leaves(shapes, meta_params):
        if np.shape(leaf) != like.shape:
            raise ConfigError(f"{name}{path}: shape {np.shape(leaf)}: must be {like.shape}")


def _are_keys(keys: Any) -> bool:
    is_typed = isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    return is_typed and keys.ndim == 1 and len(keys) > 0


def _count(shapes: PyTree, candidates: Any) -> int:
    """Return the length of the axis that all leaves have in front of the problem's shapes."""
    _check_structure(shapes, candidates, "candidates")
    count = None
    for path, like, leaf in _leaves(shapes, candidates):
        shape = np.shape(leaf)
        count = shape[0] if count is None and shape else count
        if not shape or shape[1:] != like.shape or shape[0] != count or not count:
            wanted = ", ".join(["candidates", *map(str, like.shape)])
            raise ConfigError(f"candidates{path}: shape {shape}: must be ({wanted})")
    if count is None:
        raise ConfigError("candidates: holds no array")
    return count


def _check_structure(shapes: PyTree, tree: PyTree, name: str) -> None:
    wanted: Any = jax.tree.structure(shapes)
    given: Any = jax.tree.structure(tree)
    if wanted != given:
        raise ConfigError(f"{name}: {given}: must be {wanted}, as the problem's init returns")


def _leaves(shapes: PyTree, tree: PyTree) -> list[tuple[str, Any, Any]]:
    """Return (path, shape, leaf) of each array; the trees have the same structure."""
    paths = jax.tree_util.tree_leaves_with_path(shapes)
    leaves = jax.tree.leaves(tree)
    return [
        (jax.tree_util.keystr(path), like, leaf)
        for (path, like), leaf in zip(paths, leaves, strict=True)
    ]


class _Same:
    """A problem as the key of a cache: the object itself, whether it can be hashed or not."""

    def __init__(self, problem: MetaProblem):
        self.problem = problem

    def __hash__(self) -> int:
        return id(self.problem)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.problem is other.problem


@functools.lru_cache(PROBLEMS)
def _program(same: _Same) -> devices.RowMap:
    problem = same.problem
    check_evaluation(problem, jax.eval_shape(problem.init, jax.random.key(0)))

    def row(inputs: PlainDict) -> Any:
        key = jax.random.wrap_key_data(inputs["key"])
        return evaluate_alone(problem, key, inputs["meta_params"])._replace(gradient=None)

    chunk_size = devices.choose_chunk_size(2**30, bytes_per_evaluation(problem))
    return devices.RowMap(row, chunk_size=chunk_size)
