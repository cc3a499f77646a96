"""A learned value loss: a small network of the prediction error.

    loss = network(inputs(prediction, target, old_prediction))

After "Discovering RL algorithms with evolution" in the PureJaxRL blog (Lu 2023), with a network of
64-64 tanh on prediction - target; that is `ValueLossNetwork(hidden_sizes=(64, 64))`. With
`temporal: true` the network also sees how much of training is done and how long it is (after
Jackson et al. 2024).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval, MaxLen

from metaevo.parts import temporal
from metaevo.parts.distillation import fit
from metaevo.parts.part import Part
from purerl.fast.activations import tanh
from purerl.types import Context, MetaParams, PyTree

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "softplus": jax.nn.softplus,
}
CONVEX_ACTIVATIONS = ("relu", "elu", "softplus")
CONVEX_INPUTS = ("error", "target", "old_prediction")
DISTILLATION_STEPS = 10_000

Input = Literal["error", "signed_log_error", "target", "old_prediction", "old_error"]


@dataclass(frozen=True)
class ValueLossNetwork(Part):
    """The network's shape, its inputs, and its properties by construction.

    Raises:
        ValueError: for options that exclude each other.
    """

    slot: ClassVar[str] = "value_loss"
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (16, 16)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "softplus"] = "tanh"
    """of the hidden layers"""
    inputs: tuple[Input, ...] = ("error",)
    """of: error (prediction - target), signed_log_error, target, old_prediction, old_error"""
    error_scale: Annotated[float, Interval(ge=1e-6, le=1e6)] = 1.0
    """all inputs are divided by this, the size of a usual error"""
    form: Literal["network", "additive", "multiplicative"] = "network"
    """the network itself, squared error plus the network, or squared error times exp(network)"""
    start: Literal["random", "squared"] = "random"
    """random weights, or weights for squared error (exact, or distilled by form: network)"""
    zero_at_zero: bool = False
    """subtract the value at zero error"""
    even: bool = False
    """average over both signs of the error"""
    convex: bool = False
    """non-negative weights behind the first layer: convex in the prediction (Amos et al. 2017)"""
    temporal: bool = False
    """whether the network sees how much of training is done, and how long it is"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if not self.inputs or len(set(self.inputs)) != len(self.inputs):
            raise ValueError("inputs must name at least one input, each once")
        if not set(self.inputs) & {"error", "signed_log_error"}:
            raise ValueError("inputs must contain error or signed_log_error")
        if self.convex:
            if self.activation not in CONVEX_ACTIVATIONS:
                raise ValueError(f"convex needs an activation of {CONVEX_ACTIVATIONS}")
            if self.form == "multiplicative" or not set(self.inputs) <= set(CONVEX_INPUTS):
                raise ValueError(
                    f"convex excludes form: multiplicative and needs inputs among {CONVEX_INPUTS}"
                )

    def init(self, key: jax.Array) -> PyTree:
        """Return random weights, or weights for squared error."""
        meta_params = _init_network(self, key)
        if self.start == "random":
            return meta_params
        if self.form != "network":  # an output layer of zeros
            last = meta_params[-1]
            return [*meta_params[:-1], {name: jnp.zeros_like(last[name]) for name in last}]
        if not self.temporal:
            return _distill(self, key, meta_params)
        first, *others = replace(self, temporal=False).init(key)
        unused = jnp.zeros((temporal.SIZE, first["kernel"].shape[1]))
        return [{**first, "kernel": jnp.concatenate([first["kernel"], unused])}, *others]

    def apply(
        self,
        meta_params: MetaParams,
        context: Context,
        prediction: jax.Array,
        target: jax.Array,
        old_prediction: jax.Array,
    ) -> jax.Array:
        """Return the loss of one prediction."""

        def loss(error):
            if not self.even:
                return self._of_error(meta_params, context, error, target, old_prediction)
            return 0.5 * sum(
                self._of_error(meta_params, context, sign * error, target, old_prediction)
                for sign in (1, -1)
            )

        value = loss(prediction - target)
        if self.zero_at_zero:
            value -= loss(jnp.zeros_like(target))
        return value

    def _of_error(
        self,
        meta_params: MetaParams,
        context: Context,
        error: jax.Array,
        target: jax.Array,
        old_prediction: jax.Array,
    ) -> jax.Array:
        """The loss as a function of the error."""
        inputs = _inputs(self, error, target, old_prediction)
        if self.temporal:
            inputs = jnp.concatenate([inputs, temporal.inputs(context)])
        output = _network(self, meta_params, inputs)
        if self.form == "multiplicative":
            return 0.5 * jnp.square(error) * jnp.exp(jnp.clip(output, -10.0, 10.0))
        output *= self.error_scale**2  # in units of the loss, so that weights stay near 1
        if self.form == "additive":
            return 0.5 * jnp.square(error) + output
        return output


