"""Recorded inputs and outputs of a learned part during training.

Agents are trained with it from beginning to end. Now and then one update is made with a part that
records its arguments in every gradient step but is otherwise the same.
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np

from metaevo.discovery.targets import Target, ValueOf
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts.part import Part, Parts
from metaevo.tasks.population import Population
from metaevo.tasks.problem import LearnerProblem
from purerl.learners import num_frames
from purerl.types import Context, MetaParams

AGENTS = 16
"""Number of agents to train."""
TIMES = 8
"""Number of recorded updates, evenly spaced over training."""
SAMPLES = 4000
"""Number of samples to keep, equally many from each recorded update."""


class Records(NamedTuple):
    """Inputs of a part during training, and its outputs."""

    scalars: np.ndarray
    """[samples, k]"""
    contexts: Context
    """of each sample: arrays [samples]; the hyperparameters and the length are the run's"""
    wanted: np.ndarray
    """[samples] values of the target's `value_of`"""

    def inputs(self, target: Target) -> dict[str, np.ndarray]:
        """Return the inputs of formulas, [samples] each."""
        return target.inputs_of(self.scalars) | {"progress": np.asarray(self.contexts.progress)}

    def with_inputs(self, target: Target, inputs: Mapping[str, np.ndarray]) -> "Records":
        """Return the records with other inputs of formulas; `wanted` stays."""
        contexts = self.contexts.replace(progress=inputs["progress"])
        return self._replace(scalars=target.scalars_of(inputs), contexts=contexts)


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
    experiment, evolved = problem.experiment, problem.parts
    hyperparams, rng = experiment.settings.hyperparams, np.random.default_rng(seed)
    scalars, contexts = [], []
    task = experiment.task(evolved.functions(), meta_params)
    seen: list[np.ndarray] = []
    listening = Parts({**evolved.by_slot, part.slot: target.listened(part, seen)})
    learner = experiment.task(listening.functions(), meta_params).learner
    population = Population(task, hyperparams, meta_params, problem.weights, agents=AGENTS)
    # One agent at a time: a device with a single thread waits for itself if it is to hand over
    # more than 100 kB at once.
    listen = jax.jit(jax.vmap(learner.update, in_axes=(0, None, None, None)))
    keys = keys_for(seed, Purpose.RECORDING, AGENTS)
    agents = population.init(keys)
    for updates in sorted({population.num_updates * i // TIMES for i in range(TIMES)}):
        check_stop()
        agents = population.advance(agents, updates - agents.updates)
        states, of_agents = population.states(agents), []
        for agent in range(AGENTS):
            seen.clear()
            state = jax.tree.map(lambda leaf: leaf[agent : agent + 1], states)  # noqa: B023
            jax.block_until_ready(listen(state, hyperparams, meta_params, task.env_params))
            of_agents.append(np.stack(seen))
        found = np.concatenate(of_agents, axis=1).reshape(-1, seen[0].shape[-1])
        found = found[np.isfinite(found).all(axis=1)]
        chosen = rng.permutation(len(found))[: SAMPLES // TIMES]
        scalars.append(found[chosen])
        done = updates / population.num_updates
        frames = done * num_frames(learner.config)
        context = Context(hyperparams, done, population.num_updates, frames)
        contexts.append(jax.tree.map(functools.partial(np.full, len(chosen)), context))
    records = Records(
        np.concatenate(scalars),
        jax.tree.map(lambda *each: np.concatenate(each), *contexts),
        np.empty(0),
    )
    own = evolved.of(meta_params, part.slot)
    wanted = values(target.value_of(part), own, records)
    usable = np.isfinite(wanted)
    kept: Records = jax.tree.map(lambda leaf: leaf[usable], records._replace(wanted=wanted))
    return kept


def values(value_of: ValueOf, meta_params: MetaParams, records: Records) -> np.ndarray:
    """Return the outputs of a part for the recorded inputs, [samples]."""
    of_all = jax.jit(jax.vmap(value_of, in_axes=(None, 0, 0)))
    return np.asarray(of_all(meta_params, records.scalars, records.contexts))
