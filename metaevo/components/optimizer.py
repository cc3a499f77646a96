"""A small learned optimizer: one tiny network, the same for every parameter of the agent.

    step = learning rate * exp(z) * (a . signals + y),    y, z = network(features)

The signals are the gradient and its running means, divided by the root of the second moment, as in
Adam (Kingma & Ba 2015); with a = 1 for the mean with decay 0.9, and y = z = 0, the step is Adam's.
The features are the signals, how large the gradient usually is (against the mean of the same
network: the policy's or the value's), the parameter's value, and whether it is the policy's.
Learned optimizers with such features: Metz et al. 2020, "Tasks, stability, architecture, and
compute". Gradients are clipped, and the learning rate is annealed, like Adam's.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Gt
from jax.flatten_util import ravel_pytree

from metaevo.components.component import Ablation, Component, Found, Row
from purerl.fast.activations import tanh
from purerl.parts import parameters
from purerl.parts.optimizers import scale_by_annealed_learning_rate

SLOT = "make_optimizer"
INPUTS = "inputs"
"""In evaluation.json: what each input is worth."""

DECAYS = np.array([0.5, 0.9, 0.99, 0.999], np.float32)
"""Of the running means of the gradient."""
SECOND_DECAY = 0.999
"""Of the running mean of its square."""
SIGNALS = "gradient", *(f"mean {decay:g}" for decay in DECAYS.tolist())
FEATURES = *SIGNALS, "size", "value", "policy"
TIMES = "progress", "length"
LARGEST_STEP = 100.0
"""In learning rates. Adam's are at most (1 - 0.9) / sqrt(1 - 0.999) = 3.2 in the long run."""
LARGEST_EXPONENT = 3.0


@dataclass(frozen=True)
class Config:
    """The network's size, what it sees, and where it starts."""

    hidden_size: Annotated[int, Gt(0)] = 8
    """tanh units of the one hidden layer"""
    memory_size: Annotated[int, Ge(0)] = 0
    """gated numbers that it remembers of every parameter"""
    temporal: bool = True
    """also sees progress and the logarithm of the number of updates"""
    start: Literal["adam", "random"] = "adam"
    """exactly Adam, or Adam's mix of signals and a network of random weights"""


class State(NamedTuple):
    """What is remembered of P parameters."""

    steps: jax.Array
    """[] int32, taken"""
    means: jax.Array
    """[len(DECAYS), P]"""
    second: jax.Array
    """[P]"""
    memory: jax.Array
    """[memory_size, P]"""


def make(config: Config) -> Component:
    """Return the component: `init(key)` and the slot function of `purerl.types.MakeOptimizer`."""

    def make_optimizer(meta_params, context):
        optimizer = optax.chain(
            optax.clip_by_global_norm(context.hyperparams.max_grad_norm),
            _learned(config, meta_params, context),
            scale_by_annealed_learning_rate(context),
        )

        def init(params):
            return optimizer.init(ravel_pytree(params)[0])

        def update(updates, state, params, **told):
            gradient, unravel = ravel_pytree(updates)
            policy = parameters.for_each(parameters.of_policy(params), params)
            values, _ = ravel_pytree(params)
            steps, state = optimizer.update(gradient, state, values, policy=policy, **told)
            return unravel(steps), state

        return optax.GradientTransformationExtraArgs(init, update)

    return Component(lambda key: _init(config, key), make_optimizer)


def ablations(found: Found) -> list[Ablation]:
    """Return what is left without each input."""
    meta_params, without = found.meta_params, {}
    for index, name in enumerate(FEATURES):
        kernel = np.asarray(meta_params["hidden"])
        changed = {"hidden": kernel * (np.arange(kernel.shape[1]) != index)}
        if name in SIGNALS:
            changed["mix"] = meta_params["mix"] * (np.arange(len(SIGNALS)) != index)
        without[name] = {**meta_params, **changed}
    if "time" in meta_params:
        for index, name in enumerate(TIMES):
            kept = np.arange(len(TIMES)) != index
            without[name] = {**meta_params, "time": meta_params["time"] * kept}
    if len(kernel[0]) > len(FEATURES):
        kept = np.arange(kernel.shape[1]) < len(FEATURES)
        without["memory"] = {**meta_params, "hidden": kernel * kept}
    return [without_inputs(found, without)]


