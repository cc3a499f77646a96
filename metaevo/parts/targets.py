"""Learned targets: a small network that corrects generalised advantages.

    h_t       = GRU(x_t, h_t+1),  from the end of the rollout to its beginning
    advantage = GAE + unit * c_1,    target = GAE + value + unit * c_2,    c = linear in h_t

x_t has the TD error, the advantage by GAE, the reward and both values, in the unit, and whether the
episode terminated or was truncated, the probability of the action, and the ratio of a `Rollout`.
The unit is the root mean square of the rollout's advantages by GAE, so a rule does not depend on
the scale of rewards. The memory is reset at the end of an episode.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Gt

from metaevo.parts.lpg import reverse_gru
from metaevo.parts.part import Part, time_inputs
from purerl.fast.arithmetic import orthogonal
from purerl.parts.returns import gae
from purerl.types import Context, Estimates, MetaParams, Rollout

INPUTS = 9
"""Of the network, without time."""
SMALLEST = 1e-8
"""Least unit."""


@dataclass(frozen=True)
class LearnedTargets(Part):
    """The network's size and inputs. Evolution starts at GAE: the output layer is zero."""

    slot: ClassVar[str] = "targets"
    hidden_size: Annotated[int, Gt(0)] = 8
    """units of the GRU"""
    temporal: bool = False
    """whether the network sees how much of training is done, and how long it is"""

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        """Return random weights, recurrent ones orthogonal; those of the output layer are zero."""
        input_key, gates_key = jax.random.split(key)
        inputs, size = INPUTS + 2 * self.temporal, self.hidden_size
        kernel, recurrent = jax.nn.initializers.lecun_normal(), orthogonal()
        gates = [recurrent(key, (size, size)) for key in jax.random.split(gates_key, 3)]
        return {
            "input": kernel(input_key, (inputs, 3 * size)),
            "input_bias": jnp.zeros(3 * size),
            "recurrent": jnp.concatenate(gates, axis=1),
            "recurrent_bias": jnp.zeros(size),
            "output": jnp.zeros((size, 2)),
            "output_bias": jnp.zeros(2),
        }

    def apply(self, meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
        """Return the advantages and targets of a rollout."""
        advantage, target = gae(meta_params, context, rollout)
        unit = jnp.maximum(jnp.sqrt(jnp.mean(jnp.square(advantage))), SMALLEST)
        after = jnp.where(rollout.terminated, 0.0, rollout.next_value)
        delta = rollout.reward + context.hyperparams.gamma * after - rollout.value
        flags = jnp.float32(rollout.terminated), jnp.float32(rollout.truncated)
        ones = jnp.ones_like(unit * advantage)
        probability = ones if rollout.log_prob is None else jnp.exp(rollout.log_prob)
        ratio = ones if rollout.ratio is None else rollout.ratio
        numbers = delta, advantage, rollout.reward, rollout.value, after
        scaled = [each / unit for each in numbers]
        inputs = jnp.stack([*scaled, *flags, probability, ratio], axis=-1)
        if self.temporal:
            time = jnp.broadcast_to(time_inputs(context), (*advantage.shape, 2))
            inputs = jnp.concatenate([inputs, time], axis=-1)
        hidden = reverse_gru(meta_params, inputs, rollout.done)
        correction = unit * (hidden @ meta_params["output"] + meta_params["output_bias"])
        return Estimates(advantage + correction[..., 0], target + correction[..., 1])
