"""What the held-out comparison knows of an evolution's settings."""

from typing import Any, Protocol

from metaevo.agents.fitness import FitnessConfig
from metaevo.held_out.evaluation import EvaluationConfig
from metaevo.outer_loop.evolution import EvolutionConfig
from metaevo.runs.settings import HasRun
from purerl.types import Hyperparams


class JudgedSettings(HasRun, Protocol):
    """The settings of an evolution whose result is compared with tuned contenders."""

    @property
    def learner(self) -> str:
        """The learner's name."""

    @property
    def train(self) -> Any:
        """What is static of it."""

    @property
    def hyperparams(self) -> Hyperparams:
        """The untuned ones."""

    @property
    def fitness(self) -> FitnessConfig:
        """What the scores are."""

    @property
    def evolution(self) -> EvolutionConfig:
        """How agents are split over the devices."""

    @property
    def evaluation(self) -> EvaluationConfig:
        """The comparison itself."""
