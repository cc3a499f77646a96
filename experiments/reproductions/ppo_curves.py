"""PPO's learning curves for many agents at once, against one agent in PyTorch.

The compiled agents differ in their keys only. PyTorch has the same settings, and Gymnasium's
environments.
"""

import argparse
import dataclasses
import importlib.util
from functools import partial
from pathlib import Path

import jax
import numpy as np

from experiments.reproductions.comparison import Comparison, Rows, Timing, train
from experiments.reproductions.gym_envs import make_vector
from metaevo.reports.plots import plot_learning_curves
from metaevo.training.fitness import Windows, mean_returns
from purerl import envs, ppo
from purerl.parts import losses
from purerl.types import EnvParams

POINTS, LAST = 50, 5
"""Points of a curve, and how many of them are the last tenth."""


def _rows(env: str, options: argparse.Namespace, figures: Path) -> Rows:
    learner, env_params, hyperparams = make_ppo(env, options.frames)
    config, curves = learner.config, {}
    if options.pytorch:
        torch_ppo = importlib.import_module("experiments.reproductions.torch_ppo")
        vector = make_vector(env, config.num_envs)
        sums, seconds = torch_ppo.train(config, hyperparams, vector, options.seed)
        count, returns = Windows.at_most(POINTS, config.num_updates).pooled(tuple(sums))
        curves["PyTorch, 1 agent"] = np.asarray(returns / count)[None]
        last = float(returns[-LAST:].sum() / count[-LAST:].sum())
        frames = config.num_updates * config.frames_per_update
        yield Timing("PyTorch, 1 agent", frames, seconds), (last,)
    for agents in options.agents:
        trained = train(
            learner, env_params, hyperparams, agents=agents, seed=options.seed, points=POINTS
        )
        last = jax.tree.map(lambda sums: sums[:, -LAST:].sum(axis=1), trained.episodes)
        yield trained.timing, (float(np.nanmean(mean_returns(last))),)
        curves[trained.timing.variant] = mean_returns(trained.episodes)
    plot_learning_curves(curves, trained.frames, figures / "learning_curves.png")


def make_ppo(env: str, frames: int) -> tuple[ppo.PPO, EnvParams, ppo.Hyperparams]:
    """Return PPO in an environment, its parameters, and hyperparameters."""
    made, env_params = envs.make(env, observations="flat")
    config, hyperparams = ppo.Config(frames), ppo.Hyperparams()
    if env == "Breakout-MinAtar":
        config = ppo.Config(frames, num_envs=64, num_minibatches=8, activation="relu")
        hyperparams = ppo.Hyperparams(learning_rate=5e-3)
    hyperparams = hyperparams.replace(annealing_steps=float(frames))
    return ppo.PPO(config, made, value_loss=losses.clipped_squared), env_params, hyperparams


def _check(packages: tuple[str, ...], env: str, options: argparse.Namespace) -> None:
    for name in packages if options.pytorch else ():
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"{name} is not installed: pip install -e '.[{name}]', or leave PyTorch out with "
                "--no-pytorch"
            )
    make_ppo(env, options.frames)


CARTPOLE = Comparison(
    title="PPO on CartPole-v1",
    published="the same returns as CleanRL at equal environment steps; 10 times as fast with one "
    "agent, and 2,048 agents in half the time of one CleanRL agent, on a GPU.",
    columns=("return, last tenth",),
    frames=500_000,
    agents=(1, 8, 64, 256),
    quick={"frames": 20_480, "agents": [1, 8]},
    rows=partial(_rows, "CartPole-v1"),
    check=partial(_check, ("torch",), "CartPole-v1"),
)
BREAKOUT = dataclasses.replace(
    CARTPOLE,
    title="PPO on Breakout-MinAtar",
    frames=10_000_000,
    agents=(1, 8),
    quick={"frames": 81_920, "agents": [1]},
    rows=partial(_rows, "Breakout-MinAtar"),
    check=partial(_check, ("torch", "minatar"), "Breakout-MinAtar"),
)
