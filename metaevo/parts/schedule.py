"""Learned schedules: how hyperparams move while an agent trains.

    height(progress) = unit * sum_k coefficient_k T_k(2 progress - 1),    T_k: Chebyshev polynomials

A hyperparam is multiplied by exp(height); one in [0, 1] has its odds multiplied instead, so that it
stays there. Zero coefficients are the constant. Its only input is time: a baseline for parts
that look at `context.progress`.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval

from metaevo.parts.part import Part
from purerl.types import Context, Hyperparams, MetaParams, PyTree

Name = Literal["learning_rate", "clip_epsilon", "entropy_coef", "gae_lambda", "epsilon_start"]
FRACTIONS = "gae_lambda", "epsilon_start"
"""Hyperparameters in [0, 1]."""
COEFFICIENTS = "level", "slope", "bend", "cubic", "quartic", "quintic", "sextic", "septic"
"""Names of the coefficients, by degree."""
LIMIT = 7.0
"""Of the height: no hyperparam changes by more than a factor of 1,100."""


@dataclass(frozen=True)
class Schedule(Part):
    """Which hyperparams are scheduled, and by how many numbers each.

    Raises:
        ValueError: if it names none, or one twice.
    """

    slot: ClassVar[str] = "schedule"
    scheduled: tuple[Name, ...] = ("learning_rate", "clip_epsilon", "entropy_coef", "gae_lambda")
    """hyperparameters to schedule; names that the learner lacks are ignored"""
    coefficients: Annotated[int, Interval(ge=1, le=len(COEFFICIENTS))] = 3
    """of each: level, slope, bend, ..."""
    unit: Annotated[float, Gt(0)] = 1.0
    """by how much a coefficient of 1 changes the logarithm of a hyperparam at the end"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if not self.scheduled or len(set(self.scheduled)) != len(self.scheduled):
            raise ValueError("scheduled must name at least one hyperparam, each once")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return COEFFICIENTS[: self.coefficients]

    def init(self, key: jax.Array) -> PyTree:
        """Return zeros: the constant schedule."""
        return {name: dict.fromkeys(self.names, jnp.zeros(())) for name in self.scheduled}

    def apply(self, meta_params: MetaParams, context: Context) -> Hyperparams:
        """Return the hyperparams of an update."""
        names = self.names
        hyperparams, basis = context.hyperparams, chebyshev(context.progress, len(names))
        known = [name for name in self.scheduled if hasattr(hyperparams, name)]
        if not known:
            raise TypeError(f"the learner has no {' or '.join(self.scheduled)}")
        changed = {}
        for name in known:
            height = sum(meta_params[name][each] * basis[i] for i, each in enumerate(names))
            factor = jnp.exp(jnp.clip(self.unit * height, -LIMIT, LIMIT))
            value = getattr(hyperparams, name)
            changed[name] = value * factor
            if name in FRACTIONS:  # odds p / (1 - p), written so that 0 and 1 stay
                changed[name] = value * factor / (1.0 - value + value * factor)
        return hyperparams.replace(**changed)


def chebyshev(progress: jax.Array | float, count: int) -> list[jax.Array]:
    """Return the first Chebyshev polynomials of 2 progress - 1, all in [-1, 1] where it is."""
    x = 2.0 * jnp.asarray(progress, jnp.float32) - 1.0
    found = [jnp.ones_like(x), x]
    while len(found) < count:
        found.append(2.0 * x * found[-1] - found[-2])
    return found[:count]
