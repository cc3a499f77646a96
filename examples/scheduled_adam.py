"""An optimizer as a component: Adam with an evolved schedule, two numbers.

Evolve it with `metaevo evolve --evolve examples/scheduled_adam.py --learner ppo`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from metaevo import Component

SLOT = "make_optimizer"


@dataclass(frozen=True)
class Config:
    """Settings: the `component:` section of the YAML."""

    unit: float = 1.0
    """by how much one unit of a number changes the logarithm of the step size"""


def make(config: Config) -> Component:
    """Return the component."""

    def init(key):
        return {"start": jnp.zeros(()), "end": jnp.zeros(())}

    def make_optimizer(meta_params, context):
        hyperparams = context.hyperparams

        def update(updates, state, params=None, *, progress, **extra_args):
            height = (1.0 - progress) * meta_params["start"] + progress * meta_params["end"]
            step_size = hyperparams.learning_rate * jnp.exp(config.unit * height)
            return jax.tree.map(lambda leaf: -step_size * leaf, updates), state

        return optax.chain(
            optax.clip_by_global_norm(hyperparams.max_grad_norm),
            optax.scale_by_adam(eps=hyperparams.adam_epsilon),
            optax.GradientTransformationExtraArgs(optax.init_empty_state, update),
        )

    return Component(init, make_optimizer)
