"""Networks whose parameters have other scales, for an optimizer that should not depend on them.

The optimizer sees phi = theta / s instead of a parameter theta, with one scale s for each array,
and the gradient with respect to phi, which is s times that with respect to theta. The function that
the network computes is unchanged. Training optimizers on random scales is from Metz et al. 2022
(VeLO, arXiv 2211.09760).
"""

from collections.abc import Callable

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
            return inner.init(divided(params, scales_of(meta_params, params)))

        def update(gradients, state, params=None, **extra_args):
            scales = scales_of(meta_params, gradients)
            seen = None if params is None else divided(params, scales)
            updates, state = inner.update(multiplied(gradients, scales), state, seen, **extra_args)
            return multiplied(updates, scales), state

        return optax.GradientTransformationExtraArgs(init, update)

    return of_slot


def multiplied(tree: PyTree, scales: PyTree) -> PyTree:
    """Return every array times its scale."""
    return jax.tree.map(lambda leaf, scale: leaf * scale, tree, scales)


def divided(tree: PyTree, scales: PyTree) -> PyTree:
    """Return every array divided by its scale."""
    return jax.tree.map(lambda leaf, scale: leaf / scale, tree, scales)
