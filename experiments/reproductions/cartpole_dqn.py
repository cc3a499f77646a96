"""20,000 compiled steps of DQN on CartPole-v1."""

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt

from experiments.benchmarks.tables import Table
from experiments.reproductions.comparison import Comparison
from experiments.reproductions.figures import Curve, plot_curves
from experiments.reproductions.training import train
from purerl import dqn, envs

Count = Annotated[int, Gt(0)]
DECENT, AVERAGED = 195.0, 10


@dataclass(frozen=True)
class Settings:
    """Sizes."""

    frames: Count = 20_000
    """environment steps of one agent"""
    seeds: Count = 8
    """agents of the learning curve"""
    seed: int = 0
    """of the first agent"""


def _learner(settings: Settings) -> tuple[dqn.DQN, Any, dqn.Hyperparams]:
    """Return DQN with one environment and a gradient step after each of its steps."""
    config = dqn.Config(
        total_timesteps=settings.frames,
        num_envs=1,
        num_steps=1,  # every step is a point of the curve, so episodes do not share points
        train_interval=1,
        batch_size=64,
        buffer_size=10_000,
        learning_starts=500,
        target_interval=100,
        hidden_sizes=(64, 64),
    )
    env, env_params = envs.make("CartPole-v1")
    hyperparams = dqn.Hyperparams(
        learning_rate=1e-3, epsilon_decay_steps=2_000.0, epsilon_end=0.02, max_grad_norm=10.0
    )
    return dqn.DQN(config, env), env_params, hyperparams


def episode_returns(episodes: Any) -> list[np.ndarray]:
    """Return each agent's episode returns in order, from sums per step [A, steps]."""
    return [
        returns[count > 0]
        for count, returns in zip(episodes.episodes, episodes.returns, strict=True)
    ]


def episodes_until(returns: np.ndarray, level: float, over: int = AVERAGED) -> float:
    """Return the number of the first episode at which the last `over` average at least `level`."""
    if len(returns) < over:
        return np.nan
    means = np.convolve(returns, np.ones(over) / over, mode="valid")
    reached = np.flatnonzero(means >= level)
    return float(reached[0] + over) if len(reached) else np.nan


def run(settings: Settings, figures: Path) -> tuple[Table, str]:
    """Train one agent for its speed and several for the curve."""
    table = Table(
        "variant", "agents", "seconds", "steps/s",
        f"episodes until {AVERAGED} average {DECENT:.0f} (median)",
        "agents that got there", "return of the last 10 episodes", "published steps/s",
    )  # fmt: skip
    for agents in dict.fromkeys((1, settings.seeds)):
        trained = train(
            f"{agents} agents", *_learner(settings), agents=agents, seed=settings.seed,
            windows=settings.frames,
        )  # fmt: skip
        per_agent = episode_returns(trained.episodes)
        until = [episodes_until(each, DECENT) for each in per_agent]
        there = [each for each in until if np.isfinite(each)]
        last = [each[-AVERAGED:].mean() for each in per_agent if len(each)]
        table.row(
            "compiled", agents, trained.seconds, trained.total_frames / trained.seconds,
            float(np.median(there)) if there else "none", f"{len(there)} of {agents}",
            float(np.mean(last)) if last else None, "15,800" if agents == 1 else "",
        )  # fmt: skip
    curve = np.array(list(zip_longest(*per_agent, fillvalue=np.nan))).T
    plot_curves(
        {f"compiled, {settings.seeds} seeds": Curve(np.arange(1, curve.shape[1] + 1), curve)},
        figures / "episodes.png",
        title=f"DQN on CartPole-v1, {settings.frames:,} steps",
        xlabel="episode",
        ylabel="return",
    )
    return table, f"Compilation takes {trained.compile_seconds:.1f} s and is not counted."


COMPARISON = Comparison(
    title="DQN on CartPole-v1",
    published="20,000 steps at 15,800 steps/s; a decent policy after about 45 episodes.",
    settings=Settings,
    quick={"frames": 6_000, "seeds": 2},
    run=run,
    check=_learner,
)
