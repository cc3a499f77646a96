"""Evolution of parts of reinforcement-learning algorithms, on the device from end to end.

Importing this package does not initialise JAX, so `metaevo.devices.setup` can still choose the
devices.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metaevo import parts as parts
    from metaevo import statistics as statistics
    from metaevo.comparison.analysis import compare_runs as compare_runs
    from metaevo.config import ConfigError as ConfigError
    from metaevo.config import code
    from metaevo.discovery.proposals import Judge as Judge
    from metaevo.evolution import devices as devices
    from metaevo.evolution.evaluation import evaluate as evaluate
    from metaevo.evolution.evosax import OpenES as OpenES
    from metaevo.evolution.evosax import StrategyConfig as StrategyConfig
    from metaevo.evolution.loop import Evolution as Evolution
    from metaevo.evolution.loop import EvolutionConfig as EvolutionConfig
    from metaevo.evolution.problem import Contender as Contender
    from metaevo.evolution.problem import Evaluation as Evaluation
    from metaevo.evolution.problem import MetaProblem as MetaProblem
    from metaevo.evolution.strategy import Strategy as Strategy
    from metaevo.judging.api import judge as judge
    from metaevo.judging.budget import Budget as Budget
    from metaevo.judging.generality.measurement import generality as generality
    from metaevo.judging.scores import Scores as Scores
    from metaevo.parts.part import Part as Part
    from metaevo.parts.saved import load as load
    from metaevo.parts.saved import load_parts as load_parts
    from metaevo.parts.saved import save as save
    from metaevo.studies.api import Found as Found
    from metaevo.studies.api import evolve as evolve
    from metaevo.studies.reading import read_settings as read_settings
    from metaevo.studies.settings import RunConfig as RunConfig
    from metaevo.studies.sweeps import sweep as sweep
    from metaevo.tasks.fitness import measures as measures
    from metaevo.tasks.population import Population as Population
    from metaevo.tasks.problem import LearnerProblem as LearnerProblem
    from metaevo.tasks.task import Task as Task
    from metaevo.training.result import load_training as load_training
    from metaevo.training.run import train as train
    from metaevo.tuning.config import SweepConfig as SweepConfig

    __version__: str
    load_code = code.load

_HOMES = {
    "Budget": "metaevo.judging.budget",
    "ConfigError": "metaevo.config",
    "Contender": "metaevo.evolution.problem",
    "Evaluation": "metaevo.evolution.problem",
    "Evolution": "metaevo.evolution.loop",
    "EvolutionConfig": "metaevo.evolution.loop",
    "Found": "metaevo.studies.api",
    "Judge": "metaevo.discovery.proposals",
    "LearnerProblem": "metaevo.tasks.problem",
    "MetaProblem": "metaevo.evolution.problem",
    "OpenES": "metaevo.evolution.evosax",
    "Part": "metaevo.parts.part",
    "Population": "metaevo.tasks.population",
    "RunConfig": "metaevo.studies.settings",
    "Scores": "metaevo.judging.scores",
    "Strategy": "metaevo.evolution.strategy",
    "StrategyConfig": "metaevo.evolution.evosax",
    "SweepConfig": "metaevo.tuning.config",
    "Task": "metaevo.tasks.task",
    "judge": "metaevo.judging.api",
    "parts": "metaevo.parts",
    "compare_runs": "metaevo.comparison.analysis",
    "devices": "metaevo.evolution.devices",
    "evaluate": "metaevo.evolution.evaluation",
    "evolve": "metaevo.studies.api",
    "generality": "metaevo.judging.generality.measurement",
    "load": "metaevo.parts.saved",
    "load_code": "metaevo.config.code:load",
    "load_parts": "metaevo.parts.saved",
    "load_training": "metaevo.training.result",
    "measures": "metaevo.tasks.fitness",
    "read_settings": "metaevo.studies.reading",
    "save": "metaevo.parts.saved",
    "statistics": "metaevo.statistics",
    "sweep": "metaevo.studies.sweeps",
    "train": "metaevo.training.run",
}
"""Module of each public name, imported on first use; and its name there, if it is another."""
_MODULES = "devices", "parts", "statistics"
__all__ = ["__version__", *_HOMES]


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
    home, _, there = _HOMES[name].partition(":")
    module = importlib.import_module(home)
    return module if name in _MODULES else getattr(module, there or name)


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
