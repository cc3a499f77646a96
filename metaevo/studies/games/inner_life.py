"""What happens inside a victim's networks while it learns: why a channel ruins learning, or not."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo import statistics
from metaevo.evolution import devices
from metaevo.reports import talk_plots
from metaevo.reports.numbers import estimate
from metaevo.reports.page import Table
from metaevo.training.train_learner import Task
from purerl import ppo
from purerl.fast.activations import ACTIVATIONS
from purerl.parts import parameters
from purerl.parts.normalization import standardized
from purerl.types import Context

SEEDS, SAMPLES = 16, 32
"""Victims of each channel at most, and observations whose gradients are compared."""
DORMANT = 0.1
"""A unit is dormant if it is that active at most, beside the average of its layer (Sokar et al.
2023 take 0.025 and 0.1)."""
FLAT = 0.05
"""A unit is flat at an observation if the slope of its activation function is below."""

LABELS = {
    "coupling": "mean |cosine| of gradients",
    "conflict": "share of gradients that conflict",
    "rank": "effective rank",
    "dormant": "share of dormant units",
    "flat": "share of flat activations",
}


class Trace(NamedTuple):
    """What is measured before each update, on what it learns from; each field [..., U]."""

    coupling: Any
    """mean |cosine| between the gradients of two observations: how much a step for one of them
    changes what is learned of the other"""
    conflict: Any
    """share of such pairs whose cosine is negative"""
    moments: Any
    """[..., U, torsos, units, units] uncentred second moments of the last hidden layers"""
    dormant: Any
    """share of hidden units that are dormant"""
    flat: Any
    """share of pairs of hidden units and observations at which the activation is flat"""


def can_trace(task: Task) -> bool:
    """Whether a victim has what is measured: PPO, with hidden layers and without a memory."""
    learner = task.learner
    if not isinstance(learner, ppo.PPO):
        return False
    return bool(learner.config.hidden_sizes) and not learner.config.recurrent_size


def trace(task: Task, key: jax.Array, hyperparams: Any) -> Trace:
    """Train a victim from scratch, and look into its networks before each update.

    Args:
        task: of a victim for which `can_trace` holds.
        key: of the training, which is that of `metaevo.training.train_learner.train`.
        hyperparams: of the victim.
    """
    learner: Any = task.learner
    env_params = task.env_params

    def update(state, _):
        measured = look(learner, state, hyperparams, env_params)
        state, _, _ = learner.update(state, hyperparams, None, env_params)
        return state, measured

    state = learner.init(key, hyperparams, None, env_params)
    return jax.lax.scan(update, state, length=learner.config.num_updates)[1]


def look(learner: ppo.PPO, state: ppo.State, hyperparams: Any, env_params: Any) -> Trace:
    """Measure a victim's networks on a rollout of its own.

    Args:
        learner: PPO.
        state: of the victim.
        hyperparams: of the victim.
        env_params: of its environment.

    Returns:
        fields without an axis of updates.
    """
    state, transitions, _ = learner.collect(state, env_params)
    _, batch = learner.make_batch(state, transitions, hyperparams)
    coupling, conflict = _interference(learner, state.params, batch, hyperparams)

    network = learner.network
    slope = jax.grad(ACTIVATIONS[network.activation])
    entering = parameters.entering_activations(network, state.params, batch.transition.obs)
    active = jax.tree.map(ACTIVATIONS[network.activation], entering)
    activity = jax.tree.map(lambda x: jnp.mean(jnp.abs(x), axis=0), active)
    scores = jax.tree.map(lambda x: x / jnp.maximum(jnp.mean(x), parameters.TINY), activity)
    last = [layers[max(layers, key=_number)] for layers in active.values()]
    return Trace(
        coupling,
        conflict,
        jnp.stack([each.T @ each / len(each) for each in last]),
        _share(jax.tree.map(lambda x: x <= DORMANT, scores)),
        _share(jax.tree.map(lambda x: jnp.abs(jnp.vectorize(slope)(x)) < FLAT, entering)),
    )


def effective_rank(moments: np.ndarray) -> np.ndarray:
    """Return the effective rank of features (Roy and Vetterli 2007, equation 1).

    It is exp of the entropy of the singular values, divided by their sum.

    Args:
        moments: [..., units, units] uncentred second moments of the features.

    Returns:
        [...] between 1 and units; NaN where the features are not finite.
    """
    finite = np.isfinite(moments).all(axis=(-2, -1))
    usable = np.where(finite[..., None, None], moments, 0.0).astype(np.float64)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(usable), 0.0))
    share = values / np.maximum(values.sum(axis=-1, keepdims=True), 1e-30)
    entropy = -(share * np.log(np.maximum(share, 1e-30))).sum(axis=-1)
    return np.where(finite, np.exp(entropy), np.nan)


def compare(
    program: devices.RowMap,
    rows: Mapping[str, Any],
    names: list[str],
    seeds: int,
    figures: Path,
    *,
    frames: int,
    progress: Callable[[int], None],
) -> dict[str, dict[str, list[float]]]:
    """Look into victims of every channel.

    Args:
        program: from rows to a `Trace`.
        rows: [channels * seeds].
        names: of the channels.
        seeds: victims of each.
        figures: where to draw what is found.
        frames: of an update.
        progress: is called with numbers of victims.

    Returns:
        of each measure and channel the mean over training, and its interval over victims.
    """
    few = min(seeds, SEEDS)

    def first(leaf):
        return leaf.reshape(len(names), seeds, *leaf.shape[1:])[:, :few].reshape(
            -1, *leaf.shape[1:]
        )

    found: Trace = program(jax.tree.map(first, dict(rows)), progress)
    curves = found._asdict()
    curves["rank"] = effective_rank(np.asarray(curves.pop("moments"))).mean(axis=-1)
    measured = {
        each: {
            name: np.asarray(curves[each]).reshape(len(names), few, -1)[place]
            for place, name in enumerate(names)
        }
        for each in LABELS
    }
    steps = frames * np.arange(measured["rank"][names[0]].shape[1])
    talk_plots.plot_traces(measured, LABELS, steps, figures / "networks.png")
    return {
        each: {
            name: [float(part[0]) for part in statistics.mean_curve(
                np.mean(curve, axis=1, keepdims=True))]
            for name, curve in curves.items()
        }
        for each, curves in measured.items()
    }  # fmt: skip


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Return the means over training."""
    found = result.get("networks")
    if not found:
        return []
    names = list(next(iter(found.values())))
    rows = [
        [LABELS[each], *(estimate(*cells[name], decimals=2) for name in names)]
        for each, cells in found.items()
    ]
    return [Table("Inside the victims' networks", ["measure", *names], rows, NOTE)]


