"""Hand-written losses for the slots `value_loss` and `policy_loss`.

They have the signatures of `purerl.types`, so a baseline follows the same code path as a learned
loss. Losses are elementwise: they map scalars to a scalar, and the learner batches them.
"""

import jax
import jax.numpy as jnp
import optax

from purerl.types import Context, MetaParams, Slot, named


def squared(
    meta_params: MetaParams,
    context: Context,
    prediction: jax.Array,
    target: jax.Array,
    old_prediction: jax.Array,
) -> jax.Array:
    """Half the squared error, (prediction - target)^2 / 2."""
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
    return optax.losses.huber_loss(prediction, target, delta=context.hyperparams.huber_delta)


def sloped_squared(
    meta_params: MetaParams,
    context: Context,
    prediction: jax.Array,
    target: jax.Array,
    old_prediction: jax.Array,
) -> jax.Array:
    """Squared error with a constant slope, `hyperparams.loss_slope` times the error added.

    Predictions settle that slope below their targets, so actions that were tried often look worse
    than others, as if every step cost that much.
    """
    error = prediction - target
    return 0.5 * jnp.square(error) + context.hyperparams.loss_slope * error


def expectile(
    meta_params: MetaParams,
    context: Context,
    prediction: jax.Array,
    target: jax.Array,
    old_prediction: jax.Array,
) -> jax.Array:
    """Asymmetric squared error (Newey & Powell 1987; in RL Kostrikov et al. 2022, equation 5).

    Too low predictions weigh `hyperparams.expectile`, too high ones 1 minus it. At 0.5 it is
    `squared`; above, predictions settle above the mean of their targets.
    """
    low = context.hyperparams.expectile
    return jnp.where(prediction < target, low, 1.0 - low) * jnp.square(prediction - target)


def clipped_surrogate(
    meta_params: MetaParams, context: Context, log_ratio: jax.Array, advantage: jax.Array
) -> jax.Array:
    """PPO's clipped surrogate objective, negated (Schulman et al. 2017, equation 7)."""
    clip = context.hyperparams.clip_epsilon
    return _clipped_surrogate(log_ratio, advantage, clip, clip)


def clip_higher(
    meta_params: MetaParams, context: Context, log_ratio: jax.Array, advantage: jax.Array
) -> jax.Array:
    """PPO's objective with more room up than down, negated: DAPO (Yu et al. 2025, equation 10).

    The ratio is clipped to [1 - clip_epsilon, 1 + clip_epsilon_high].
    """
    hyperparams = context.hyperparams
    return _clipped_surrogate(
        log_ratio, advantage, hyperparams.clip_epsilon, hyperparams.clip_epsilon_high
    )


def _clipped_surrogate(
    log_ratio: jax.Array, advantage: jax.Array, low: jax.Array, high: jax.Array
) -> jax.Array:
    ratio = jnp.exp(log_ratio)
    return -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - low, 1.0 + high) * advantage)


def kl_penalty(
    meta_params: MetaParams, context: Context, log_ratio: jax.Array, advantage: jax.Array
) -> jax.Array:
    """PPO with a penalty for KL(old, new), negated (Schulman et al. 2017, equation 8).

    `hyperparams.kl_coef` is constant. The divergence is estimated from the sampled actions by
    ratio - 1 - log(ratio), which is never negative (Schulman 2020, "Approximating KL divergence").
    """
    ratio = jnp.exp(log_ratio)
    divergence = ratio - 1.0 - log_ratio
    return context.hyperparams.kl_coef * divergence - ratio * advantage


def spo(
    meta_params: MetaParams, context: Context, log_ratio: jax.Array, advantage: jax.Array
) -> jax.Array:
    """Simple policy optimisation, negated: SPO (Xie et al. 2024).

    ratio * advantage - |advantage| / (2 clip_epsilon) (ratio - 1)^2: its maximum is at a distance
    of `hyperparams.clip_epsilon` from 1.
    """
    ratio = jnp.exp(log_ratio)
    penalty = jnp.abs(advantage) / (2.0 * context.hyperparams.clip_epsilon)
    return penalty * jnp.square(ratio - 1.0) - ratio * advantage


def apa(
    meta_params: MetaParams, context: Context, log_ratio: jax.Array, advantage: jax.Array
) -> jax.Array:
    """Advantage-induced policy alignment: APA (Zhu et al. 2023), halved.

    (log_ratio - advantage / apa_temperature)^2: it is lowest where the probability of an action is
    multiplied by exp(advantage / apa_temperature). The old policy takes the place of the initial.
    """
    target = advantage / context.hyperparams.apa_temperature
    return 0.5 * jnp.square(log_ratio - target)


def dpo(
    meta_params: MetaParams, context: Context, log_ratio: jax.Array, advantage: jax.Array
) -> jax.Array:
    """Discovered policy optimisation, negated: DPO (Lu et al. 2022, section 6).

    The surrogate `ratio * advantage` minus a drift, a closed form of the evolved drift. It
    bounds the move up by `hyperparams.dpo_alpha` and the move down by `hyperparams.dpo_beta`.
    """
    ratio = jnp.exp(log_ratio)
    alpha, beta = context.hyperparams.dpo_alpha, context.hyperparams.dpo_beta
    up, down = (ratio - 1.0) * advantage, log_ratio * advantage
    drift_up = jax.nn.relu(up - alpha * jnp.tanh(up / alpha))
    drift_down = jax.nn.relu(down - beta * jnp.tanh(down / beta))
    return jnp.where(advantage >= 0.0, drift_up, drift_down) - ratio * advantage


VALUE_LOSS = Slot(
    "value_loss",
    named(squared, clipped_squared, huber, sloped_squared, expectile),
    inputs=("prediction", "target", "old_prediction"),
    ranges={
        "sloped_squared": {"loss_slope": {"log_uniform": [3e-3, 1.0]}},
        "expectile": {"expectile": {"uniform": [0.1, 0.9]}},
    },
)
POLICY_LOSS = Slot(
    "policy_loss",
    named(clipped_surrogate, dpo, clip_higher, kl_penalty, spo, apa),
    inputs=("log_ratio", "advantage"),
)
