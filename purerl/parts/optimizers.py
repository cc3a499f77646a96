"""Hand-written optimizers for the slot `make_optimizer`, and their hyperparameters.

Each clips the global norm of the gradient first, and anneals its learning rate. On a CPU the
parameters are one vector, which takes fewer operations and changes results by rounding only.
"""

from typing import Annotated, Self

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval
from flax import struct

from purerl.fast.gradient_steps import flattened
from purerl.types import Context, MakeOptimizer, MetaParams


class Hyperparams(struct.PyTreeNode):
    """Hyperparameters of the optimizers, inherited by the `Hyperparams` of a learner."""

    learning_rate: Annotated[float, Ge(0)] = 2.5e-4
    """step size at the start"""
    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """step size at the end, as a fraction of learning_rate; 1 keeps it constant"""
    annealing_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until final_learning_rate is reached; by default the whole training"""
    max_grad_norm: Annotated[float, Gt(0)] = 0.5
    """limit of the gradient's global norm; .inf for none"""
    adam_epsilon: Annotated[float, Gt(0)] = 1e-5
    """added to the root of Adam's second moment"""
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    """share of the previous step that the optimizer momentum adds"""
    rmsprop_decay: Annotated[float, Interval(ge=0, lt=1)] = 0.99
    """decay of RMSProp's second moment"""
    rmsprop_epsilon: Annotated[float, Gt(0)] = 1e-8
    """added to RMSProp's second moment"""

    def random_play(self) -> Self:
        """Return hyperparameters under which the initial, almost uniform policy never changes."""
        return self.replace(learning_rate=0.0)


def adam(meta_params: MetaParams, context: Context) -> optax.GradientTransformationExtraArgs:
    """Adam (Kingma & Ba 2015), with `hyperparams.adam_epsilon`."""
    del meta_params
    return _optimizer(context, optax.scale_by_adam(eps=context.hyperparams.adam_epsilon))


def momentum(meta_params: MetaParams, context: Context) -> optax.GradientTransformationExtraArgs:
    """Gradient descent with momentum (Polyak 1964), `hyperparams.momentum` of the last step."""
    del meta_params
    return _optimizer(context, optax.trace(decay=context.hyperparams.momentum))


def rmsprop(meta_params: MetaParams, context: Context) -> optax.GradientTransformationExtraArgs:
    """RMSProp (Tieleman & Hinton 2012), with `rmsprop_decay` and `rmsprop_epsilon`."""
    del meta_params
    decay, epsilon = context.hyperparams.rmsprop_decay, context.hyperparams.rmsprop_epsilon
    return _optimizer(context, optax.scale_by_rms(decay=decay, eps=epsilon))


def sgd(meta_params: MetaParams, context: Context) -> optax.GradientTransformationExtraArgs:
    """Plain gradient descent."""
    del meta_params
    return _optimizer(context, optax.identity())


def _optimizer(
    context: Context, direction: optax.GradientTransformation
) -> optax.GradientTransformationExtraArgs:
    """Return an optimizer that clips the gradient and takes annealed steps along a direction."""
    hyperparams = context.hyperparams
    return flattened(
        optax.chain(
            optax.clip_by_global_norm(hyperparams.max_grad_norm),
            direction,
            scale_by_annealed_learning_rate(context),
        )
    )


def annealed(context: Context) -> jax.Array | float:
    """Return the share of `hyperparams.annealing_steps` that is done, in [0, 1].

    If it is None, annealing lasts for the whole training.
    """
    steps = context.hyperparams.annealing_steps
    return context.progress if steps is None else jnp.minimum(context.frames / steps, 1.0)


def scale_by_annealed_learning_rate(context: Context) -> optax.GradientTransformationExtraArgs:
    """Multiply updates by minus the learning rate, linear in `annealed` and then constant.

    The learning rate decreases from `hyperparams.learning_rate` to `final_learning_rate` times it.
    """
    hyperparams = context.hyperparams

    def update(updates, state, params=None, *, progress, frames, **extra_args):
        del params, extra_args
        done = annealed(context.replace(progress=progress, frames=frames))
        step_size = hyperparams.learning_rate * (
            1.0 + (hyperparams.final_learning_rate - 1.0) * done
        )
        return jax.tree.map(lambda leaf: -step_size * leaf, updates), state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)


HAND_WRITTEN: dict[str, MakeOptimizer] = {
    "flat_adam": adam,
    "adam": adam,
    "momentum": momentum,
    "rmsprop": rmsprop,
    "sgd": sgd,
}
"""Optimizers by their names in configs; the first is the reference, also by its older name."""
