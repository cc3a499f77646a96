"""Settings of the held-out comparison, and the training of variants.

Every contender gets the same tuning: a race of as many settings on the same seeds with the same
frames. The winners are then trained on held-out seeds, and these scores are reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import jax
from annotated_types import Interval

from metaevo.comparison.racing import FINAL_SEEDS
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.loop import EvolutionConfig
from metaevo.runs.settings import HasRun
from metaevo.tasks.agents import Trained
from metaevo.tasks.binding import LearnerSettings
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population
from metaevo.tasks.task import Task
from metaevo.tuning.config import MOST
from metaevo.tuning.objective import Progress
from purerl.types import MetaParams


@dataclass(frozen=True)
class EvaluationConfig:
    """The final comparison."""

    seeds: Annotated[int, Interval(ge=0, le=MOST)] = 128
    """held-out seeds of every variant; 0 for no comparison"""
    space: PlainDict = field(default_factory=dict)
    """hyperparams to tune, each with a list of values or, as in a sweep, with a range
    ({log_uniform: [1e-4, 1e-2]})"""
    own: dict[str, PlainDict] = field(default_factory=dict)
    """for hand-written functions, by their names: hyperparams with their own ranges, instead of the
    common ones ({momentum: {learning_rate: {log_uniform: [1e-3, 1]}}})"""
    sampler: Literal["grid", "random", "sobol", "tpe", "cma_es"] = "tpe"
    """how settings in the space are chosen; grid: all combinations, with 5 values of a range"""
    trials: Annotated[int, Interval(gt=0, le=MOST)] = 64
    """settings in the space that every contender races, but in a grid"""
    tuning_seeds: Annotated[int, Interval(gt=0, le=MOST)] | None = 4
    """seeds of every setting in the first round of the race, the better half of which gets
    twice as many, and so on; null for as many frames a contender as the evolution used"""
    final_seeds: Annotated[int, Interval(gt=0, le=MOST)] = FINAL_SEEDS
    """minimum number of fresh seeds of every setting in the last round of the race"""
    contenders: tuple[str, ...] = ()
    """hand-written functions to compare with, by their names ([adam, rmsprop]); empty for all"""
    curve_points: Annotated[int, Interval(gt=1, le=10_000)] = 64
    """points of a learning curve"""
    unseen: dict[str, Task] = field(default_factory=dict)
    """tasks that evolution has not seen, by their names ({Acrobot-v1: {train: {num_envs: 8}}}):
    the learned part is judged there against hand-written functions tuned on each"""
    tune_learned: bool = False
    """whether the learned part, too, is tuned on each of several tasks, with the same budget; the
    report then has both scores, and the verdict is of the tuned part"""


class JudgedSettings(LearnerSettings, HasRun):
    """Base of settings of an evolution that ends with a comparison against tuned contenders."""

    fitness: FitnessConfig
    evolution: EvolutionConfig
    evaluation: EvaluationConfig


COMPARISONS = ("none", "quick", "full")
"""Sizes of a comparison: none, at most about a tenth of the frames, and the full settings."""
QUICK = {"seeds": 64, "trials": 16, "tuning_seeds": 2}
"""Upper limits of a quick comparison, enough for a verdict on a large difference."""
QUICK_HELP = "at most " + ", ".join(f"{limit} {name}" for name, limit in QUICK.items())


def resized(evaluation: PlainMapping, size: str) -> PlainDict:
    """Return the section `evaluation`, as plain data, for a size in `COMPARISONS`."""
    if size == "full":
        return dict(evaluation)
    if size == "none":
        return {**evaluation, "seeds": 0} | ({"unseen": {}} if "unseen" in evaluation else {})
    limited = {
        name: limit if evaluation[name] is None else min(evaluation[name], limit)
        for name, limit in QUICK.items()
        if name in evaluation
    }
    sampler = {"sampler": "sobol"} if evaluation.get("sampler") == "grid" else {}
    return {**evaluation, **limited, **sampler}


def train_variants(
    population: Population,
    keys: jax.Array,
    settings: Sequence[Mapping[str, float | None]],
    meta_params: Sequence[MetaParams],
    progress: Progress | None = None,
) -> list[Trained]:
    """Train variants, each with its changed hyperparameters and meta-parameters, on keys [seeds].

    Returns:
        the result of each variant, fields [seeds, ...].
    """
    variants = [population.hyperparams.replace(**setting) for setting in settings]
    own_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0)
    trained = population.train(own_keys, variants, meta_params, progress)
    return [jax.tree.map(lambda leaf, at=at: leaf[at], trained) for at in range(len(settings))]
