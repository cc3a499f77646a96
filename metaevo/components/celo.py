"""Celo, a learned optimizer for supervised learning (Moudgil et al. 2025, arXiv 2501.12670).

"Celo: Training Versatile Learned Optimizers on a Compute Diet". A small network, the same for all
parameters, sees 30 inputs of each parameter and returns a direction d and an exponent e. An LSTM
sees the fraction of training that is done and the history of the loss, and returns one number s:

    parameters -= 1e-3 * 0.1 exp(s) * scale * d exp(1e-3 e)

`scale` is the root mean square of the array that holds the parameter. The inputs are momenta and
second moments, among them Adafactor's (Shazeer and Stern 2018), as in VeLO (Metz et al. 2022).
The learner's `learning_rate` and `max_grad_norm` are not used, as in the authors' code, which clips
each number of a gradient at 1,000.

`metaevo.components.published` reads the authors' weights. Weights without effect are left out: the
first of two layers before the LSTM whose result is overwritten, the choice among networks where
there is one, and a third output. In the authors' code the LSTM runs for every array, always with
the same inputs and memory, so here it runs once.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Gt
from jax.flatten_util import ravel_pytree

from metaevo.components.component import Component
from metaevo.config.plain import PlainDict
from purerl.types import Context, PyTree

SLOT = "make_optimizer"
TOLD = frozenset({"loss"})
"""Information from the learner that it reads; see `purerl.learners.LearnerEntry.told`."""

DECAYS = np.array([0.9, 0.99, 0.999], np.float32)
"""Of the momenta, and of the factored second moments."""
SQUARE_DECAY = DECAYS[-1]
"""Of the second moment of single parameters; in float32, as is the difference from 1."""
INPUTS = 30
TIMES = np.array([0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1], np.float32)
"""Fractions of training around which the scheduler sees the time in detail."""
MEANS = 10
"""Running means of the loss, with half-lives from 10 gradient steps to the whole training."""
LARGEST_GRADIENT = 1000.0
STEP = 1e-3
FACTOR = 0.1
"""Of the steps when the LSTM returns 0."""


@dataclass(frozen=True)
class Config:
    """The sizes of the networks, by default those of the published weights."""

    memory_size: Annotated[int, Gt(0)] = 64
    """units of the LSTM"""
    hidden_size: Annotated[int, Gt(0)] = 4
    """units of the two hidden layers"""


class Schedule(NamedTuple):
    """State of the scheduler."""

    step: jax.Array
    """[] int32, gradient steps done"""
    means: jax.Array
    """[MEANS] running means of the loss that begin at 0"""
    minima: jax.Array
    """[MEANS] smallest values of these means so far"""
    cell: jax.Array
    """[memory_size]"""
    hidden: jax.Array
    """[memory_size]"""


class State(NamedTuple):
    """Memory of the optimizer for P parameters."""

    schedule: Schedule
    momenta: jax.Array
    """[3, P]"""
    square: jax.Array
    """[P] second moment"""
    factors: tuple[tuple[jax.Array, ...], ...]
    """means of the second moments of each array over its largest axis and over its second largest,
    [3, ...] with axes of size 1 in their places; of an array without two axes, no means"""


def make(config: Config) -> Component:
    """Return the component: `init(key)` and the slot function of `purerl.types.MakeOptimizer`."""

    def make_optimizer(meta_params, context):
        def init(params):
            size = ravel_pytree(params)[0].size
            zeros = jnp.zeros(MEANS)
            schedule = Schedule(jnp.int32(0), zeros, zeros + 1e12, **meta_params["start"])
            factors = tuple(_no_factors(jnp.shape(leaf)) for leaf in jax.tree.leaves(params))
            return State(schedule, jnp.zeros((len(DECAYS), size)), jnp.zeros(size), factors)

        def update(updates, state, params, *, loss=None, **more):
            del more
            gradients = jax.tree.map(
                lambda x: jnp.clip(x, -LARGEST_GRADIENT, LARGEST_GRADIENT), updates
            )
            schedule, factor = _schedule(meta_params, context, state.schedule, loss)
            arrays = [jnp.asarray(leaf) for leaf in jax.tree.leaves(params)]
            sizes = [leaf.size for leaf in arrays]
            scales = [jnp.sqrt(jnp.mean(jnp.square(leaf)) + 1e-9) for leaf in arrays]
            inputs, state = _inputs(params, gradients, state)
            direction, exponent = _network(meta_params, _normalised(inputs, sizes))
            scale = jnp.concatenate([jnp.full(n, x) for n, x in zip(sizes, scales, strict=True)])
            steps = STEP * factor * scale * direction * jnp.exp(STEP * exponent)
            return ravel_pytree(updates)[1](-steps), state._replace(schedule=schedule)

        return optax.GradientTransformationExtraArgs(init, update)

    return Component(lambda key: _init(config, key), make_optimizer)


def _init(config: Config, key: jax.Array) -> PlainDict:
    """Draw weights [outputs, inputs] as haiku's `Linear` and `LSTM` do."""
    memory, hidden, keys = config.memory_size, config.hidden_size, iter(jax.random.split(key, 7))

    def dense(inputs, outputs):
        normal = jax.random.truncated_normal(next(keys), -2.0, 2.0, (outputs, inputs))
        return {"kernel": normal / inputs**0.5, "bias": jnp.zeros(outputs)}

    seen = len(TIMES) + MEANS - 1
    return {
        "start": {"cell": jnp.zeros(memory), "hidden": jnp.zeros(memory)},
        "linear": dense(seen, memory),
        "mixed": dense(seen, memory),
        "lstm": dense(2 * memory, 4 * memory),
        "size": dense(memory, 1),
        "first": dense(INPUTS, hidden),
        "second": dense(hidden, hidden),
        "output": dense(hidden, 2),
    }


