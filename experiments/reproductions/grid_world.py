"""Tabular Q-learning in a grid: a loop in Python, one compiled agent, many at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Gt
from tqdm import tqdm

from experiments.benchmarks.tables import Table
from experiments.reproductions import q_learning_loops as loops
from experiments.reproductions.comparison import Comparison
from experiments.reproductions.training import Trained, train
from metaevo.reports.value_maps import grid_map, plot_value_map
from purerl import envs, q_learning

Steps = Annotated[int, Gt(0)]
FEW = 128


@dataclass(frozen=True)
class Settings:
    """Sizes."""

    jitted_steps: Steps = 20_000
    """of the Python loop around compiled steps"""
    numpy_steps: Steps = 300_000
    """of the NumPy loop"""
    single_steps: Steps = 1_000_000
    """of one compiled agent"""
    agents: tuple[Annotated[int, Gt(0)], ...] = (30, 1024)
    """how many at once, compiled"""
    agent_steps: Steps = 100_000
    """of each of those"""
    seed: int = 0
    """of all variants"""


def _train(agents: int, steps: int, seed: int, name: str) -> Trained:
    """Train in the layout that is fastest on CPUs for the number of agents.

    Few agents run one after another, with XLA's limit on loops lifted; many in chunks, in stretches
    short enough for random numbers to stay in the cache.
    """
    env, env_params = envs.make("GridWorld", observations="index", slippery=False)
    num_steps, chunk_size = (1000, 1) if agents < FEW else (500, 128)
    config = q_learning.Config(total_timesteps=steps, num_steps=min(num_steps, steps))
    return train(
        name, q_learning.QLearning(config, env), env_params, q_learning.Hyperparams(),
        agents=agents, seed=seed, chunk_size=chunk_size,
    )  # fmt: skip


def _quality(tables: np.ndarray) -> tuple[str, float]:
    """Return the share of agents that found a shortest path, and the median error at the start.

    Args:
        tables: [agents, states, actions].
    """
    optimal = loops.optimal_values()
    shortest = loops.greedy_steps(optimal)
    found = np.mean([loops.greedy_steps(table) == shortest for table in tables])
    errors = np.abs(tables[:, 0].max(axis=1) - optimal[0].max())
    return f"{found:.0%}", float(np.median(errors))


def run(settings: Settings, figures: Path) -> tuple[Table, str]:
    """Measure all variants and draw the learned values."""
    with tqdm(total=settings.numpy_steps, desc="NumPy loop", unit="step", leave=False) as bar:
        table, seconds = loops.numpy_loop(settings.numpy_steps, settings.seed, progress=bar.update)
    reference = settings.numpy_steps / seconds
    shown = Table(
        "variant", "steps", "seconds", "steps/s", "against NumPy", "shortest way found",
        "error of the start's value (median)", "published steps/s",
    )  # fmt: skip

    def add(name: str, steps: int, seconds: float, tables: np.ndarray, published: str) -> None:
        speed = f"{steps / seconds / reference:.3g}x"
        shown.row(name, steps, seconds, steps / seconds, speed, *_quality(tables), published)

    table_2, seconds_2 = loops.jitted_loop(settings.jitted_steps, settings.seed)
    add("Python loop, compiled step", settings.jitted_steps, seconds_2, table_2[None], "21,680")
    add("Python loop, NumPy", settings.numpy_steps, seconds, table[None], "")
    published = {1: "1,830,000", 30: "1,470,000"}
    trainings = {}
    for agents in (1, *settings.agents):
        steps = settings.single_steps if agents == 1 else settings.agent_steps
        name = f"compiled, {agents:,} agent{'s' * (agents > 1)}"
        trained = trainings[agents] = _train(agents, steps, settings.seed, name)
        tables = np.asarray(trained.agents.q)[:, 0]
        add(name, trained.total_frames, trained.seconds, tables, published.get(agents, ""))
    agents = settings.agents[0] if settings.agents else 1
    found = trainings[agents].agents
    env, _ = envs.make("GridWorld", observations="index", slippery=False)
    cells = grid_map(env, env.is_wall.size)
    assert cells is not None  # a GridWorld
    plot_value_map(
        np.asarray(found.q)[:, 0].mean(axis=0),
        np.asarray(found.visits).mean(axis=0),
        cells,
        figures / "values.png",
        title=f"GridWorld, mean of {agents} agent{'s' * (agents > 1)}",
    )
    return shown, ""


COMPARISON = Comparison(
    title="Tabular Q-learning in GridWorld",
    published="21,680 steps/s for a Python loop around compiled steps, 1.83 million for one "
    "compiled agent, 1.47 million for 30 agents in parallel, on one CPU.",
    settings=Settings,
    quick={
        "jitted_steps": 2_000,
        "numpy_steps": 20_000,
        "single_steps": 200_000,
        "agents": [30, 256],
        "agent_steps": 20_000,
    },
    run=run,
)
