"""A part of three numbers: squared error, tilted, and heavier on one side than on the other.

`metaevo evolve --config examples/tilted.yaml` evolves it.
"""

from dataclasses import dataclass

import jax.numpy as jnp

import metaevo


@dataclass(frozen=True)
class Tilted(metaevo.Part):
    slot = "value_loss"
    slope_scale: float = 0.1
    """the slope at zero error, in units of which it is evolved"""

    def init(self, key):
        return {"under": jnp.zeros(()), "over": jnp.zeros(()), "slope": jnp.zeros(())}

    def apply(self, meta_params, context, prediction, target, old_prediction):
        error = prediction - target
        weight = jnp.exp(jnp.where(error < 0, meta_params["under"], meta_params["over"]))
        return 0.5 * weight * error**2 + self.slope_scale * meta_params["slope"] * error
