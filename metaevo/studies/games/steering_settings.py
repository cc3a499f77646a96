"""The settings of cheap talk at test time."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Interval

from metaevo.components.channels import ChannelConfig
from metaevo.config.numbers import check_numbers
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.strategy import StrategyConfig
from metaevo.studies.settings import RunConfig
from metaevo.training.task import LearnerConfig, TaskConfig
from metaevo.tuning.config import MOST
from purerl.types import Hyperparams


@dataclass(frozen=True)
class SteeringConfig:
    """What happens to a frozen victim.

    Raises:
        ValueError: if the lowest goal is not below the highest.
    """

    by: Literal["evolution", "ppo"] = "evolution"
    """what speaks then: a network that is evolved with the channel, or one that PPO trains for
    each victim (the oracle)"""
    low: float = -1.5
    """the lowest goal"""
    high: float = 1.5
    """the highest goal"""
    steps: Annotated[int, Interval(gt=0, le=100_000)] = 200
    """of an episode; what ends earlier earns nothing afterwards"""
    episodes: Annotated[int, Interval(gt=0, le=65_536)] = 64
    """that a victim is judged by, each with its own goal"""
    oracle_frames: Annotated[int, Interval(ge=2048, le=1_000_000_000)] = 65_536
    """steps for which PPO trains, in evolution (by: ppo) and in the comparison"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g} must be below high = {self.high:g}")


@dataclass(frozen=True)
class JudgingConfig:
    """The comparison at the end."""

    seeds: Annotated[int, Interval(ge=0, le=MOST)] = 32
    """fresh victims of every channel; 0 for no comparison"""


@dataclass(frozen=True, kw_only=True)
class SteeringSettings:
    """The settings of an evolution of a channel and of what steers."""

    study: Literal["steering"] = "steering"
    """what is evolved"""
    learner: str = "ppo"
    """the victim"""
    channel: ChannelConfig = field(default_factory=lambda: ChannelConfig(scale=math.pi))
    steering: SteeringConfig = field(default_factory=SteeringConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    train: LearnerConfig
    hyperparams: Hyperparams
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: JudgingConfig = field(default_factory=JudgingConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent."""
        check_numbers(self)
