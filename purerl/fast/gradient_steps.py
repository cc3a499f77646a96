"""Gradient steps one after another, with the parameters as one vector in between.

In place of

    def scan_gradient_steps(step, params, opt_state, inputs):
        for row in rows(inputs):
            updates, opt_state, metrics = step(params, opt_state, row)
            params = optax.apply_updates(params, updates)

For a CPU, an operation for each of many small arrays costs more than its arithmetic.
"""

from collections.abc import Callable

import jax
from jax.flatten_util import ravel_pytree

from purerl.types import PyTree


def scan_gradient_steps(
    step: Callable[[PyTree, PyTree, PyTree], tuple[PyTree, PyTree, PyTree]],
    params: PyTree,
    opt_state: PyTree,
    inputs: PyTree,
) -> tuple[PyTree, PyTree, PyTree]:
    """Take one gradient step after another, for each row of `inputs` [S, ...].

    `step` maps `(params, opt_state, row)` to `(updates, opt_state, metrics)`.

    Returns:
        the last parameters and optimizer state, and the metrics of all steps [S, ...].
    """
    vector, unravel = ravel_pytree(params)

    def of_vector(carry, inputs):
        vector, opt_state = carry
        updates, opt_state, metrics = step(unravel(vector), opt_state, inputs)
        return (vector + ravel_pytree(updates)[0], opt_state), metrics

    (vector, opt_state), metrics = jax.lax.scan(of_vector, (vector, opt_state), inputs)
    return unravel(vector), opt_state, metrics
