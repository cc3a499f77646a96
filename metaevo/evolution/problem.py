"""`MetaProblem`, the base class of what is evolved, its points and results, and random keys.

Every purpose has a stream of keys of its own, so that seeds are disjoint.
"""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, show
from purerl.types import PyTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    programs: ClassVar[Any] = None
    """if meta-parameters are programs, their behaviour: `metaevo.evolution.postfix.Programs`"""
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

    def draw(self, meta_params: MetaParams) -> Mapping[str, "Figure"]:
        """Return matplotlib's figures of a point by the names of PNG files, in at most a second.

        They are for the report and its film. By default none; the report then shows up to 64
        numbers as bars.
        """
        return {}

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


def frames_of_tasks(problem: MetaProblem) -> list[int]:
    """Return the environment steps of one evaluation on each task, as an example of a draw."""
    key = task_key(jax.random.key(0))
    drawn = (problem.draw_task(key, index) for index in range(len(problem.tasks)))
    return [int(problem.frames(task)) for task in drawn]


def frames_per_generation(problem: MetaProblem) -> int:
    """Return the environment steps of one agent on all tasks of a generation, as an example."""
    return sum(frames_of_tasks(problem)[: problem.tasks_per_generation])


def check_meta_params(shapes: PyTree, *, perturbed: bool = True) -> None:
    """Raise if meta-parameters, given by their shapes, cannot be evolved."""
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    if not leaves:
        raise ConfigError("init: must return at least one array; there is nothing to evolve")
    for path, leaf in leaves if perturbed else ():
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ConfigError(
                f"init: meta-parameter {jax.tree_util.keystr(path) or 'array'} has dtype "
                f"{leaf.dtype}, and this strategy adds numbers to it: use float32 and round inside "
                "evaluate, or a strategy that doesn't (genetic_programming for programs)"
            )


def check_problem(problem: object, name: str) -> None:
    """Raise `ConfigError`, with the `name` of the argument, unless it is a `MetaProblem`."""
    if not isinstance(problem, MetaProblem):
        raise ConfigError(
            f"{name} = {show(problem)}: must be an object that derives from metaevo.MetaProblem, "
            "with the methods init(key) and evaluate(key, meta_params, task)"
        )
    for method in ("init", "evaluate"):
        if getattr(type(problem), method) is getattr(MetaProblem, method):
            raise ConfigError(f"{name}: {type(problem).__name__} does not define {method}")


def check_candidate(problem: MetaProblem, meta_params: MetaParams, name: str) -> None:
    """Raise `ConfigError`, with the `name` of the argument, unless its shapes are the problem's."""
    check_like(jax.eval_shape(problem.init, jax.random.key(0)), meta_params, name)


def outline(tree: PyTree) -> Any:
    """Return a tree with the dtype and shape of each leaf, such as `float32[2, 3]`."""
    return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(jnp.shape(leaf))}", tree)


def check_like(wanted: PyTree, found: PyTree, what: str, front: tuple[int, ...] = ()) -> None:
    """Raise `ConfigError` unless a tree has the structure, shapes and kinds of numbers of another.

    Its leaves have the axes in front, too.
    """
    wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*front, *x.shape), x.dtype), wanted)
    expected = show(outline(wanted))
    try:
        found = jax.eval_shape(lambda tree: tree, found)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{what} = {show(found)}: must be arrays, {expected}") from None
    structures: Any = jax.tree.structure(found), jax.tree.structure(wanted)
    if structures[0] != structures[1]:
        raise ConfigError(f"{what} is {show(outline(found))}: must be {expected}")
    paths = jax.tree_util.tree_leaves_with_path(wanted)
    for (path, like), leaf in zip(paths, jax.tree.leaves(found), strict=True):
        kinds = jax.dtypes.prng_key, jnp.floating, jnp.integer, jnp.bool_
        same = all(
            jnp.issubdtype(leaf.dtype, kind) == jnp.issubdtype(like.dtype, kind) for kind in kinds
        )
        if leaf.shape != like.shape or not same:
            place = f"{what}{jax.tree_util.keystr(path)}"
            raise ConfigError(f"{place} is {outline(leaf)}: must be {outline(like)}")


class Purpose(enum.IntEnum):
    """Every use of randomness in an experiment, with the number of its stream."""

    INITIALISATION = 0
    """the starting point of the search"""
    EVOLUTION = 1
    """asking, and evaluating candidates"""
    VALIDATION = 2
    """judging the mean during evolution, always on the same keys"""
    NORMALISATION = 3
    """measuring the baselines that make environments comparable"""
    TUNING = 4
    """choosing hyperparameters for the final comparison"""
    HELD_OUT = 5
    """the final comparison"""
    ILLUSTRATION = 6
    """collecting the errors that figures show"""
    TRAINING = 7
    """the agents of a training run"""
    PLAYING = 8
    """episodes of trained policies"""
    UNSEEN = 9
    """the comparison on tasks that evolution has not seen"""
    RECORDING = 10
    """training runs that record the inputs of a learned part"""


def key_for(seed: int | np.ndarray | jax.Array, purpose: Purpose) -> jax.Array:
    """Return the base key of a purpose; fold in a global index to get the key of one use."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def keys_for(seed: int, purpose: Purpose, count: int) -> jax.Array:
    """Return `count` keys of a purpose [count]; the first ones do not depend on `count`."""
    indices = jnp.arange(count)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key_for(seed, purpose), indices)


def task_key(key: jax.Array) -> jax.Array:
    """Return the key of the tasks of a generation, an evaluation or a validation."""
    return jax.random.fold_in(key, 2**31 - 1)
