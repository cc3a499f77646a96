"""An optimizer as a part: Adam with an evolved schedule, two numbers.

Evolve it with `metaevo evolve --evolve examples/scheduled_adam.py --learner ppo`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

import metaevo


@dataclass(frozen=True)
class ScheduledAdam(metaevo.Part):
    slot = "make_optimizer"
    unit: float = 1.0
    """by how much one unit of a number changes the logarithm of the step size"""

    def init(self, key):
        return {"start": jnp.zeros(()), "end": jnp.zeros(())}

    def apply(self, meta_params, context):
        hyperparams = context.hyperparams

        def update(updates, state, params=None, *, context, **others):
            done = context.progress
            height = (1.0 - done) * meta_params["start"] + done * meta_params["end"]
            step_size = hyperparams.learning_rate * jnp.exp(self.unit * height)
            return jax.tree.map(lambda leaf: -step_size * leaf, updates), state

        return optax.chain(
            optax.clip_by_global_norm(hyperparams.max_grad_norm),
            optax.scale_by_adam(eps=hyperparams.adam_epsilon),
            optax.GradientTransformationExtraArgs(optax.init_empty_state, update),
        )