def without_inputs(found: Found, without: dict[str, Any]) -> Ablation:
    """Return an ablation of a learned optimizer's inputs.

    Args:
        found: the optimizer.
        without: its meta-parameters when it is blind to an input, by the input's name.
    """
    rows = [Row({"without": "nothing"})]
    for name, meta_params in without.items():
        rows.append(Row({"without": name}, found.apply, meta_params))
    return Ablation(INPUTS, rows)


def _init(config: Config, key: jax.Array) -> dict[str, jax.Array]:
    inputs = len(FEATURES) + config.memory_size
    outputs = 2 + 2 * config.memory_size
    hidden_key, time_key, output_key = jax.random.split(key, 3)
    hidden = config.hidden_size
    meta_params = {
        "mix": jnp.asarray([signal == "mean 0.9" for signal in SIGNALS], jnp.float32),
        "hidden": jax.random.normal(hidden_key, (hidden, inputs)) / inputs**0.5,
        "hidden_bias": jnp.zeros(hidden),
        "output": jax.random.normal(output_key, (outputs, hidden)) / hidden**0.5,
        "output_bias": jnp.zeros(outputs),
    }
    if config.temporal:
        meta_params["time"] = jax.random.normal(time_key, (hidden, len(TIMES))) / inputs**0.5
    if config.start == "adam":
        meta_params["output"] = jnp.zeros_like(meta_params["output"])
    return meta_params


def _learned(
    config: Config, meta_params: dict[str, jax.Array], context: Any
) -> optax.GradientTransformationExtraArgs:
    """From clipped gradients [P] to directions [P]; P is the last axis of all that is computed."""

    def init(params):
        like = jnp.zeros_like(params)
        means = jnp.zeros((len(DECAYS), params.size), params.dtype)
        memory = jnp.zeros((config.memory_size, params.size), params.dtype)
        return State(jnp.int32(0), means, like, memory)

    def update(gradient, state, values, *, progress, policy, **told):
        del told
        steps = optax.safe_increment(state.steps)
        decays = DECAYS[:, None]
        means = (1 - decays) * gradient[None] + decays * state.means
        second = (1 - SECOND_DECAY) * gradient**2 + SECOND_DECAY * state.second
        corrected = means / (1 - decays**steps)
        root = jnp.sqrt(second / (1 - SECOND_DECAY**steps))
        scale = root + context.hyperparams.adam_epsilon
        signals = jnp.concatenate([gradient[None], corrected]) / scale[None]
        size = jnp.log(scale / _mean_of_network(scale, policy))
        features = jnp.concatenate([signals, jnp.stack([size, values, policy]), state.memory])

        bias = meta_params["hidden_bias"]
        if config.temporal:
            length = jnp.log(jnp.float32(context.num_updates)) / 10.0
            bias = bias + meta_params["time"] @ jnp.stack([jnp.float32(progress), length])
        hidden = tanh(meta_params["hidden"] @ features + bias[:, None])
        outputs = meta_params["output"] @ hidden + meta_params["output_bias"][:, None]
        change, exponent, *rest = outputs
        memory = state.memory
        if config.memory_size:
            gates, news = jnp.split(jnp.stack(rest), 2)
            gates = jax.nn.sigmoid(gates)
            memory = (1.0 - gates) * memory + gates * tanh(news)

        mix = meta_params["mix"]  # the sum is spelt out: so XLA makes it part of what follows
        mixed = sum(mix[index] * signals[index] for index in range(len(SIGNALS)))
        direction = jnp.clip(mixed + change, -LARGEST_STEP, LARGEST_STEP)
        exponent = LARGEST_EXPONENT * tanh(exponent / LARGEST_EXPONENT)
        return direction * jnp.exp(exponent), State(steps, means, second, memory)

    return optax.GradientTransformationExtraArgs(init, update)


def _mean_of_network(numbers: jax.Array, policy: jax.Array) -> jax.Array:
    """Return [P]: for each parameter the mean of `numbers` [P] over the network that it is part of.

    The scale of the value network's gradients is the scale of returns, which differs between tasks.
    """

    def mean(of: jax.Array) -> jax.Array:
        return jnp.sum(numbers * of) / jnp.maximum(jnp.sum(of), 1)

    return jnp.where(policy > 0, mean(policy), mean(1 - policy))
