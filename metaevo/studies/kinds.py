"""What settings evolve: parts of a learner (`evolve:`), or a problem of the user's (`problem:`)."""

import dataclasses
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError
from metaevo.config.plain import PlainMapping
from metaevo.config.references import Kind, resolve
from metaevo.config.sections import specialised, without
from metaevo.evolution.problem import MetaProblem
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import (
    EvolutionSettings,
    EvolveSettings,
    ProblemSettings,
    experiment_class,
)
from metaevo.studies.study import Study
from metaevo.tasks.binding import TRAINING


def _complaint(cls: Any) -> str:
    is_kind = isinstance(cls, type) and issubclass(cls, MetaProblem)
    return "" if is_kind else "must be a class that derives from metaevo.MetaProblem"


PROBLEM = Kind("problem", "a class that derives from metaevo.MetaProblem", _complaint)


def settings_class(raw: PlainMapping, component: str | None = None) -> type[EvolutionSettings]:
    """Return the class of unvalidated settings; the file of a user's problem is executed.

    Args:
        raw: the settings, of which `problem` or `evolve` and `learner` are read.
        component: the part that is evolved if the settings name none.

    Raises:
        ConfigError: for an unknown problem, part or learner.
    """
    if "problem" not in raw:
        return experiment_class(dict(raw), component)
    kind: Any = resolve(PROBLEM, raw["problem"])
    named = specialised(ProblemSettings, {}, {"problem": raw["problem"]}, order=("problem",))
    names = _fields(kind)
    if taken := {*names} & {*_fields(ProblemSettings)}:
        raise ConfigError(f"problem = {raw['problem']!r}: has a field {min(taken)}; rename it")
    return without(kind, (), named) if names else named


def study_of(settings: EvolutionSettings, run_path: Path | None = None) -> Study:
    """Return the study that settings describe.

    Args:
        settings: of the class that `settings_class` returns.
        run_path: an existing run, whose copies of evolved parts are used.

    Raises:
        ConfigError: if the problem cannot be built.
    """
    if isinstance(settings, EvolveSettings):
        return LearnerStudy(settings, run_path)
    assert isinstance(settings, ProblemSettings)
    kind = resolve(PROBLEM, settings.problem)
    try:
        problem = kind(**{name: getattr(settings, name) for name in _fields(kind)})
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"problem = {settings.problem!r}: {error}") from error
    return Study(problem, settings)


def free(settings: EvolutionSettings) -> tuple[str, ...]:
    """Return beginnings of the settings that a judgement of a finished run may change."""
    if isinstance(settings, EvolveSettings):
        return (*TRAINING, "fitness.")
    assert isinstance(settings, ProblemSettings)
    return tuple(_fields(resolve(PROBLEM, settings.problem)))


def _fields(kind: Any) -> list[str]:
    """Return the names of a dataclass's fields; none of another class."""
    is_dataclass = dataclasses.is_dataclass(kind)
    return [each.name for each in dataclasses.fields(kind)] if is_dataclass else []
