"""Protocol of the settings that a held-out comparison reads."""

from typing import Protocol

from metaevo.comparison.evaluation import EvaluationConfig
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.runs.settings import HasRun
from metaevo.training.fitness import FitnessConfig
from metaevo.training.task import LearnerSettings


class JudgedSettings(LearnerSettings, HasRun, Protocol):
    """Settings of an evolution that ends with a comparison against tuned contenders."""

    @property
    def fitness(self) -> FitnessConfig:
        """Weights of the score."""

    @property
    def evolution(self) -> EvolutionConfig:
        """Settings that split agents over the devices."""

    @property
    def evaluation(self) -> EvaluationConfig:
        """The comparison itself."""
