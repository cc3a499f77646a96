"""A study: a meta-problem, and how its result is compared, drawn and reported.

The lifecycle of a run, the report and the trackers depend on `Study` only. Its methods do for any
problem; studies of metaevo and of users override some of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import jax
from annotated_types import Interval

from metaevo.config import ConfigError
from metaevo.config.code import class_source, digest, other_code
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.checks import (
    check_evaluation,
    check_evolution,
    check_meta_params,
    check_problem,
)
from metaevo.evolution.evaluation import check_candidate
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import Contender, MetaParams, MetaProblem
from metaevo.evolution.settings import StrategyConfig
from metaevo.judging.budget import Budget
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts.part import LEARNED
from metaevo.reports.evolution_plots import plot_metrics, plot_numbers
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import SCORES, RunDirectory
from metaevo.studies.settings import EvolutionSettings, RunConfig
from metaevo.studies.tables import evolved_numbers

CODE = "problem"
"""Key of the digest of the problem's source code in the resolved part of config.yaml."""
METRICS, NUMBERS = "metrics.png", "meta_params.png"
CAPTION = {METRICS: "The problem's own metrics: means over the candidates."}
MOST_BARS = 64
"""Maximum count of numbers in meta-parameters that are drawn."""
TRAINING = ("task.", "train.", "hyperparams.")
"""Prefixes of the settings of trained agents."""


@dataclass(frozen=True)
class HeldOutConfig:
    """Settings of the final comparison."""

    seeds: Annotated[int, Interval(ge=0, le=100_000)] = 128
    """held-out seeds of every contender; 0 for no comparison"""


@dataclass(frozen=True, kw_only=True)
class StudySettings(EvolutionSettings):
    """Settings of a user-defined study; a subclass adds fields.

    Examples:
        >>> settings = metaevo.StudySettings(study="my_study.py:Throwing")
    """

    study: str = ""
    """the name of the study's class"""
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: HeldOutConfig = field(default_factory=HeldOutConfig)
    run: RunConfig = field(default_factory=RunConfig)


