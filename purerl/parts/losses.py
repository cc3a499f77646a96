"""Hand-written losses for the slots of a learner: value losses and policy losses.

They have the signatures of `purerl.types`, so that a baseline runs through the same code as a
learned part. Losses are elementwise: scalars in, a scalar out; the learner batches them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from purerl.types import Context, MetaParams


def squared(
    meta_params: MetaParams,
    context: Context,
    prediction: jax.Array,
    target: jax.Array,
    old_prediction: jax.Array,
) -> jax.Array:
    """Half the squared error, (prediction - target)^2 / 2."""
    del meta_params, context, old_prediction
    return 0.5 * jnp.square(prediction - target)


def clipped_squared(
    meta_params: MetaParams,
    context: Context,
    prediction: jax.Array,
    target: jax.Array,
    old_prediction: jax.Array,
) -> jax.Array:
    """Squared error with the move of the prediction clipped, as in OpenAI Baselines' PPO.

    The larger of the losses of `prediction` and of `old_prediction` moved by at most
    `hyperparams.value_clip_epsilon` (Engstrom et al. 2020, section 3, item 1).
    """
    clip = context.hyperparams.value_clip_epsilon
    clipped = old_prediction + jnp.clip(prediction - old_prediction, -clip, clip)
    losses = jnp.square(prediction - target), jnp.square(clipped - target)
    return 0.5 * jnp.maximum(*losses)


def huber(
    meta_params: MetaParams,
    context: Context,
    prediction: jax.Array,
    target: jax.Array,
    old_prediction: jax.Array,
) -> jax.Array:
    """Huber loss (Huber 1964): squared up to `hyperparams.huber_delta`, linear beyond."""
    del meta_params, old_prediction
    return optax.losses.huber_loss(prediction, target, delta=context.hyperparams.huber_delta)


def sloped_squared(
    meta_params: MetaParams,
    context: Context,
    prediction: jax.Array,
    target: jax.Array,
    old_prediction: jax.Array,
) -> jax.Array:
    """Squared error with a constant slope, `hyperparams.loss_slope` times the error added.

    Predictions settle that slope below their targets: what is tried often looks worse than what is
    not, as if every step cost that much.
    """
    del meta_params, old_prediction
    error = prediction - target
    return 0.5 * jnp.square(error) + context.hyperparams.loss_slope * error


def clipped_surrogate(
    meta_params: MetaParams,
    context: Context,
    log_ratio: jax.Array,
    advantage: jax.Array,
) -> jax.Array:
    """PPO's clipped surrogate objective, negated (Schulman et al. 2017, equation 7)."""
    del meta_params
    ratio = jnp.exp(log_ratio)
    clip = context.hyperparams.clip_epsilon
    return -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def dpo(
    meta_params: MetaParams,
    context: Context,
    log_ratio: jax.Array,
    advantage: jax.Array,
) -> jax.Array:
    """Discovered policy optimisation, negated: DPO (Lu et al. 2022, section 6).

    The surrogate `ratio * advantage` minus a drift, a closed form of what evolution found: it
    bounds the move up by `hyperparams.dpo_alpha` and the move down by `hyperparams.dpo_beta`.
    """
    del meta_params
    ratio = jnp.exp(log_ratio)
    alpha, beta = context.hyperparams.dpo_alpha, context.hyperparams.dpo_beta
    up, down = (ratio - 1.0) * advantage, log_ratio * advantage
    drift_up = jax.nn.relu(up - alpha * jnp.tanh(up / alpha))
    drift_down = jax.nn.relu(down - beta * jnp.tanh(down / beta))
    return jnp.where(advantage >= 0.0, drift_up, drift_down) - ratio * advantage


HAND_WRITTEN: dict[str, dict[str, Callable[..., jax.Array]]] = {
    "value_loss": {
        "squared": squared,
        "clipped_squared": clipped_squared,
        "huber": huber,
        "sloped_squared": sloped_squared,
    },
    "policy_loss": {"clipped_surrogate": clipped_surrogate, "dpo": dpo},
}
"""The hand-written losses of every slot, by the names that configs use; first the reference."""
