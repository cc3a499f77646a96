"""PPO's learning curves against environment steps and against the clock, for many agents at once.

The compiled agents differ in their keys only. They are compared with one agent in PyTorch, at the
same settings and in Gymnasium's environments.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jax
import numpy as np
from annotated_types import Ge, Gt
from tqdm import tqdm

from experiments.benchmarks.tables import Table
from experiments.reproductions import torch_ppo
from experiments.reproductions.comparison import Comparison, require
from experiments.reproductions.figures import Curve, plot_curves
from experiments.reproductions.gym_envs import make_vector
from experiments.reproductions.torch_ppo import Record
from experiments.reproductions.training import train
from metaevo.training.fitness import mean_returns
from purerl import envs, ppo
from purerl.parts import losses
from purerl.types import EnvParams

Count = Annotated[int, Gt(0)]
WINDOWS, LAST = 50, 5
"""Points of a curve, and how many of them are the last tenth."""


@dataclass(frozen=True)
class CartPole:
    """Sizes; PPO has CleanRL's settings for classic control."""

    agents: tuple[Count, ...] = (1, 8, 64, 256)
    """how many at once, compiled"""
    frames: Count = 500_000
    """environment steps of an agent"""
    pytorch_seeds: Annotated[int, Ge(0)] = 1
    """agents in PyTorch, one after another; 0 for none"""
    pytorch_frames: Count | None = None
    """environment steps of an agent in PyTorch, by default the same; its seconds are its own"""
    seed: int = 0
    """of the first agent"""

    env: ClassVar[str] = "CartPole-v1"


@dataclass(frozen=True)
class Breakout(CartPole):
    """Sizes; PPO has PureJaxRL's settings for MinAtar."""

    agents: tuple[Count, ...] = (1, 8)
    """how many at once, compiled"""
    frames: Count = 10_000_000
    """environment steps of an agent"""

    env: ClassVar[str] = "Breakout-MinAtar"


def make_ppo(
    task: str, frames: int, annealing_steps: int
) -> tuple[ppo.PPO, EnvParams, ppo.Hyperparams]:
    """Return PPO in an environment, its parameters, and hyperparameters."""
    env, env_params = envs.make(task, observations="flat")
    config, hyperparams = ppo.Config(frames), ppo.Hyperparams()
    if task == Breakout.env:
        config = ppo.Config(frames, num_envs=64, num_minibatches=8, activation="relu")
        hyperparams = ppo.Hyperparams(learning_rate=5e-3)
    hyperparams = hyperparams.replace(annealing_steps=float(annealing_steps))
    return ppo.PPO(config, env, value_loss=losses.clipped_squared), env_params, hyperparams


def run(settings: CartPole, figures: Path) -> tuple[Table, str]:
    """Train PyTorch's agents, then the compiled ones."""
    curves: dict[str, Curve] = {}
    table = Table(
        "variant", "steps of all agents", "seconds", "steps/s", "return, last tenth",
        "steps/s against PyTorch", "time against one PyTorch agent of as many steps",
    )  # fmt: skip
    reference: tuple[float, float] | None = None
    if settings.pytorch_seeds:
        records = _pytorch(settings, settings.pytorch_frames or settings.frames)
        seconds = float(np.mean([record.seconds[-1] for record in records]))
        steps = int(records[0].frames[-1])
        reference = steps / seconds, seconds * settings.frames / steps
        curve = curves["PyTorch, one agent"] = _windows(records)
        final = float(np.nanmean(np.asarray(curve.returns)[:, -LAST:]))
        table.row("PyTorch, one agent", steps, seconds, steps / seconds, final, "1x", "1")
    for agents in settings.agents:
        name = f"compiled, {agents:,} agent{'s' * (agents > 1)}"
        trained = train(
            f"{settings.env}, {name}", *make_ppo(settings.env, settings.frames, settings.frames),
            agents=agents, seed=settings.seed, windows=WINDOWS,
        )  # fmt: skip
        rate = trained.total_frames / trained.seconds
        speed = f"{rate / reference[0]:.3g}x" if reference else ""
        share = f"{trained.seconds / reference[1]:.2g}" if reference else ""
        last = jax.tree.map(lambda sums: sums[:, -LAST:].sum(axis=1), trained.episodes)
        final = float(np.nanmean(mean_returns(last)))
        table.row(name, trained.total_frames, trained.seconds, rate, final, speed, share)
        curves[name] = Curve(trained.frames, mean_returns(trained.episodes), trained.clock)
    title = f"PPO on {settings.env}, mean and 95% interval"
    plot_curves(curves, figures / "learning_curves.png", title=title)
    return table, "" if settings.pytorch_seeds else "PyTorch was left out."


def _pytorch(settings: CartPole, frames: int) -> list[Record]:
    # Agents that train for fewer steps anneal as if over the whole length.
    learner, _, hyperparams = make_ppo(settings.env, frames, settings.frames)
    config, records = learner.config, []
    total = config.num_updates * config.batch_size * settings.pytorch_seeds
    with tqdm(total=total, desc=f"{settings.env}, PyTorch", unit="step", leave=False) as bar:
        for seed in range(settings.seed, settings.seed + settings.pytorch_seeds):
            vector = make_vector(settings.env, config.num_envs)
            records.append(torch_ppo.train(config, hyperparams, vector, seed, bar.update))
    return records


def _windows(records: list[Record]) -> Curve:
    """Return the curve of some agents with as many points as the compiled ones have."""
    updates = len(records[0].frames)
    ends = np.unique(np.linspace(0, updates, min(WINDOWS, updates) + 1).astype(int))[1:]
    returns = np.full((len(records), len(ends)), np.nan)
    for row, record in zip(returns, records, strict=True):
        for index, window in enumerate(np.split(record.returns, ends[:-1])):
            if np.isfinite(window).any():
                row[index] = np.nanmean(window)
    clock = np.mean([record.seconds for record in records], axis=0)
    return Curve(records[0].frames[ends - 1], returns, clock[ends - 1])


def check(settings: CartPole) -> None:
    """Raise ValueError for a missing package or settings that do not fit."""
    if settings.pytorch_seeds:
        require("torch", unless="--pytorch_seeds 0")
        if settings.env == "Breakout-MinAtar":
            require("minatar", unless="--pytorch_seeds 0")
    if not settings.agents:
        raise ValueError("agents must name at least one number")
    for frames in (settings.frames, settings.pytorch_frames or settings.frames):
        make_ppo(settings.env, frames, settings.frames)


def _comparison(settings: type[CartPole], quick: dict[str, Any]) -> Comparison:
    published = (
        "the same returns as CleanRL at equal environment steps; 10 times as fast with one agent, "
        "and 2,048 agents in half the time of one CleanRL agent, on a GPU."
    )
    return Comparison(f"PPO on {settings.env}", published, settings, quick, run, check)


CARTPOLE = _comparison(CartPole, {"agents": [1, 8], "frames": 40_960, "pytorch_frames": 10_240})
BREAKOUT = _comparison(Breakout, {"agents": [1], "frames": 163_840, "pytorch_frames": 24_576})