class Study:
    """Base class of studies, public as `metaevo.Study`.

    Examples:
        >>> class Mine(metaevo.Study):
        ...     def make_problem(self, settings):
        ...         return problem
        >>> found = metaevo.evolve(Mine(), generations=2)

    A subclass defines `Settings` and `make_problem`. If it defines `contenders`, the evolved
    meta-parameters are compared with them. All other members can be overridden too.
    """

    Settings: ClassVar[type[Any]] = StudySettings
    """the dataclass of the settings"""
    free: ClassVar[tuple[str, ...]] = ()
    """prefixes of the settings that `metaevo evaluate` may change"""
    settings: Any
    name = ""
    """name of the folder that contains its runs; by default the name of the class"""
    metrics: Sequence[str] = ()
    """metrics of an evaluation, drawn over the generations"""
    captions: Mapping[str, str] = {NUMBERS: "The evolved meta-parameters.", **CAPTION}
    """captions of the figures, by file name"""

    def __init__(self, settings: Any = None):
        """Build the problem of the settings, by default `Settings()`."""
        self.settings = self.Settings() if settings is None else settings
        self._problem = self.make_problem(self.settings)
        check_problem(self._problem, f"{type(self).__name__}.make_problem(settings)")
        self.name = self.name or type(self).__name__

    @classmethod
    def settings_class(cls, raw: PlainDict, component: str | None = None) -> type[Any]:
        """Return the class of unvalidated settings; `component` is evolved if they name none."""
        del raw, component
        return cls.Settings

    @classmethod
    def make(cls, settings: Any, run_path: Path | None = None) -> Self:
        """Return the study of the settings.

        Args:
            settings: of the class that `settings_class` returns.
            run_path: an existing run, whose copies of evolved parts are used.
        """
        del run_path
        return cls(settings)

    def make_problem(self, settings: Any) -> MetaProblem:
        """Return the problem that the settings describe."""
        raise ConfigError(f"{type(self).__name__}: has no make_problem(settings)")

    def study(
        self, strategy: StrategyConfig, evolution: EvolutionConfig, run: RunConfig
    ) -> tuple["Study", Any]:
        """Return the study of a run with these sections, and its settings."""
        kind = type(self)
        name = f"{kind.__module__}:{kind.__qualname__}"
        settings = replace(
            self.settings, study=name, strategy=strategy, evolution=evolution, run=run
        )
        return kind(settings), settings

    def check(self) -> None:
        """Raise `ConfigError`, before anything is compiled, if the settings are invalid."""
        shapes = jax.eval_shape(self._problem.init, jax.random.key(0))
        try:
            checkpoint.check_tree(shapes)
        except TypeError as error:
            raise ConfigError(f"{self.name}.init: {error}") from error
        strategy = self.settings.strategy.build()
        check_meta_params(shapes, perturbed=strategy.perturbs)
        self.metrics = check_evaluation(self._problem)
        check_evolution(self._problem, strategy, self.settings.evolution)
        for name, point in self.contenders().items():
            if name.split()[:1] == [LEARNED]:
                raise ConfigError(f"contenders[{name!r}]: is the evolved result; rename it")
            check_candidate(self._problem, point, f"contenders[{name!r}]")

    def measure(self) -> PlainDict:
        """Return the measurements needed before evolution, as plain data that the run saves.

        By default, the digest of the source code of the problem's class, if it has any.
        """
        kind: Any = type(self._problem)
        source = class_source(kind)
        return {} if source is None else {CODE: digest(source)}

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Write the files that a run needs in addition to its settings; by default none.

        `measured` is what `measure` returned, now or when the run began.

        Raises:
            ConfigError: if the run cannot be resumed because its inputs have changed.
        """
        now = Study.measure(self).get(CODE)
        if now is not None and measured.get(CODE, now) != now:
            raise other_code([type(self._problem).__name__])

    def problem(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem."""
        return self._problem

    def about(self) -> PlainDict:
        """Return metadata that is saved with the meta-parameters."""
        return {}

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Save the meta-parameters evolved in some generations to the run's directory."""
        about = {**self.about(), "generation": generation}
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the result of evolution, and the problem's own metrics over the generations."""
        self.draw_frame(meta_params, figures)
        if self.metrics:
            records = RunDirectory(figures.parent).read_metrics("generation")
            if len(records):
                plot_metrics(records, self.metrics, figures / METRICS)

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the figures that the report animates over the generations, at most a second each.

        By default, the numbers as bars, unless there are more than `MOST_BARS`.
        """
        if numbers := evolved_numbers(meta_params, MOST_BARS):
            plot_numbers(numbers, figures / NUMBERS)

    def contenders(self) -> dict[str, MetaParams]:
        """Return hand-written points of the search space by name; empty for no comparison."""
        return {}

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        check_stop: Callable[[], None],
        only_unseen: bool = False,
    ) -> dict[str, Scores]:
        """Judge the results and the contenders on keys that evolution has not seen.

        Args:
            learned: the meta-parameters found by each evolution, by name of the contender;
                figures are shown for the first.
            path: the run's directory; an interrupted judgement goes on from its files there.
            check_stop: raises if the run should stop; called often.
            only_unseen: whether to judge on unseen tasks only.

        Returns:
            the scores by the name of the judgement, `SCORES` or `UNSEEN`.
        """
        del only_unseen  # there are none
        contenders = self.contenders()
        if not contenders or not self.settings.evaluation.seeds:
            return {}
        seeds = self.settings.evaluation.seeds
        rivals = [Contender(name, self._problem, each, LEARNED) for name, each in learned.items()]
        rivals += [Contender(name, self._problem, each) for name, each in contenders.items()]
        budget = Budget(settings=0, seeds=seeds)
        judgement = Judgement(rivals, budget, seed=self.settings.run.seed)
        return {SCORES: run(judgement, path / f"{SCORES}.npz", "judging", check_stop=check_stop)}

    def title(self, generations: int) -> tuple[str, str]:
        """Return title and subtitle of the report; 0 generations mean a report on another task."""
        return f"Evolving {self.name}", subtitle(generations)

    def findings(self, meta_params: MetaParams) -> list[str]:
        """Return sentences that describe the result, after `compare` if there is a judgement."""
        return []

    def tables(self) -> list[Table]:
        """Return tables for the report in addition to those of the scores, after `compare`."""
        return []


class ProblemStudy(Study):
    """Study of any problem, evolved and reported without a comparison."""

    def __init__(self, problem: MetaProblem, settings: Any):
        """Bind a problem and the settings of its evolution."""
        self._problem, self.settings = problem, settings
        self.name = type(problem).__name__


def subtitle(generations: int) -> str:
    """Return the subtitle of a report; 0 generations mean a report with other settings."""
    return f"{generations} generations" if generations else "judged with other settings"
