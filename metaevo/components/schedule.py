"""Learned schedules: how hyperparams of PPO or DQN move while an agent trains.

    height(progress) = unit * sum_k coefficient_k T_k(2 progress - 1),    T_k: Chebyshev polynomials

A hyperparam is multiplied by exp(height); one in [0, 1] has its odds multiplied instead, so that it
stays there. Zero coefficients are the constant. Its only input is time: a baseline for components
that look at `context.progress`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval

from metaevo.components.component import Component

SLOT = "schedule"

Name = Literal["learning_rate", "clip_epsilon", "entropy_coef", "gae_lambda"]
FRACTIONS = ("gae_lambda",)
"""Hyperparameters in [0, 1]."""
COEFFICIENTS = "level", "slope", "bend", "cubic", "quartic", "quintic", "sextic", "septic"
"""Names of the coefficients, by degree."""
LIMIT = 7.0
"""Of the height: no hyperparam changes by more than a factor of 1,100."""


@dataclass(frozen=True)
class Config:
    """Which hyperparams are scheduled, and by how many numbers each.

    Raises:
        ValueError: if it names none, or one twice.
    """

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


def make(config: Config) -> Component:
    """Return the component: `init(key)` and the slot function of `purerl.types.Schedule`."""
    names = COEFFICIENTS[: config.coefficients]

    def init(key):
        del key
        return {name: dict.fromkeys(names, jnp.zeros(())) for name in config.scheduled}

    def schedule(meta_params, context):
        hyperparams, basis = context.hyperparams, chebyshev(context.progress, len(names))
        known = [name for name in config.scheduled if hasattr(hyperparams, name)]
        if not known:
            raise TypeError(f"the learner has no {' or '.join(config.scheduled)}")
        changed = {}
        for name in known:
            height = sum(meta_params[name][each] * basis[i] for i, each in enumerate(names))
            factor = jnp.exp(jnp.clip(config.unit * height, -LIMIT, LIMIT))
            value = getattr(hyperparams, name)
            changed[name] = value * factor
            if name in FRACTIONS:  # odds p / (1 - p), written so that 0 and 1 stay
                changed[name] = value * factor / (1.0 - value + value * factor)
        return hyperparams.replace(**changed)

    return Component(init, schedule)


def chebyshev(progress: jax.Array | float, count: int) -> list[jax.Array]:
    """Return the first Chebyshev polynomials of 2 progress - 1, all in [-1, 1] where it is."""
    x = 2.0 * jnp.asarray(progress, jnp.float32) - 1.0
    found = [jnp.ones_like(x), x]
    while len(found) < count:
        found.append(2.0 * x * found[-1] - found[-2])
    return found[:count]
