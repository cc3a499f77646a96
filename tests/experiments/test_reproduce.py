"""experiments/reproduce.py: every comparison at sizes that measure nothing, and its parts."""

import importlib.util
import json

import jax
import numpy as np
import pytest

from experiments import reproduce
from experiments.reproduce import COMPARISONS
from experiments.reproductions import doors, grid_world
from metaevo.config import load_yaml
from purerl import envs, q_learning
from purerl.envs import grid


@pytest.fixture
def reproduce_tiny(tmp_path, capsys):
    """Run a comparison; the rows of its table, which is written with a figure."""

    def run(name, *argv):
        path = tmp_path / name
        assert reproduce.main([name, *map(str, argv), "--run-dir", str(path)]) == 0
        assert COMPARISONS[name].published in capsys.readouterr().out
        assert (path / "figures" / "learning_curves.png").is_file() == (name != "grid-world")
        results = json.loads((path / "results.json").read_text())
        assert results["machine"]["cores"] >= 1
        (table,) = results["tables"]
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        assert rows[0]["speedup"] == "1x"
        assert all(number(row["steps/s"]) > 0 for row in rows)
        return {row["variant"]: row for row in rows}

    return run


def number(text):
    return float(text.replace(",", ""))


# --- End to end ---------------------------------------------------------------------------------


@pytest.mark.long
def test_cartpole_dqn(reproduce_tiny):
    rows = reproduce_tiny("cartpole-dqn", "--frames", 800, "--agents", 1)
    assert rows["compiled, 1 agent"]["agents that got there"] == "0 of 1"


@pytest.mark.long
def test_ppo_cartpole(reproduce_tiny):
    rows = reproduce_tiny("ppo-cartpole", "--agents", 1, "--frames", 2048, "--no-pytorch")
    assert list(rows) == ["compiled, 1 agent"]
    for row in rows.values():
        assert row["steps"] == "2,048"
        assert number(row["return, last tenth"]) > 8


def test_grid_world(reproduce_tiny):
    rows = reproduce_tiny("grid-world", "--agents", 1, "--frames", 2000)
    assert list(rows) == ["Python loop, NumPy", "Python loop, compiled step", "compiled, 1 agent"]
    assert [rows[name]["steps"] for name in rows] == ["600", "40", "2,000"]


# --- Invalid input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("grid-wrld", ["'grid-wrld'", "did you mean grid-world", *COMPARISONS]),
        ("grid-world --agents 0", ["agents", "greater than 0"]),
        ("cartpole-dqn --frames 400", ["learning_starts = 500", "400"]),
        ("ppo-cartpole --no-pytorch --frames 100", ["total_timesteps = 100", "512"]),
        ("ppo-cartpole", ["pip install -e '.[torch]'"]),
    ],
)
def test_invalid_settings(line, texts, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # an extra is missing
    path = tmp_path / "run"
    found = refused(reproduce.main, [*line.split(), "--run-dir", str(path)])
    assert all(text in found for text in texts)
    assert not path.exists()


# --- The loops that ours are compared with ------------------------------------------------------


@pytest.mark.long
def test_numpy_q_learning_finds_the_optimal_values_and_so_does_ours():
    states = np.arange(grid_world.SIZE**2)
    optimal = np.zeros(grid_world.SIZE**2)
    distance = 2 * (grid_world.SIZE - 1) - states // grid_world.SIZE - states % grid_world.SIZE
    optimal[:-1] = grid_world.GAMMA ** (distance[:-1] - 1)
    env, env_params = envs.make("GridWorld", observations="index")
    train = q_learning.make_train(q_learning.Config(total_timesteps=20_000), env)
    result = jax.jit(train)(jax.random.key(0), q_learning.Hyperparams(), None, env_params)
    for learned in (grid_world.numpy_loop(20_000), np.asarray(result.state.q[0])):
        assert grid_world.greedy_steps(learned) == grid_world.SHORTEST == distance[0] == 14
        np.testing.assert_allclose(learned[0].max(), optimal[0], rtol=1e-3)
        assert np.all(learned.max(axis=1) <= optimal + 1e-5)  # from zero up
    assert grid_world.greedy_steps(np.zeros((64, 4))) is None


def test_the_optimum_of_doors():
    goal = load_yaml(doors.COMPARISON.config)["task"]["env_params"]["goal"]
    steps = grid.distances(doors.IS_WALL, goal)
    length = steps[np.isfinite(steps) & (steps > 0)].mean()
    # the step that reaches the goal is the first one rewarded
    assert 1 - (length - 1) / doors.EnvParams.max_steps_in_episode == pytest.approx(0.773, abs=5e-4)
