"""DQN on Doors: the published comparison's learner, with everything compiled."""

import argparse
from pathlib import Path

import jax

from experiments.reproductions.comparison import Comparison, Rows, Trainee, train
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.reports.plots import plot_learning_curves
from metaevo.training.fitness import mean_rewards
from purerl import dqn, envs
from purerl.parts.evaluation import evaluate

ENV = "experiments.reproductions.doors:Doors"
GOAL = (4, 11)
"""always the same; the optimal policy has a reward of 0.773 per step"""
EPISODE = 38
"""steps of an episode"""
NUM_ENVS = 128
STEPS_PER_GRADIENT = 8
"""environment steps for each gradient step"""


def _learner(frames: int) -> Trainee:
    config = dqn.Config(
        total_timesteps=frames,
        num_envs=NUM_ENVS,
        num_steps=max(1, frames // 100 // NUM_ENVS),
        train_interval=NUM_ENVS,
        gradient_steps=NUM_ENVS // STEPS_PER_GRADIENT,
        batch_size=128,
        buffer_size=100_000,
        target_interval=1000,
        store_observations="uint8",
        hidden_sizes=(128, 128),
    )
    env, env_params = envs.make(ENV, observations="flat", goal=GOAL)
    return dqn.DQN(config, env), env_params, dqn.Hyperparams(learning_rate=1e-3, gamma=0.9)


def _rows(options: argparse.Namespace, figures: Path) -> Rows:
    learner, env_params, hyperparams = _learner(options.frames)

    def play(agent):
        key = key_for(options.seed, Purpose.PLAYING)
        return evaluate(learner, learner.policy(agent), key, env_params, num_episodes=512).mean()

    curves = {}
    for agents in options.agents:
        trained = train(learner, env_params, hyperparams, agents=agents, seed=options.seed)
        greedy = float(jax.jit(jax.vmap(play))(trained.agents).mean()) / EPISODE
        rewards = curves[trained.timing.variant] = mean_rewards(trained.episodes)
        last = float(rewards[:, -max(1, rewards.shape[1] // 10) :].mean())
        yield trained.timing, (greedy, last)
    path = figures / "learning_curves.png"
    plot_learning_curves(curves, trained.frames, path, ylabel="reward per step")


COMPARISON = Comparison(
    title="DQN on Doors",
    published="reward 0.73 in 22.5 minutes with PyTorch and Gymnasium, 0.71 in 2.3 minutes with "
    "Flax and 16 times as many environments in JAX, on a GPU.",
    columns=("reward per step, greedy", "reward per step, last tenth"),
    frames=300_000,
    agents=(1,),
    quick={"frames": 40_000},
    rows=_rows,
    check=lambda options: _learner(options.frames),
)
