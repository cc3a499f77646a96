"""What a component's `make` returns, and what the functions that draw and ablate it are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo.components.signals import Seen
from metaevo.config.plain import PlainDict, PlainMapping
from purerl.learners import LearnerEntry
from purerl.types import Hyperparams, MetaParams

LEARNED = "learned"
"""What the evolved part is called where hand-written ones have their names."""


class Component(NamedTuple):
    """A learned part of a learner."""

    init: Callable[[jax.Array], Any]
    """`key -> meta_params`, one point of the search space."""
    apply: Callable[..., Any]
    """The slot function: `(meta_params, context, ...)`, see `purerl.types`."""
    direction: Callable[[Any, Seen], jax.Array] | None = None
    """Of a learned optimizer without memory: `(meta_params, seen) -> direction [P]`, see
    `metaevo.components.signals`; what is distilled of it."""


@dataclass(frozen=True)
class Found:
    """A part that evolution has found, for a component's `draw` and `ablations`."""

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


class Row(NamedTuple):
    """Something trained on held-out seeds: a row in a table of evaluation.json."""

    labels: PlainDict
    """what the row begins with"""
    function: Callable[..., Any] | str = LEARNED
    """in the part's slot: what was found, a hand-written function by its name, or another one; rows
    with the same function share a compiled program"""
    meta_params: MetaParams = None
    """of another function"""
    settings: Mapping[str, float] = {}
    """hyperparams that differ from the experiment's"""


class Ablation(NamedTuple):
    """A table of evaluation.json."""

    key: str
    """under which it stands there"""
    rows: list[Row]
    more: PlainMapping = {}  # noqa: RUF012 - a NamedTuple's default, only read
    """what else goes into evaluation.json, by its keys"""
