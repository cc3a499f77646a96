"""Hand-written functions for the slots `make_optimizer` and `schedule`.

The hyperparameters of optimizers are in `purerl.parts.training.BaseHyperparams`. Each optimizer
clips the global norm of the gradient first, and anneals its learning rate, whatever the schedule.
On a CPU the parameters are one vector, which takes fewer operations and changes results by rounding
only; Muon needs their matrices. Constants without a hyperparameter are optax's defaults.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from purerl.fast.loops import clip_by_global_norm, flattened
from purerl.parts.training import BaseHyperparams
from purerl.types import Context, Hyperparams, MakeOptimizer, MetaParams, Schedule, Slot

MUON_SIZE = 0.2
"""Root mean square of Muon's steps in learning rates (Liu et al. 2025, section 2.2)."""


def _along(direction: Callable[[BaseHyperparams], optax.GradientTransformation]) -> MakeOptimizer:
    """Return an optimizer that clips the gradient and takes annealed steps along a direction."""

    def make(meta_params: MetaParams, context: Context) -> optax.GradientTransformationExtraArgs:
        along = direction(context.hyperparams)
        return flattened(_clipped(context, along, scale_by_annealed_learning_rate(context)))

    return make


adam = _along(lambda h: optax.scale_by_adam(eps=h.adam_epsilon))
"""Adam (Kingma & Ba 2015), with `hyperparams.adam_epsilon`."""
momentum = _along(lambda h: optax.trace(decay=h.momentum))
"""Gradient descent with momentum (Polyak 1964), `hyperparams.momentum` of the last step."""
rmsprop = _along(lambda h: optax.scale_by_rms(decay=h.rmsprop_decay, eps=h.rmsprop_epsilon))
"""RMSProp (Tieleman & Hinton 2012), with `rmsprop_decay` and `rmsprop_epsilon`."""
sgd = _along(lambda h: optax.identity())
"""Plain gradient descent."""
adamw = _along(
    lambda h: optax.chain(
        optax.scale_by_adam(eps=h.adam_epsilon), optax.add_decayed_weights(h.weight_decay)
    )
)
"""Adam with decoupled decay of all parameters (Loshchilov & Hutter 2019)."""
nadam = _along(lambda h: optax.scale_by_adam(eps=h.adam_epsilon, nesterov=True))
"""Adam with Nesterov momentum (Dozat 2016)."""
amsgrad = _along(lambda h: optax.scale_by_amsgrad(eps=h.adam_epsilon))
"""Adam with the largest second moment so far (Reddi et al. 2018)."""
radam = _along(lambda h: optax.scale_by_radam(eps=h.adam_epsilon))
"""Adam without division in the first five steps, then rectified (Liu et al. 2020)."""
lion = _along(
    lambda h: optax.chain(optax.scale_by_lion(), optax.add_decayed_weights(h.weight_decay))
)
"""Steps of one size along a momentum's sign, and weight decay (Chen et al. 2023)."""


def muon(meta_params: MetaParams, context: Context) -> optax.GradientTransformationExtraArgs:
    """Orthogonalised momentum (Jordan et al. 2024) for the kernels of torsos, NAdam for the rest.

    Torsos are modules with `torso` in their names, as in the networks of purerl.

    The steps are scaled to the size of Adam's (Liu et al. 2025). A kernel of a convolution is the
    matrix of all its inputs and its filters.
    """

    def matrix(path: Any, leaf: jax.Array) -> contrib.MuonDimensionNumbers | None:
        is_hidden = "torso" in jax.tree_util.keystr(path) and leaf.ndim > 1
        inputs = tuple(range(leaf.ndim - 1))
        return contrib.MuonDimensionNumbers(inputs, -1) if is_hidden else None

    steps = contrib.muon(
        _annealed_learning_rate(context),
        eps=context.hyperparams.adam_epsilon,
        muon_weight_dimension_numbers=lambda params: jax.tree.map_with_path(matrix, params),
        consistent_rms=MUON_SIZE,
    )
    return _clipped(context, steps)


def schedule_free_adam(
    meta_params: MetaParams, context: Context
) -> optax.GradientTransformationExtraArgs:
    """Schedule-free Adam (Defazio et al. 2024): a running mean in the place of momentum.

    The agent acts with the parameters of the gradient, which are 0.9 of that mean and 0.1 of the
    last steps.
    """
    step_size = _annealed_learning_rate(context)
    adam = optax.scale_by_adam(b1=0.0, eps=context.hyperparams.adam_epsilon)
    steps = optax.chain(adam, optax.scale_by_learning_rate(step_size))
    return flattened(_clipped(context, contrib.schedule_free(steps, step_size)))


