"""experiments/reproduce.py: every comparison at sizes that measure nothing, and its parts."""

import importlib.util
import json

import jax
import numpy as np
import pytest

from experiments import reproduce
from experiments.reproduce import COMPARISONS
from experiments.reproductions import cartpole_dqn, doors, doors_dqn, grid_world
from metaevo.config import load_yaml
from purerl import envs, ppo, q_learning
from purerl.envs import grid
from purerl.parts import returns


@pytest.fixture
def reproduce_tiny(tmp_path, capsys):
    """Run a comparison; the rows of its table, which is written with a figure."""

    def run(name, *argv):
        path = tmp_path / name
        assert reproduce.main([name, *map(str, argv), "--run-dir", str(path)]) == 0
        assert COMPARISONS[name].published in capsys.readouterr().out
        assert list((path / "figures").glob("*.png"))
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
def test_grid_world(reproduce_tiny):
    rows = reproduce_tiny("grid-world", "--frames", 200_000, "--agents", 1, 3)
    assert rows["compiled, 3 agents"]["steps"] == "60,000"
    for name in ("Python loop, NumPy", "compiled, 1 agent", "compiled, 3 agents"):
        assert rows[name]["shortest way found"] == "100%"
    assert "Python loop, compiled step" in rows


@pytest.mark.long
def test_cartpole_dqn(reproduce_tiny):
    rows = reproduce_tiny("cartpole-dqn", "--frames", 800, "--agents", 1)
    assert rows["compiled, 1 agent"]["agents that got there"] == "0 of 1"


def test_opponent_shaping_is_an_evolution(monkeypatch):
    monkeypatch.setattr(reproduce.evolve, "run_evolutions", lambda study, settings, **_: settings)
    settings = reproduce.main(["mfos-chicken", "--run.seed", "3"])
    assert settings.game.payoffs == ((0, -1), (1, -100))
    assert (settings.run.evolution_seeds, settings.run.seed) == (5, 3)
    assert settings.evaluation.seeds == 512


@pytest.mark.slow
def test_doors_dqn(reproduce_tiny):
    rows = reproduce_tiny("doors-dqn", "--frames", 10_240)
    assert 0 <= number(rows["compiled, 1 agent"]["reward per step, greedy"]) <= 0.8


@pytest.mark.long
@pytest.mark.parametrize("pytorch", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_ppo_cartpole(reproduce_tiny, pytorch):
    if pytorch:
        pytest.importorskip("torch")
    without = [] if pytorch else ["--no-pytorch"]
    rows = reproduce_tiny("ppo-cartpole", "--agents", 1, "--frames", 2048, *without)
    assert list(rows) == ["PyTorch, 1 agent"] * pytorch + ["compiled, 1 agent"]
    for row in rows.values():
        assert row["steps"] == "2,048"
        assert number(row["return, last tenth"]) > 8


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
    goal = load_yaml(doors_dqn.COMPARISON.config)["task"]["env_params"]["goal"]
    steps = grid.distances(doors.IS_WALL, goal)
    length = steps[np.isfinite(steps) & (steps > 0)].mean()
    # the step that reaches the goal is the first one rewarded
    assert 1 - (length - 1) / doors_dqn.EPISODE == pytest.approx(0.773, abs=5e-4)


def test_pytorch_advantages_are_ours():
    torch = pytest.importorskip("torch")
    from experiments.reproductions import torch_ppo

    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 7, 3)).astype(np.float32)
    last_value = rng.normal(size=3).astype(np.float32)
    done = rng.random((7, 3)) < 0.3
    hyperparams = ppo.Hyperparams()
    theirs = torch_ppo._advantages(
        *(torch.from_numpy(x) for x in (reward, value, done.astype(np.float32), last_value)),
        hyperparams,
    )  # fmt: skip
    ours, _ = returns.generalized_advantages(
        reward, value, np.concatenate([value[1:], last_value[None]]), done, np.zeros_like(done),
        gamma=hyperparams.gamma, gae_lambda=hyperparams.gae_lambda,
    )  # fmt: skip
    np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-4, atol=1e-5)


def test_episodes_are_separated():
    class Sums:
        episodes = np.array([[0, 1, 0, 1], [0, 0, 0, 0]])
        returns = np.array([[0.0, 2.0, 0.0, 3.0], [0.0] * 4])

    first, second = cartpole_dqn.episode_returns(Sums)
    assert first.tolist() == [2.0, 3.0]
    assert second.size == 0
    assert cartpole_dqn.episodes_until(np.array([1.0, 3.0, 5.0, 1.0]), 4.0, over=2) == 3
    assert np.isnan(cartpole_dqn.episodes_until(np.ones(9), 4.0, over=2))
