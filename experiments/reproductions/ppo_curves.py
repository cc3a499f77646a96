"""PPO's learning curves for many agents at once, against one agent in PyTorch.

The compiled agents differ in their keys only. PyTorch has the same settings, and Gymnasium's
environments.
"""

import argparse
import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from experiments.reproductions.comparison import Comparison, Row, Trained, settings_of
from metaevo.config import merge
from metaevo.config.plain import PlainDict
from metaevo.tasks.fitness import Windows, mean_returns

POINTS, LAST = 50, 5
"""Points of a curve, and how many of them are the last tenth."""


def _annealed(raw: PlainDict, frames: int, agents: int) -> PlainDict:
    return merge(raw, {"hyperparams": {"annealing_steps": frames}})


def _pytorch(raw: PlainDict, options: argparse.Namespace) -> Iterator[Row]:
    if options.pytorch:
        torch_ppo = importlib.import_module("experiments.reproductions.torch_ppo")
        settings = settings_of(raw)
        config: Any = settings.train
        makers = [partial(gymnasium.make, "CartPole-v1")] * config.num_envs
        vector = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        sums, seconds = torch_ppo.train(config, settings.hyperparams, vector, options.seed)
        windows = Windows.at_most(POINTS, config.num_updates)
        count, returns = windows.pooled(tuple(sums))
        last = float(returns[-LAST:].sum() / count[-LAST:].sum())
        curve = windows.ends() * config.frames_per_update, np.asarray(returns / count)[None]
        frames = config.num_updates * config.frames_per_update
        yield Row("PyTorch, 1 agent", frames, seconds, None, (last,), curve)


def _measure(trained: Trained, options: argparse.Namespace) -> Row:
    final = jax.tree.map(lambda sums: sums[:, -LAST:].sum(axis=1), trained.episodes)
    last, curve = float(np.nanmean(mean_returns(final))), mean_returns(trained.episodes)
    return trained.row._replace(results=(last,), curve=(trained.steps, curve))


COMPARISON = Comparison(
    title="PPO on CartPole-v1",
    published="the same returns as CleanRL at equal environment steps; 10 times as fast with one "
    "agent, and 2,048 agents in half the time of one CleanRL agent, on a GPU.",
    columns=("return, last tenth",),
    config="train/ppo_cartpole",  # CleanRL's settings
    agents=(1, 8, 64, 256),
    measure=_measure,
    others=_pytorch,
    adapt=_annealed,
    points=POINTS,
    packages=("torch",),
)
