"""Evolution of parts of reinforcement-learning algorithms, on the device from end to end.

Importing this package does not initialise JAX, so `metaevo.devices.setup` can still choose the
devices.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metaevo import statistics
    from metaevo.comparison.compare_runs.analysis import compare_runs
    from metaevo.comparison.compare_runs.results import RunComparison
    from metaevo.comparison.generality.judge import GeneralityResult, TaskScore, generality
    from metaevo.components.component import Component
    from metaevo.components.discovery import load
    from metaevo.config import ConfigError
    from metaevo.evolution import devices
    from metaevo.evolution.evaluation import Evaluations, evaluate
    from metaevo.evolution.evolution import EvolutionConfig
    from metaevo.evolution.problem import Evaluation, MetaProblem
    from metaevo.evolution.strategy import Strategy, StrategyConfig
    from metaevo.studies.api import Found, compare, evolve
    from metaevo.studies.custom import Study, StudySettings
    from metaevo.studies.learner_problem import ComparisonResult, ContenderResult, LearnerProblem
    from metaevo.studies.settings import RunConfig
    from metaevo.studies.sweeps import sweep
    from metaevo.training.api import train
    from metaevo.training.result import TrainingResult, load_training
    from metaevo.training.tasks import TaskDistribution
    from metaevo.tuning.config import SweepConfig
    from metaevo.tuning.results import SweepResult

    __version__: str

__all__ = [
    "ComparisonResult",
    "Component",
    "ConfigError",
    "ContenderResult",
    "Evaluation",
    "Evaluations",
    "EvolutionConfig",
    "Found",
    "GeneralityResult",
    "LearnerProblem",
    "MetaProblem",
    "RunComparison",
    "RunConfig",
    "Strategy",
    "StrategyConfig",
    "Study",
    "StudySettings",
    "SweepConfig",
    "SweepResult",
    "TaskDistribution",
    "TaskScore",
    "TrainingResult",
    "__version__",
    "compare",
    "compare_runs",
    "devices",
    "evaluate",
    "evolve",
    "generality",
    "load",
    "load_training",
    "statistics",
    "sweep",
    "train",
]

_HOMES = {
    "ComparisonResult": "metaevo.studies.learner_problem",
    "Component": "metaevo.components.component",
    "ConfigError": "metaevo.config",
    "ContenderResult": "metaevo.studies.learner_problem",
    "Evaluation": "metaevo.evolution.problem",
    "Evaluations": "metaevo.evolution.evaluation",
    "EvolutionConfig": "metaevo.evolution.evolution",
    "Found": "metaevo.studies.api",
    "GeneralityResult": "metaevo.comparison.generality.judge",
    "LearnerProblem": "metaevo.studies.learner_problem",
    "MetaProblem": "metaevo.evolution.problem",
    "RunComparison": "metaevo.comparison.compare_runs.results",
    "RunConfig": "metaevo.studies.settings",
    "Strategy": "metaevo.evolution.strategy",
    "StrategyConfig": "metaevo.evolution.strategy",
    "Study": "metaevo.studies.custom",
    "StudySettings": "metaevo.studies.custom",
    "SweepConfig": "metaevo.tuning.config",
    "SweepResult": "metaevo.tuning.results",
    "TaskDistribution": "metaevo.training.tasks",
    "TaskScore": "metaevo.comparison.generality.judge",
    "TrainingResult": "metaevo.training.result",
    "compare": "metaevo.studies.api",
    "compare_runs": "metaevo.comparison.compare_runs.analysis",
    "devices": "metaevo.evolution.devices",
    "evaluate": "metaevo.evolution.evaluation",
    "evolve": "metaevo.studies.api",
    "generality": "metaevo.comparison.generality.judge",
    "load": "metaevo.components.discovery",
    "load_training": "metaevo.training.result",
    "statistics": "metaevo.statistics",
    "sweep": "metaevo.studies.sweeps",
    "train": "metaevo.training.api",
}
"""Module of each public name, imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because most imports initialise JAX's backend."""
    if name == "__version__":
        metadata = importlib.import_module("importlib.metadata")
        try:
            return metadata.version("metaevo")
        except metadata.PackageNotFoundError:  # of a checkout that is on the path only
            return "unknown"
    if name not in _HOMES:
        raise AttributeError(f"module 'metaevo' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    return module if _HOMES[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
