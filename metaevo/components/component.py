"""The result of a component's `make`, and the inputs of the functions that draw and describe it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo.components.signals import Seen
from purerl.learners import LearnerEntry
from purerl.types import Hyperparams, MetaParams

LEARNED = "learned"
"""Name of the evolved part among the names of hand-written ones."""


class Component(NamedTuple):
    """A learned part of a learner."""

    init: Callable[[jax.Array], Any]
    """`key -> meta_params`, one point of the search space."""
    apply: Callable[..., Any]
    """The slot function: `(meta_params, context, ...)`, see `purerl.types`."""
    direction: Callable[[Any, Seen], jax.Array] | None = None
    """Of a learned optimizer without memory: `(meta_params, seen) -> direction [P]`, see
    `metaevo.components.signals`; distillation fits this function."""


@dataclass(frozen=True)
class Found:
    """A part that evolution has found, for a component's `draw`, `observe` and `findings`."""

    apply: Callable[..., Any]
    """the slot function"""
    meta_params: MetaParams
    """of the slot function"""
    learner: LearnerEntry
    """that it is a part of"""
    hyperparams: Hyperparams
    """of the learner, as in the experiment"""
    value_targets: Callable[[], np.ndarray]
    """returns [2, samples]: predictions and targets as the value loss sees them half-way through
    training with hand-written parts"""
    num_updates: int = 1
    """of a whole training"""
    config: Any = None
    """the component's settings"""
