"""User-defined studies: a class in one file, passed as an object or as `FILE.py:CLASS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Interval

from metaevo.comparison.comparison import Variant, summary
from metaevo.comparison.evaluation import LEARNED
from metaevo.config import ConfigError, consent, show
from metaevo.config.numbers import check_numbers
from metaevo.config.plain import PlainMapping
from metaevo.evolution.checks import check_problem
from metaevo.evolution.evaluation import check_candidate, evaluate
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.problem import MetaParams, MetaProblem, frames_per_evaluation
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.evolution.strategy import StrategyConfig
from metaevo.runs.schema import HeldOut
from metaevo.studies.problem import ProblemStudy
from metaevo.studies.settings import RunConfig


@dataclass(frozen=True)
class HeldOutConfig:
    """Settings of the final comparison."""

    seeds: Annotated[int, Interval(ge=0, le=100_000)] = 128
    """held-out seeds of every contender; 0 for no comparison"""


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Settings of a user-defined study; a subclass adds fields."""

    study: str = ""
    """the name of the study's class"""
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: HeldOutConfig = field(default_factory=HeldOutConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        """Raise `ValueError` for numbers that no device can represent."""
        check_numbers(self)


class Study(ProblemStudy):
    """Base class of user-defined studies, public as `metaevo.Study`.

    A subclass defines `Settings` and `make_problem`. If it defines `contenders`, the evolved
    meta-parameters are compared with them. All other members of a study can be overridden, such as
    `check`, `draw`, `captions`, `findings` and `tables`; see `metaevo.studies.study.Study`.
    """

    Settings: ClassVar[type[StudySettings]] = StudySettings
    """the dataclass of the settings"""
    free: ClassVar[tuple[str, ...]] = ()
    """prefixes of the settings that `metaevo evaluate` may change"""
    settings: Any

    def __init__(self, settings: StudySettings | None = None):
        """Build the problem of the settings, by default `Settings()`."""
        settings = self.Settings() if settings is None else settings
        problem = self.make_problem(settings)
        check_problem(problem, f"{type(self).__name__}.make_problem(settings)")
        super().__init__(problem, settings)
        self.name = type(self).__name__

    def make_problem(self, settings: Any) -> MetaProblem:
        """Return the problem that the settings describe."""
        raise ConfigError(f"{type(self).__name__}: has no make_problem(settings)")

    def check(self) -> None:
        """Check problem, strategy and contenders before compilation."""
        super().check()
        for name, point in self.contenders().items():
            if name.split()[:1] == [LEARNED]:
                raise ConfigError(f"contenders[{name!r}]: is the evolved result; rename it")
            check_candidate(self._problem, point, f"contenders[{name!r}]")

    def contenders(self) -> dict[str, MetaParams]:
        """Return hand-written points of the search space by name; empty for no comparison."""
        return {}

    def study(
        self, strategy: StrategyConfig, evolution: EvolutionConfig, run: RunConfig
    ) -> tuple["Study", StudySettings]:
        """Return the study of a run with these sections, and its settings."""
        kind = type(self)
        name = f"{kind.__module__}:{kind.__qualname__}"
        settings = replace(
            self.settings, study=name, strategy=strategy, evolution=evolution, run=run
        )
        return kind(settings), settings

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        evolution_frames: int,
        measured: PlainMapping,
        check_stop: Callable[[], None],
    ) -> HeldOut | None:
        """Evaluate the results of evolution and the contenders on the same held-out keys."""
        contenders, seeds = self.contenders(), self.settings.evaluation.seeds
        if not contenders or not seeds:
            return None
        problem = self.problem(measured)
        candidates = {**learned, **contenders}
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *candidates.values())
        keys = keys_for(self.settings.run.seed, Purpose.HELD_OUT, seeds)
        scores = dict(zip(candidates, evaluate(problem, stacked, keys).scores, strict=True))
        check_stop()
        variants = [Variant(name, name, {}, 0) for name in scores]
        return {
            **summary(variants, scores, dict.fromkeys(scores, 0), list(learned)),
            "frames_per_agent": frames_per_evaluation(problem),
            "evolution_frames": evolution_frames,
        }


def find(name: str) -> type[Study]:
    """Return the class of a study by its name; its file is executed.

    Raises:
        ConfigError: if the class is not found.
    """
    cls = consent.load("study", name)
    if not (isinstance(cls, type) and issubclass(cls, Study)):
        raise ConfigError(f"study = {show(name)}: must be a class that derives from metaevo.Study")
    if not issubclass(cls.Settings, StudySettings):
        raise ConfigError(
            f"study = {show(name)}: Settings must be a frozen dataclass that derives from "
            "metaevo.StudySettings"
        )
    return cls
