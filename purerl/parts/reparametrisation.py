"""Networks whose parameters have other scales, for an optimizer that should not depend on them.

The optimizer sees phi = theta / s instead of a parameter theta, with one scale s for each array,
and the gradient with respect to phi, which is s times that with respect to theta. The function that
the network computes is unchanged. Training optimizers on random scales is from Metz et al. 2022
(VeLO, arXiv 2211.09760).
"""

from collections.abc import Callable
from operator import mul, truediv

import jax
import optax

from purerl.types import Context, MakeOptimizer, MetaParams, PyTree

ScalesOf = Callable[[MetaParams, PyTree], PyTree]
"""`(meta_params, parameters) -> scales`: a positive scalar for each array of the parameters."""


def reparametrised(make_optimizer: MakeOptimizer, scales_of: ScalesOf) -> MakeOptimizer:
    """Return an optimizer of theta that follows another one, which sees theta / s."""

    def of_slot(meta_params: MetaParams, context: Context) -> optax.GradientTransformationExtraArgs:
        inner = optax.with_extra_args_support(make_optimizer(meta_params, context))

        def init(params):
            scales = scales_of(meta_params, params)
            return inner.init(jax.tree.map(truediv, params, scales))

        def update(gradients, state, params=None, **extra_args):
            scales = scales_of(meta_params, gradients)
            seen = None if params is None else jax.tree.map(truediv, params, scales)
            scaled = jax.tree.map(mul, gradients, scales)
            updates, state = inner.update(scaled, state, seen, **extra_args)
            return jax.tree.map(mul, updates, scales), state

        return optax.GradientTransformationExtraArgs(init, update)

    return of_slot
