"""A config with a section of every kind, for the tests of configs and command lines."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import annotated_types
import flax


@flax.struct.dataclass
class Hyperparams:
    learning_rate: Annotated[float, annotated_types.Gt(0)] = 3e-4
    """Step size of the optimizer,
    before any schedule."""

    gamma: Annotated[float, annotated_types.Interval(ge=0, le=1)] = 0.99
    offset: float = 0.0


@dataclass(frozen=True)
class Schedule:
    every: int = 10
    """Updates between two points; 100% documented."""


@dataclass(frozen=True)
class Train(Schedule):
    num_envs: Annotated[int, annotated_types.Ge(1)] = 4
    num_minibatches: int = 2
    hidden_sizes: tuple[Annotated[int, annotated_types.Ge(1)], ...] = (64, 64)
    """Width of every hidden layer."""
    activation: Literal["tanh", "relu"] = "tanh"
    anneal: bool = False
    limit: Annotated[float, annotated_types.Gt(0)] | None = None

    def __post_init__(self) -> None:
        if self.num_envs % self.num_minibatches:
            raise ValueError("num_envs must be divisible by num_minibatches")


@dataclass(frozen=True)
class Config:
    learner: str = "ppo"
    hyperparams: Hyperparams = field(default_factory=Hyperparams)
    train: Train = Train(num_envs=8, hidden_sizes=(32,))
    env: dict[str, Any] = field(default_factory=dict)
    pair: tuple[int, str] = (1, "a")