def _clipped(
    context: Context, *parts: optax.GradientTransformation
) -> optax.GradientTransformationExtraArgs:
    """Return transformations, one after another, of the clipped gradient."""
    return optax.chain(clip_by_global_norm(context.hyperparams.max_grad_norm), *parts)


def scale_by_annealed_learning_rate(context: Context) -> optax.GradientTransformationExtraArgs:
    """Multiply updates by minus the learning rate.

    It falls linearly from `hyperparams.learning_rate` to `final_learning_rate` times it, over
    `annealing_steps`, or over the whole training if that is None.
    """
    hyperparams = context.hyperparams

    def update(updates, state, params=None, *, context, **others):
        step_size = _annealed_learning_rate(context.replace(hyperparams=hyperparams))
        return jax.tree.map(lambda leaf: -step_size * leaf, updates), state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)


def _annealed_learning_rate(context: Context) -> jax.Array:
    hyperparams, done = context.hyperparams, context.progress
    if hyperparams.annealing_steps is not None:
        done = jnp.minimum(context.frames / hyperparams.annealing_steps, 1.0)
    return hyperparams.learning_rate * (1.0 + (hyperparams.final_learning_rate - 1.0) * done)


MAKE_OPTIMIZER = Slot(
    "make_optimizer",
    {
        "adam": adam,
        "momentum": momentum,
        "rmsprop": rmsprop,
        "sgd": sgd,
        "adamw": adamw,
        "nadam": nadam,
        "amsgrad": amsgrad,
        "radam": radam,
        "lion": lion,
        "muon": muon,
        "schedule_free": schedule_free_adam,
    },
    # Adam's steps have the size of its learning rate; these depend on the gradient's, and all of
    # lion's have the size of Adam's largest.
    ranges={
        "lion": {"learning_rate": {"log_uniform": [1e-5, 1e-2]}},
        "momentum": {"learning_rate": {"log_uniform": [1e-4, 1.0]}},
        "rmsprop": {"learning_rate": {"log_uniform": [1e-5, 1e-1]}},
        "sgd": {"learning_rate": {"log_uniform": [1e-3, 10.0]}},
    },
)


def constant_schedule(meta_params: MetaParams, context: Context) -> Hyperparams:
    """The settings as they are."""
    return context.hyperparams


def linear_schedule(meta_params: MetaParams, context: Context) -> Hyperparams:
    """PPO's `clip_epsilon` and `entropy_coef` fall linearly to zero.

    So does the clip for Atari in Schulman et al. 2017 (table 5), together with the learning rate.
    """
    hyperparams, left = context.hyperparams, 1.0 - context.progress
    return hyperparams.replace(
        clip_epsilon=left * hyperparams.clip_epsilon, entropy_coef=left * hyperparams.entropy_coef
    )


def cosine_schedule(meta_params: MetaParams, context: Context) -> Hyperparams:
    """The learning rate falls to zero along half a cosine (Loshchilov & Hutter 2017).

    That replaces the optimizer's annealing: `final_learning_rate` is 1.
    """
    hyperparams, share = context.hyperparams, 0.5 * (1.0 + jnp.cos(jnp.pi * context.progress))
    return hyperparams.replace(
        learning_rate=share * hyperparams.learning_rate, final_learning_rate=1.0
    )


def scheduled(schedule: Schedule, meta_params: MetaParams, context: Context) -> Context:
    """Return the context of an update with its hyperparams.

    Raises:
        TypeError: when traced, if they are other numbers than those of the context.
    """
    hyperparams = schedule(meta_params, context)
    found = jax.tree.map(jnp.shape, hyperparams)
    if found != jax.tree.map(jnp.shape, context.hyperparams):
        raise TypeError(f"a schedule must return the hyperparams that it is given, not {found}")
    return context.replace(hyperparams=hyperparams)


SCHEDULE = Slot(
    "schedule",
    {"constant": constant_schedule, "linear": linear_schedule, "cosine": cosine_schedule},
    # A clip that falls to zero is half as wide on the average.
    ranges={"linear": {"clip_epsilon": {"log_uniform": [0.1, 1.0]}}},
    returns_numbers=True,
)
