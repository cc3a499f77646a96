"""Hand-written optimizers for the slot `make_optimizer` of PPO and DQN.

Each clips the global norm of the gradient first, and anneals its learning rate. To them all
parameters are one vector: fewer operations, each of them larger, and the same numbers up to
rounding.
"""

import jax
import jax.numpy as jnp
import optax

from purerl.types import Context, MakeOptimizer, MetaParams


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
    """Clip the gradient, turn it into a direction, and go an annealed step along it."""
    hyperparams = context.hyperparams
    return optax.flatten(
        optax.chain(
            optax.clip_by_global_norm(hyperparams.max_grad_norm),
            direction,
            scale_by_annealed_learning_rate(context),
        )
    )


def annealed(context: Context) -> jax.Array | float:
    """Return the share of `hyperparams.annealing_steps` that is done, in [0, 1].

    They are environment steps; None: those of the whole training.
    """
    steps = context.hyperparams.annealing_steps
    return context.progress if steps is None else jnp.minimum(context.frames / steps, 1.0)


def scale_by_annealed_learning_rate(context: Context) -> optax.GradientTransformationExtraArgs:
    """Multiply updates by minus the learning rate, linear in `annealed` and then constant.

    It falls from `hyperparams.learning_rate` to `final_learning_rate` times that.
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
"""The optimizers by the names that configs use; first the reference, by its older name too."""
