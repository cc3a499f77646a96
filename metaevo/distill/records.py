"""Where training visits a learned loss: what it was given, and how steep it was there.

Agents are trained with it from beginning to end. Now and then one update is made with a function
that writes down what the loss is called with, in every gradient step; nothing else differs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.agents.population import Population
from metaevo.agents.task import LearnerSettings, Parts
from metaevo.components.parts import Part
from metaevo.held_out.settings import JudgedSettings
from metaevo.parallel.seeding import Purpose, keys_for
from purerl.types import Context

AGENTS = 16
"""that are trained"""
TIMES = 8
"""at which an update is written down, evenly over training"""
SAMPLES = 4000
"""that are kept, as many of each time"""


class Records(NamedTuple):
    """What a loss was given in trainings, and what it made of it."""

    scalars: np.ndarray
    """[samples, arguments of the slot]"""
    progress: np.ndarray
    """[samples] the share of training that was done"""
    slope: np.ndarray
    """[samples] its derivative by the first of the scalars"""


def record(
    settings: JudgedSettings, parts: Parts, meta_params: Any, part: Part, check_stop: Callable
) -> Records:
    """Train agents with what was found, and write down what one part of it is given.

    Args:
        settings: of the evolution.
        parts: what it evolved.
        meta_params: that it found.
        part: a loss among the parts.
        check_stop: raises if the run is to stop.

    Returns:
        samples of all environments and times, without those that are not finite.
    """
    rng = np.random.default_rng(settings.run.seed)
    functions = parts.evolved.functions()
    scalars, progress = [], []
    tasks = parts.tasks(settings, functions, meta_params)
    for index, task in enumerate(tasks):
        seen: list[np.ndarray] = []
        listening = dict(functions)
        listening[part.slot.name] = _listened(functions[part.slot.name], seen)
        learner = parts.tasks(settings, listening, meta_params)[index].learner
        population = Population(
            task, settings.hyperparams, meta_params, settings.fitness, agents=AGENTS
        )
        listen = jax.jit(
            jax.vmap(learner.update, in_axes=(0, None, None, None))  # of a few agents' states
        )
        keys = keys_for(settings.run.seed, Purpose.RECORDING, AGENTS)
        agents = population.init(keys)
        for updates in sorted({population.num_updates * i // TIMES for i in range(TIMES)}):
            check_stop()
            agents = population.advance(agents, updates - agents.updates)
            seen.clear()
            states = population.states(agents)
            jax.block_until_ready(
                listen(states, settings.hyperparams, meta_params, task.env_params)
            )
            found = np.concatenate([each.reshape(-1, each.shape[-1]) for each in seen])
            found = found[np.isfinite(found).all(axis=1)]
            chosen = rng.permutation(len(found))[: SAMPLES // (TIMES * len(tasks))]
            scalars.append(found[chosen])
            progress.append(np.full(len(chosen), updates / population.num_updates, np.float32))
    all_scalars, all_progress = np.concatenate(scalars), np.concatenate(progress)
    own = parts.evolved.of(meta_params, part.name)
    slope = slopes(part.function, own, settings, all_scalars, all_progress)
    usable = np.isfinite(slope)
    return Records(all_scalars[usable], all_progress[usable], slope[usable])


def slopes(
    function: Callable[..., Any],
    meta_params: Any,
    settings: LearnerSettings,
    scalars: np.ndarray,
    progress: np.ndarray,
) -> np.ndarray:
    """Return a loss's derivative by its first scalar [samples].

    Args:
        function: of the slot.
        meta_params: of it.
        settings: of the experiment.
        scalars: [samples, arguments].
        progress: [samples] the share of training that is done.
    """
    slope = jax.vmap(slope_of(function, settings), in_axes=(None, 0, 0))
    return np.asarray(jax.jit(slope)(meta_params, jnp.asarray(scalars), jnp.asarray(progress)))


def slope_of(function: Callable[..., Any], settings: LearnerSettings) -> Callable[..., jax.Array]:
    """Return a loss's derivative by its first scalar.

    Args:
        function: of the slot.
        settings: of the experiment.

    Returns:
        `(meta_params, scalars [arguments], progress) -> slope`.
    """
    num_updates = settings.train.num_updates

    def slope(meta_params, scalars, progress):
        context = Context(settings.hyperparams, progress, num_updates)
        first, *others = scalars
        return jax.grad(lambda x: function(meta_params, context, x, *others))(first)

    return slope


def _listened(function: Callable[..., Any], seen: list[np.ndarray]) -> Callable[..., Any]:
    """Return the same loss, of which every call's scalars are written down."""

    def write_down(scalars):
        seen.append(np.array(scalars))
        return np.ones(np.shape(scalars)[:-1], np.float32)

    def of_slot(meta_params, context, *scalars):
        given = jax.lax.stop_gradient(jnp.stack([jnp.asarray(each) for each in scalars]))
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        one = jax.pure_callback(write_down, shape, given, vmap_method="expand_dims")
        # A factor, so that whoever takes the derivative calls it too.
        return one * function(meta_params, context, *scalars)

    return of_slot
