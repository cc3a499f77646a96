"""DQN on Doors: the published comparison's learner, with everything compiled."""

import argparse
from pathlib import Path

import jax

from experiments.reproductions.comparison import Comparison, Rows, Trained, train
from metaevo.config import merge
from metaevo.config.plain import PlainDict
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.reports.plots import plot_learning_curves
from metaevo.tasks.fitness import mean_rewards
from purerl.parts.evaluation import evaluate

EPISODE = 38
"""steps of an episode"""


def _greedy_reward(trained: Trained, seed: int) -> float:
    learner, env_params = trained.task.learner, trained.task.env_params
    key = key_for(seed, Purpose.PLAYING)

    def play(agent):
        policy = learner.policy(agent)
        return evaluate(learner, policy, key, env_params, num_episodes=512).mean()

    return float(jax.jit(jax.vmap(play))(trained.agents).mean()) / EPISODE


def _rows(raw: PlainDict, options: argparse.Namespace, figures: Path) -> Rows:
    num_steps = max(1, options.frames // 100 // raw["train"]["num_envs"])
    raw, curves = merge(raw, {"train": {"num_steps": num_steps}}), {}
    for agents in options.agents:
        trained = train(raw, agents=agents, seed=options.seed)
        rewards = curves[trained.timing.variant] = mean_rewards(trained.episodes)
        last = float(rewards[:, -max(1, rewards.shape[1] // 10) :].mean())
        yield trained.timing, (_greedy_reward(trained, options.seed), last)
    path = figures / "learning_curves.png"
    plot_learning_curves(curves, trained.frames, path, ylabel="reward per step")


COMPARISON = Comparison(
    title="DQN on Doors",
    published="reward 0.73 in 22.5 minutes with PyTorch and Gymnasium, 0.71 in 2.3 minutes with "
    "Flax and 16 times as many environments in JAX, on a GPU.",
    columns=("reward per step, greedy", "reward per step, last tenth"),
    config=Path(__file__).with_suffix(".yaml"),
    agents=(1,),
    quick={"frames": 40_000},
    rows=_rows,
)
