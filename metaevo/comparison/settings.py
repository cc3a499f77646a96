"""What the held-out comparison knows of an evolution's settings."""

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
        """What the scores are."""

    @property
    def evolution(self) -> EvolutionConfig:
        """How agents are split over the devices."""

    @property
    def evaluation(self) -> EvaluationConfig:
        """The comparison itself."""
