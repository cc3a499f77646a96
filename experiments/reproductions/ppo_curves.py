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

from experiments.reproductions.comparison import Comparison, Row, Trained, mean_returns

POINTS, LAST = 50, 5
"""Points of a curve, and how many of them are the last tenth."""


def _annealed(frames: int, agents: int) -> dict[str, Any]:
    return {"hyperparams": {"annealing_steps": frames}}


def _pytorch(settings: Any, options: argparse.Namespace) -> Iterator[Row]:
    if options.pytorch:
        torch_ppo = importlib.import_module("experiments.reproductions.torch_ppo")
        config = settings.train
        makers = [partial(gymnasium.make, "CartPole-v1")] * config.num_envs
        vector = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        sums, seconds = torch_ppo.train(config, settings.hyperparams, vector, options.seed)
        starts = np.arange(0, config.num_updates, every := -(-config.num_updates // POINTS))
        count, returns = (np.add.reduceat(np.asarray(each), starts) for each in sums)
        last = float(returns[-LAST:].sum() / count[-LAST:].sum())
        ends = np.minimum(starts + every, config.num_updates) * config.frames_per_update
        curve = ends, (returns / count)[None]
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