NOTE = (
    "Means over training, and over victims with 95% intervals. Gradients are those of single "
    "observations; the effective rank is of the last hidden layer; a dormant unit does next to "
    "nothing, a flat activation lets no gradient through."
)


def _interference(
    learner: ppo.PPO, params: Any, batch: ppo.Batch, hyperparams: Any
) -> tuple[jax.Array, jax.Array]:
    """Return the mean |cosine| between gradients of two observations, and how often it is < 0."""
    size = len(batch.advantage)
    if learner.config.normalize_advantages != "none":
        batch = batch._replace(advantage=standardized(batch.advantage))
    places = jnp.linspace(0, size - 1, min(SAMPLES, size)).astype(jnp.int32)
    alone = jax.tree.map(lambda leaf: leaf[places][:, None], batch)
    config = dataclasses.replace(learner.config, normalize_advantages="none")
    plain = dataclasses.replace(learner, config=config)

    def gradient(sample):
        grads, _ = jax.grad(plain.loss, has_aux=True)(params, sample, Context(hyperparams), None)
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(grads)])

    found = jax.vmap(gradient)(alone)
    length = jnp.linalg.norm(found, axis=1, keepdims=True)
    found = found / jnp.maximum(length, 1e-12)
    cosine = (found @ found.T)[jnp.triu_indices(len(places), 1)]
    return jnp.mean(jnp.abs(cosine)), jnp.mean(cosine < 0)


def _share(tree: Any) -> jax.Array:
    """Return the share of what is true in a tree of bools."""
    leaves = jax.tree.leaves(tree)
    return sum(jnp.sum(leaf) for leaf in leaves) / sum(leaf.size for leaf in leaves)


def _number(layer: str) -> tuple[bool, int]:
    """The place of a hidden layer: convolutions come first."""
    kind, number = layer.split("_")
    return kind != "Conv", int(number)
