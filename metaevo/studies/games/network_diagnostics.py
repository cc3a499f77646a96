"""Diagnostics of a victim's networks while it learns: gradients, features, activations."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config.plain import PlainMapping
from metaevo.reports import game_plots
from metaevo.reports.page import Table
from metaevo.studies.games.comparison import Estimate, estimates_table, mean
from metaevo.training.task import LearnerConfig
from metaevo.training.train_learner import Task
from purerl import ppo
from purerl.fast.activations import ACTIVATIONS
from purerl.parts import parameters
from purerl.parts.normalization import standardized
from purerl.types import Context, EnvParams, Hyperparams, PyTree

SEEDS, SAMPLES = 16, 32
"""Maximum number of victims of each channel, and of observations with compared gradients."""
DORMANT = 0.1
"""Activity below which a unit is dormant, relative to the mean of its layer (Sokar et al. 2023 use
0.025 and 0.1)."""
FLAT = 0.05
"""Slope of the activation function below which a unit is flat at an observation."""

LABELS = {
    "coupling": "mean |cosine| of gradients",
    "conflict": "share of gradients that conflict",
    "rank": "effective rank",
    "dormant": "share of dormant units",
    "flat": "share of flat activations",
}


class Trace(NamedTuple):
    """Measures of the networks on the rollout of each update; each field [..., U]."""

    coupling: Any
    """mean |cosine| between the gradients of two observations, their interference"""
    conflict: Any
    """share of pairs with a negative cosine"""
    moments: Any
    """[..., U, torsos, units, units] uncentred second moments of the last hidden layers"""
    dormant: Any
    """share of hidden units that are dormant"""
    flat: Any
    """share of pairs of hidden units and observations at which the activation is flat"""


def supports(config: LearnerConfig) -> bool:
    """Return whether a victim can be traced: PPO with hidden layers and without a memory."""
    if not isinstance(config, ppo.Config):
        return False
    return bool(config.hidden_sizes) and not config.recurrent_size


def trace(task: Task, key: jax.Array, hyperparams: Hyperparams) -> Trace:
    """Train a victim that `supports` accepts, and measure its networks before each update."""
    learner: Any = task.learner
    env_params = task.env_params

    def update(state, _):
        measured = measure(learner, state, hyperparams, env_params)
        state, _, _ = learner.update(state, hyperparams, None, env_params)
        return state, measured

    state = learner.init(key, hyperparams, None, env_params)
    return jax.lax.scan(update, state, length=learner.config.num_updates)[1]


def measure(
    learner: ppo.PPO, state: ppo.State, hyperparams: Hyperparams, env_params: EnvParams
) -> Trace:
    """Measure a victim's networks on a fresh rollout; fields have no axis of updates."""
    state, transitions, _ = learner.collect(state, env_params)
    _, batch = learner.make_batch(state, transitions, hyperparams)
    coupling, conflict = _interference(learner, state.params, batch, hyperparams)

    network = learner.network
    slope = jax.grad(ACTIVATIONS[network.config.activation])
    entering = parameters.entering_activations(network, state.params, batch.transition.obs)
    active = jax.tree.map(ACTIVATIONS[network.config.activation], entering)
    activity = jax.tree.map(lambda x: jnp.mean(jnp.abs(x), axis=0), active)
    scores = jax.tree.map(lambda x: x / jnp.maximum(jnp.mean(x), parameters.TINY), activity)
    last = [layers[f"Dense_{len(layers) - 1}"] for layers in active.values()]
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


def summarise(
    traces: Mapping[str, Trace], frames: int, figures: Path
) -> dict[str, dict[str, Estimate]]:
    """Draw the measures over training, and return their means by measure and channel.

    `traces` have fields [victims, U, ...], by channel; an update has so many `frames`.
    """
    measured: dict[str, dict[str, np.ndarray]] = {measure: {} for measure in LABELS}
    for name, trace in traces.items():
        rank = effective_rank(np.asarray(trace.moments)).mean(axis=-1)
        for measure, curves in measured.items():
            curves[name] = rank if measure == "rank" else np.asarray(getattr(trace, measure))
    steps = frames * np.arange(rank.shape[-1])
    game_plots.plot_traces(measured, LABELS, steps, figures / "networks.png")
    return {
        measure: {name: mean(np.mean(curve, axis=1)) for name, curve in curves.items()}
        for measure, curves in measured.items()
    }


def tables(result: PlainMapping) -> list[Table]:
    """Return the means over training."""
    found = result.get("networks")
    if not found:
        return []
    rows = {LABELS[each]: cells for each, cells in found.items()}
    return [estimates_table("Inside the victims' networks", "measure", rows, note=NOTE)]


NOTE = (
    "Means over training, and over victims with 95% intervals. Gradients belong to single "
    "observations; the effective rank is measured in the last hidden layers; a dormant unit is "
    "almost inactive, a flat activation passes almost no gradient."
)


def _interference(
    learner: ppo.PPO, params: PyTree, batch: ppo.Batch, hyperparams: Hyperparams
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


def _share(tree: PyTree) -> jax.Array:
    """Return the share of true elements in a tree of bools."""
    leaves = jax.tree.leaves(tree)
    return sum(jnp.sum(leaf) for leaf in leaves) / sum(leaf.size for leaf in leaves)
