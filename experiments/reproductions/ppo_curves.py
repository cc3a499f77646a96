"""PPO's learning curves for many agents at once, against one agent in PyTorch.

The compiled agents differ in their keys only. PyTorch has the same settings, and Gymnasium's
environments.
"""

import argparse
import dataclasses
import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FlattenObservation, TimeLimit

from experiments.reproductions.comparison import Comparison, Row, Trained, settings_of
from metaevo.config import merge
from metaevo.config.plain import PlainDict
from metaevo.tasks.fitness import Windows, mean_returns

POINTS, LAST = 50, 5
"""Points of a curve, and how many of them are the last tenth."""


def _breakout() -> gymnasium.Env:
    """Return MinAtar's game as gymnax has it: no sticky actions, none without effect."""
    minatar = importlib.import_module("minatar.gym")
    game = minatar.BaseEnv("breakout", use_minimal_action_set=True, sticky_action_prob=0.0)
    return FlattenObservation(TimeLimit(game, 1000))


def _annealed(raw: PlainDict, frames: int, agents: int) -> PlainDict:
    return merge(raw, {"hyperparams": {"annealing_steps": frames}})


def _pytorch(
    make_env: Callable[[], gymnasium.Env], raw: PlainDict, options: argparse.Namespace
) -> Iterator[Row]:
    if options.pytorch:
        torch_ppo = importlib.import_module("experiments.reproductions.torch_ppo")
        settings = settings_of(raw)
        config: Any = settings.train
        makers = [make_env] * config.num_envs
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


CARTPOLE = Comparison(
    title="PPO on CartPole-v1",
    published="the same returns as CleanRL at equal environment steps; 10 times as fast with one "
    "agent, and 2,048 agents in half the time of one CleanRL agent, on a GPU.",
    columns=("return, last tenth",),
    config="train/ppo_cartpole",  # CleanRL's settings
    agents=(1, 8, 64, 256),
    measure=_measure,
    others=partial(_pytorch, partial(gymnasium.make, "CartPole-v1")),
    adapt=_annealed,
    points=POINTS,
    packages=("torch",),
)
BREAKOUT = dataclasses.replace(
    CARTPOLE,
    title="PPO on Breakout-MinAtar",
    config="train/ppo_minatar",  # PureJaxRL's
    agents=(1, 8),
    others=partial(_pytorch, _breakout),
    packages=("torch", "minatar"),
)
