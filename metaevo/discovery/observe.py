"""Observe a learned part in training: its inputs, and the quantity that formulas are fitted to.

Of a loss this target is the slope, as learners use only the slope: two losses with values that
agree to a percent may push predictions near zero error in opposite directions. A policy loss
contains ratio * advantage; the search is for its drift. Of an optimizer it is the step of a single
parameter, in units of the learning rate and before annealing, as a function of the parameter's
signals (`metaevo.parts.optimizer`).

Agents are trained with the part from beginning to end. Now and then one update is made with a part
that records its arguments in every gradient step but is otherwise the same.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metaevo.evolution.problem import Purpose, keys_for
from metaevo.parts.expressions import Tree
from metaevo.parts.optimizer import FEATURES, SIGNALS, Seen, optimizer_along
from metaevo.parts.part import HandWritten, Part, Parts, length
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population
from metaevo.tasks.problem import LearnerProblem
from purerl.types import Context, MetaParams, PyTree

AGENTS = 16
"""Number of agents to train."""
TIMES = 8
"""Number of recorded updates, evenly spaced over training."""
SAMPLES = 4000
"""Number of samples to keep, equally many from each recorded update."""
OF_ARRAY = 32
"""Recorded parameters of each array; equal numbers give small arrays the weight of large ones."""

Samples = Mapping[str, np.ndarray]
"""Inputs of formulas by name, [samples] each."""


class Target(NamedTuple):
    """The quantity that formulas for a slot are fitted to."""

    what: str
    """description"""
    recorded: Callable[[Any, list[np.ndarray]], Part]
    """the same part, which appends the scalars [..., k] that it is given to a list"""
    inputs_of: Callable[[np.ndarray], Samples]
    """from scalars [samples, k] to the inputs of formulas except progress, [samples] each"""
    value: Callable[[Any, MetaParams, Context, Mapping[str, jax.Array]], jax.Array]
    """the part's output for the inputs of one sample"""
    gives: Literal["value", "slope"] = "slope"
    """whether a formula is the loss or its slope, see `metaevo.parts.formula`"""
    known: Mapping[Tree, float] = {}
    """terms of every formula with their factors; the search finds the rest"""


class Observed(NamedTuple):
    """A part in training."""

    inputs: Samples
    outputs: Callable[[Samples], np.ndarray]
    """returns the target [samples] for any inputs"""
    wanted: np.ndarray
    """[samples] the target"""


