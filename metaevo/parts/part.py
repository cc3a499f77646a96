"""Parts of a learner: what fills its slots, learned or hand-written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from purerl.types import Context, MetaParams, PyTree, Slot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from metaevo.evolution.postfix import Programs
    from metaevo.reports.pictures import Evolved

LEARNED = "learned"
"""Name of the evolved part among the names of hand-written ones."""
TIMES = "progress", "length"
"""Inputs of parts that tell the time: the share of training that is done, and its `length`."""


def signature(slot: Slot) -> str:
    """Return the call of a slot, as a user writes it."""
    arguments = "meta_params", "context", *slot.inputs, *slot.arguments
    return f"{slot.name}({', '.join(arguments)})"


def is_shared(slot: Slot) -> bool:
    """Return whether one compiled program can hold all functions: numbers are cheap to select."""
    return bool(slot.inputs) or slot.returns_numbers


@dataclass(frozen=True)
class Part:
    """A replaceable piece of a learner; the fields of a subclass are its settings.

    Examples:
        >>> @dataclass(frozen=True)
        ... class Scaled(metaevo.Part):
        ...     slot = "value_loss"
        ...     unit: float = 1.0
        ...
        ...     def init(self, key):
        ...         return {"scale": jnp.zeros(())}
        ...
        ...     def apply(self, meta_params, context, prediction, target, old_prediction):
        ...         return jnp.exp(self.unit * meta_params["scale"]) * (prediction - target) ** 2
    """

    slot: ClassVar[str]
    """the learner's argument that it fills; a field where the part fits several"""
    captions: ClassVar[Mapping[str, str]] = {}
    """of the pictures that `draw` draws, by file name"""
    strategy: ClassVar[Any] = None
    """class of the settings of its strategy, a `metaevo.StrategyConfig` by default"""

    def init(self, key: jax.Array) -> MetaParams:
        """Return meta-parameters, a point of the search space: any pytree of arrays."""
        return ()

    def apply(self, meta_params: MetaParams, context: Context, *arguments: Any) -> Any:
        """Apply the slot's function; `purerl.types` has the signatures."""
        raise NotImplementedError(f"{type(self).__name__} has no apply(meta_params, context, ...)")

    @classmethod
    def for_slot(cls, slot: str) -> "Part":
        """Return the part that settings complete, where the slot's name is given."""
        return cls(slot=slot) if cls.has_any_slot() else cls()  # type: ignore[call-arg]

    @classmethod
    def has_any_slot(cls) -> bool:
        """Return whether its slot is one of its settings, as a formula's is."""
        return any(each.name == "slot" for each in fields(cls))

    def in_slot(self, slot: Slot) -> "Part":
        """Return the part in a learner's slot, whose arguments it may need to know."""
        return self

    def programs(self) -> "Programs | None":
        """Return how its meta-parameters behave, if they are programs."""
        return None

    def draw(self, found: "Evolved") -> Mapping[str, "Figure"]:
        """Return figures by the names of PNG files, in addition to the picture of its slot."""
        return {}

    def findings(self, found: "Evolved") -> list[str]:
        """Return sentences about the evolved part, in addition to those of its slot."""
        return []


@dataclass(frozen=True)
class HandWritten(Part):
    """A function as a part: one that ignores its meta-parameters, or with those of a caller's."""

    slot: str  # type: ignore[misc]
    function: Callable[..., Any]

    def apply(self, meta_params: MetaParams, context: Context, *arguments: Any) -> Any:
        """Apply the function."""
        return self.function(meta_params, context, *arguments)


@dataclass(frozen=True)
class OneOf(Part):
    """Several functions in one compiled program; the meta-parameter is the index of one.

    All are computed and one is selected, so they must return numbers (`is_shared`).
    """

    slot: str  # type: ignore[misc]
    functions: tuple[Callable[..., Any], ...]

    def init(self, key: jax.Array) -> jax.Array:
        """Return the index of the first function."""
        return jnp.int32(0)

    def apply(self, meta_params: MetaParams, context: Context, *arguments: Any) -> Any:
        """Apply the chosen function."""
        results = (function(None, context, *arguments) for function in self.functions)
        return jax.tree.map(
            lambda *each: jax.lax.select_n(meta_params, *map(jnp.float32, each)), *results
        )


class Filling(NamedTuple):
    """A part with the meta-parameters that it has in a slot."""

    part: Part
    meta_params: MetaParams

    @property
    def function(self) -> Callable[..., Any]:
        """The slot's function, which ignores the meta-parameters of others."""
        return lambda _, *arguments: self.part.apply(self.meta_params, *arguments)


@dataclass(frozen=True)
class Parts:
    """Parts of a learner, each in a slot of its own, and their common meta-parameters.

    The meta-parameters of a single part are its own; those of several are a dict by slot.
    """

    by_slot: Mapping[str, Part]

    def init(self, key: jax.Array) -> PyTree:
        """Return meta-parameters of all parts."""
        if len(self.by_slot) == 1:
            (part,) = self.by_slot.values()
            return part.init(key)
        keys = jax.random.split(key, len(self.by_slot))
        each = zip(self.by_slot.items(), keys, strict=True)
        return {slot: part.init(key) for (slot, part), key in each}

    def of(self, meta_params: MetaParams, slot: str) -> PyTree:
        """Return the meta-parameters of one part."""
        return meta_params if len(self.by_slot) == 1 else meta_params[slot]

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return a function for every slot, which takes the meta-parameters of all parts."""
        single = len(self.by_slot) == 1
        return {
            slot: part.apply if single else of_key(slot, part.apply)
            for slot, part in self.by_slot.items()
        }


def length(context: Context) -> jax.Array:
    """Return the length of training as parts see it: the logarithm of its updates, divided by 10.

    A training of 22,000 updates has 1.
    """
    return jnp.log(jnp.float32(context.num_updates)) / 10.0


def time_inputs(context: Context) -> jax.Array:
    """Return [2]: the share of training that is done, and its `length`.

    Source: "Discovering Temporally-Aware RL Algorithms" (Jackson et al. 2024).
    """
    return jnp.stack([jnp.asarray(context.progress, jnp.float32), length(context)])


def of_key(key: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a slot function that takes its meta-parameters from a dict."""
    return lambda meta_params, *arguments: function(meta_params[key], *arguments)
