"""Starting a part at a function that is known: its network is fitted to it by descent."""

from collections.abc import Callable
from typing import Any

import jax
import optax

from purerl.types import MetaParams, PyTree


def fit(
    distance: Callable[[Any, jax.Array], jax.Array],
    meta_params: MetaParams,
    key: jax.Array,
    steps: int,
) -> PyTree:
    """Return meta-parameters fitted to a target.

    Args:
        distance: from meta-parameters and a random key, with which it draws where to look, to how
            far they are from it.
        meta_params: where to begin.
        key: of all draws.
        steps: of Adam.
    """
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, steps))

    def step(carry, key):
        meta_params, opt_state = carry
        updates, opt_state = optimizer.update(jax.grad(distance)(meta_params, key), opt_state)
        return (optax.apply_updates(meta_params, updates), opt_state), None

    keys = jax.random.split(key, steps)
    (meta_params, _), _ = jax.lax.scan(step, (meta_params, optimizer.init(meta_params)), keys)
    return meta_params
