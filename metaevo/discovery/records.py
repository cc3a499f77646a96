"""Recorded inputs and outputs of a learned part during training.

Agents are trained with it from beginning to end. Now and then one update is made with a part that
records its arguments in every gradient step but is otherwise the same.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.comparison.settings import JudgedSettings
from metaevo.components.component import Component
from metaevo.components.parts import Evolved, Part
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.training.population import Population
from metaevo.training.task import LearnerSettings, Parts
from purerl.types import MetaParams

AGENTS = 16
"""Number of agents to train."""
TIMES = 8
"""Number of recorded updates, evenly spaced over training."""
SAMPLES = 4000
"""Number of samples to keep, equally many from each recorded update."""


ValueOf = Callable[[Any, jax.Array, jax.Array], jax.Array]
"""`(meta_params, scalars [k], progress) -> number`"""


class Target(NamedTuple):
    """The quantity that formulas and networks for a slot are fitted to."""

    what: str
    """description"""
    gives: Literal["value", "slope"]
    """whether a formula is the loss or its slope, see `metaevo.components.formula`"""
    listened: Callable[[Component, list[np.ndarray]], Component]
    """the same component, which appends the scalars [..., k] that it is given to a list"""
    value_of: Callable[[Part, LearnerSettings], ValueOf]
    """the part's outputs for given scalars"""
    inputs_of: Callable[[np.ndarray], dict[str, np.ndarray]]
    """from scalars [samples, k] to the inputs of formulas, [samples] each"""
    scalars_of: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    """inverse of `inputs_of`"""
    known: str = ""
    """the fixed end of every formula; the search finds the rest"""


class Records(NamedTuple):
    """Inputs of a part during training, and its outputs."""

    scalars: np.ndarray
    """[samples, k]"""
    progress: np.ndarray
    """[samples] completed share of training"""
    wanted: np.ndarray
    """[samples] values of the target's `value_of`"""

    def inputs(self, target: Target) -> dict[str, np.ndarray]:
        """Return the inputs of formulas, [samples] each."""
        return target.inputs_of(self.scalars) | {"progress": self.progress}


def record(
    settings: JudgedSettings,
    parts: Parts,
    meta_params: MetaParams,
    part: Part,
    target: Target,
    check_stop: Callable,
) -> Records:
    """Train agents with the learned parts, and record the inputs of one part.

    Args:
        settings: settings of the evolution.
        parts: the evolved parts.
        meta_params: evolved meta-parameters of all parts.
        part: the part to record.
        target: target for its slot.
        check_stop: function that raises if the run has to stop.

    Returns:
        finite samples from all environments and times.
    """
    rng = np.random.default_rng(settings.run.seed)
    functions = parts.evolved.functions()
    scalars, progress = [], []
    tasks = parts.tasks(settings, functions, meta_params)
    for index, task in enumerate(tasks):
        seen: list[np.ndarray] = []
        listener = part._replace(component=target.listened(part.component, seen))
        listening = Evolved(
            parts.evolved.parts | {part.name: listener}, parts.evolved.is_dict
        ).functions()
        learner = parts.tasks(settings, listening, meta_params)[index].learner
        population = Population(
            task, settings.hyperparams, meta_params, settings.fitness, agents=AGENTS
        )
        # One agent at a time: a device with a single thread waits for itself if it is to hand over
        # more than 100 kB at once.
        listen = jax.jit(jax.vmap(learner.update, in_axes=(0, None, None, None)))
        keys = keys_for(settings.run.seed, Purpose.RECORDING, AGENTS)
        agents = population.init(keys)
        for updates in sorted({population.num_updates * i // TIMES for i in range(TIMES)}):
            check_stop()
            agents = population.advance(agents, updates - agents.updates)
            states, of_agents = population.states(agents), []
            for agent in range(AGENTS):
                seen.clear()
                state = jax.tree.map(lambda leaf: leaf[agent : agent + 1], states)  # noqa: B023
                jax.block_until_ready(
                    listen(state, settings.hyperparams, meta_params, task.env_params)
                )
                of_agents.append(np.stack(seen))
            found = np.concatenate(of_agents, axis=1).reshape(-1, seen[0].shape[-1])
            found = found[np.isfinite(found).all(axis=1)]
            chosen = rng.permutation(len(found))[: SAMPLES // (TIMES * len(tasks))]
            scalars.append(found[chosen])
            progress.append(np.full(len(chosen), updates / population.num_updates, np.float32))
    all_scalars, all_progress = np.concatenate(scalars), np.concatenate(progress)
    own = parts.evolved.of(meta_params, part.name)
    wanted = values(target.value_of(part, settings), own, all_scalars, all_progress)
    usable = np.isfinite(wanted)
    return Records(all_scalars[usable], all_progress[usable], wanted[usable])


def values(
    value_of: ValueOf, meta_params: MetaParams, scalars: np.ndarray, progress: np.ndarray
) -> np.ndarray:
    """Return the part's outputs for scalars [samples].

    Args:
        value_of: outputs of the part.
        meta_params: meta-parameters of the part.
        scalars: [samples, k].
        progress: [samples] completed share of training.
    """
    of_all = jax.jit(jax.vmap(value_of, in_axes=(None, 0, 0)))
    return np.asarray(of_all(meta_params, jnp.asarray(scalars), jnp.asarray(progress)))


def written_down(scalars: jax.Array, seen: list[np.ndarray]) -> jax.Array:
    """Append scalars [..., k] to a list, whenever a program comes here; return 1.

    It must be a factor of the program's result, or XLA removes it.
    """

    def write_down(given):
        seen.append(np.array(given))
        return np.ones(np.shape(given)[: np.ndim(given) - scalars.ndim], np.float32)

    shape = jax.ShapeDtypeStruct((), jnp.float32)
    given = jax.lax.stop_gradient(scalars)
    return jax.pure_callback(write_down, shape, given, vmap_method="expand_dims")
