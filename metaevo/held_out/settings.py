"""What the held-out comparison knows of an evolution's settings."""

from typing import Protocol

from metaevo.agents.fitness import FitnessConfig
from metaevo.agents.task import LearnerSettings
from metaevo.held_out.evaluation import EvaluationConfig
from metaevo.outer_loop.evolution import EvolutionConfig
from metaevo.runs.settings import HasRun


class JudgedSettings(LearnerSettings, HasRun, Protocol):
    """The settings of an evolution whose result is compared with tuned contenders."""

    @property
    def fitness(self) -> FitnessConfig:
        """What the scores are."""

    @property
    def evolution(self) -> EvolutionConfig:
        """How agents are split over the devices."""

    @property
    def evaluation(self) -> EvaluationConfig:
        """The comparison itself."""
