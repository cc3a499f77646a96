"""Settings of an evolution, and of one of any problem."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval

from metaevo.config import ConfigError, to_dict
from metaevo.config.plain import PlainDict
from metaevo.config.references import Kind, resolve
from metaevo.config.sections import Setting, extended, settings_of
from metaevo.evolution.evosax import StrategyConfig
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import MetaProblem
from metaevo.runs.settings import MAX_SEED, HasRun, RecordConfig
from metaevo.studies.evaluation import HeldOutConfig


def _complaint(cls: Any) -> str:
    is_kind = isinstance(cls, type) and issubclass(cls, MetaProblem)
    return "" if is_kind else "must be a class that derives from metaevo.MetaProblem"


PROBLEM = Kind("problem", "a class that derives from metaevo.MetaProblem", _complaint)


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Settings of a run, with the number of evolutions.

    Examples:
        >>> found = metaevo.evolve(problem, run=metaevo.RunConfig(seed=1), generations=2)
    """

    evolution_seeds: Annotated[int, Interval(ge=1, le=1000)] = 1
    """evolutions one after another, with the seeds run.seed, run.seed + 1, ..., and one report"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed + self.evolution_seeds - 1 > MAX_SEED:
            raise ValueError(
                f"seed = {self.seed} with evolution_seeds = {self.evolution_seeds}: the last seed "
                f"must be at most {MAX_SEED}"
            )


class EvolutionSettings(HasRun):
    """Base of the settings of all evolutions."""

    strategy: StrategyConfig
    evolution: EvolutionConfig
    evaluation: HeldOutConfig
    run: RunConfig

    def build(self, run_path: Path | None = None) -> MetaProblem:
        """Return the problem, without measured scales.

        Args:
            run_path: an existing run, whose copies of evolved parts are used.

        Raises:
            ConfigError: if it cannot be built.
        """
        raise NotImplementedError

    def free(self) -> tuple[str, ...]:
        """Return beginnings of the settings that a judgement of a finished run may change."""
        raise NotImplementedError

    def judged_on(self) -> PlainDict:
        """Return the settings that scores depend on, except the budget and the space."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ProblemSettings(EvolutionSettings):
    """Settings of an evolution of any problem; the fields of its class are added."""

    problem: str = ""
    """the class of the problem: FILE.py:NAME or MODULE:NAME"""
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: HeldOutConfig = field(default_factory=HeldOutConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def build(self, run_path: Path | None = None) -> MetaProblem:
        """Return an object of the class with the values of its fields."""
        values = {name: getattr(self, name) for name in self.free()}
        try:
            problem: MetaProblem = resolve(PROBLEM, self.problem)(**values)
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            raise ConfigError(f"problem = {self.problem!r}: {error}") from error
        return problem

    def free(self) -> tuple[str, ...]:
        """Return the fields of the class."""
        return tuple(_names(resolve(PROBLEM, self.problem)))

    def judged_on(self) -> PlainDict:
        """Return the class and its fields, and the strategy, which has found the result."""
        everything = to_dict(self)
        return {key: everything[key] for key in ("problem", "strategy", *self.free())}


def problem_settings(reference: str) -> type[ProblemSettings]:
    """Return the class of the settings of a problem; the file of a user's problem is executed.

    Raises:
        ConfigError: for an unknown problem, or one with a field of another setting's name.
    """
    kind = resolve(PROBLEM, reference)
    own = list(settings_of(kind)) if dataclasses.is_dataclass(kind) else []
    if taken := {each.key for each in own} & set(_names(ProblemSettings)):
        raise ConfigError(f"problem = {reference!r}: has a field {min(taken)}; rename it")
    return extended(ProblemSettings, [Setting("problem", str, reference), *own])


def _names(cls: Any) -> list[str]:
    is_dataclass = dataclasses.is_dataclass(cls)
    return [each.name for each in dataclasses.fields(cls)] if is_dataclass else []
