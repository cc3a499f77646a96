"""Parts of a learner: learned ones, each in a file of its own, and hand-written ones.

`parameters` computes features of a network's parameters for learned optimizers.

>>> metaevo.parts.Drift(hidden_size=8).init(jax.random.key(0))
"""

import pkgutil
from typing import TYPE_CHECKING, Any

from metaevo.parts.learners import PARTS as _PARTS
from metaevo.parts.part import HandWritten as HandWritten
from metaevo.parts.part import OneOf as OneOf
from metaevo.parts.part import Part as Part

if TYPE_CHECKING:
    from metaevo.parts import parameters as parameters
    from metaevo.parts.drift import Drift as Drift
    from metaevo.parts.formula import Formula as Formula
    from metaevo.parts.lpg import LearnedUpdateRule as LearnedUpdateRule
    from metaevo.parts.optimizer import LearnedOptimizer as LearnedOptimizer
    from metaevo.parts.program import Program as Program
    from metaevo.parts.schedule import Schedule as Schedule
    from metaevo.parts.targets import LearnedTargets as LearnedTargets
    from metaevo.parts.value_loss import ValueLossNetwork as ValueLossNetwork

_PLACES = {place.rpartition(":")[2]: place for place in _PARTS.values()}
_PLACES["parameters"] = "metaevo.parts.parameters"
__all__ = ["HandWritten", "OneOf", "Part", *_PLACES]


def __getattr__(name: str) -> Any:
    """Import a part, or `parameters`, when it is used."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pkgutil.resolve_name(_PLACES[name])
