"""DQN on Doors: the published comparison's learner, with everything compiled."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt

from experiments.benchmarks.tables import Table
from experiments.reproductions.comparison import Comparison
from experiments.reproductions.doors import IS_WALL
from experiments.reproductions.figures import Curve, plot_curves
from experiments.reproductions.training import train
from metaevo.evolution.seeding import Purpose, key_for
from purerl import dqn, envs
from purerl.envs import grid
from purerl.parts.evaluation import evaluate

Count = Annotated[int, Gt(0)]
ENV = "experiments.reproductions.doors:Doors"
GOAL = (4, 11)
EPISODE = 38
"""steps of an episode"""
NUM_ENVS = 128
STEPS_PER_GRADIENT = 8
"""environment steps for each gradient step"""


@dataclass(frozen=True)
class Settings:
    """Sizes."""

    frames: Count = 300_000
    """environment steps"""
    random_goal: bool = False
    """a new goal in every episode: 213 times as many states, which take far more steps to learn"""
    learning_starts: Count = 10_000
    """environment steps before the first gradient step"""
    evaluation_episodes: Count = 512
    """of the greedy policy in the end"""
    seed: int = 0
    """of everything"""


def _goal(settings: Settings) -> tuple[int, int] | None:
    return None if settings.random_goal else GOAL


def optimal_reward(settings: Settings) -> float:
    """Return the mean reward per step of the optimal policy, over starts and goals."""
    free = [(row, col) for row, col in np.argwhere(~IS_WALL).tolist()]
    lengths = []
    for goal in free if settings.random_goal else [GOAL]:
        steps = grid.distances(IS_WALL, goal)
        lengths.append(steps[np.isfinite(steps) & (steps > 0)].mean())
    # The step that reaches the goal is the first one rewarded.
    return float(1.0 - (np.mean(lengths) - 1.0) / EPISODE)


def _learner(settings: Settings) -> tuple[dqn.DQN, Any, dqn.Hyperparams]:
    config = dqn.Config(
        total_timesteps=settings.frames,
        num_envs=NUM_ENVS,
        num_steps=max(1, settings.frames // 100 // NUM_ENVS),
        train_interval=NUM_ENVS,
        gradient_steps=NUM_ENVS // STEPS_PER_GRADIENT,
        batch_size=128,
        buffer_size=100_000,
        learning_starts=settings.learning_starts,
        target_interval=1000,
        store_observations="uint8",
        hidden_sizes=(128, 128),
    )
    env, env_params = envs.make(ENV, observations="flat", goal=_goal(settings))
    return dqn.DQN(config, env), env_params, dqn.Hyperparams(learning_rate=1e-3, gamma=0.9)


def run(settings: Settings, figures: Path) -> tuple[Table, str]:
    """Train, then play greedily."""
    learner, env_params, hyperparams = _learner(settings)
    trained = train("DQN", learner, env_params, hyperparams, agents=1, seed=settings.seed)
    policy = learner.policy(jax.tree.map(lambda leaf: leaf[0], trained.agents))

    def play(key):
        episodes = settings.evaluation_episodes
        return jnp.mean(evaluate(learner, policy, key, env_params, num_episodes=episodes))

    greedy = float(jax.jit(play)(key_for(settings.seed, Purpose.PLAYING))) / EPISODE
    rewards = trained.episodes.rewards / np.maximum(trained.episodes.steps, 1)
    last = float(np.mean(rewards[0, -max(1, rewards.shape[1] // 10) :]))
    rewarded = "reward per step"
    table = Table("environments", f"{rewarded}, greedy", f"{rewarded}, last tenth", "minutes",
                  "steps/s")  # fmt: skip
    speed = trained.total_frames / trained.seconds
    table.row(NUM_ENVS, greedy, last, trained.seconds / 60, speed)
    curve = Curve(trained.frames, rewards, trained.clock)
    path = figures / "doors_dqn.png"
    plot_curves({"compiled": curve}, path, title="DQN on Doors", ylabel=rewarded)
    return table, (
        f"{settings.frames:,} environment steps, the goal "
        f"{'new in every episode' if settings.random_goal else f'always at {GOAL}'}; the optimal "
        f"policy has {optimal_reward(settings):.3f}. Compilation "
        f"({trained.compile_seconds:.1f} s) is not counted."
    )


COMPARISON = Comparison(
    title="DQN on Doors",
    published="reward 0.73 in 22.5 minutes with PyTorch and Gymnasium, 0.71 in 2.3 minutes with "
    "Flax and 16 times as many environments in JAX, on a GPU.",
    settings=Settings,
    quick={"frames": 40_000, "learning_starts": 2_000, "evaluation_episodes": 64},
    run=run,
    check=_learner,
)