def _dense(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return weights["kernel"] @ x + weights["bias"]


def _schedule(
    meta_params: PlainDict, context: Context, state: Schedule, loss: jax.Array | None
) -> tuple[Schedule, jax.Array]:
    """Return the next state of the scheduler, and the factor [] of all steps.

    Without a loss, the LSTM sees a constant one.
    """
    steps = jnp.float32(context.num_updates) * context.num_epochs * context.num_minibatches
    time = jnp.tanh(10.0 * (state.step / steps - TIMES))
    state, seen = _follow(state, steps, jnp.float32(0.0) if loss is None else loss)
    inputs = jnp.concatenate([time, seen])
    x = _dense(meta_params["linear"], inputs) + jax.nn.relu(_dense(meta_params["mixed"], inputs))
    gates = _dense(meta_params["lstm"], jnp.concatenate([x, state.hidden]))
    write, new, keep, read = jnp.split(gates, 4)
    keep, write, read = map(jax.nn.sigmoid, (keep + 1.0, write, read))
    cell = keep * state.cell + write * jnp.tanh(new)
    hidden = read * jnp.tanh(cell)
    factor = FACTOR * jnp.exp(_dense(meta_params["size"], hidden)[0])
    return state._replace(cell=cell, hidden=hidden), factor


def _follow(state: Schedule, steps: jax.Array, loss: jax.Array) -> tuple[Schedule, jax.Array]:
    """Add a loss [] to the running means; return the next state and the inputs of the LSTM.

    [MEANS - 1] a running mean, 0 if it is as high as the next longer one and -1 if it is at its
    minimum. A loss of more than twice the largest mean is clipped.
    """
    done = state.step + 1
    decays = jnp.exp(-1.0 / jnp.logspace(1.0, jnp.log10(steps), MEANS))
    weight = 1.0 - decays**done
    largest = jnp.where(state.step == 0, loss, jnp.max(state.means / weight))
    loss = jnp.minimum(2.0 * jnp.abs(largest), loss)
    means = decays * state.means + (1.0 - decays) * loss
    unbiased = means / weight
    minima = jnp.minimum(state.minima, unbiased)
    width = jnp.maximum(unbiased[1:] - minima[:-1], 1e-8)
    seen = jnp.clip((unbiased - minima)[:-1] / width - 1.0, -1.0, 1.0)
    return state._replace(step=done, means=means, minima=minima), jnp.where(done > 2, seen, 0.0)


def _axes(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the largest and the second largest axis of [3, *shape]; no axes if it has no two."""
    if len(shape) < 2:
        return (), ()
    *_, second, first = np.argsort(shape, kind="stable") + 1
    return int(first), int(second)


def _no_factors(shape: tuple[int, ...]) -> tuple[jax.Array, ...]:
    zeros = jnp.zeros((len(DECAYS), *shape))
    return tuple(jnp.mean(zeros, axis, keepdims=True) for axis in _axes(shape))


def _factored(
    gradient: jax.Array, factors: tuple[jax.Array, ...]
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Return the next second moments of an array, and [4, 3, n] for each of its n parameters.

    The rows are two means, and the factors of the gradient and of the momenta.
    """
    shape = len(DECAYS), *jnp.shape(gradient)
    axes, decays = _axes(shape[1:]), jnp.asarray(DECAYS).reshape(-1, *[1] * gradient.ndim)
    square = jnp.square(gradient)[None] + 1e-30
    rows, columns = (
        decays * factor + (1.0 - decays) * jnp.mean(square, axis, keepdims=True)
        for factor, axis in zip(factors, axes, strict=True)
    )
    of_gradient, of_momenta = jax.lax.rsqrt(rows + 1e-9), jax.lax.rsqrt(rows)
    if gradient.ndim > 1:
        relative = rows / (jnp.mean(rows, axes[1], keepdims=True) + 1e-9)
        of_rows, of_columns = (
            jax.lax.rsqrt(jnp.maximum(each, 1e-9)) for each in (relative, columns)
        )
        of_gradient = of_momenta = of_rows * of_columns
    seen = (rows, columns, of_gradient, of_momenta)
    whole = jnp.stack([jnp.broadcast_to(each, shape) for each in seen])
    return (rows, columns), whole.reshape(len(seen), len(DECAYS), -1)


def _inputs(params: PyTree, gradients: PyTree, state: State) -> tuple[jax.Array, State]:
    """Return the inputs [30, P] of the network, and the next state without its schedule."""
    values, gradient = ravel_pytree(params)[0], ravel_pytree(gradients)[0]
    leaves = jax.tree.leaves(gradients)
    found = [_factored(*each) for each in zip(leaves, state.factors, strict=True)]
    factors, of_arrays = zip(*found, strict=True)
    rows, columns, of_gradient, of_momenta = jnp.concatenate(of_arrays, axis=-1)
    decays, slowest = jnp.asarray(DECAYS)[:, None], jnp.asarray(SQUARE_DECAY)
    momenta = decays * state.momenta + (1.0 - decays) * gradient
    square = slowest * state.square + (1.0 - slowest) * jnp.square(gradient)
    root = jax.lax.rsqrt(square + 1e-6)
    inputs = [
        jnp.stack([gradient, jnp.clip(gradient, -0.1, 0.1), values]),
        momenta,
        square[None],
        momenta * root,
        root[None],
        gradient * of_gradient,
        (gradient * root)[None],
        *(rows, columns),
        *(jax.lax.rsqrt(rows + 1e-8), jax.lax.rsqrt(columns + 1e-8)),
        momenta * of_momenta,
    ]
    return jnp.concatenate(inputs), State(state.schedule, momenta, square, factors)


def _normalised(rows: jax.Array, sizes: list[int]) -> jax.Array:
    """Divide rows [30, P] by their root mean square over each array of so many parameters."""
    parts = jnp.split(rows, np.cumsum(sizes)[:-1], axis=1)
    squares = (jnp.mean(jnp.square(part), axis=1, keepdims=True) for part in parts)
    scaled = [part * jax.lax.rsqrt(mean + 1e-5) for part, mean in zip(parts, squares, strict=True)]
    return jnp.concatenate(scaled, axis=1)


def _network(weights: PlainDict, x: jax.Array) -> jax.Array:
    """Map [30, P] to direction and exponent, [2, P]."""
    for name in ("first", "second", "output"):
        x = weights[name]["kernel"] @ x + weights[name]["bias"][:, None]
        x = x if name == "output" else jax.nn.relu(x)
    return x
