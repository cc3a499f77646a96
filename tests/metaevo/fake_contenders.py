"""Contenders with known scores, and a comparison of them."""

from dataclasses import replace

import jax
import numpy as np

from metaevo.comparison.comparison import Comparison
from metaevo.comparison.evaluation import EvaluationConfig
from metaevo.comparison.tuning import Entry, tuning_space
from metaevo.tasks.agents import Trained
from purerl import ppo
from tests.metaevo.evolving import settings_of

NAMES = ["squared", "huber"]
GRID = {"learning_rate": (0.1, 0.2, 0.3), "vf_coef": (1.0, 2.0)}


class Fake:
    """A population with scores by a formula of key and setting; remembers its keys."""

    frames = 10
    hyperparams = ppo.Hyperparams()
    rows_at_once = 1000

    def __init__(self, score):
        self.score, self.keys, self.calls = score, set(), []

    def train(self, keys, hyperparams, meta_params, progress=None):
        self.keys |= set(map(tuple, np.asarray(jax.random.key_data(keys)).tolist()))
        self.calls.append((len(keys), len(hyperparams)))
        if progress is not None:
            progress(len(keys) * len(hyperparams) * self.frames)
        luck = np.asarray(jax.vmap(jax.random.normal)(keys))
        pairs = zip(hyperparams, meta_params, strict=True)
        scores = np.stack([self.score(each, meta, luck) for each, meta in pairs])
        return Trained(scores, np.zeros(scores.shape, bool), None)


def learned_score(hyperparams, meta, luck):
    """Best at 0.2 and 2.0."""
    bonus = (hyperparams.learning_rate == 0.2) + (hyperparams.vf_coef == 2.0)
    return 10.0 * float(meta) + 5.0 * bonus + luck


def baseline_score(hyperparams, index, luck):
    """Huber is a little better than squared; both like 0.3."""
    return 3.0 + float(index) + 4.0 * (hyperparams.learning_rate == 0.3) + luck


class OfTwo(Comparison):
    """One whose hand-written contenders share a program."""

    @property
    def learned(self):
        return self.entries["learned"].population

    @property
    def baselines(self):
        return self.entries[NAMES[0]].population

    @property
    def plan(self):
        return self.plans["learned"]


def comparison(
    learned=None,
    baselines=None,
    *,
    meta=1.0,
    task="",
    evolution_frames=12_000,
    others=(),
    **config,
):
    config = EvaluationConfig(
        **({"seeds": 32, "space": GRID, "sampler": "grid", "tuning_seeds": 4} | config)
    )
    settings = replace(settings_of({"evolve": "value_loss"}), evaluation=config)
    space = tuning_space(settings)
    entries = {"learned": Entry(learned or Fake(learned_score), np.float32(meta), space)}
    for index, other in enumerate(others, start=2):
        entries[f"learned {index}"] = entries["learned"]._replace(meta_params=np.float32(other))
    both = baselines or Fake(baseline_score)
    for index, name in enumerate(NAMES):
        entries[name] = Entry(both, np.int32(index), space)
    return OfTwo(
        entries,
        config,
        seed=0,
        evolution_frames=evolution_frames,
        context=task,
        learned=1 + len(others),
    )
