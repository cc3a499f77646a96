"""Parts of a learner from Python: a problem for `metaevo.evolve`, and its comparison."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax

from metaevo.config import ConfigError, from_dict, merge, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.config.references import reference_of, short_name
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import Evaluation, MetaParams, MetaProblem, Programs
from metaevo.evolution.settings import StrategyConfig
from metaevo.parts import learners
from metaevo.parts.classes import PART
from metaevo.parts.part import LEARNED, Part
from metaevo.statistics import Verdict
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import EvolveSettings, RunConfig, experiment_class
from metaevo.tasks.binding import with_task
from metaevo.tasks.task import Task
from purerl import envs
from purerl.learners import LearnerEntry
from purerl.types import Environment, PyTree

PartLike = str | type[Part] | Part
EnvironmentLike = str | type | Environment


class LearnerProblem(MetaProblem):
    """Train a learner with a part in its slot; the fitness is how well it learns.

    Examples:
        >>> problem = metaevo.LearnerProblem("ppo", evolve="value_loss", env="CartPole-v1")
        >>> found = metaevo.evolve(problem, generations=30)
        >>> result = metaevo.compare(problem, found)
        >>> result.verdict, result.difference, result.interval
    """

    def __init__(
        self,
        learner: str | LearnerEntry = "ppo",
        *,
        evolve: PartLike | Sequence[PartLike],
        env: EnvironmentLike = "CartPole-v1",
        env_params: PlainMapping | None = None,
        tasks: Mapping[str, Task | PlainMapping] | None = None,
        **sections: Any,
    ):
        """Build the part, the learner and its environments.

        With several tasks, train the hand-written reference on each, for the scale.

        Args:
            learner: its name, such as ppo or `my_learner.py:NAME`, or a `LearnerEntry`.
            evolve: a part, its class, name or file; or several in a list.
            env: an environment's name, `my_env.py:Class` or `my_package:Class`, a gymnax
                environment of your own as a class or an object.
            env_params: overrides of its parameters.
            tasks: instead of env, tasks by name with distributions of their traced settings; see
                `metaevo.Task`. Every generation draws `tasks_per_generation` tasks.
            sections: of the settings, such as `train`, `hyperparams`, `component`, `fitness`, as
                dicts, and names of hand-written functions for other slots. With
                `evaluation={"seeds": 0}` a durable evolution ends without its own comparison.

        Raises:
            ConfigError: naming the key that is wrong.
        """
        parts, settings = _references(evolve)
        name = learners.name_of(learner)
        given = {"learner": name, "evolve": parts, "env": env, "env_params": env_params}
        if settings:
            given["component"] = settings
        raw = with_task({**given, **sections})
        if tasks is not None:
            raw["tasks"] = {name: _plain_task(task) for name, task in tasks.items()}
        self.settings: EvolveSettings = from_dict(experiment_class(raw, None), raw)
        self._study = LearnerStudy(self.settings)
        self._measured = self._study.measure()
        self._problem = self._study.problem(self._measured)
        self.tasks = self._problem.tasks
        self.programs: Programs | None = self._problem.programs

    @property
    def tasks_per_generation(self) -> int:
        """Number of tasks that a generation draws."""
        return self._problem.tasks_per_generation

    @property
    def working_set_bytes(self) -> int:
        """Bytes that training one agent walks over."""
        return self._problem.working_set_bytes

    def init(self, key: jax.Array) -> MetaParams:
        """Return the meta-parameters of one candidate."""
        return self._problem.init(key)

    def draw_task(self, key: jax.Array, index: jax.Array | int) -> PyTree:
        """Return task number `index` of a generation."""
        return self._problem.draw_task(key, index)

    def frames(self, task: PyTree) -> jax.Array | int:
        """Return the environment steps of an evaluation on a task."""
        return self._problem.frames(task)

    def evaluate(self, key: jax.Array, meta_params: MetaParams, task: PyTree) -> Evaluation:
        """Train one agent with these meta-parameters."""
        return self._problem.evaluate(key, meta_params, task)

    @property
    def functions(self) -> PlainDict:
        """The functions of the evolved slots, as the learner's `make_train` takes them."""
        return self._study.evolved.functions()

    def study(
        self, strategy: StrategyConfig, evolution: EvolutionConfig, run: RunConfig
    ) -> tuple[LearnerStudy, EvolveSettings]:
        """Return the study of a run directory and its settings."""
        settings = replace(self.settings, strategy=strategy, evolution=evolution, run=run)
        return LearnerStudy(settings), settings

    def compare(
        self, meta_params: MetaParams, *, evolution_frames: int, **evaluation: Any
    ) -> "ComparisonResult":
        """Compare meta-parameters with tuned hand-written functions; see `metaevo.compare`."""
        plain = merge(to_dict(self.settings), {"evaluation": evaluation})
        plain["evaluation"]["unseen"] = {}
        settings = from_dict(type(self.settings), plain)
        if not settings.evaluation.seeds:
            raise ConfigError("seeds = 0: must be at least 1 for a comparison")
        study = LearnerStudy(settings)
        study.check()
        with tempfile.TemporaryDirectory() as folder:
            found = study.compare(
                {LEARNED: meta_params},
                Path(folder),
                evolution_frames=evolution_frames,
                measured=self._measured,
                check_stop=lambda: None,
            )
        if found is None:
            raise ConfigError("tasks: no tuned reference is better than random play")
        return ComparisonResult.of(found)


