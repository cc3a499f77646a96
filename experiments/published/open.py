"""OPEN, a learned optimizer for reinforcement learning (Goldie et al. 2024), as a part.

    metaevo evolve --evolve experiments/published/open.py:Open --task.env CartPole-v1

"Can Learned Optimization Make Reinforcement Learning Less Difficult?" For every parameter a GRU
and a small network, the same for all, see 19 inputs and return a step. In addition to momenta and
the gradient, inputs cover three difficulties of reinforcement learning: how far training is, which
units are dormant, and when to explore: the policy's parameters get learned noise.

    u = 1e-3 m exp(1e-3 e),    for the policy + 1e-3 d noise;    parameters -= u - mean of u

The learner's learning rate is not used. Inputs are as in the authors' code, so their weights fit:
`python -m experiments.published` saves them as a part.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Gt
from jax.flatten_util import ravel_pytree

import metaevo
from purerl.fast.arithmetic import orthogonal
from purerl.types import Context, MetaParams, PyTree

parameters = metaevo.parts.parameters
DECAYS = np.array([[0.1], [0.5], [0.9], [0.99], [0.999], [0.9999]], np.float32)
"""Of the momenta."""
STEP = 1e-3


@dataclass(frozen=True)
class Open(metaevo.Part):
    """The optimizer, by the sizes of its networks."""

    slot: ClassVar[str] = "make_optimizer"
    memory_size: Annotated[int, Gt(0)] = 8
    """units of the GRU; the authors' optimizer for several tasks has 16"""
    hidden_size: Annotated[int, Gt(0)] = 16
    """units of the two hidden layers; the authors' optimizer for several tasks has 32"""

    @property
    def gru(self) -> Any:
        """The recurrence; see `mlp`."""
        return nn.GRUCell(self.memory_size, recurrent_kernel_init=orthogonal())

    @property
    def mlp(self) -> Any:
        """The network behind it; sorted by their names, all weights have the authors' order."""
        hidden: Any = [[nn.Dense(self.hidden_size), nn.LayerNorm(), nn.relu] for _ in range(2)]
        return nn.Sequential([*hidden[0], *hidden[1], nn.Dense(3)])

    def init(self, key: jax.Array) -> MetaParams:
        """Draw weights as flax does."""
        gru_key, mlp_key = jax.random.split(key)
        memory = jnp.zeros(self.memory_size)
        gru = self.gru.init(gru_key, memory, jnp.zeros(19))
        return {"gru": gru["params"], "mlp": self.mlp.init(mlp_key, memory)["params"]}

    def apply(
        self, meta_params: MetaParams, context: Context
    ) -> optax.GradientTransformationExtraArgs:
        """Return the optimizer, which remembers momenta [6, P] and the GRU's [P, memory_size]."""

        def init(params):
            size = ravel_pytree(params)[0].size
            return jnp.zeros((len(DECAYS), size)), jnp.zeros((size, self.memory_size))

        def update(updates, state, params, *, context, **others):
            if context.epoch is None:
                raise ValueError("OPEN needs context.epoch, which this learner has not: use ppo")
            gradient, unravel = ravel_pytree(updates)
            policy = parameters.for_each(parameters.of_policy(params), params)
            clip = optax.clip_by_global_norm(context.hyperparams.max_grad_norm)
            both = policy * gradient, (1.0 - policy) * gradient
            gradient = sum(clip.update(part, clip.init(part))[0] for part in both)
            momenta, memory = state
            momenta = DECAYS * momenta + (1.0 - DECAYS) * gradient[None]
            # The last update and the last epoch have 1.
            progress, epoch = context.progress, context.epoch
            progress *= context.num_updates / jnp.maximum(context.num_updates - 1, 1)
            epoch *= context.num_epochs / jnp.maximum(context.num_epochs - 1, 1)
            values, _ = ravel_pytree(params)
            inputs = [
                *_normalised(values, momenta, gradient, params),
                jnp.full_like(values, progress),
                parameters.for_each(_layers(params), params),
                jnp.full_like(values, epoch),
                ravel_pytree(parameters.dormancy(context, params))[0],
            ]
            gru, mlp = ({"params": meta_params[name]} for name in ("gru", "mlp"))
            memory, _ = self.gru.apply(gru, memory, jnp.stack(inputs, axis=1))
            size, exponent, spread = self.mlp.apply(mlp, memory).T
            steps = STEP * size * jnp.exp(STEP * exponent)
            steps += STEP * spread * policy * jax.random.normal(context.key, steps.shape)
            return unravel(jnp.mean(steps) - steps), (momenta, memory)

        return optax.GradientTransformationExtraArgs(init, update)


def _normalised(
    values: jax.Array, momenta: jax.Array, gradient: jax.Array, params: PyTree
) -> jax.Array:
    """Return inputs [15, P], divided by their root mean squares over each array of parameters."""
    rows = [values[None]]
    for seen in (momenta, gradient[None]):
        rows += [jnp.sign(seen), jnp.log(jnp.abs(seen) + 1e-13)]
    ends = np.cumsum([leaf.size for leaf in jax.tree.leaves(params)])[:-1]
    parts = jnp.split(jnp.concatenate(rows), ends, axis=1)
    scaled = [x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-5) for x in parts]
    return jnp.concatenate(scaled, axis=1)


def _layers(params: PyTree) -> PyTree:
    """Return the relative depth of each array; a policy's log_std is a layer after its head."""
    depth = parameters.depth(params)["params"]
    if hasattr(params["params"].get("log_std"), "shape"):
        policy = {name: depth[name] for name in parameters.POLICY if name in depth}
        head = len(set(jax.tree.leaves(policy))) - 1
        depth |= jax.tree.map(lambda each: each * head / (head + 1), policy) | {"log_std": 1.0}
    return {"params": depth}
