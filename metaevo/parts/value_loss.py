"""A learned value loss: a small network of the prediction error.

    loss = network(inputs(prediction, target, old_prediction))

After "Discovering RL algorithms with evolution" in the PureJaxRL blog (Lu 2023), with a network of
64-64 tanh on prediction - target; that is `ValueLossNetwork(hidden_sizes=(64, 64))`.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval, MaxLen

from metaevo.parts.part import Part, time_inputs
from purerl.fast import arithmetic
from purerl.types import Context, MetaParams, PyTree

ACTIVATIONS = arithmetic.ACTIVATIONS | {"softplus": jax.nn.softplus}
Input = Literal["error", "signed_log_error", "target", "old_prediction", "old_error"]


@dataclass(frozen=True)
class ValueLossNetwork(Part):
    """The network's shape, its inputs, and where it starts.

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
    """random weights, or squared error (not of form: network): the output layer is zero"""
    temporal: bool = False
    """whether the network sees how much of training is done, and how long it is"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if not self.inputs or len(set(self.inputs)) != len(self.inputs):
            raise ValueError("inputs must name at least one input, each once")
        if not set(self.inputs) & {"error", "signed_log_error"}:
            raise ValueError("inputs must contain error or signed_log_error")
        if self.form == "network" and self.start == "squared":
            raise ValueError("start = 'squared': needs form: additive or multiplicative")

    def init(self, key: jax.Array) -> PyTree:
        """Return random weights, of which those of the output layer may be zero."""
        sizes = (len(self.inputs) + 2 * self.temporal, *self.hidden_sizes, 1)
        init_kernel = jax.nn.initializers.lecun_normal()
        layers = []
        for layer_key, inputs, outputs in zip(
            jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True
        ):
            kernel = init_kernel(layer_key, (inputs, outputs))
            layers.append({"kernel": kernel, "bias": jnp.zeros(outputs)})
        if self.start == "squared":
            layers[-1] = jax.tree.map(jnp.zeros_like, layers[-1])
        return layers

    def apply(
        self,
        meta_params: MetaParams,
        context: Context,
        prediction: jax.Array,
        target: jax.Array,
        old_prediction: jax.Array,
    ) -> jax.Array:
        """Return the loss of one prediction."""
        error = prediction - target
        scaled = error / self.error_scale
        above, below = jnp.maximum(scaled, 0), jnp.maximum(-scaled, 0)
        values = {
            "error": scaled,
            # sign(x) log(1 + |x|), written so that its derivative at zero is 1.
            "signed_log_error": jnp.log1p(above) - jnp.log1p(below),
            "target": target / self.error_scale,
            "old_prediction": old_prediction / self.error_scale,
            "old_error": (old_prediction - target) / self.error_scale,
        }
        inputs = jnp.stack([values[name] for name in self.inputs])
        if self.temporal:
            inputs = jnp.concatenate([inputs, time_inputs(context)])
        for index, layer in enumerate(meta_params):
            inputs = inputs @ layer["kernel"] + layer["bias"]
            if index < len(meta_params) - 1:
                inputs = ACTIVATIONS[self.activation](inputs)
        output = inputs[0]
        if self.form == "multiplicative":
            return 0.5 * jnp.square(error) * jnp.exp(jnp.clip(output, -10.0, 10.0))
        output *= self.error_scale**2  # in units of the loss, so that weights stay near 1
        return 0.5 * jnp.square(error) + output if self.form == "additive" else output
