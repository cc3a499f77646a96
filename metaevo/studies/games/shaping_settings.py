"""The settings of opponent shaping."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Interval, Le, MinLen

from metaevo.config.numbers import check_numbers
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.strategy import StrategyConfig
from metaevo.studies.settings import RunConfig
from purerl.games import Game

Payoffs = tuple[tuple[float, float], tuple[float, float]]
Names = Annotated[tuple[str, ...], MinLen(1)]


@dataclass(frozen=True)
class GameConfig:
    """The repeated game, and how long both learn.

    Raises:
        ValueError: for payoffs that are not finite.
    """

    payoffs: Payoffs = ((-1.0, -3.0), (0.0, -2.0))
    """what we get: a row for each of our actions (cooperate, defect), a column for each of the
    opponent's"""
    opponent_payoffs: Payoffs | None = None
    """what the opponent gets, in the same places; null if both see the same game"""
    discount: Annotated[float, Interval(ge=0, le=0.9999)] = 0.96
    """of the repeated game: below 1, or its value would be infinite"""
    steps: Annotated[int, Interval(gt=0, le=100_000)] = 100
    """joint moves of a meta-episode: how often both choose a new policy"""

    def __post_init__(self) -> None:
        """Refuse what is not finite."""
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
    """Whom we meet during evolution."""

    names: str | Names = "naive"
    """naive, lola, best_response, always_defect, tit_for_tat, generous_tit_for_tat,
    win_stay_lose_shift, zero_determinant, self (the mean of the strategy), the directory of a
    run that evolved a meta-policy, or zoo:NAME; of a list each meta-episode draws one"""
    learning_rate: Annotated[float, Gt(0)] = 1.0
    """of those that learn, on the discounted sum of their payoffs"""

    @property
    def all(self) -> tuple[str, ...]:
        """The names as a list."""
        return (self.names,) if isinstance(self.names, str) else self.names


@dataclass(frozen=True)
class PolicyConfig:
    """The meta-policy: the probabilities of both policies in, our next policy out."""

    hidden: Annotated[int, Interval(gt=0, le=4096)] = 16
    """tanh units"""


@dataclass(frozen=True)
class JudgingConfig:
    """The comparison at the end."""

    seeds: Annotated[int, Ge(0), Le(100_000)] = 128
    """fresh meta-episodes of every pair; 0 for no comparison"""
    tuning_seeds: Annotated[int, Gt(0), Le(100_000)] = 64
    """other meta-episodes, on which each hand-written contender chooses among its variants"""
    learning_rates: tuple[Annotated[float, Gt(0)], ...] = (0.3, 3.0)
    """of opponents that learn, as factors on that of evolution"""
    opponents: tuple[str, ...] = (
        "lola",
        "best_response",
        "always_defect",
        "tit_for_tat",
        "generous_tit_for_tat",
        "win_stay_lose_shift",
        "zero_determinant",
    )
    """those that evolution has not met"""


@dataclass(frozen=True, kw_only=True)
class ShapingSettings:
    """The settings of an evolution of a meta-policy."""

    study: Literal["shaping"] = "shaping"
    """what is evolved"""
    game: GameConfig = field(default_factory=GameConfig)
    opponent: OpponentConfig = field(default_factory=OpponentConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: JudgingConfig = field(default_factory=JudgingConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent."""
        check_numbers(self)
