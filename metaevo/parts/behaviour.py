"""What programs compute on a fixed batch of inputs: to reject useless ones and find duplicates.

    outputs = program.fingerprint(meta_params)
    is_valid(outputs)                                # worth training
    is_same(outputs, others)                         # another text for the same rule

An output is what training uses: the slope of a loss, the step of an optimizer, the factor of a
schedule, the value of another function of scalars. All functions can be transformed by `jax.jit`
and by `jax.vmap` over programs.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config.plain import PlainMapping
from metaevo.parts.signals import SIGNALS, TIMES
from purerl.types import Context

POINTS = 64
AT_RATIO_1 = 8
"""One of so many points of a policy loss has not moved yet, as in the first gradient step."""
TOLERANCE = 1e-5
Batch = dict[str, jax.Array]
"""Inputs by name, each [points]."""


def batch(slot: str, points: int = POINTS, *, arguments: tuple[str, ...] = ()) -> Batch:
    """Return inputs of a slot: the arguments of a loss, or the named inputs of another function.

    They are drawn once, over the ranges that occur in training:

    - value_loss: targets around 0 with standard deviation 3, errors of either sign and 0.01 to 10
      in size, changes of the prediction of 0.001 to 1 in size.
    - policy_loss: changes of the log probability of 0.001 to 1 in size, and some of 0; normalised
      advantages.
    - make_optimizer: gradients and means in units of the gradient's root mean square.
    - others: standard normal scalar arguments.
    - all: the whole of training, evenly, and lengths of 10 to 100,000 updates.
    """
    rng = np.random.default_rng(0)
    progress = np.linspace(0.0, 1.0, points)
    found: dict[str, np.ndarray]
    if slot == "value_loss":
        target = rng.normal(0, 3, points)
        prediction = target + _sized(rng, points, 1e-2, 10)
        old_prediction = prediction - _sized(rng, points, 1e-3, 1)
        found = {"prediction": prediction, "target": target, "old_prediction": old_prediction}
        found["progress"] = rng.permutation(progress)
    elif slot == "policy_loss":
        log_ratio = _sized(rng, points, 1e-3, 1)
        log_ratio[: points // AT_RATIO_1] = 0.0
        found = {"log_ratio": log_ratio, "advantage": rng.normal(0, 1, points)}
        found |= {"progress": rng.permutation(progress), "length": _lengths(rng, points)}
    elif slot == "make_optimizer":
        found = {name: rng.normal(0, 1, points) for name in SIGNALS}
        found |= {"size": rng.normal(0, 1, points), "value": rng.normal(0, 0.3, points)}
        found |= {"policy": rng.integers(0, 2, points), "progress": rng.permutation(progress)}
        found["length"] = _lengths(rng, points)
    elif arguments:
        found = {name: rng.normal(0, 1, points) for name in arguments}
        found |= {"progress": rng.permutation(progress), "length": _lengths(rng, points)}
    else:
        found = {"progress": progress}
    return {name: jnp.float32(each) for name, each in found.items()}


def _lengths(rng: np.random.Generator, points: int) -> np.ndarray:
    """Return lengths of training [points], as `metaevo.parts.signals.length` has them."""
    return np.log(10 ** rng.uniform(1, 5, points)) / 10


def _sized(rng: np.random.Generator, points: int, low: float, high: float) -> np.ndarray:
    """Return numbers of either sign [points], uniform in the logarithm of their size."""
    return rng.choice([-1, 1], points) * np.exp(rng.uniform(np.log(low), np.log(high), points))


def slopes(
    slot: str, loss: Callable[..., jax.Array], meta_params: PlainMapping, points: int = POINTS
) -> jax.Array:
    """Return the derivatives of a loss by its first argument on the batch of a slot, [points]."""
    inputs = batch(slot, points)
    times = {name: inputs.pop(name) for name in TIMES if name in inputs}

    def slope(times, argument, *others):
        updates = jnp.exp(10.0 * times.get("length", 0.0))
        context = Context(None, progress=times["progress"], num_updates=updates)
        return jax.grad(lambda x: loss(meta_params, context, x, *others))(argument)

    return jax.vmap(slope)(times, *inputs.values())


def is_valid(outputs: jax.Array) -> jax.Array:
    """Return whether outputs [..., N] are finite and not all zero, so an agent can learn, [...]."""
    return jnp.all(jnp.isfinite(outputs), -1) & jnp.any(outputs != 0.0, -1)


def is_same(first: jax.Array, second: jax.Array) -> jax.Array:
    """Return whether outputs [..., N] are equal except for rounding, [...].

    The tolerance is relative to each output, or to the median size of the outputs if that is
    larger, since the difference of two large numbers has their rounding.
    """
    sizes = jnp.maximum(jnp.abs(first), jnp.abs(second))
    scale = jnp.maximum(sizes, jnp.median(sizes, axis=-1, keepdims=True))
    return jnp.all(jnp.abs(first - second) <= TOLERANCE * scale, -1)
