"""Contenders with known scores, and a comparison of them."""

import jax
import numpy as np

from metaevo.comparison.comparison import Comparison, Entry
from metaevo.comparison.evaluation import EvaluationConfig, Scores
from metaevo.comparison.tuning import tuning_space
from purerl import ppo
from tests.metaevo.evolving import settings_of

NAMES = ["squared", "huber"]
GRID = {"learning_rate": (0.1, 0.2, 0.3), "vf_coef": (1.0, 2.0)}


class Fake:
    """Scores by a formula of key and setting; remembers on which keys it ran."""

    frames_per_seed = 10
    hyperparams = ppo.Hyperparams()
    rows_at_once = 1000

    def __init__(self, score):
        self.score, self.keys, self.calls = score, set(), []

    def run(self, keys, settings, meta_params, progress=None):
        self.keys |= set(map(tuple, np.asarray(jax.random.key_data(keys)).tolist()))
        self.calls.append((len(keys), len(settings)))
        if progress is not None:
            progress(len(keys) * len(settings) * self.frames_per_seed)
        luck = np.asarray(jax.vmap(jax.random.normal)(keys))
        results = []
        for setting, meta in zip(settings, meta_params, strict=True):
            values = self.score(setting, meta, luck)
            curves = np.zeros((len(keys), 4))
            results.append(Scores(values, curves, np.zeros(values.shape, bool)))
        return results


def learned_score(setting, meta, luck):
    """Best at 0.2 and 2.0."""
    bonus = (setting.get("learning_rate") == 0.2) + (setting.get("vf_coef") == 2.0)
    return 10.0 * float(meta) + 5.0 * bonus + luck


def baseline_score(setting, index, luck):
    """Huber is a little better than squared; both like 0.3."""
    return 3.0 + float(index) + 4.0 * (setting.get("learning_rate") == 0.3) + luck


class OfTwo(Comparison):
    """One whose hand-written contenders share a program."""

    @property
    def learned(self):
        return self.entries["learned"].contender

    @property
    def baselines(self):
        return self.entries[NAMES[0]].contender

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
    raw = {"evolve": "value_loss"}
    settings = settings_of(raw)
    space = tuning_space(config, settings)
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