def _references(evolve: Any) -> tuple[str | list[str], PlainDict]:
    """Return references to the classes of parts, and the settings of those given as objects."""

    def reference(part: PartLike) -> str:
        return reference_of(PART, type(part) if isinstance(part, Part) else part)

    if not isinstance(evolve, list | tuple):
        return reference(evolve), to_dict(evolve) if isinstance(evolve, Part) else {}
    references = [reference(part) for part in evolve]
    settings = {
        short_name(name): to_dict(part)
        for name, part in zip(references, evolve, strict=True)
        if isinstance(part, Part)
    }
    return references, settings


def _plain_task(task: Task | PlainMapping) -> PlainDict:
    """Return a task as in a YAML file; its environment may be a class or an object."""
    plain = dict(vars(task) if isinstance(task, Task) else task)
    return {**plain, "env": envs.name_of(plain["env"])} if plain.get("env") else plain


@dataclass(frozen=True)
class ContenderResult:
    """One row of a comparison: a learned or hand-written function on held-out seeds."""

    name: str
    """such as "learned (tuned)" or "adam (same hyperparameters)" """
    function: str
    """the name without its settings"""
    settings: dict[str, float]
    """hyperparameters that tuning has chosen"""
    tuning_frames: int
    """environment steps of tuning"""
    seeds: int
    iqm: float
    """interquartile mean of the scores"""
    interval: tuple[float, float]
    """95% stratified bootstrap interval of the interquartile mean"""
    mean: float
    diverged: int
    """agents with non-finite parameters"""

    @classmethod
    def of(cls, row: PlainMapping) -> "ContenderResult":
        """Return the typed form of a row of evaluation.json."""
        known = {name: row[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "interval": tuple(row["interval"])})


@dataclass(frozen=True)
class ComparisonResult:
    """A held-out comparison of a learned function with tuned hand-written ones."""

    rows: tuple[ContenderResult, ...]
    verdict: Verdict
    """better: against every baseline"""
    baseline: str
    """the row of the best hand-written function"""
    difference: float
    """in interquartile mean, of the learned function from that baseline"""
    interval: tuple[float, float]
    """95% interval of the difference"""

    @classmethod
    def of(cls, evaluation: PlainMapping) -> "ComparisonResult":
        """Return the typed form of evaluation.json."""
        rows = tuple(ContenderResult.of(row) for row in evaluation["variants"])
        best = evaluation["against_best"]
        return cls(
            rows,
            evaluation["conclusion"],
            evaluation["best_hand_written"],
            best["difference"],
            tuple(best["difference_interval"]),
        )

    def table(self) -> list[PlainDict]:
        """Return a record for each row."""
        return [asdict(row) for row in self.rows]
