"""What a component's `make` returns."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Component(NamedTuple):
    """A learned part of a learner."""

    init: Callable[[jax.Array], Any]
    """`key -> meta_params`, one point of the search space."""
    apply: Callable[..., jax.Array]
    """The slot function: `(meta_params, context, ...)`, see `purerl.types`."""
