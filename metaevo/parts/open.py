"""OPEN, a learned optimizer for reinforcement learning (Goldie et al. 2024).

"Can Learned Optimization Make Reinforcement Learning Less Difficult?" For every parameter a GRU
and a small network, the same for all, see 19 inputs and return a step. In addition to momenta and
the gradient, inputs cover three difficulties of reinforcement learning: how far training is, which
units are dormant, and when to explore: the policy's parameters get learned noise.

    u = 1e-3 m exp(1e-3 e),    for the policy + 1e-3 d noise;    parameters -= u - mean of u

The learner's learning rate is not used. It can be evolved from random weights only.
`metaevo.parts.published` reads the authors' weights, for which the inputs are exactly as in
their code (`Open.published`).
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Gt
from jax.flatten_util import ravel_pytree

from metaevo.config.plain import PlainDict
from metaevo.parts.part import Part
from purerl.fast.activations import tanh
from purerl.fast.initializers import orthogonal
from purerl.parts import parameters
from purerl.types import Context, MetaParams, PyTree

DECAYS = np.array([0.1, 0.5, 0.9, 0.99, 0.999, 0.9999], np.float32)
"""Of the momenta."""
MOMENTA = tuple(f"momentum {decay:g}" for decay in DECAYS.tolist())
NORMALISED = (
    "value",
    *(f"{part} of {name}" for name in MOMENTA for part in ("sign", "log")),
    "sign of gradient",
    "log of gradient",
)
"""The inputs that are divided by their root mean square over an array of parameters."""
INPUTS = *NORMALISED, "training", "layer", "epoch", "dormancy"
OUTPUTS = 3
STEP = 1e-3
LARGEST = 1e4
"""Of an output: what explodes is counted as diverged, but no step is infinite."""
LARGEST_EXPONENT = 10.0
TINY = 1e-9
"""The least norm by which a gradient is divided."""


class State(NamedTuple):
    """Memory of the optimizer for P parameters."""

    momenta: jax.Array
    """[len(DECAYS), P]"""
    memory: jax.Array
    """[memory_size, P]"""


@dataclass(frozen=True)
class Open(Part):
    """The optimizer: the sizes of its networks, and which inputs they see."""

    slot: ClassVar[str] = "make_optimizer"
    memory_size: Annotated[int, Gt(0)] = 8
    """units of the GRU; the authors' optimizer for several tasks has 16"""
    hidden_size: Annotated[int, Gt(0)] = 16
    """units of the two hidden layers; the authors' optimizer for several tasks has 32"""
    published: bool = False
    """as in the authors' code: gradients of policy and value are each clipped (max_grad_norm),
    logarithms begin at 1e-13 instead of 1e-8, training and epoch end at 1, the dormancy of heads is
    seen, and the logarithm of the standard deviation counts as a layer"""

    def init(self, key: jax.Array) -> PlainDict:
        """Draw weights [outputs, inputs] as flax's `GRUCell`, `Dense` and `LayerNorm` do."""
        memory, hidden = self.memory_size, self.hidden_size
        keys = jax.random.split(key, 5)
        memory_keys = jax.random.split(keys[1], 3)

        def dense(key, inputs, outputs):
            kernel = jax.nn.initializers.lecun_normal()(key, (inputs, outputs))
            return {"kernel": kernel.T, "bias": jnp.zeros(outputs)}

        def norm():
            return {"scale": jnp.ones(hidden), "bias": jnp.zeros(hidden)}

        gates = [dense(each, len(INPUTS), memory) for each in jax.random.split(keys[0], 3)]
        return {
            "gru": {
                "inputs": jnp.concatenate([gate["kernel"] for gate in gates]),
                "bias": jnp.zeros(3 * memory),
                "memory": jnp.concatenate(
                    [orthogonal()(each, (memory,) * 2) for each in memory_keys]
                ),
                "memory_bias": jnp.zeros(memory),
            },
            "first": dense(keys[2], memory, hidden),
            "first_norm": norm(),
            "second": dense(keys[3], hidden, hidden),
            "second_norm": norm(),
            "output": dense(keys[4], hidden, OUTPUTS),
        }

    def apply(
        self, meta_params: MetaParams, context: Context
    ) -> optax.GradientTransformationExtraArgs:
        """Return the optimizer."""

        def init(params):
            size = ravel_pytree(params)[0].size
            memory = jnp.zeros((self.memory_size, size))
            return State(jnp.zeros((len(DECAYS), size)), memory)

        def update(updates, state, params, *, progress, epoch, key, dormancy, **more):
            del more
            gradient, unravel = ravel_pytree(updates)
            policy = parameters.for_each(parameters.of_policy(params), params)
            if self.published:
                limit = context.hyperparams.max_grad_norm
                of_policy, of_value = policy * gradient, (1.0 - policy) * gradient
                gradient = _clip(of_policy, limit) + _clip(of_value, limit)
                progress, epoch = _until_one(context, progress, epoch)
            decays = DECAYS[:, None]
            momenta = decays * state.momenta + (1.0 - decays) * gradient[None]
            values, _ = ravel_pytree(params)
            active, _ = ravel_pytree(dormancy)
            layer = parameters.for_each(_layers(self, params), params)
            if not self.published:
                active = jnp.where(layer < 1, active, 1.0)

            def of_all(scalar):
                return jnp.full_like(values, scalar)

            sizes = [leaf.size for leaf in jax.tree.leaves(params)]
            floor = 1e-13 if self.published else 1e-8
            normalised = _normalised(_inputs(values, momenta, gradient, floor), sizes)
            others = jnp.stack([of_all(progress), layer, of_all(epoch), active])
            memory = _gru(meta_params["gru"], jnp.concatenate([normalised, others]), state.memory)
            outputs = jnp.clip(_mlp(meta_params, memory), -LARGEST, LARGEST)
            size, exponent, spread = outputs
            exponent = jnp.clip(STEP * exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT)
            steps = STEP * size * jnp.exp(exponent)
            steps += STEP * spread * policy * jax.random.normal(key, steps.shape)
            return unravel(jnp.mean(steps) - steps), State(momenta, memory)

        return optax.GradientTransformationExtraArgs(init, update)


