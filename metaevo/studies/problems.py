"""Settings of an evolution of any problem: the fields of its class are added to the common ones."""

import dataclasses
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError
from metaevo.config.checks import Setting, extended
from metaevo.config.documentation import settings_of
from metaevo.config.references import Kind, resolve
from metaevo.evolution.evosax import StrategyConfig
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import MetaProblem
from metaevo.studies.settings import EvolutionSettings, HeldOutConfig, RunConfig


def _complaint(cls: Any) -> str:
    is_kind = isinstance(cls, type) and issubclass(cls, MetaProblem)
    return "" if is_kind else "must be a class that derives from metaevo.MetaProblem"


PROBLEM = Kind("problem", "a class that derives from metaevo.MetaProblem", _complaint)


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
        values = {name: getattr(self, name) for name in self.problem_fields()}
        try:
            problem: MetaProblem = resolve(PROBLEM, self.problem)(**values)
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            raise ConfigError(f"problem = {self.problem!r}: {error}") from error
        return problem

    def problem_fields(self) -> tuple[str, ...]:
        """Return the fields of the class."""
        return tuple(each.key for each in _fields_of(resolve(PROBLEM, self.problem)))


def _fields_of(kind: Any) -> list[Setting]:
    known = settings_of(kind) if dataclasses.is_dataclass(kind) else ()
    return [each for each in known if "." not in each.key]


def problem_class(reference: str) -> type[Any]:
    """Return the class of the settings of a problem, whose file is executed.

    Raises:
        ConfigError: for an unknown problem, or one with a field of another setting's name.
    """
    own = _fields_of(resolve(PROBLEM, reference))
    if taken := {each.key for each in own} & {each.name for each in fields(ProblemSettings)}:
        raise ConfigError(f"problem = {reference!r}: has a field {min(taken)}; rename it")
    return extended(ProblemSettings, [Setting("problem", str, reference), *own])
