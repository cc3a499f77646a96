"""One entry of a search space: a range or a list of choices, as Optuna, a grid and wandb see it."""

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from metaevo.config.plain import PlainDict


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both of which belong to it."""

    kind: Literal["uniform", "log_uniform", "integer", "log_integer"]
    low: float
    high: float
    step: int = 1
    """distance of neighbouring values of the kind integer"""

    @property
    def is_log(self) -> bool:
        """Whether equal ratios count as equal distances."""
        return self.kind.startswith("log_")

    @property
    def is_integer(self) -> bool:
        """Whether its values are whole numbers."""
        return self.kind.endswith("integer")

    @property
    def distribution(self) -> BaseDistribution:
        """The same for Optuna."""
        if self.is_integer:
            low, high = int(self.low), int(self.high)
            return IntDistribution(low, high, log=self.is_log, step=self.step)
        return FloatDistribution(self.low, self.high, log=self.is_log)

    def count(self) -> int | None:
        """Return the number of values; None if they are not countable."""
        return int(self.high - self.low) // self.step + 1 if self.is_integer else None

    def ends(self) -> list[float]:
        """Return the values that a setting must allow for the range to be allowed."""
        return [self.low, self.high]

    def points(self, count: int) -> list[float]:
        """Return values at equal distances, or ratios; whole ones are rounded and never repeat."""
        space = np.geomspace if self.is_log else np.linspace
        values = space(self.low, self.high, count).tolist()
        values[0], values[-1] = self.low, self.high  # exactly
        return list(dict.fromkeys(self.nearest(value) for value in values))

    def at(self, fraction: float) -> float:
        """Return the value below which a share `fraction` in [0, 1) of the range lies."""
        half = 0.5 * self.step if self.is_integer else 0.0  # each integer gets an equal share
        low, high = self.low - half, self.high + half
        if self.is_log:
            value = math.exp(math.log(low) + fraction * (math.log(high) - math.log(low)))
        else:
            value = low + fraction * (high - low)
        return self.nearest(value)

    def fraction(self, value: float) -> float:
        """Return the share of the range that lies below a value: the inverse of `at`."""
        half = 0.5 * self.step if self.is_integer else 0.0
        low, high = self.low - half, self.high + half
        if self.is_log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def encode(self, value: float) -> float:
        """Return a value as Optuna keeps it."""
        return value

    def decode(self, value: float) -> float:
        """Return a value that Optuna kept."""
        return value

    def to_plain(self) -> dict[str, object]:
        """Return the entry as a YAML has it."""
        step = {"step": self.step} if self.step != 1 else {}
        return {self.kind: [self.low, self.high], **step}

    def to_wandb(self) -> dict[str, object]:
        """Return the parameter of a wandb sweep."""
        names = {
            "uniform": "uniform",
            "log_uniform": "log_uniform_values",
            "integer": "int_uniform" if self.step == 1 else "q_uniform",
            "log_integer": "q_log_uniform_values",
        }
        if self.step != 1 and self.low % self.step:  # wandb counts steps from zero
            return {"values": list(range(int(self.low), int(self.high) + 1, self.step))}
        step = {"q": self.step} if names[self.kind].startswith("q_") else {}
        return {"distribution": names[self.kind], "min": self.low, "max": self.high, **step}

    def nearest(self, value: float) -> float:
        """Return the value of the range that is nearest to a number."""
        if self.is_integer:
            steps = math.floor((value - self.low) / self.step + 0.5)
            value = int(self.low) + self.step * steps
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Choice:
    """One of several values, in no order."""

    values: tuple[Any, ...]
    kind: Literal["choice"] = "choice"

    @property
    def distribution(self) -> CategoricalDistribution:
        """The same for Optuna."""
        return CategoricalDistribution([self.encode(value) for value in self.values])

    def count(self) -> int | None:
        """Return the number of values."""
        return len(self.values)

    def ends(self) -> list[Any]:
        """Return the values that a setting must allow for the choice to be allowed."""
        return list(self.values)

    def points(self, count: int) -> list[Any]:
        """Return all values; `count` is ignored."""
        del count
        return list(self.values)

    def at(self, fraction: float) -> Any:
        """Return the value below which a share `fraction` in [0, 1) of the values lies."""
        return self.values[int(fraction * len(self.values))]

    def encode(self, value: Any) -> Any:
        """Return a value as Optuna keeps it: it takes scalars only, so that others become text."""
        return json.dumps(value) if self._as_text else value

    def decode(self, value: Any) -> Any:
        """Return a value that Optuna kept."""
        return json.loads(value) if self._as_text else value

    def to_plain(self) -> dict[str, object]:
        """Return the entry as a YAML has it."""
        return {self.kind: list(self.values)}

    def to_wandb(self) -> dict[str, object]:
        """Return the parameter of a wandb sweep."""
        return {"values": list(self.values)}

    @property
    def _as_text(self) -> bool:
        return any(isinstance(value, list | dict) for value in self.values)


Entry = Range | Choice
Params = PlainDict
"""Values by the dotted names of settings."""
