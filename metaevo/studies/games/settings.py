"""Settings of the game studies."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Interval, MinLen

from metaevo.config.plain import PlainDict
from metaevo.parts.channels import ChannelConfig
from metaevo.studies.study import HeldOutConfig, StudySettings
from metaevo.tasks.binding import LearnerConfig, LearnerSettings, TaskConfig
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tuning.config import MOST
from purerl.games import Game
from purerl.types import Hyperparams

Payoffs = tuple[tuple[float, float], tuple[float, float]]
Names = Annotated[tuple[str, ...], MinLen(1)]
Seeds = Annotated[int, Interval(ge=0, le=100_000)]
Factors = tuple[Annotated[float, Gt(0)], ...]
Victims = Annotated[int, Interval(ge=0, le=MOST)]


@dataclass(frozen=True)
class GameConfig:
    """Repeated game, and the length of a meta-episode.

    Raises:
        ValueError: for payoffs that are not finite.
    """

    payoffs: Payoffs = ((-1.0, -3.0), (0.0, -2.0))
    """our payoffs: a row for each of our actions (cooperate, defect), a column for each of the
    opponent's"""
    opponent_payoffs: Payoffs | None = None
    """the opponent's payoffs, in the same places; null if both see the same game"""
    discount: Annotated[float, Interval(ge=0, le=0.9999)] = 0.96
    """discount factor of the repeated game, below 1"""
    steps: Annotated[int, Interval(gt=0, le=100_000)] = 100
    """joint moves of a meta-episode: how often both choose a new policy"""

    def __post_init__(self) -> None:
        for name in ("payoffs", "opponent_payoffs"):
            payoffs = getattr(self, name)
            if payoffs is not None and not np.all(np.isfinite(payoffs)):
                raise ValueError(f"{name}: must be finite numbers")

    @property
    def game(self) -> Game:
        """The game as we see it."""
        return Game.of(self.payoffs, self.opponent_payoffs, self.discount)


@dataclass(frozen=True)
class OpponentConfig:
    """Opponents of the evolution."""

    names: str | Names = "naive"
    """naive, lola, best_response, always_defect, tit_for_tat, generous_tit_for_tat,
    win_stay_lose_shift, zero_determinant, a player of your own
    (my_players.py:Momentum), the directory of a run that evolved a meta-policy, or zoo:NAME; of a
    list each meta-episode draws one"""
    learning_rate: Annotated[float, Gt(0)] = 1.0
    """learning rate of opponents that learn; they ascend the discounted sum of their payoffs"""

    @property
    def all(self) -> tuple[str, ...]:
        """Names of the opponents as a list."""
        return (self.names,) if isinstance(self.names, str) else self.names


@dataclass(frozen=True)
class MetaPolicyConfig:
    """Meta-policy network, from the probabilities of both policies to our next policy."""

    hidden: Annotated[int, Interval(gt=0, le=4096)] = 16
    """tanh units"""


@dataclass(frozen=True)
class TournamentConfig(HeldOutConfig):
    """Settings of the final comparison."""

    seeds: Seeds = 128
    """fresh meta-episodes of every pair; 0 for no comparison"""
    tuning_seeds: Annotated[int, Interval(gt=0, le=100_000)] = 64
    """other meta-episodes, on which each hand-written contender chooses among its variants"""
    learning_rates: Factors = (0.3, 3.0)
    """learning rates of further opponents, as factors on the learning rate of evolution"""
    opponents: tuple[str, ...] = (
        "lola",
        "best_response",
        "always_defect",
        "tit_for_tat",
        "generous_tit_for_tat",
        "win_stay_lose_shift",
        "zero_determinant",
    )
    """further opponents, unseen in the evolution"""


@dataclass(frozen=True, kw_only=True)
class ShapingSettings(StudySettings):
    """Settings of an evolution of a meta-policy."""

    study: Literal["shaping"] = "shaping"
    game: GameConfig = field(default_factory=GameConfig)
    opponent: OpponentConfig = field(default_factory=OpponentConfig)
    policy: MetaPolicyConfig = field(default_factory=MetaPolicyConfig)
    evaluation: TournamentConfig = field(default_factory=TournamentConfig)


@dataclass(frozen=True)
class VictimConfig:
    """An unseen victim, described by its differences from the victim of the evolution."""

    learner: str = ""
    """another learner, with its default settings; empty for the learner of the evolution"""
    train: PlainDict = field(default_factory=dict)
    """changes of the section train"""
    hyperparams: PlainDict = field(default_factory=dict)
    """changes of the section hyperparams"""


@dataclass(frozen=True)
class TalkEvaluation(HeldOutConfig):
    """Settings of the final comparison."""

    seeds: Victims = 64
    """fresh victims of every channel; 0 for no comparison"""
    victims: dict[str, VictimConfig] = field(default_factory=dict)
    """other victims, by their names ({half the rate: {hyperparams: {learning_rate: 2.5e-3}}})"""


@dataclass(frozen=True, kw_only=True)
class CheapTalkSettings(StudySettings, LearnerSettings):
    """Settings of an evolution of a channel."""

    study: Literal["cheap_talk"] = "cheap_talk"
    role: Literal["adversary", "ally"] = "adversary"
    """adversary: the channel lowers the victim's fitness; ally: the channel raises it"""
    learner: str = "ppo"
    """the victim"""
    channel: ChannelConfig = field(default_factory=ChannelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    train: LearnerConfig
    hyperparams: Hyperparams
    sample: PlainDict = field(default_factory=dict)
    """distributions of env_params.NAME and hyperparams.NAME, drawn anew for each victim of the
    evolution, with the rules of a search space"""
    fitness: FitnessConfig = field(default_factory=FitnessConfig)
    evaluation: TalkEvaluation = field(default_factory=TalkEvaluation)
