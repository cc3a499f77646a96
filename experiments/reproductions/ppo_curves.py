"""PPO's learning curves for many agents at once, against one agent in PyTorch.

The compiled agents differ in their keys only. PyTorch has the same settings, and Gymnasium's
environments.
"""

import argparse
import dataclasses
import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FlattenObservation, TimeLimit

from experiments.reproductions.comparison import Comparison, Rows, Timing, settings_of, train
from metaevo.config import merge
from metaevo.config.plain import PlainDict
from metaevo.reports.plots import plot_learning_curves
from metaevo.tasks.fitness import Windows, mean_returns

POINTS, LAST = 50, 5
"""Points of a curve, and how many of them are the last tenth."""


def _breakout() -> gymnasium.Env:
    """Return MinAtar's game as gymnax has it: no sticky actions, none without effect."""
    minatar = importlib.import_module("minatar.gym")
    game = minatar.BaseEnv("breakout", use_minimal_action_set=True, sticky_action_prob=0.0)
    return FlattenObservation(TimeLimit(game, 1000))


def _rows(
    make_env: Callable[[], gymnasium.Env],
    raw: PlainDict,
    options: argparse.Namespace,
    figures: Path,
) -> Rows:
    raw, curves = merge(raw, {"hyperparams": {"annealing_steps": options.frames}}), {}
    if options.pytorch:
        torch_ppo = importlib.import_module("experiments.reproductions.torch_ppo")
        settings = settings_of(raw)
        config: Any = settings.train
        makers = [make_env] * config.num_envs
        vector = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        sums, seconds = torch_ppo.train(config, settings.hyperparams, vector, options.seed)
        count, returns = Windows.at_most(POINTS, config.num_updates).pooled(tuple(sums))
        curves["PyTorch, 1 agent"] = np.asarray(returns / count)[None]
        frames = config.num_updates * config.frames_per_update
        last = float(returns[-LAST:].sum() / count[-LAST:].sum())
        yield Timing("PyTorch, 1 agent", frames, seconds), (last,)
    for agents in options.agents:
        trained = train(raw, agents=agents, seed=options.seed, points=POINTS)
        final = jax.tree.map(lambda sums: sums[:, -LAST:].sum(axis=1), trained.episodes)
        yield trained.timing, (float(np.nanmean(mean_returns(final))),)
        curves[trained.timing.variant] = mean_returns(trained.episodes)
    plot_learning_curves(curves, trained.frames, figures / "learning_curves.png")


CARTPOLE = Comparison(
    title="PPO on CartPole-v1",
    published="the same returns as CleanRL at equal environment steps; 10 times as fast with one "
    "agent, and 2,048 agents in half the time of one CleanRL agent, on a GPU.",
    columns=("return, last tenth",),
    config="train/ppo_cartpole",  # CleanRL's settings
    agents=(1, 8, 64, 256),
    quick={"frames": 20_480, "agents": [1, 8]},
    rows=partial(_rows, partial(gymnasium.make, "CartPole-v1")),
    packages=("torch",),
)
BREAKOUT = dataclasses.replace(
    CARTPOLE,
    title="PPO on Breakout-MinAtar",
    config="train/ppo_minatar",  # PureJaxRL's
    agents=(1, 8),
    quick={"frames": 81_920, "agents": [1]},
    rows=partial(_rows, _breakout),
    packages=("torch", "minatar"),
)
