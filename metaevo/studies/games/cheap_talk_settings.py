"""The settings of adversarial cheap talk."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from annotated_types import Interval

from metaevo.components.channels import ChannelConfig
from metaevo.config.numbers import check_numbers
from metaevo.config.sections import specialised
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.strategy import StrategyConfig
from metaevo.studies.settings import RunConfig
from metaevo.training.fitness import FitnessConfig
from metaevo.training.task import LearnerConfig, TaskConfig, learner_sections
from metaevo.tuning.config import MOST
from purerl.types import Hyperparams

SIGNS = {"adversary": -1.0, "ally": 1.0}
"""What a channel wants of its victim's fitness, by its role."""


@dataclass(frozen=True)
class VictimConfig:
    """A victim that evolution has not met, and what is different of it."""

    learner: str = ""
    """another learner, at its default settings; empty for that of evolution"""
    train: dict[str, Any] = field(default_factory=dict)
    """changes of the section train"""
    hyperparams: dict[str, Any] = field(default_factory=dict)
    """changes of the section hyperparams"""
    message_dropout: Annotated[float, Interval(ge=0, le=1)] = 0.0
    """share of messages that it does not hear: zeros instead"""


@dataclass(frozen=True)
class JudgingConfig:
    """The comparison at the end."""

    seeds: Annotated[int, Interval(ge=0, le=MOST)] = 64
    """fresh victims of every channel; 0 for no comparison"""
    victims: dict[str, VictimConfig] = field(default_factory=dict)
    """other victims, by their names ({half the rate: {hyperparams: {learning_rate: 2.5e-3}}})"""


@dataclass(frozen=True, kw_only=True)
class CheapTalkSettings:
    """The settings of an evolution of a channel."""

    study: Literal["cheap_talk"] = "cheap_talk"
    """what is evolved"""
    role: Literal["adversary", "ally"] = "adversary"
    """whether the channel is to lower or to raise the victim's fitness"""
    learner: str = "ppo"
    """the victim"""
    channel: ChannelConfig = field(default_factory=ChannelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    train: LearnerConfig
    hyperparams: Hyperparams
    fitness: FitnessConfig = field(default_factory=FitnessConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: JudgingConfig = field(default_factory=JudgingConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent."""
        check_numbers(self)


def settings_class(
    raw: dict[str, Any], component: str | None, kind: type[Any] = CheapTalkSettings
) -> type[Any]:
    """Return the class of settings, of which two sections are the victim's.

    Args:
        raw: the unvalidated settings, of which `learner` is read.
        component: of no use: no part of a learner is evolved.
        kind: the settings.

    Raises:
        ConfigError: for an unknown learner.
    """
    del component
    learner = raw.get("learner", "ppo")
    order = tuple(each.name for each in fields(kind))
    return specialised(kind, learner_sections(learner), {"learner": learner}, order=order)
