"""Recorded inputs and outputs of a learned part during training.

Agents are trained with it from beginning to end. Now and then one update is made with a part that
records its arguments in every gradient step but is otherwise the same.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np

from metaevo.discovery.targets import Target
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts.part import Part, Parts
from metaevo.tasks.population import Population
from metaevo.tasks.problem import LearnerProblem
from purerl.types import Context, MetaParams

AGENTS = 16
"""Number of agents to train."""
TIMES = 8
"""Number of recorded updates, evenly spaced over training."""
SAMPLES = 4000
"""Number of samples to keep, equally many from each recorded update."""


class Records(NamedTuple):
    """Inputs of a part during training, and its outputs."""

    inputs: Mapping[str, np.ndarray]
    """of formulas, [samples] each"""
    outputs: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    """returns the target [samples] for any inputs"""
    wanted: np.ndarray
    """[samples] the target"""


def record(
    problem: LearnerProblem,
    meta_params: MetaParams,
    part: Part,
    target: Target,
    *,
    seed: int,
    check_stop: Callable[[], None],
) -> Records:
    """Train agents with the learned parts, and record the inputs of one part.

    Args:
        problem: of the evolution.
        meta_params: of all parts.
        part: the part to record.
        target: of its slot.
        seed: of the agents.
        check_stop: raises if the run has to stop.

    Returns:
        finite samples from all times.
    """
    experiment, parts, rng = problem.experiment, problem.parts, np.random.default_rng(seed)
    hyperparams, task = experiment.settings.hyperparams, problem.bound[0]
    seen: list[np.ndarray] = []
    recording = Parts({**parts.by_slot, part.slot: target.recorded(part, seen)})
    learner = experiment.task(recording.functions(), meta_params).learner
    population = Population(task, hyperparams, meta_params, problem.weights, agents=AGENTS)
    # One agent at a time: a device with a single thread waits for itself if it is to hand over
    # more than 100 kB at once.
    update = jax.jit(jax.vmap(learner.update, in_axes=(0, None, None, None)))
    agents, found = population.init(keys_for(seed, Purpose.RECORDING, AGENTS)), []
    for updates in sorted({population.num_updates * i // TIMES for i in range(TIMES)}):
        check_stop()
        agents = population.advance(agents, updates - agents.updates)
        states, each = population.states(agents), []
        for agent in range(AGENTS):
            seen.clear()
            state = jax.tree.map(lambda leaf: leaf[agent : agent + 1], states)  # noqa: B023
            jax.block_until_ready(update(state, hyperparams, meta_params, task.env_params))
            each.append(np.stack(seen))
        scalars = np.concatenate(each, axis=1).reshape(-1, seen[0].shape[-1])
        scalars = scalars[np.isfinite(scalars).all(axis=1)]
        scalars = scalars[rng.permutation(len(scalars))[: SAMPLES // TIMES]]
        progress = np.full(len(scalars), updates / population.num_updates, np.float32)
        found.append(target.inputs_of(scalars) | {"progress": progress})
    inputs = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    own = parts.of(meta_params, part.slot)

    def output(inputs: Mapping[str, jax.Array], own: MetaParams) -> jax.Array:
        progress = inputs["progress"]
        frames = progress * learner.config.num_updates * learner.config.frames_per_update
        context = Context(hyperparams, progress, population.num_updates, frames)
        return target.value(part, own, context, inputs)

    every = jax.jit(jax.vmap(output, in_axes=(0, None)))

    def outputs(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.asarray(every(dict(inputs), own))

    wanted = outputs(inputs)
    usable = np.isfinite(wanted)
    inputs = {name: each[usable] for name, each in inputs.items()}
    return Records(inputs, outputs, wanted[usable])
