"""DQN on Doors twice: PyTorch in Gymnasium's loop, and everything compiled."""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt
from tqdm import tqdm

from experiments.benchmarks.tables import Cell
from experiments.reproductions import gym_dqn
from experiments.reproductions.comparison import Comparison, Output, require
from experiments.reproductions.figures import Curve, plot_curves
from experiments.reproductions.gym_envs import make_vector
from experiments.reproductions.training import make_population, train
from metaevo.evolution.seeding import Purpose, key_for
from purerl import dqn, envs
from purerl.envs import grid
from purerl.envs.doors import Doors
from purerl.parts.evaluation import evaluate

Count = Annotated[int, Gt(0)]
GOAL = (4, 11)
EPISODE = 38
"""steps of an episode"""


@dataclass(frozen=True)
class Settings:
    """Sizes; the learner is the same for both."""

    frames: Count = 300_000
    """environment steps of each"""
    random_goal: bool = False
    """a new goal in every episode: 213 times as many states, which take far more steps to learn"""
    gym_envs: Count = 8
    """environments at once in Gymnasium"""
    jax_factor: Count = 16
    """so many times as many environments in JAX"""
    learning_starts: Count = 10_000
    """environment steps before the first gradient step"""
    buffer_size: Count = 100_000
    """transitions that the replay memory holds"""
    batch_size: Count = 128
    """transitions of a minibatch, one for every `gym_envs` environment steps"""
    hidden_sizes: tuple[Count, ...] = (128, 128)
    """units of each hidden layer"""
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    """of Adam"""
    evaluation_episodes: Count = 512
    """of the greedy policy in the end"""
    pytorch: bool = True
    """train with PyTorch too"""
    seed: int = 0
    """of everything"""


def _goal(settings: Settings) -> tuple[int, int] | None:
    return None if settings.random_goal else GOAL


def optimal_reward(settings: Settings) -> float:
    """Return the mean reward per step of the optimal policy, over starts and goals."""
    doors = Doors()
    free = [(row, col) for row, col in np.argwhere(~doors.is_wall).tolist()]
    lengths = []
    for goal in free if settings.random_goal else [GOAL]:
        steps = grid.distances(doors.is_wall, goal)
        lengths.append(steps[np.isfinite(steps) & (steps > 0)].mean())
    # The step that reaches the goal is the first one rewarded.
    return float(1.0 - (np.mean(lengths) - 1.0) / EPISODE)


def _learner(settings: Settings, num_envs: int) -> tuple[dqn.DQN, Any, dqn.Hyperparams]:
    """Return a learner; its amount of learning per frame does not depend on `num_envs`."""
    config = dqn.Config(
        total_timesteps=settings.frames,
        num_envs=num_envs,
        num_steps=max(1, settings.frames // 100 // num_envs),
        train_interval=num_envs,
        gradient_steps=max(1, num_envs // settings.gym_envs),
        batch_size=settings.batch_size,
        buffer_size=settings.buffer_size,
        learning_starts=settings.learning_starts,
        target_interval=1000,
        store_observations="uint8",
        hidden_sizes=settings.hidden_sizes,
    )
    env, env_params = envs.make("Doors", observations="flat", goal=_goal(settings))
    hyperparams = dqn.Hyperparams(learning_rate=settings.learning_rate, gamma=0.9)
    return dqn.DQN(config, env), env_params, hyperparams


def run(settings: Settings, output: Output) -> None:
    """Train both, play greedily, compare."""
    rows: list[list[Cell]] = []
    curves: dict[str, Curve] = {}

    def add(name: str, num_envs: int, curve: Curve, greedy: float, *published: str) -> None:
        rewards, seconds = np.asarray(curve.returns)[0], np.asarray(curve.seconds)[-1]
        last = float(np.mean(rewards[-max(1, len(rewards) // 10) :]))
        rate = settings.frames / seconds
        rows.append([name, num_envs, greedy, last, seconds / 60, rate, *published])
        curves[name] = curve

    if settings.pytorch:
        name = "PyTorch, Gymnasium"
        add(name, settings.gym_envs, *_with_pytorch(settings, name), "0.73", "22.5")
    num_envs, name = settings.jax_factor * settings.gym_envs, "Flax, JAX environment, all compiled"
    learner, env_params, hyperparams = _learner(settings, num_envs)
    population = make_population("Doors", learner, hyperparams, env_params, agents=1)
    trained = train(population, settings.seed, name)
    policy = learner.policy(jax.tree.map(lambda leaf: leaf[0], trained.agents))

    def play(key):
        episodes = settings.evaluation_episodes
        return jnp.mean(evaluate(learner, policy, key, env_params, num_episodes=episodes))

    greedy = float(jax.jit(play)(key_for(settings.seed, Purpose.PLAYING))) / EPISODE
    rewards = trained.episodes.rewards / np.maximum(trained.episodes.steps, 1)
    add(name, num_envs, Curve(trained.frames, rewards, trained.clock), greedy, "0.71", "2.3")
    output.table(
        "doors_dqn",
        ["variant", "environments", "reward per step, greedy", "reward per step, last tenth",
         "minutes", "steps/s", "published reward", "published minutes (GPU)"],
        rows,
    )  # fmt: skip
    output.note(
        f"{settings.frames:,} environment steps each, the goal "
        f"{'new in every episode' if settings.random_goal else f'always at {GOAL}'}; the optimal "
        f"policy has {optimal_reward(settings):.3f}. Compilation "
        f"({trained.compile_seconds:.1f} s) is not counted."
    )
    plot_curves(curves, output.figure("doors_dqn"), title="DQN on Doors", ylabel="reward per step")


def _with_pytorch(settings: Settings, name: str) -> tuple[Curve, float]:
    """Return the learning curve and the greedy policy's reward per step."""
    learner, _, hyperparams = _learner(settings, settings.gym_envs)
    config, seed = learner.config, settings.seed
    vector = make_vector("Doors", settings.gym_envs, goal=_goal(settings))
    network = gym_dqn.Network(config, hyperparams, vector, seed)
    with tqdm(total=settings.frames, desc=name, unit="step", leave=False) as bar:
        record = gym_dqn.train(config, hyperparams, vector, network, seed, bar.update)
    players = make_vector("Doors", 64, goal=_goal(settings))
    episodes = -(-settings.evaluation_episodes // 64)
    greedy = gym_dqn.play(network, players, EPISODE * episodes, seed + 1)
    return Curve(record.frames, record.returns[None], record.seconds), greedy


def check(settings: Settings) -> None:
    """Raise ValueError for a missing package or settings that do not fit."""
    if settings.pytorch:
        require("torch", unless="--pytorch false")
    for num_envs in (settings.gym_envs, settings.jax_factor * settings.gym_envs):
        try:
            _learner(settings, num_envs)
        except ValueError as error:
            raise ValueError(f"with {num_envs} environments: {error}") from None


COMPARISON = Comparison(
    title="DQN on Doors",
    published="reward 0.73 in 22.5 minutes with PyTorch and Gymnasium, 0.71 in 2.3 minutes with "
    "Flax and 16 times as many environments in JAX, on a GPU.",
    settings=Settings,
    quick={"frames": 40_000, "learning_starts": 2_000, "evaluation_episodes": 64},
    run=run,
    check=check,
)
