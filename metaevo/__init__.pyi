"""The public names of metaevo, with their homes: `metaevo.public_names` reads this file."""

from collections.abc import Callable
from typing import Any

from metaevo import parts as parts
from metaevo import statistics as statistics
from metaevo.comparison.analysis import compare_runs as compare_runs
from metaevo.config import ConfigError as ConfigError
from metaevo.config.code import load_code as load_code
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
from metaevo.judging.budget import Budget as Budget
from metaevo.judging.generality.measurement import generality as generality
from metaevo.judging.judge import judge as judge
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

def public_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]: ...
