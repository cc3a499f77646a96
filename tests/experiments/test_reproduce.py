"""experiments/reproduce.py: every comparison at sizes that measure nothing, and its parts."""

import dataclasses
import importlib.util
import json

import jax
import numpy as np
import pytest

from experiments import reproduce
from experiments.reproduce import COMPARISONS
from experiments.reproductions import cartpole_dqn, doors_dqn, q_learning_loops
from purerl import envs, ppo, q_learning
from purerl.parts import returns


@pytest.fixture
def reproduce_tiny(tmp_path, capsys):
    """Run a comparison; the rows of its table, which is printed and written, with a figure."""

    def run(name, *argv):
        path = tmp_path / name
        assert reproduce.main([name, *map(str, argv), "--run-dir", str(path)]) == 0
        text = (path / "tables.md").read_text()
        assert (
            text[text.index("|") : text.rindex("|") + 1].splitlines()[0] in capsys.readouterr().out
        )
        assert COMPARISONS[name].published in text
        assert list((path / "figures").glob("*.png"))
        results = json.loads((path / "results.json").read_text())
        assert results["machine"]["cores"] >= 1
        (table,) = results["tables"]
        return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]

    return run


def number(text):
    return float(text.replace(",", ""))


# --- End to end ---------------------------------------------------------------------------------


@pytest.mark.long
def test_grid_world(reproduce_tiny):
    found = reproduce_tiny(
        "grid-world", "--jitted_steps", 20, "--numpy_steps", 8000, "--single_steps", 20000,
        "--agents", 3, "--agent_steps", 20000,
    )  # fmt: skip
    rows = {row["variant"]: row for row in found}
    assert rows["compiled, 3 agents"]["steps"] == "60,000"
    for name in ("Python loop, NumPy", "compiled, 1 agent", "compiled, 3 agents"):
        assert rows[name]["shortest way found"] == "100%"
        assert number(rows[name]["steps/s"]) > 0


@pytest.mark.long
def test_cartpole_dqn(reproduce_tiny):
    (row,) = reproduce_tiny("cartpole-dqn", "--frames", 800, "--seeds", 1)
    assert row["agents"] == "1"
    assert number(row["steps/s"]) > 0


def test_opponent_shaping_is_an_evolution(monkeypatch):
    monkeypatch.setattr(reproduce.evolve, "run_evolutions", lambda study, settings, **_: settings)
    settings = reproduce.main(["mfos-chicken", "--run.seed", "3"])
    assert settings.game.payoffs == ((0, -1), (1, -100))
    assert (settings.run.evolution_seeds, settings.run.seed) == (5, 3)
    assert settings.evaluation.seeds == 512


@pytest.mark.slow
def test_doors_dqn(reproduce_tiny):
    small = "--frames", 2048, "--learning_starts", 1024, "--evaluation_episodes", 16
    (row,) = reproduce_tiny("doors-dqn", *small)
    assert 0 <= number(row["reward per step, greedy"]) <= 0.8


@pytest.mark.long
@pytest.mark.parametrize("seeds", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_ppo_cartpole(reproduce_tiny, seeds):
    if seeds:
        pytest.importorskip("torch")
    rows = reproduce_tiny(
        "ppo-cartpole", "--agents", 1, "--frames", 2048, "--pytorch_seeds", seeds,
        "--pytorch_frames", 1024,
    )  # fmt: skip
    expected = ["1,024", "2,048"] if seeds else ["2,048"]
    assert [row["steps of all agents"] for row in rows] == expected
    assert all(number(row["return, last tenth"]) > 8 for row in rows)
    assert all(bool(row["steps/s against PyTorch"]) == bool(seeds) for row in rows)


# --- Invalid input ------------------------------------------------------------------------------


@pytest.fixture
def error_of(refused, tmp_path):
    """Run a command line; the line with which it is refused, before anything is written."""

    def run(line):
        path = tmp_path / "run"
        text = refused(reproduce.main, [*line.split(), "--run-dir", str(path)])
        assert not path.exists()
        return text

    return run


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("grid-wrld", ["'grid-wrld'", "did you mean grid-world", *COMPARISONS]),
        ("grid-world --agents 0", ["agents", "greater than 0"]),
        ("cartpole-dqn --frames 400", ["learning_starts = 500", "400"]),
        ("doors-dqn --frames 400", ["learning_starts = 10000", "400"]),
        ("ppo-cartpole --pytorch_seeds 0 --frames 100", ["total_timesteps = 100", "512"]),
    ],
)
def test_invalid_settings(error_of, line, texts):
    found = error_of(line)
    assert all(text in found for text in texts)


def test_a_missing_extra_is_named(error_of, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install -e '.[torch]'" in error_of("ppo-cartpole")


# --- The loops that ours are compared with ------------------------------------------------------


@pytest.mark.long
def test_numpy_q_learning_agrees_with_value_iteration_and_with_ours():
    optimal = q_learning_loops.optimal_values()
    assert optimal[0].max() == pytest.approx(0.95**13)  # 14 steps, the last one rewarded
    assert optimal.max() == 1.0
    table, _ = q_learning_loops.numpy_loop(20_000)
    env, env_params = envs.make("GridWorld", observations="index")
    train = q_learning.make_train(q_learning.Config(total_timesteps=20_000), env)
    result = jax.jit(train)(jax.random.key(0), q_learning.Hyperparams(), None, env_params)
    ours = np.asarray(result.state.q[0])
    for learned in (table, ours):
        assert q_learning_loops.greedy_steps(learned) == 14
        np.testing.assert_allclose(learned[0].max(), optimal[0].max(), rtol=1e-3)
        assert np.all(learned <= optimal + 1e-5)  # from zero up
    assert q_learning_loops.greedy_steps(np.zeros((64, 4))) is None


def test_the_optimum_of_doors():
    settings = doors_dqn.Settings()
    assert doors_dqn.optimal_reward(settings) == pytest.approx(0.7732, abs=1e-4)
    everywhere = dataclasses.replace(settings, random_goal=True)
    assert doors_dqn.optimal_reward(everywhere) == pytest.approx(0.7540, abs=1e-4)


def test_pytorch_advantages_are_ours():
    torch = pytest.importorskip("torch")
    from experiments.reproductions import torch_ppo

    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 7, 3)).astype(np.float32)
    last_value = rng.normal(size=3).astype(np.float32)
    done = rng.random((7, 3)) < 0.3
    hyperparams = ppo.Hyperparams()
    theirs = torch_ppo._advantages(
        torch, *(torch.from_numpy(x) for x in (reward, value, done.astype(np.float32), last_value)),
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