def observe(
    problem: LearnerProblem,
    meta_params: MetaParams,
    part: Part,
    *,
    seed: int,
    check_stop: Callable[[], None],
) -> Observed:
    """Train agents with the learned parts; return finite samples of one part's inputs over time.

    `check_stop` raises if the run has to stop.
    """
    parts, task, target = problem.parts, problem.bound[0], TARGETS[part.slot]
    hyperparams, rng = task.hyperparams, np.random.default_rng(seed)
    seen: list[np.ndarray] = []
    recording = Parts({**parts.by_slot, part.slot: target.recorded(part, seen)})
    learner = problem.with_parts(recording).bound[0].learner
    population = Population(task, meta_params, FitnessConfig(), agents=AGENTS)
    # One agent at a time: a device with a single thread waits for itself if it is to hand over
    # more than 100 kB at once.
    update = jax.jit(jax.vmap(learner.update, in_axes=(0, None, None, None)))
    agents, found = population.init(keys_for(seed, Purpose.RECORDING, AGENTS)), []
    for updates in sorted({population.num_updates * i // TIMES for i in range(TIMES)}):
        check_stop()
        agents = population.advance(agents, updates - agents.updates)
        states, each = agents.rows.agent, []
        for agent in range(AGENTS):
            seen.clear()
            state = jax.tree.map(lambda leaf: leaf[agent : agent + 1], states)  # noqa: B023
            jax.block_until_ready(update(state, hyperparams, meta_params, task.env_params))
            each.append(np.stack(seen))
        scalars = np.concatenate(each, axis=1).reshape(-1, seen[0].shape[-1])
        scalars = scalars[np.isfinite(scalars).all(axis=1)]
        scalars = scalars[rng.permutation(len(scalars))[: SAMPLES // TIMES]]
        progress = np.full(len(scalars), updates / population.num_updates, np.float32)
        found.append({**target.inputs_of(scalars), "progress": progress})
    own = parts.of(meta_params, part.slot)

    def output(inputs: Mapping[str, jax.Array], own: MetaParams) -> jax.Array:
        progress = inputs["progress"]
        frames = progress * learner.config.num_updates * learner.config.frames_per_update
        context = Context(hyperparams, progress, population.num_updates, frames)
        return target.value(part, own, context, inputs)

    every = jax.jit(jax.vmap(output, in_axes=(0, None)))

    def outputs(inputs: Samples) -> np.ndarray:
        return np.asarray(every(dict(inputs), own))

    inputs = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    wanted = outputs(inputs)
    usable = np.isfinite(wanted)
    inputs = {name: each[usable] for name, each in inputs.items()}
    return Observed(inputs, outputs, wanted[usable])


def _write_down(scalars: jax.Array, seen: list[np.ndarray]) -> jax.Array:
    """Append scalars [..., k] to a list, whenever a program comes here; return 1.

    It must be a factor of the program's result, or XLA removes it.
    """

    def append(given):
        seen.append(np.array(given))
        return np.ones(np.shape(given)[: np.ndim(given) - scalars.ndim], np.float32)

    shape = jax.ShapeDtypeStruct((), jnp.float32)
    given = jax.lax.stop_gradient(scalars)
    return jax.pure_callback(append, shape, given, vmap_method="expand_dims")


# --- Losses ---------------------------------------------------------------------------------------


def recorded_loss(part: Part, seen: list[np.ndarray]) -> Part:
    """Return the same loss, which also records the scalars of every call."""

    def loss(meta_params, context, *scalars):
        one = _write_down(jnp.stack([jnp.asarray(each) for each in scalars]), seen)
        return one * part.apply(meta_params, context, *scalars)

    return HandWritten(part.slot, loss)


def _slope_of(scalars_of: Callable[..., tuple[Any, ...]]) -> Callable[..., jax.Array]:
    """Return the slope of a loss by its first scalar, at the scalars behind the inputs."""

    def slope(part, meta_params, context, inputs):
        first, *others = scalars_of(inputs)
        return jax.grad(lambda x: part.apply(meta_params, context, x, *others))(first)

    return slope


def _errors(scalars: np.ndarray) -> Samples:
    prediction, target, old_prediction = scalars.T
    return {"error": prediction - target, "target": target, "change": prediction - old_prediction}


def _predictions(inputs: Mapping[str, jax.Array]) -> tuple[jax.Array, ...]:
    prediction = inputs["error"] + inputs["target"]
    return prediction, inputs["target"], prediction - inputs["change"]


def _ratios(scalars: np.ndarray) -> Samples:
    log_ratio, advantage = scalars.T
    ratio = np.exp(np.clip(log_ratio, -20, 20))
    return {"log_ratio": log_ratio, "ratio": ratio, "advantage": advantage}


# --- Optimizers -----------------------------------------------------------------------------------


def recorded_optimizer(part: Any, seen: list[np.ndarray]) -> Part:
    """Return the same optimizer, which also records its inputs for some parameters."""

    def make_optimizer(meta_params, context):
        def optimizer(places: list[int]) -> optax.GradientTransformationExtraArgs:
            def direction(all_seen: Seen, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
                scalars = jnp.stack([all_seen.by_name[name] for name in FEATURES], axis=1)
                one = _write_down(scalars[np.asarray(places)], seen)
                found, memory = part.direction(meta_params, all_seen, memory)
                return one * found, memory

            return optimizer_along(direction, context)

        def update(updates, state, params, **others):
            return optimizer(_some(params)).update(updates, state, params, **others)

        return optax.GradientTransformationExtraArgs(optimizer([]).init, update)

    return HandWritten(part.slot, make_optimizer)


def _some(params: PyTree) -> list[int]:
    """Return at most OF_ARRAY places in every array of parameters, which are one vector."""
    rng, chosen, start = np.random.default_rng(0), [], 0
    for leaf in jax.tree.leaves(params):
        chosen += (start + rng.permutation(leaf.size)[:OF_ARRAY]).tolist()
        start += leaf.size
    return chosen


def _step(part, meta_params, context, inputs):
    """Return the step of one parameter."""
    found = jnp.stack([inputs[name] for name in SIGNALS])[:, None]
    size, value, policy = (inputs[name][None] for name in ("size", "value", "policy"))
    seen = Seen(SIGNALS, found, size, value, policy, context.progress, length(context))
    return part.direction(meta_params, seen, jnp.zeros((0, 1)))[0][0]


TARGETS: dict[str, Target] = {
    "value_loss": Target(
        "the slope of value_loss", recorded_loss, _errors, _slope_of(_predictions)
    ),
    "policy_loss": Target(
        "the slope of policy_loss",
        recorded_loss,
        _ratios,
        _slope_of(lambda inputs: (inputs["log_ratio"], inputs["advantage"])),
        known={("multiply", "ratio", "advantage"): -1.0},
    ),
    "make_optimizer": Target(
        "the step of a parameter, in learning rates",
        recorded_optimizer,
        lambda scalars: dict(zip(FEATURES, scalars.T, strict=True)),
        _step,
        gives="value",
    ),
}
