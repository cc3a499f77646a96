"""A learned update rule: LPG (Oh et al. 2020), in the form of GROOVE (Jackson et al. 2023).

    x_t = [r_t, terminated_t, pi(a_t|s_t), e(y_t), e(y_t+1)],    e: 8 -> 16 -> 1
    h_t = GRU(x_t, h_t+1),  from the end of the rollout to its beginning
    weight of -log pi(a_t|s_t), target of y_t = linear in relu(h_t)

y_t is the softmax of the agent's prediction. The memory is reset at the end of an episode.
At a termination there is no next step, so e(y_t+1) is zero; at a truncation y_t+1 comes from the
true last state. With `temporal` (LPG-T, Jackson et al. 2024) x_t also has the share of training
that is done, and the logarithm of its updates.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Gt

from metaevo.parts.part import Part
from purerl.fast.arithmetic import orthogonal, tanh
from purerl.lpg import PREDICTION_SIZE, Targets, Trajectory
from purerl.types import Context, MetaParams

EMBEDDING_SIZE = 16


@dataclass(frozen=True)
class LearnedUpdateRule(Part):
    """The network's size and inputs."""

    slot: ClassVar[str] = "update_rule"
    hidden_size: Annotated[int, Gt(0)] = 32
    """units of the GRU; the papers have 256"""
    temporal: bool = False
    """also see how much of training is done, and how long it is"""

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        """Return random weights, recurrent ones orthogonal, and biases of zero, as flax does."""
        keys = jax.random.split(key, 5)
        kernel, recurrent = jax.nn.initializers.lecun_normal(), orthogonal()
        inputs, size = 5 + 2 * self.temporal, self.hidden_size
        gates = [recurrent(key, (size, size)) for key in jax.random.split(keys[3], 3)]
        return {
            "embedding": kernel(keys[0], (PREDICTION_SIZE, EMBEDDING_SIZE)),
            "embedding_bias": jnp.zeros(EMBEDDING_SIZE),
            "embedded": kernel(keys[1], (EMBEDDING_SIZE, 1)),
            "embedded_bias": jnp.zeros(1),
            "input": kernel(keys[2], (inputs, 3 * size)),
            "input_bias": jnp.zeros(3 * size),
            "recurrent": jnp.concatenate(gates, axis=1),
            "recurrent_bias": jnp.zeros(size),
            "output": kernel(keys[4], (size, 1 + PREDICTION_SIZE)),
            "output_bias": jnp.zeros(1 + PREDICTION_SIZE),
        }

    def apply(self, meta_params: MetaParams, context: Context, trajectory: Trajectory) -> Targets:
        """Return the targets of a rollout."""
        inputs = inputs_of(meta_params, trajectory)
        if self.temporal:
            num_updates = jnp.log(jnp.asarray(context.num_updates, jnp.float32))
            time = jnp.stack([jnp.asarray(context.progress, jnp.float32), num_updates])
            time = jnp.broadcast_to(time, (*inputs.shape[:-1], 2))
            inputs = jnp.concatenate([inputs, time], axis=-1)
        done = jnp.logical_or(trajectory.terminated, trajectory.truncated)
        hidden = jax.nn.relu(reverse_gru(meta_params, inputs, done))
        outputs = _linear(meta_params, "output", hidden)
        return Targets(outputs[..., 0], outputs[..., 1:])


def inputs_of(meta_params: dict[str, jax.Array], trajectory: Trajectory) -> jax.Array:
    """Return the GRU's inputs for a rollout, [T, N, 5]."""
    predictions = jnp.stack([trajectory.prediction, trajectory.next_prediction])
    now, after = embedding(meta_params, jax.nn.softmax(predictions))
    return jnp.stack(
        [
            trajectory.reward,
            trajectory.terminated.astype(jnp.float32),
            jnp.exp(trajectory.log_prob),
            now,
            jnp.where(trajectory.terminated, 0.0, after),
        ],
        axis=-1,
    )


def embedding(meta_params: dict[str, jax.Array], prediction: jax.Array) -> jax.Array:
    """Map distributions [..., PREDICTION_SIZE] to numbers [...]."""
    hidden = jax.nn.relu(_linear(meta_params, "embedding", prediction))
    return _linear(meta_params, "embedded", hidden)[..., 0]


def reverse_gru(meta_params: dict[str, jax.Array], inputs: jax.Array, done: jax.Array) -> jax.Array:
    """Run a GRU (Cho et al. 2014, in flax's form) from the last step to the first.

    Args:
        meta_params: with `input` [inputs, 3 H] and `recurrent` [H, 3 H] for the gates reset and
            update and the candidate, and their biases.
        inputs: [T, N, inputs].
        done: [T, N] bool, an episode ended with this step: what came after it is forgotten.

    Returns:
        [T, N, H] hidden states, which summarize each step and all later steps.
    """
    recurrent, bias = meta_params["recurrent"], meta_params["recurrent_bias"]
    size = bias.shape[0]
    driven = _linear(meta_params, "input", inputs)

    def backward(hidden, row):
        driven, done = row
        hidden = jnp.where(done[:, None], 0.0, hidden)
        fed_back = hidden @ recurrent
        gates = jax.nn.sigmoid(driven[:, : 2 * size] + fed_back[:, : 2 * size])
        reset, update = gates[:, :size], gates[:, size:]
        remembered = fed_back[:, 2 * size :] + jnp.broadcast_to(bias, hidden.shape)
        candidate = tanh(driven[:, 2 * size :] + reset * remembered)
        hidden = (1.0 - update) * candidate + update * hidden
        return hidden, hidden

    start = jnp.zeros((done.shape[1], size))
    return jax.lax.scan(backward, start, (driven, done), reverse=True)[1]


def _linear(meta_params: dict[str, jax.Array], name: str, inputs: jax.Array) -> jax.Array:
    outputs = inputs @ meta_params[name]
    return outputs + jnp.broadcast_to(meta_params[f"{name}_bias"], outputs.shape)