def _inputs(
    config: ValueLossNetwork, error: jax.Array, target: jax.Array, old_prediction: jax.Array
) -> jax.Array:
    """The network's input vector [len(config.inputs)], without time."""
    scaled = error / config.error_scale
    values = {
        "error": scaled,
        # sign(x) log(1 + |x|), written so that its derivative at zero is 1.
        "signed_log_error": jnp.log1p(jnp.maximum(scaled, 0)) - jnp.log1p(jnp.maximum(-scaled, 0)),
        "target": target / config.error_scale,
        "old_prediction": old_prediction / config.error_scale,
        "old_error": (old_prediction - target) / config.error_scale,
    }
    return jnp.stack([values[name] for name in config.inputs])


def _init_network(config: ValueLossNetwork, key: jax.Array) -> list[dict[str, jax.Array]]:
    num_inputs = len(config.inputs) + temporal.SIZE * config.temporal
    sizes = (num_inputs, *config.hidden_sizes, 1)
    init_kernel = jax.nn.initializers.lecun_normal()
    layers = []
    for layer_key, inputs, outputs in zip(
        jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True
    ):
        kernel = init_kernel(layer_key, (inputs, outputs))
        layers.append({"kernel": kernel, "bias": jnp.zeros(outputs)})
    return layers


def _network(
    config: ValueLossNetwork, layers: list[dict[str, jax.Array]], x: jax.Array
) -> jax.Array:
    """Map the input vector to a scalar."""
    for index, layer in enumerate(layers):
        kernel = layer["kernel"]
        if config.convex and index > 0:
            kernel = jax.nn.softplus(kernel - 1.0)
        x = x @ kernel + layer["bias"]
        if index < len(layers) - 1:
            x = ACTIVATIONS[config.activation](x)
    return x[0]


def _distill(config: ValueLossNetwork, key: jax.Array, meta_params: MetaParams) -> PyTree:
    """Fit the network's derivative, and its value at zero, to squared error.

    Errors are drawn from a wide distribution: most within a few `error_scale`, some far out.
    """
    scale, value_loss = config.error_scale, config.apply
    context = Context(None)
    slope = jax.grad(value_loss, argnums=2)

    def distance(meta_params, key):
        size_key, error_key, target_key = jax.random.split(key, 3)
        size = jnp.exp(jax.random.uniform(size_key, (256,), minval=-3.0, maxval=1.0))
        error = scale * size * jax.random.normal(error_key, (256,))
        target = scale * jax.random.normal(target_key, (256,))
        arguments = (meta_params, context, target + error, target, target)
        slopes = jax.vmap(slope, in_axes=(None, None, 0, 0, 0))(*arguments)
        at_zero = value_loss(meta_params, context, *jnp.zeros((3,)))
        relative = (slopes - error) / (scale * size)
        return jnp.mean(jnp.square(relative)) + jnp.square(at_zero / scale**2)

    return fit(distance, meta_params, key, DISTILLATION_STEPS)