def _clip(gradient: jax.Array, limit: jax.Array) -> jax.Array:
    norm = jnp.sqrt(jnp.sum(jnp.square(gradient)))
    return gradient * jnp.minimum(1.0, limit / jnp.maximum(norm, TINY))


def _until_one(
    context: Context, progress: jax.Array, epoch: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the progress and the epoch so that the last update and the last epoch have 1."""
    updates, epochs = context.num_updates, context.num_epochs
    progress = progress * updates / jnp.maximum(updates - 1, 1)
    return progress, epoch * epochs / jnp.maximum(epochs - 1, 1)


def _layers(config: Open, params: PyTree) -> PyTree:
    """Return the relative depth of each array, see `parameters.depth`.

    In the authors' code a policy's log_std is a layer of its own, after the head.
    """
    depth = parameters.depth(params)
    policy = parameters.of_policy(params)
    depths = [d for d, own in zip(*map(jax.tree.leaves, (depth, policy)), strict=True) if own]
    paths = jax.tree.leaves_with_path(params)
    has_std = any(getattr(path[-1], "key", None) == "log_std" for path, _ in paths if path)
    if not (config.published and has_std):
        return depth
    before = len(set(depths)) - 1  # layers before the head

    def of_array(path: tuple[Any, ...], depth: float, own: bool) -> float:
        is_std = getattr(path[-1], "key", None) == "log_std"
        return depth * before / (before + 1) if own and not is_std else depth

    return jax.tree.map_with_path(of_array, depth, policy)


def _inputs(values: jax.Array, momenta: jax.Array, gradient: jax.Array, floor: float) -> jax.Array:
    """The inputs that are normalised, [15, P]."""
    seen = jnp.concatenate([momenta, gradient[None]])
    both = jnp.stack([jnp.sign(seen), jnp.log(jnp.abs(seen) + floor)], axis=1)
    return jnp.concatenate([values[None], both.reshape(-1, values.size)])


def _normalised(rows: jax.Array, sizes: list[int]) -> jax.Array:
    """Divide rows [15, P] by their root mean square over each array of so many parameters."""
    parts = jnp.split(rows, np.cumsum(sizes)[:-1], axis=1)
    squares = (jnp.mean(jnp.square(part), axis=1, keepdims=True) for part in parts)
    scaled = [part * jax.lax.rsqrt(mean + 1e-5) for part, mean in zip(parts, squares, strict=True)]
    return jnp.concatenate(scaled, axis=1)


def _gru(weights: dict[str, jax.Array], inputs: jax.Array, memory: jax.Array) -> jax.Array:
    """A gated recurrent unit (Cho et al. 2014) on [19, P] and memory, with flax's biases."""
    of_inputs = weights["inputs"] @ inputs + weights["bias"][:, None]
    of_memory = weights["memory"] @ memory
    reset, update, new = jnp.split(of_inputs, 3)
    of_reset, of_update, of_new = jnp.split(of_memory, 3)
    reset, update = _sigmoid(reset + of_reset), _sigmoid(update + of_update)
    new = tanh(new + reset * (of_new + weights["memory_bias"][:, None]))
    return (1.0 - update) * new + update * memory


def _sigmoid(x: jax.Array) -> jax.Array:
    return 0.5 + 0.5 * tanh(0.5 * x)


def _mlp(weights: PlainDict, x: jax.Array) -> jax.Array:
    """Map [memory_size, P] to [3, P]."""
    for name in ("first", "second"):
        # LayerNorm (Ba et al. 2016): its mean is taken away from the few weights, not from x; and
        # its sum of squares is spelt out, so that XLA makes it part of what follows.
        kernel, bias = weights[name]["kernel"], weights[name]["bias"]
        x = (kernel - jnp.mean(kernel, axis=0, keepdims=True)) @ x + (bias - jnp.mean(bias))[
            :, None
        ]
        square = sum(x[index] * x[index] for index in range(len(x)))
        x = x * jax.lax.rsqrt(square / len(x) + 1e-6)[None]
        norm = weights[f"{name}_norm"]
        x = jax.nn.relu(x * norm["scale"][:, None] + norm["bias"][:, None])
    return weights["output"]["kernel"] @ x + weights["output"]["bias"][:, None]
